"""The fake's HTTP side: the endpoints and field names of sglang, in the spelling of several releases."""

# ruff: noqa: T201 - AITER and the fused copy print
from __future__ import annotations

import argparse
import http.server
import json
import math
import sys
import threading
import time
from collections.abc import Mapping
from typing import Any

from .log import die, say
from .model import CHUNK, SURE, Model, Place


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128
    options: argparse.Namespace
    model: Model
    plays: frozenset[str]

    def setup(self) -> None:
        self.lock = threading.Lock()
        self.running, self.steps, self.is_hung = 0, 0, False

    def may_proceed(self) -> bool:
        """One more stream; False when the scheduler hangs from now on."""
        with self.lock:
            self.running += 1
            hangs = "hang-always" in self.plays or (
                "hang-at-16" in self.plays and not self.options.disable_custom_all_reduce
            )
            self.is_hung = self.is_hung or (hangs and self.model.is_drafting and self.running >= 16)
            return not self.is_hung

    def step_seconds(self) -> float:
        quick = 0.0004 if not self.model.is_drafting else 0.0006
        return quick * (30 if "slow-at-4" in self.plays and self.model.steps >= 4 else 1)


class Handler(http.server.BaseHTTPRequestHandler):
    server: Server
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *_: object) -> None:  # noqa: A002 - the base class names it
        """Access lines tell nothing here."""

    def answer(self, status: int, body: object) -> None:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def is_allowed(self) -> bool:
        key = self.server.options.api_key
        return not key or self.headers["Authorization"] == f"Bearer {key}"

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        if path in {"/health", "/health_generate"}:
            self.answer(503 if self.server.is_hung else 200, b"")
        elif not self.is_allowed():
            self.answer(401, {"error": "Unauthorized"})
        elif path in {"/get_server_info", "/server_info"}:
            self.answer(200, info(self.server))
        else:
            self.answer(404, {"detail": "Not Found"})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)))
        if not self.is_allowed():
            self.answer(401, {"error": "Unauthorized"})
        elif self.path != "/generate":
            self.answer(404, {"detail": "Not Found"})
        elif "no-generate" in self.server.plays:
            self.answer(500, {"error": {"message": "CUDA error: device-side assert triggered"}})
        else:
            self.generate(body)

    def generate(self, body: Mapping[str, Any]) -> None:
        if not self.server.may_proceed():
            time.sleep(3600)
        if self.server.plays & {"hang-at-16", "hang-always"}:
            time.sleep(0.4)  # so that streams asked for at once do run at once, on a busy machine too
        try:
            if "dies" in self.server.plays and len(body["text"]) > CHUNK:
                die("Subprocess scheduler_0 (pid=4711) crashed with exit code -9. Triggering SIGQUIT for cleanup...")
            self.reply(body)
        finally:
            with self.server.lock:
                self.server.running -= 1

    def reply(self, body: Mapping[str, Any]) -> None:
        model, sampling, prompt = self.server.model, body["sampling_params"], body["text"]
        count = int(sampling.get("max_new_tokens", 128))
        if sampling.get("temperature"):
            said, places = model.sampled(prompt, count)
        else:
            said = model.text(prompt, count)
            gap = 0.5004 if "tie" in model.plays else SURE
            places = [(char, char, gap if place == 5 else SURE) for place, char in enumerate(said)]
        histogram = model.counters(said) if model.is_drafting else []
        steps = sum(histogram) or count
        time.sleep(steps * self.server.step_seconds())
        self.log_steps(steps)
        whole: dict[str, Any] = {
            "text": said,
            "output_ids": [ord(char) for char in said],
            "meta_info": self.meta(prompt, said, histogram),
        }
        if body.get("return_logprob"):
            whole["meta_info"].update(logprobs(places, model))
        if body.get("stream"):
            self.stream(whole, hangs="hang-alone" in model.plays and model.is_drafting and count > 256)
        else:
            self.answer(200, whole)

    def meta(self, prompt: str, said: str, histogram: list[int]) -> dict[str, Any]:
        facts = {
            "id": "fake", "finish_reason": {"type": "length", "length": len(said)},
            "prompt_tokens": len(prompt), "completion_tokens": len(said),
        }  # fmt: skip
        if histogram:
            facts.update(spelt(histogram, self.server))
        return facts

    def stream(self, whole: Mapping[str, Any], *, hangs: bool) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        count = len(whole["output_ids"])
        for upto in (1, count):
            meta = dict(whole["meta_info"], completion_tokens=upto)
            event = {
                "text": whole["text"][:upto],
                "output_ids": whole["output_ids"][:upto],
                "meta_info": meta,
            }
            self.wfile.write(b"data: " + json.dumps(event).encode() + b"\n\n")
            if hangs:
                self.server.is_hung = True
                time.sleep(3600)
        self.wfile.write(b"data: [DONE]\n\n")
        self.close_connection = True

    def log_steps(self, steps: int) -> None:
        """What the scheduler logs and AITER prints as requests run."""
        server = self.server
        with server.lock:
            before, server.steps = server.steps // 40, server.steps + steps
            lines = server.steps // 40 - before
        graph = not (server.options.disable_cuda_graph or "eager" in server.plays)
        for _ in range(lines):
            say(f"Decode batch, #running-req: 1, #token: 64, cuda graph: {graph}, gen throughput (token/s): 100.0")
        if "fallback" in server.plays and server.model.steps >= 4:
            print(
                "Warning: Multi-backend fused metadata copy kernel not available, falling back to loop.",
                flush=True,
            )
        if "jit" in server.plays and before > 1:
            print("[aiter] start build [module_moe_sorting] under /root/.aiter", file=sys.stderr, flush=True)


