"""Work spread over processes: in order, with its errors whole, and alone where a fork would be unsafe."""

from __future__ import annotations

import os
import subprocess
import sys
import threading

import pytest

from rocmfix.system.workers import spread

linux = pytest.mark.skipif(sys.platform != "linux", reason="elsewhere one item follows the other")


def here(_: object) -> int:
    return os.getpid()


def test_results_come_in_the_order_of_the_items():
    assert spread(lambda number: number * number, range(20)) == tuple(number * number for number in range(20))


@linux
def test_many_items_run_in_other_processes_and_one_alone_does_not():
    """In a process of its own: pytest's workers have threads, beside which nothing is forked."""
    code = (
        "import os; from rocmfix.system.workers import spread;"
        "os.sched_getaffinity = lambda _: {0, 1};"
        "here = lambda _: os.getpid();"
        "assert os.getpid() not in spread(here, range(4));"
        "assert spread(here, [0]) == (os.getpid(),)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


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


@linux
def test_an_error_keeps_its_hint_on_its_way_out_of_another_process():
    code = (
        "import os; from rocmfix.errors import SourceError; from rocmfix.system.workers import spread;"
        "os.sched_getaffinity = lambda _: {0, 1}\n"
        "def refuse(number): raise SourceError(f'no {number}', hint='look there')\n"
        "try: spread(refuse, range(3))\n"
        "except SourceError as error: assert (str(error), error.hint) == ('no 0', 'look there')\n"
        "else: raise SystemExit('no error')"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
