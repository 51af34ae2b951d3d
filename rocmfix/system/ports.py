"""Finds ports for servers that bind them minutes later, when their model is loaded."""

from __future__ import annotations

import random
import socket

FIRST, LAST = 10_000, 19_999
"""Below the range from which the kernel gives ports to whoever asks for any (32768 upwards on Linux): one of those may
be another program's by the time the server binds it. With room for what sglang puts above."""
ABOVE = 10_000
"""sglang's gRPC port stands this much above the other, and has to be a port too (0.5.14 refuses to start, seen on an
H200 with 60525)."""


def own_port(host: str = "127.0.0.1") -> int:
    """A port that nobody listens on, and that no other rocmfix here is given while this one lives."""
    ports = range(FIRST, LAST + 1)
    for port in random.sample(ports, len(ports)):
        if _is_free(host, port) and _is_free(host, port + ABOVE) and _is_claimed(port):
            return port
    raise OSError(f"no port from {FIRST} to {LAST} is free")


def _is_claimed(port: int) -> bool:
    """Claim a port by an abstract socket's name, which the kernel gives to one process and frees with it."""
    claim = socket.socket(socket.AF_UNIX)
    try:
        claim.bind(f"\0rocmfix-port-{port}")
    except OSError:
        claim.close()
        return False
    claim.detach()  # open as long as this process lives
    return True


def _is_free(host: str, port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind((host, port))
        except OSError:
            return False
        return True
