"""Shows how downloads get on: bars where a person looks, one line each where a log is kept."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from typing import Protocol


class Progress(Protocol):
    """Where tasks report to."""

    def task(self, name: str, size: int) -> contextlib.AbstractContextManager[Callable[[int], None]]:
        """Begin the task `name` of `size` bytes; the value is told how many bytes have arrived so far."""


def say(text: str) -> None:
    """One line on standard error."""
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


class _Lines:
    @contextlib.contextmanager
    def task(self, name: str, size: int) -> Iterator[Callable[[int], None]]:
        say(f"fetching {name} ({size / 1e6:.0f} MB)")
        yield lambda _: None


@contextlib.contextmanager
def progress() -> Iterator[Progress]:
    """Bars on standard error if that is a terminal, lines otherwise."""
    if not sys.stderr.isatty():
        yield _Lines()
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress as Bars, TextColumn

    columns = (TextColumn("fetching {task.description}"), BarColumn(), DownloadColumn())
    with Bars(*columns, console=Console(stderr=True), transient=True) as bars:

        class Tasks:
            @contextlib.contextmanager
            def task(self, name: str, size: int) -> Iterator[Callable[[int], None]]:
                number = bars.add_task(name, total=size)
                yield lambda arrived: bars.update(number, completed=min(arrived, size))
                bars.update(number, completed=size)

        yield Tasks()
