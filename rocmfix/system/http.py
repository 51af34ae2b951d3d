"""Speaks HTTP to one server, directly: no proxy, a time limit on every silence, streams line by line."""

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
        except ValueError:
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
        """Send `body` and yield each server-sent event's JSON; `timeout` is the longest silence allowed."""
        with _Exchange(self, timeout) as exchange:
            response = exchange.send("POST", path, body)
            if response.status != http.client.OK:
                yield Answer(response.status, response.read(), 0.0)
                return
            for line in iter(response.readline, b""):
                data = line.strip().removeprefix(b"data:").strip()
                if data == b"[DONE]":
                    return
                if data:
                    yield json.loads(data)

    def _whole(self, method: str, path: str, body: Mapping[str, Any] | None, timeout: float) -> Answer:
        began = time.monotonic()
        with _Exchange(self, timeout) as exchange:
            response = exchange.send(method, path, body)
            return Answer(response.status, response.read(), time.monotonic() - began)


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
