"""Ports that servers are given."""

from __future__ import annotations

from rocmfix.smoke.launch import PORT_LIMIT
from rocmfix.system import background
from rocmfix.system.background import free_port


def test_a_port_leaves_room_for_the_one_sglang_puts_above_it(monkeypatch):
    """Seen on an H200: the kernel chose 60525, and sglang's gRPC port 70525 did not exist."""
    real = background._bound
    monkeypatch.setattr(background, "_bound", lambda host, port: real(host, port) if port else 60_525)
    assert 1024 < free_port(below=PORT_LIMIT) < PORT_LIMIT
    assert PORT_LIMIT + 10_000 <= 65_536


def test_a_taken_port_is_passed_over(monkeypatch):
    real = background._bound

    def bound(host, port):
        if port == PORT_LIMIT - 1:
            raise OSError
        return real(host, port) if port else 65_535

    monkeypatch.setattr(background, "_bound", bound)
    assert free_port(below=PORT_LIMIT) < PORT_LIMIT - 1
