"""Spreads work that keeps one CPU busy over all of them."""

from __future__ import annotations

import gc
import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from typing import Any, TypeVar, cast

Item = TypeVar("Item")
Result = TypeVar("Result")
Other = TypeVar("Other")


def spread(work: Callable[[Item], Result], items: Sequence[Item]) -> tuple[Result, ...]:
    """`work` of each item, in order: in forked processes on Linux, one a CPU this process may use.

    A fork has all that was imported and read, so only results must pickle. Elsewhere, and beside other threads
    (a lock that one of them holds would stay locked in a fork), one item after the other.
    """
    cpus = min(len(os.sched_getaffinity(0)), len(items)) if sys.platform == "linux" else 1
    if cpus < 2 or threading.active_count() > 1:
        return tuple(map(work, items))
    from concurrent.futures import ProcessPoolExecutor

    gc.freeze()  # what lives now is not walked, and so not copied, in every fork
    try:
        with ProcessPoolExecutor(cpus, multiprocessing.get_context("fork"), _take, (work, items)) as pool:
            return tuple(pool.map(_do, range(len(items))))
    finally:
        gc.unfreeze()


def at_once(one: Callable[[], Result], other: Callable[[], Other]) -> tuple[Result, Other]:
    """What two pieces of work give, done side by side as `spread` does."""
    first, second = spread(lambda work: work(), (one, other))
    return cast("Result", first), cast("Other", second)


_job: tuple[Callable[[Any], Any], Sequence[Any]]


def _take(work: Callable[[Any], Any], items: Sequence[Any]) -> None:
    global _job  # noqa: PLW0603 - how a fork is handed what cannot be pickled
    _job = work, items
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the parent, which ends the pool


def _do(number: int) -> Any:
    work, items = _job
    return work(items[number])
