"""Ports that servers are given."""

from __future__ import annotations

import random
import socket
import subprocess
import sys

import pytest

from rocmfix.system import ports
from rocmfix.system.ports import own_port

TAKER = """
import sys
from rocmfix.system import ports
ports.FIRST = ports.LAST = int(sys.argv[1])
ports.ABOVE = 1
print(ports.own_port(), flush=True)
input()
"""


def test_a_port_leaves_room_for_the_one_sglang_puts_above_it():
    """Seen on an H200: the kernel chose 60525, and sglang's gRPC port 70525 did not exist."""
    assert ports.LAST + ports.ABOVE < 65_536


def test_a_port_is_not_one_that_the_kernel_gives_to_whoever_asks():
    """Seen with a real server: it loads for half a minute, and by then another server answered on its port."""
    assert ports.LAST + ports.ABOVE < 32_768  # where Linux begins, unless told otherwise
    assert ports.FIRST <= own_port() <= ports.LAST


def test_two_processes_are_never_given_the_same_port(monkeypatch):
    only = random.randrange(30_000, 32_000)  # where no server of another test is, nor the kernel's choice
    monkeypatch.setattr(ports, "ABOVE", 1)
    monkeypatch.setattr(ports, "FIRST", only)
    monkeypatch.setattr(ports, "LAST", only)
    with subprocess.Popen(
        [sys.executable, "-c", TAKER, str(only)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdin is not None
        assert other.stdout is not None
        assert other.stdout.readline() == f"{only}\n"
        with pytest.raises(OSError, match="is free"):
            own_port()
        other.stdin.close()
        other.wait()
    assert own_port() == only  # freed with the process
    with pytest.raises(OSError, match="is free"):
        own_port()


@pytest.mark.parametrize("above", [0, ports.ABOVE])
def test_a_taken_port_is_passed_over_and_one_below_a_taken_one(above, monkeypatch):
    monkeypatch.setattr(ports, "FIRST", 11_234)
    monkeypatch.setattr(ports, "LAST", 11_235)
    with socket.socket() as taken:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        taken.bind(("127.0.0.1", 11_234 + above))
        taken.listen()
        monkeypatch.setattr(ports, "_is_claimed", lambda _: True)
        assert own_port() == 11_235
