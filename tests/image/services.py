"""A real registry on a free port, and a small proxy that breaks what passes through it."""

from __future__ import annotations

import contextlib
import http.client
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

# user `tester`, password `s3cr3t-pass`; bcrypt, the one hash that docker-registry takes
HTPASSWD = "tester:$2b$04$VezRWAoNmBREAfjoJ1KwFOBLiLhK1Bd6uLGfw9CBl5xGW25SPsYEm\n"
USER, PASSWORD = "tester", "s3cr3t-pass"

_CONFIG = """version: 0.1
log: {{level: error}}
storage: {{filesystem: {{rootdirectory: {root}}}, delete: {{enabled: true}}}}
http: {{addr: "127.0.0.1:{port}"}}
{auth}"""


@contextlib.contextmanager
def registry(folder: Path, *, htpasswd: str | None = None) -> Iterator[str]:
    """`127.0.0.1:PORT` of a registry of Debian's docker-registry."""
    port = free_port()
    folder.mkdir(parents=True, exist_ok=True)
    auth = ""
    if htpasswd:
        (folder / "htpasswd").write_text(htpasswd)
        auth = f"auth: {{htpasswd: {{realm: test, path: {folder}/htpasswd}}}}\n"
    config = folder / "config.yml"
    config.write_text(_CONFIG.format(root=folder / "data", port=port, auth=auth))
    program = shutil.which("docker-registry") or "docker-registry"
    with subprocess.Popen([program, "serve", str(config)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as run:
        try:
            _wait(port)
            yield f"127.0.0.1:{port}"
        finally:
            run.terminate()


def free_port() -> int:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return int(listening.getsockname()[1])


def _wait(port: int) -> None:
    for _ in range(150):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=2)
        with contextlib.suppress(OSError), contextlib.closing(connection):
            connection.request("GET", "/v2/")
            connection.getresponse().read()
            return
        time.sleep(0.1)
    raise AssertionError("the registry did not come up")


class Fault:
    """What to do to the requests that match, so many times. `status` answers; `cut` hangs up after so many bytes."""

    def __init__(self, match: Callable[[str, str], bool], *, times: int = 1 << 30, status: int = 0, cut: int = -1):
        self.match, self.times, self.status, self.cut = match, times, status, cut
        self.hits = 0

    def applies(self, method: str, path: str) -> bool:
        if self.hits >= self.times or not self.match(method, path):
            return False
        self.hits += 1
        return True


class Flaky(ThreadingHTTPServer):
    """A proxy in front of a registry. It counts requests and what it let through."""

    daemon_threads = True

    def __init__(self, upstream: str, faults: list[Fault]) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.upstream, self.faults = upstream, faults
        self.requests: list[str] = []
        self.sent = 0

    @property
    def name(self) -> str:
        return f"127.0.0.1:{self.server_address[1]}"

    def handle_error(self, request, client_address) -> None:
        """A client that hangs up is what is being tested."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Flaky

    def _relay(self) -> None:
        self.server.requests.append(f"{self.command} {self.path}")
        fault = next((f for f in self.server.faults if f.applies(self.command, self.path)), None)
        if fault and fault.status:
            self._answer(fault.status)
            return
        headers = {k: v for k, v in self.headers.items() if k.lower() not in ("connection", "transfer-encoding")}
        with contextlib.closing(http.client.HTTPConnection(self.server.upstream, timeout=60)) as upstream:
            upstream.request(self.command, self.path, body=self._body(fault), headers=headers)
            with upstream.getresponse() as answer:
                self._pass_on(answer, fault)

    def _body(self, fault: Fault | None) -> bytes | None:
        if self.headers.get("Transfer-Encoding", "").lower() == "chunked":
            data = b""
            while size := int(self.rfile.readline().split(b";")[0], 16):
                data += self.rfile.read(size)
                self.rfile.readline()
                if fault and 0 <= fault.cut < len(data):
                    self._hang_up()
            self.rfile.readline()
            return data
        length = int(self.headers.get("Content-Length") or 0)
        if fault and fault.cut >= 0 and self.command in ("PUT", "PATCH", "POST"):
            self._hang_up()
        return self.rfile.read(length) if length else None

    def _pass_on(self, answer: http.client.HTTPResponse, fault: Fault | None) -> None:
        self.send_response_only(answer.status)
        for name, value in answer.getheaders():
            if name.lower() not in ("connection", "transfer-encoding"):
                self.send_header(name, value.replace(self.server.upstream, self.server.name))
        self.end_headers()
        left = fault.cut if fault else 1 << 60
        while self.command != "HEAD" and (chunk := answer.read(min(65536, max(left, 1)))):
            if left <= 0:
                self._hang_up()
            self.wfile.write(chunk)
            self.server.sent += len(chunk)
            left -= len(chunk)

    def _answer(self, status: int) -> None:
        while self.headers.get("Transfer-Encoding") and int(self.rfile.readline().split(b";")[0], 16):
            break
        self.send_response_only(status)
        self.send_header("Content-Length", "0")
        self.send_header("Connection", "close")
        self.end_headers()
        self.close_connection = True

    def _hang_up(self) -> None:
        self.connection.close()
        raise ConnectionAbortedError

    do_GET = do_HEAD = do_PUT = do_POST = do_PATCH = do_DELETE = _relay  # noqa: N815 - the names http.server calls

    def log_message(self, *args: object) -> None:
        """Quiet."""


@contextlib.contextmanager
def flaky(upstream: str, *faults: Fault) -> Iterator[Flaky]:
    """A proxy that applies `faults`."""
    server = Flaky(upstream, list(faults))
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
