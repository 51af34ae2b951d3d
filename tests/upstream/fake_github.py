"""A small server that speaks the part of GitHub's REST API that rocmfix uses, on a free port of the loopback."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

TOKEN = "ghp_a_secret_of_the_user"


@dataclass
class FakeGitHub:
    """What the server holds, and what it was asked."""

    url: str = ""
    pulls: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    issues: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    comments: list[str] = field(default_factory=list)
    asked: list[tuple[str, str]] = field(default_factory=list)
    tokens: set[str | None] = field(default_factory=set)
    redirect: str | None = None
    refusal: tuple[int, Any] | None = None
    """What is answered to whatever would change something: a status, and a body (bytes as they are)."""
    delay: float = 0


@contextmanager
def serving() -> Iterator[FakeGitHub]:
    """A running server; it is gone after the block."""
    state = FakeGitHub()

    class Handler(_Handler):
        github = state

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    state.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield state
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Handler(BaseHTTPRequestHandler):
    github: FakeGitHub

    def do_GET(self) -> None:
        self._handle("GET")

    def do_POST(self) -> None:
        self._handle("POST")

    def do_PATCH(self) -> None:
        self._handle("PATCH")

    def log_message(self, *_: object) -> None:
        pass

    def _handle(self, method: str) -> None:
        parts = urlsplit(self.path)
        bearer = (self.headers.get("Authorization") or "").removeprefix("Bearer ") or None
        self.github.asked.append((method, parts.path))
        time.sleep(self.github.delay)
        self.github.tokens.add(bearer)
        size = int(self.headers.get("Content-Length") or 0)
        body = json.loads(self.rfile.read(size)) if size else {}
        if self.github.redirect:
            self._send(301, {}, location=self.github.redirect)
        elif method != "GET" and bearer != TOKEN:
            self._send(401, {"message": "Bad credentials"})
        elif method != "GET" and self.github.refusal:
            self._send(*self.github.refusal)
        else:
            self._send(*self._answer(method, parts.path, parse_qs(parts.query), body))

    def _answer(self, method: str, path: str, query: dict[str, list[str]], body: dict[str, Any]) -> tuple[int, Any]:
        _, _, owner, name, kind, *rest = path.split("/")
        repository = f"{owner}/{name}"
        held = (self.github.pulls if kind == "pulls" else self.github.issues).setdefault(repository, [])
        if rest[1:] == ["comments"]:
            self.github.comments.append(body["body"])
            return 201, {}
        if method == "GET" and not rest:
            return 200, [each for each in held if _matches(each, query)]
        if method == "POST":
            number = len(held) + 1
            made = {
                **body,
                "number": number,
                "state": "open",
                "html_url": f"https://github.com/{repository}/{kind}/{number}",
            }
            held.append(made)
            return 201, made
        one = next((each for each in held if str(each["number"]) == rest[0]), None)
        if one is None:
            return 404, {"message": "Not Found"}
        one.update(body)
        return 200, one

    def _send(self, code: int, answer: Any, location: str | None = None) -> None:
        data = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
        self.send_response(code)
        if location:
            self.send_header("Location", location)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


def _matches(each: dict[str, Any], query: dict[str, list[str]]) -> bool:
    head, labels = query.get("head"), query.get("labels")
    is_head = not head or each.get("head") == head[0]
    return is_head and (not labels or labels[0] in each.get("labels", ())) and each["state"] == "open"
