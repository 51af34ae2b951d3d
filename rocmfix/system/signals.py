"""Makes a polite kill end a command the way Ctrl-C does: every `finally` runs."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def interruptible() -> Iterator[None]:
    """Within the block SIGTERM and SIGHUP raise KeyboardInterrupt, as SIGINT does; what nohup ignores stays ignored."""
    before = {each: signal.getsignal(each) for each in (signal.SIGTERM, signal.SIGHUP)}
    try:
        for each, handler in before.items():
            if handler is not signal.SIG_IGN:
                signal.signal(each, _interrupt)
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt
