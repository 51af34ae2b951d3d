"""Asks get an answer, an error or a stall, each within its time."""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from rocmfix.smoke.client import Server
from rocmfix.smoke.records import Ask, Reply
from rocmfix.system.http import Peer

Respond = Callable[[Any, str, Any], None]
META: dict[str, Any] = {"finish_reason": {"type": "length"}, "prompt_tokens": 3, "completion_tokens": 2}


@contextlib.contextmanager
def serving(respond: Respond) -> Iterator[str]:
    """A server whose POST and GET are `respond(handler, path, body)`."""

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_):
            pass

        def do_GET(self):
            respond(self, self.path, None)

        def do_POST(self):
            respond(self, self.path, json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def send(handler: BaseHTTPRequestHandler, status: int, body: object) -> None:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    handler.send_response(status)
    handler.send_header("Content-Length", str(len(data)))
    handler.end_headers()
    handler.wfile.write(data)


def ask(**changes: object) -> Ask:
    return Ask(name="a", prompts=("p",), tokens=2, stall_seconds=5.0).model_copy(update=changes)


def hear(respond: Respond, **changes: object) -> tuple[Reply, int]:
    seen: list[int] = []
    with serving(respond) as url:
        reply = Server(Peer(url), seen.append).hear(ask(**changes)).replies[0]
    return reply, sum(seen)


def test_a_stream_gives_its_last_event_and_counts_tokens_as_they_come():
    def respond(handler, path, body):
        assert (path, body["stream"]) == ("/generate", True)
        events = [
            {"text": "a"[:1] * n, "output_ids": [1] * n, "meta_info": META | {"completion_tokens": n}} for n in (1, 2)
        ]
        send(handler, 200, b"".join(b"data: " + json.dumps(e).encode() + b"\n\n" for e in events) + b"data: [DONE]\n\n")

    reply, tokens = hear(respond)
    assert (reply.text, reply.completion_tokens, reply.finish, tokens) == ("aa", 2, "length", 2)
    assert reply.first_token_seconds is not None
    assert reply.error is None


def test_a_stream_of_differences_is_put_together():
    """Chunks repeat what came before, unless --incremental-streaming-output is on."""

    def respond(handler, path, body):
        events = [
            {"text": c, "output_ids": [n], "meta_info": META | {"completion_tokens": n}}
            for n, c in ((1, "a"), (2, "b"))
        ]
        send(handler, 200, b"".join(b"data: " + json.dumps(e).encode() + b"\n\n" for e in events) + b"data: [DONE]\n")

    reply, tokens = hear(respond)
    assert (reply.text, reply.tokens, tokens) == ("ab", (1, 2), 2)


def test_temperature_one_cuts_nothing_off():
    bodies = []

    def respond(handler, path, body):
        bodies.append(body)
        send(handler, 200, {"text": "ab", "output_ids": [1, 2], "meta_info": META})

    hear(respond, temperature=1.0, top_logprobs=1, ignore_eos=True)
    sampling = {"temperature": 1.0, "max_new_tokens": 2, "top_p": 1.0, "top_k": -1, "ignore_eos": True}
    assert bodies == [{"text": "p", "sampling_params": sampling, "return_logprob": True, "top_logprobs_num": 1}]


@pytest.mark.parametrize("logprobs", [0, 1])
def test_an_error_answer_is_an_error_and_no_stall(logprobs):
    reply, _ = hear(lambda h, p, b: send(h, 400, {"error": {"message": "too long"}}), top_logprobs=logprobs)
    assert (reply.error, reply.stalled) == ("HTTP 400: too long", False)


def test_an_error_in_the_middle_of_a_stream_is_an_error():
    reply, _ = hear(lambda h, p, b: send(h, 200, b'data: {"error": {"message": "aborted"}}\n\n'))
    assert reply.error == "HTTP 500: aborted"


@pytest.mark.parametrize("logprobs", [0, 1])
def test_silence_is_a_stall(logprobs):
    began = time.monotonic()
    reply, _ = hear(lambda h, p, b: time.sleep(1.0), top_logprobs=logprobs, stall_seconds=0.2)
    assert reply.stalled
    assert reply.error == "no token for 0.2 s"
    assert time.monotonic() - began < 5


def test_a_server_that_closes_is_lost_and_no_stall():
    reply, _ = hear(lambda h, p, b: h.connection.close())
    assert reply.error is not None
    assert reply.error.startswith("connection lost")
    assert not reply.stalled


@pytest.mark.parametrize("wrong", [
    b"{oops", b"", b"[1, 2]", b"7", b'"error"', b'{"meta_info": [1]}', b'{"meta_info": {"completion_tokens": "many"}}',
    b'{"output_ids": 7, "meta_info": {"completion_tokens": 1}}',
    b'{"output_ids": ["a"], "meta_info": {"completion_tokens": 1}}',
    b'{"meta_info": {"completion_tokens": 1, "spec_verify_ct": 1, "spec_accept_histogram": "abc"}}',
    b'{"meta_info": {"completion_tokens": 1, "output_token_logprobs": [[NaN, 1, null]]}}',
    b'{"meta_info": {"completion_tokens": 1, "output_token_logprobs": [[-1, 1]], "output_top_logprobs": [[[Infinity, 1]]]}}',
])  # fmt: skip
@pytest.mark.parametrize("logprobs", [0, 1])
def test_an_answer_of_another_shape_is_an_error_and_no_crash(wrong, logprobs):
    """Anybody may answer on a port."""
    body = wrong if logprobs else b"data: " + wrong + b"\n\ndata: [DONE]\n\n"
    reply, _ = hear(lambda h, p, b: send(h, 200, body), top_logprobs=logprobs)
    assert reply.error
    assert not reply.stalled


@pytest.mark.parametrize(
    "wrong", [[1], {"speculative_num_steps": "four"}, {"tp_size": "x"}, {"version": [1]}, "<html>"]
)
def test_a_server_that_says_something_else_of_itself_has_no_info(wrong):
    with serving(lambda h, p, b: send(h, 200, wrong)) as url:
        assert Server(Peer(url)).info() is None


def dripping(piece: bytes, head: bytes = b"") -> Respond:
    """Answers with a piece now and then, for ever."""

    def respond(handler, path, body):
        handler.send_response(200)
        handler.end_headers()
        with contextlib.suppress(OSError):
            handler.wfile.write(head)
            for _ in range(100):
                handler.wfile.write(piece)
                time.sleep(0.05)

    return respond


@pytest.mark.parametrize(("piece", "logprobs"), [(b": ping\n\n", 0), (b" ", 0), (b"\n", 0), (b" ", 1)])
def test_a_sign_of_life_now_and_then_is_silence_too(piece, logprobs):
    """A proxy's keep-alives would keep a hung server looking alive."""
    began = time.monotonic()
    reply, _ = hear(dripping(piece), top_logprobs=logprobs, stall_seconds=0.4)
    assert reply.stalled
    assert time.monotonic() - began < 3


@pytest.mark.parametrize("logprobs", [0, 1])
def test_an_answer_without_an_end_is_given_up(logprobs, monkeypatch):
    monkeypatch.setattr("rocmfix.system.http.LIMIT", 1 << 20)
    reply, _ = hear(dripping(b"x" * (1 << 18), b"data: "), top_logprobs=logprobs)
    assert reply.error is not None
    assert "is longer than 1 MiB" in reply.error


def test_a_stream_that_is_cut_is_lost():
    event = {"text": "a", "output_ids": [1], "meta_info": META | {"completion_tokens": 1}}
    reply, _ = hear(lambda h, p, b: send(h, 200, b"data: " + json.dumps(event).encode() + b"\n\n"))
    assert reply.error == "connection lost: the stream was cut"


def test_comments_and_other_fields_of_a_stream_are_passed_over():
    event = b"data: " + json.dumps({"text": "ab", "output_ids": [1, 2], "meta_info": META}).encode()
    reply, _ = hear(lambda h, p, b: send(h, 200, b": ping\n\nevent: x\nid: 7\n" + event + b"\r\n\r\ndata:[DONE]\n"))
    assert (reply.error, reply.text) == (None, "ab")


def test_an_answer_is_read_by_its_length_while_the_connection_stays_open():
    """Up to Python 3.12.1, read1 waits for more than the length says."""

    def respond(handler, path, body):
        handler.close_connection = False
        send(handler, 200, {"text": "ab", "output_ids": [1, 2], "meta_info": META})
        time.sleep(1)

    reply, _ = hear(respond, top_logprobs=1)
    assert reply.error is None
    assert reply.seconds < 0.9


def test_an_answer_shorter_than_its_length_is_lost():
    def respond(handler, path, body):
        handler.send_response(200)
        handler.send_header("Content-Length", "100")
        handler.end_headers()
        handler.wfile.write(b"{}")

    reply, _ = hear(respond, top_logprobs=1)
    assert reply.error is not None
    assert reply.error.startswith("connection lost")


def test_nobody_there_is_unhealthy_and_has_no_info():
    server = Server(Peer("http://127.0.0.1:1"))
    assert not server.is_healthy()
    assert server.info() is None
    assert server.hear(ask()).failed


def test_info_falls_back_to_the_newer_path():
    def respond(handler, path, _):
        send(handler, 200 if path == "/server_info" else 404, {"version": "0.5.23", "tp_size": 4})

    with serving(respond) as url:
        info = Server(Peer(url)).info()
    assert info is not None
    assert (info.version, info.tp) == ("0.5.23", 4)


def test_the_key_is_sent_and_shown_nowhere():
    seen = []

    def respond(handler, path, body):
        seen.append(handler.headers["Authorization"])
        send(handler, 401, {"error": "Unauthorized"})

    with serving(respond) as url:
        peer = Peer(url, "geheim")
        reply = Server(peer).hear(ask()).replies[0]
    assert seen == ["Bearer geheim"]
    assert reply.error == "HTTP 401: Unauthorized"
    assert "geheim" not in f"{peer!r} {Server(peer)!r} {reply!r}"


def test_a_proxy_in_the_environment_is_not_asked(monkeypatch):
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    reply, _ = hear(lambda h, p, b: send(h, 200, {"text": "", "meta_info": META}), top_logprobs=1)
    assert reply.error is None
