"""Puts asks to a running server: many streams at once, every silence bounded, tokens counted as they come."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from rocmfix.smoke import answers
from rocmfix.smoke.records import Ask, Heard, Reply, ServerInfo
from rocmfix.system.http import Answer, Peer, Silent, Unreachable

OK = 200
HEALTH_SECONDS = 25.0
"""/health answers 503 after 20 s of a hung scheduler: wait a little longer than that."""

Tick = Callable[[int], None]


def _silently(_tokens: int) -> None:
    """Nobody watches."""


@dataclass(frozen=True)
class Server:
    """A server to ask."""

    peer: Peer
    tick: Tick = field(default=_silently, repr=False)

    def is_healthy(self) -> bool:
        """Whether a real one-token generation goes through (that is what /health is; /v1/models proves nothing)."""
        try:
            return self.peer.get("/health", timeout=HEALTH_SECONDS).status == OK
        except (Unreachable, Silent):
            return False

    def info(self) -> ServerInfo | None:
        """What the server says of itself, or None when it will not say."""
        for path in ("/get_server_info", "/server_info"):
            try:
                answer = self.peer.get(path, timeout=HEALTH_SECONDS)
            except (Unreachable, Silent):
                return None
            if answer.status == OK and isinstance(answer.json, Mapping):
                return answers.server_info(answer.json)
        return None

    def hear(self, ask: Ask) -> Heard:
        """Put every prompt of `ask`, at most `ask.streams` at once, and wait for all to end or to stall."""
        began = time.monotonic()
        with ThreadPoolExecutor(max_workers=ask.streams) as pool:
            replies = tuple(pool.map(lambda place: self._reply(ask, place), range(len(ask.prompts))))
        return Heard(ask=ask, replies=replies, seconds=round(time.monotonic() - began, 4))

    def _reply(self, ask: Ask, place: int) -> Reply:
        began = time.monotonic()
        try:
            body, first = self._body(ask, ask.prompts[place], began)
        except Silent:
            problem = f"no token for {ask.stall_seconds:g} s"
            return Reply(prompt=place, error=problem, stalled=True, seconds=_since(began))
        except Unreachable as gone:
            return Reply(prompt=place, error=f"connection lost: {gone}", seconds=_since(began))
        if isinstance(body, Answer):
            problem = f"HTTP {body.status}: {answers.error_text(body.json)}"
            return Reply(prompt=place, error=problem, seconds=_since(began))
        return _reply(body, place, _since(began), first)

    def _body(self, ask: Ask, prompt: str, began: float) -> tuple[Any, float | None]:
        """The last event of a stream, or the whole answer when log-probabilities are asked for.

        Log-probabilities are not streamed: releases differ in whether a chunk repeats the earlier ones.
        """
        request = _request(ask, prompt)
        if ask.top_logprobs:
            answer = self.peer.post("/generate", request, timeout=ask.stall_seconds)
            if answer.status == OK:
                self.tick(_count(answer.json))
            return (answer.json if answer.status == OK else answer), None
        last: dict[str, Any] = {}
        first, seen = None, 0
        for event in self.peer.events("/generate", request | {"stream": True}, timeout=ask.stall_seconds):
            if isinstance(event, Answer) or "error" in event:
                return (event if isinstance(event, Answer) else _as_answer(event)), None
            first = _since(began) if first is None else first
            count = _count(event)
            self.tick(max(0, count - seen))
            last, seen = _joined(last, event, count), count
        return last, first


def _request(ask: Ask, prompt: str) -> dict[str, Any]:
    sampling: dict[str, Any] = {"temperature": ask.temperature, "max_new_tokens": ask.tokens}
    if ask.temperature:
        sampling |= {"top_p": 1.0, "top_k": -1}
    if ask.ignore_eos:
        sampling["ignore_eos"] = True
    if ask.stop:
        sampling["stop"] = list(ask.stop)
    request: dict[str, Any] = {"text": prompt, "sampling_params": sampling}
    if ask.top_logprobs:
        request |= {"return_logprob": True, "top_logprobs_num": ask.top_logprobs}
    return request


def _reply(body: Mapping[str, Any], place: int, seconds: float, first: float | None) -> Reply:
    meta = body.get("meta_info") or {}
    if not meta:
        return Reply(prompt=place, error="the answer has no meta_info", seconds=seconds)
    return Reply(
        prompt=place,
        text=str(body.get("text", "")),
        tokens=tuple(body.get("output_ids") or ()),
        finish=answers.finish(meta),
        prompt_tokens=int(meta.get("prompt_tokens") or 0),
        completion_tokens=int(meta.get("completion_tokens") or 0),
        acceptance=answers.acceptance(meta),
        scores=answers.scores(meta),
        seconds=seconds,
        first_token_seconds=first,
    )


def _count(body: Mapping[str, Any]) -> int:
    return int((body.get("meta_info") or {}).get("completion_tokens") or 0)


def _joined(before: Mapping[str, Any], event: Mapping[str, Any], count: int) -> dict[str, Any]:
    """An event with all that came before it: chunks repeat it, unless --incremental-streaming-output is on."""
    ids = event.get("output_ids") or []
    if len(ids) >= count:
        return dict(event)
    text = str(before.get("text", "")) + str(event.get("text", ""))
    return {**event, "output_ids": [*(before.get("output_ids") or []), *ids], "text": text}


def _as_answer(event: Mapping[str, Any]) -> Answer:
    """A stream that started with 200 and then brought an error event."""
    return Answer(500, str(answers.error_text(event)).encode(), 0.0)


def _since(began: float) -> float:
    return round(time.monotonic() - began, 4)
