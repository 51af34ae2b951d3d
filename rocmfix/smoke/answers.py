"""Reads a server's JSON answers into records, across the three spellings of the speculation counters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rocmfix.smoke.records import Acceptance, Score, ServerInfo

Json = Mapping[str, Any]

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
        Score(token=int(entry[1]), logprob=float(entry[0]), top=_pairs(top[i] if i < len(top) else ()))
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
    if isinstance(body, Mapping):
        inner = body.get("error", body)
        if isinstance(inner, Mapping):
            return str(inner.get("message", inner))
        return str(inner)
    return str(body)[:300]


def _first(meta: Json, names: Sequence[str]) -> Any:
    return next((meta[name] for name in names if meta.get(name) is not None), None)


def _pairs(entries: Sequence[Sequence[Any]]) -> tuple[tuple[int, float], ...]:
    return tuple((int(entry[1]), float(entry[0])) for entry in entries if entry[0] is not None)
