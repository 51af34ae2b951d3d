"""Reads a server's JSON answers into records, across the three spellings of the speculation counters."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rocmfix.smoke.records import Acceptance, Reply, Score, ServerInfo

Json = Mapping[str, Any]


class NotSglang(Exception):
    """An answer whose JSON has not the shape of sglang's."""


@contextlib.contextmanager
def reading(what: str) -> Iterator[None]:
    """Turn whatever another shape breaks in here into one error: anybody may answer on a port."""
    try:
        yield
    except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError) as error:
        first = (str(error) or type(error).__name__).splitlines()[0]
        raise NotSglang(f"{what} is not sglang's: {first[:160]}") from error


def meta_info(body: Any) -> Json:
    """The counters that come with a reply; none where the server gives none."""
    return dict(body.get("meta_info") or {})


def count(body: Any) -> int:
    """How many tokens a reply, or a part of one, holds."""
    return int(meta_info(body).get("completion_tokens") or 0)


def joined(before: Json, event: Any) -> dict[str, Any]:
    """An event with all that came before it: chunks repeat it, unless --incremental-streaming-output is on."""
    ids = list(event.get("output_ids") or ())
    if len(ids) >= count(event):
        return dict(event)
    text = str(before.get("text", "")) + str(event.get("text", ""))
    return {**event, "output_ids": [*(before.get("output_ids") or ()), *ids], "text": text}


def reply(body: Any, **timing: Any) -> Reply:
    """A reply's text, tokens and counters."""
    meta = meta_info(body)
    if not meta:
        return Reply(error="the answer has no meta_info", **timing)
    return Reply(
        text=str(body.get("text", "")),
        tokens=tuple(body.get("output_ids") or ()),
        finish=finish(meta),
        prompt_tokens=int(meta.get("prompt_tokens") or 0),
        completion_tokens=count(body),
        acceptance=acceptance(meta),
        scores=scores(meta),
        **timing,
    )


# Renamed at 0.5.11 and 0.5.12; the last releases keep the older names as aliases (sglang tokenizer_manager.py).
_CORRECT = (
    "spec_num_correct_drafts",
    "spec_accepted_drafts",
    "spec_accepted_tokens",
    "spec_accept_token_num",
)
_PROPOSED = ("spec_num_proposed_drafts", "spec_proposed_drafts", "spec_draft_token_num")
_HISTOGRAM = ("spec_correct_drafts_histogram", "spec_accept_histogram")


def acceptance(meta: Json) -> Acceptance | None:
    """The speculation counters of a reply's `meta_info`; None when speculation is off or the reply is too short."""
    if "spec_verify_ct" not in meta:
        return None
    return Acceptance(
        verifies=int(meta["spec_verify_ct"]),
        correct=_first(meta, _CORRECT),
        proposed=_first(meta, _PROPOSED),
        histogram=tuple(int(count) for count in _first(meta, _HISTOGRAM) or ()),
    )


def scores(meta: Json) -> tuple[Score, ...]:
    """The log-probabilities of a reply's tokens, with the best ones at each position."""
    own = meta.get("output_token_logprobs") or ()
    top = meta.get("output_top_logprobs") or ()
    return tuple(
        Score(token=int(entry[1]), logprob=_finite(entry[0]), top=_pairs(top[i] if i < len(top) else ()))
        for i, entry in enumerate(own)
        if entry[0] is not None
    )


def finish(meta: Json) -> str | None:
    """`length`, `stop`, `abort`: why the reply ended (a word in old releases, an object since)."""
    reason = meta.get("finish_reason")
    if isinstance(reason, Mapping):
        reason = reason.get("type")
    return None if reason is None else str(reason)


def server_info(body: Json) -> ServerInfo:
    """The answer of `/get_server_info`: server arguments at the top level, effective values only."""
    return ServerInfo(
        version=body.get("version"),
        model_path=body.get("model_path"),
        served_name=body.get("served_model_name"),
        algorithm=body.get("speculative_algorithm"),
        steps=body.get("speculative_num_steps"),
        topk=body.get("speculative_eagle_topk"),
        draft_tokens=body.get("speculative_num_draft_tokens"),
        tp=body.get("tp_size") or 1,
        pp=body.get("pp_size") or 1,
        dp=body.get("dp_size") or 1,
        port=body.get("port"),
        chunked_prefill=body.get("chunked_prefill_size"),
        longest_prompt=body.get("max_req_input_len") or body.get("context_length"),
        attention_backend=body.get("decode_attention_backend") or body.get("attention_backend"),
        kv_cache_dtype=body.get("kv_cache_dtype"),
        has_graphs=not (body.get("disable_cuda_graph") or body.get("disable_decode_cuda_graph")),
        has_custom_all_reduce=not body.get("disable_custom_all_reduce"),
    )


def error_text(body: object) -> str:
    """The message in an error answer, whichever of the two shapes it has (`/generate`, OpenAI routes)."""
    inner = body.get("error", body) if isinstance(body, Mapping) else body
    return str(inner.get("message", inner) if isinstance(inner, Mapping) else inner)[:300]


def _first(meta: Json, names: Sequence[str]) -> Any:
    return next((meta[name] for name in names if meta.get(name) is not None), None)


def _pairs(entries: Sequence[Sequence[Any]]) -> tuple[tuple[int, float], ...]:
    return tuple((int(entry[1]), _finite(entry[0])) for entry in entries or () if entry[0] is not None)


def _finite(value: Any) -> float:
    """A number that can be reckoned with and written down: JSON has no NaN."""
    if not math.isfinite(number := float(value)):
        raise ValueError(f"{value} as a log-probability")
    return number
