"""A file from the web: whole, or an error that says what to do."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator

import pytest

from rocmfix.errors import SourceError
from rocmfix.system.fetch import get

pytestmark = pytest.mark.upstream
"""They talk to a server of their own on this machine."""


@contextlib.contextmanager
def answering(said: bytes) -> Iterator[str]:
    """The address of a server that says `said` to whoever comes first, whatever is asked."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            with contextlib.suppress(OSError), server.accept()[0] as connection:
                connection.recv(1 << 16)
                connection.sendall(said)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}/x.csv"
        thread.join()


def test_a_file_is_fetched_whole() -> None:
    with answering(b"HTTP/1.0 200 OK\r\nContent-Length: 3\r\n\r\na,b") as url:
        assert get(url) == b"a,b"
    with answering(b"HTTP/1.0 200 OK\r\n\r\na,b") as url:
        assert get(url) == b"a,b"


@pytest.mark.parametrize(
    ("said", "why"),
    [
        (b"HTTP/1.0 404 Not Found\r\n\r\n", "404"),
        (b"", "cannot be fetched"),
        (b"what is this\r\n\r\n", "cannot be fetched"),
        (b"HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\nab", "cannot be fetched: it ends 3 bytes early"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab", "cannot be fetched"),
        (b"HTTP/1.0 200 OK\r\nContent-Length: 9\r\n\r\n" + b"x" * 9, "larger than"),
    ],
)
def test_what_is_no_whole_file_is_an_error(said: bytes, why: str) -> None:
    """Half an answer was a traceback, or taken for the whole."""
    with answering(said) as url, pytest.raises(SourceError, match=why):
        get(url, limit=8)


@pytest.mark.parametrize("url", ["file:///etc/passwd", "x.csv", "ftp://x/y"])
def test_only_the_web_is_asked(url: str) -> None:
    with pytest.raises(SourceError, match="not a web address"):
        get(url)
