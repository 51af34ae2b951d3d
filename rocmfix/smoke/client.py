"""Puts asks to a running server: many streams at once, every silence bounded, tokens counted as they come."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from rocmfix.smoke import answers
from rocmfix.smoke.records import Ask, Heard, Reply, ServerInfo
from rocmfix.system.http import Answer, Garbled, Peer, Silent, Unreachable

OK = 200
NO_ANSWER = (Unreachable, Silent, Garbled)
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
        except NO_ANSWER:
            return False

    def info(self) -> ServerInfo | None:
        """What the server says of itself, or None when it will not say."""
        try:
            told = (self.peer.get(path, timeout=HEALTH_SECONDS) for path in ("/get_server_info", "/server_info"))
            body = next((answer.json for answer in told if answer.status == OK), None)
            with answers.reading("/get_server_info"):
                return answers.server_info(body) if isinstance(body, Mapping) else None
        except (*NO_ANSWER, answers.NotSglang):
            return None

    def silence(self) -> str:
        """What comes in the place of such an answer, in words."""
        try:
            answer = self.peer.get("/get_server_info", timeout=HEALTH_SECONDS)
        except NO_ANSWER as error:
            return str(error)
        said = answers.error_text(answer.json).strip().splitlines()
        return f"HTTP {answer.status}: {said[0] if said else 'nothing'}"

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
            if not isinstance(body, Answer):
                with answers.reading("the reply"):
                    return answers.reply(body, prompt=place, seconds=_since(began), first_token_seconds=first)
            problem = f"HTTP {body.status}: {answers.error_text(body.json)}"
        except Silent:
            problem = f"no token for {ask.stall_seconds:g} s"
            return Reply(prompt=place, error=problem, stalled=True, seconds=_since(began))
        except Unreachable as gone:
            problem = f"connection lost: {gone}"
        except (Garbled, answers.NotSglang) as wrong:
            problem = str(wrong)
        return Reply(prompt=place, error=problem, seconds=_since(began))

    def _body(self, ask: Ask, prompt: str, began: float) -> tuple[Any, float | None]:
        """The last event of a stream, or the whole answer when log-probabilities are asked for.

        Log-probabilities are not streamed: releases differ in whether a chunk repeats the earlier ones.
        """
        request = _request(ask, prompt)
        if ask.top_logprobs:
            answer = self.peer.post("/generate", request, timeout=ask.stall_seconds)
            if answer.status != OK:
                return answer, None
            with answers.reading("the reply"):
                self.tick(answers.count(answer.json))
            return answer.json, None
        last: dict[str, Any] = {}
        first, seen = None, 0
        for event in self.peer.events("/generate", request | {"stream": True}, timeout=ask.stall_seconds):
            if isinstance(event, Answer):
                return event, None
            with answers.reading("an event of the stream"):
                if "error" in event:
                    return _as_answer(event), None
                count = answers.count(event)
                last = answers.joined(last, event)
            first = _since(began) if first is None else first
            self.tick(max(0, count - seen))
            seen = count
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


def _as_answer(event: Mapping[str, Any]) -> Answer:
    """A stream that started with 200 and then brought an error event."""
    return Answer(500, str(answers.error_text(event)).encode(), 0.0)


def _since(began: float) -> float:
    return round(time.monotonic() - began, 4)
