"""Work spread over processes: in order, with its errors whole, and alone where a fork would be unsafe."""

from __future__ import annotations

import os
import sys
import threading

import pytest

from rocmfix.errors import SourceError
from rocmfix.system.workers import spread

linux = pytest.mark.skipif(sys.platform != "linux", reason="elsewhere one item follows the other")


def here(_: object) -> int:
    return os.getpid()


def test_results_come_in_the_order_of_the_items():
    assert spread(lambda number: number * number, range(20)) == tuple(number * number for number in range(20))


@linux
def test_many_items_run_in_other_processes_and_one_alone_does_not(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})

    assert os.getpid() not in spread(here, range(4))
    assert spread(here, [0]) == (os.getpid(),)


@linux
def test_beside_another_thread_nothing_is_forked(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})
    done = threading.Event()
    other = threading.Thread(target=done.wait)
    other.start()
    try:
        assert set(spread(here, range(4))) == {os.getpid()}
    finally:
        done.set()
        other.join()


def test_an_error_keeps_its_hint(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1}, raising=False)

    def refuse(number: int) -> None:
        raise SourceError(f"no {number}", hint="look there")

    with pytest.raises(SourceError, match="no 0") as raised:
        spread(refuse, range(3))
    assert raised.value.hint == "look there"
