"""Speaks HTTP to one server, directly: no proxy, a limit on every silence and size, streams line by line."""

from __future__ import annotations

import http.client
import json
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from typing_extensions import Self


class Unreachable(Exception):
    """Nobody answered: refused, reset, closed in the middle."""


class Silent(Exception):
    """The other side took the request and then said nothing for too long."""


class Garbled(Exception):
    """Something came back that is no answer: no JSON, or without an end."""


LIMIT = 64 << 20
"""The longest answer, and the longest line of a stream: 6000 tokens with log-probabilities are under 1 MB."""
PIECE = 1 << 16


@dataclass(frozen=True)
class Answer:
    """A whole HTTP answer."""

    status: int
    body: bytes
    seconds: float

    @property
    def json(self) -> Any:
        """The body as JSON, or as text where it is none."""
        try:
            return json.loads(self.body)
        except (ValueError, RecursionError):
            return self.body.decode(errors="replace")


@dataclass(frozen=True)
class Peer:
    """A server by its URL. `bearer` is a secret: it goes into requests and nowhere else.

    Environment proxies are ignored on purpose: with HTTP_PROXY set, a question to 127.0.0.1 asks the proxy.
    """

    url: str
    bearer: str | None = field(default=None, repr=False)

    def get(self, path: str, *, timeout: float) -> Answer:
        return self._whole("GET", path, None, timeout)

    def post(self, path: str, body: Mapping[str, Any], *, timeout: float) -> Answer:
        return self._whole("POST", path, body, timeout)

    def events(self, path: str, body: Mapping[str, Any], *, timeout: float) -> Iterator[Any]:
        """Send `body` and yield each server-sent event's JSON; `timeout` is the longest wait for the next one.

        A proxy's keep-alive comments are no events: they would keep a hung server looking alive.
        """
        with _Exchange(self, timeout) as exchange:
            response = exchange.send("POST", path, body)
            if response.status != http.client.OK:
                yield Answer(response.status, _body(response, timeout), 0.0)
                return
            began = time.monotonic()
            for line in _lines(response):
                if line.startswith(b"data:"):
                    data = line.removeprefix(b"data:").strip()
                    if data == b"[DONE]":
                        return
                    yield _json(data)
                    began = time.monotonic()
                elif time.monotonic() - began > timeout:
                    raise Silent("nothing but keep-alives")
            raise Unreachable("the stream was cut")

    def _whole(self, method: str, path: str, body: Mapping[str, Any] | None, timeout: float) -> Answer:
        began = time.monotonic()
        with _Exchange(self, timeout) as exchange:
            response = exchange.send(method, path, body)
            return Answer(response.status, _body(response, timeout), time.monotonic() - began)


def _json(data: bytes) -> Any:
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as error:
        raise Garbled(f"{data[:80]!r} is not JSON") from error


def _body(response: http.client.HTTPResponse, timeout: float) -> bytes:
    """The whole body, within `timeout`: a byte now and then is silence too."""
    began, pieces, size = time.monotonic(), [], 0
    for piece in _pieces(response):
        pieces.append(piece)
        size += len(piece)
        if size > LIMIT:
            raise Garbled(f"the answer is longer than {LIMIT >> 20} MiB")
        if time.monotonic() - began > timeout:
            raise Silent("the answer does not end")
    return b"".join(pieces)


def _lines(response: http.client.HTTPResponse) -> Iterator[bytes]:
    """The lines of a stream as they come, an empty one after each piece: it is time to look at the clock."""
    rest = b""
    for piece in _pieces(response):
        *lines, rest = (rest + piece).split(b"\n")
        yield from (*lines, b"")
        if len(rest) > LIMIT:
            raise Garbled(f"a line is longer than {LIMIT >> 20} MiB")


def _pieces(response: http.client.HTTPResponse) -> Iterator[bytes]:
    """A body as it arrives. The length is counted here: read1 waits for more than there is up to Python 3.12.1."""
    left = response.length
    while left != 0:
        piece = response.read1(PIECE if left is None else min(PIECE, left))
        if not piece:
            break
        left = None if left is None else left - len(piece)
        yield piece
    if left:
        raise http.client.IncompleteRead(b"", left)


class _Exchange:
    """One connection for one request; turns socket errors into the two that matter here."""

    def __init__(self, peer: Peer, timeout: float) -> None:
        parts = urlsplit(peer.url)
        kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        self._prefix = parts.path.rstrip("/")
        self._bearer = peer.bearer
        self._connection = kind(parts.hostname or "127.0.0.1", parts.port, timeout=timeout)

    def __enter__(self) -> Self:
        return self

    def send(self, method: str, path: str, body: Mapping[str, Any] | None) -> http.client.HTTPResponse:
        headers = {"Content-Type": "application/json"} if body is not None else {}
        if self._bearer:
            headers["Authorization"] = f"Bearer {self._bearer}"
        data = None if body is None else json.dumps(body).encode()
        self._connection.request(method, self._prefix + path, data, headers)
        return self._connection.getresponse()

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        self._connection.close()
        if isinstance(error, TimeoutError):
            raise Silent(str(error)) from error
        if isinstance(error, OSError | http.client.HTTPException):
            raise Unreachable(str(error) or type(error).__name__) from error