def logprobs(places: list[Place], model: Model) -> dict[str, object]:
    own: list[list[object]] = []
    top: list[list[list[object]]] = []
    for said, best, p in places:
        rest = math.log((1 - p) / 2)
        own.append([math.log(p) if said == best else rest, ord(said), None])
        second = math.log(p - 0.001) if p < 0.51 else rest
        top.append([[math.log(p), ord(best), None], [second, ord(model.next(best)), None]])
    return {"output_token_logprobs": own, "output_top_logprobs": top}


def spelt(histogram: list[int], server: Server) -> dict[str, object]:
    """The counters in the spelling of a release; renamed at 0.5.11 and 0.5.12."""
    verifies = sum(histogram)
    correct = sum(kept * count for kept, count in enumerate(histogram))
    proposed = verifies * server.model.steps
    while len(histogram) > 1 and histogram[-1] == 0:
        histogram = histogram[:-1]
    facts = {"spec_verify_ct": verifies, "spec_accept_histogram": histogram}
    if "names-0.5.9" in server.plays:
        return {**facts, "spec_accept_token_num": correct, "spec_draft_token_num": proposed}
    if "names-0.5.11" in server.plays:
        return {**facts, "spec_accepted_drafts": correct, "spec_proposed_drafts": proposed}
    return {**facts, "spec_correct_drafts_histogram": histogram,
            "spec_num_correct_drafts": correct, "spec_num_proposed_drafts": proposed}  # fmt: skip


def info(server: Server) -> dict[str, object]:
    options, steps = server.options, server.model.steps
    return {
        "version": "0.5.14", "status": "ready", "model_path": options.model_path,
        "served_model_name": options.served_model_name or options.model_path, "port": options.port,
        "speculative_algorithm": "EAGLE" if steps else None,
        "speculative_num_steps": steps or None,
        "speculative_eagle_topk": 1 if steps else None,
        "speculative_num_draft_tokens": steps + 1 if steps else None,
        "tp_size": options.tp_size, "pp_size": options.pp_size, "chunked_prefill_size": CHUNK,
        "attention_backend": options.attention_backend or "aiter", "kv_cache_dtype": options.kv_cache_dtype or "auto",
        "disable_cuda_graph": options.disable_cuda_graph,
        "disable_custom_all_reduce": options.disable_custom_all_reduce,
        "internal_states": [{}],
    }  # fmt: skip
