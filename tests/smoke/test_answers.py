"""What servers answer is read alike across releases; recordings of a real one are read where they are at hand."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from rocmfix.smoke import answers
from rocmfix.smoke.records import Acceptance, Depth, Score

RECORDED = os.environ.get("ROCMFIX_RECORDED", "")
SPELLINGS = {
    "0.5.9": {"spec_accept_token_num": 46, "spec_draft_token_num": 68, "spec_accept_histogram": [1, 2, 0, 12, 2]},
    "0.5.11": {"spec_accepted_drafts": 46, "spec_proposed_drafts": 68, "spec_accept_histogram": [1, 2, 0, 12, 2]},
    "0.5.14": {
        "spec_num_correct_drafts": 46, "spec_num_proposed_drafts": 68, "spec_accepted_drafts": 46,
        "spec_proposed_drafts": 68, "spec_correct_drafts_histogram": [1, 2, 0, 12, 2],
        "spec_accept_histogram": [1, 2, 0, 12, 2],
    },
    "0.5.23": {
        "spec_num_correct_drafts": 46, "spec_num_proposed_drafts": 68,
        "spec_correct_drafts_histogram": [1, 2, 0, 12, 2],
    },
}  # fmt: skip


@pytest.mark.parametrize("release", SPELLINGS)
def test_the_counters_are_read_in_every_spelling(release):
    meta = {"spec_verify_ct": 17, **SPELLINGS[release]}
    assert answers.acceptance(meta) == Acceptance(verifies=17, correct=46, proposed=68, histogram=(1, 2, 0, 12, 2))


def test_without_speculation_there_are_no_counters():
    assert answers.acceptance({"completion_tokens": 64}) is None


def test_scores_leave_out_what_has_no_probability():
    meta = {
        "output_token_logprobs": [[None, 5, None], [-0.5, 7, None]],
        "output_top_logprobs": [None, [[-0.5, 7, None], [-1.0, 8, None]]],
    }
    assert answers.scores(meta) == (Score(token=7, logprob=-0.5, top=((7, -0.5), (8, -1.0))),)
    assert answers.scores({}) == ()


@pytest.mark.parametrize(
    ("reason", "wanted"), [({"type": "length", "length": 4}, "length"), ("stop", "stop"), (None, None)]
)
def test_the_finish_reason_is_a_word_or_an_object(reason, wanted):
    assert answers.finish({"finish_reason": reason}) == wanted


@pytest.mark.parametrize(
    "body", [{"error": {"message": "too long"}}, {"object": "error", "message": "too long", "code": 400}, "too long",
             {"error": "too long"}],
)  # fmt: skip
def test_the_message_of_an_error_is_found_in_every_shape(body):
    assert answers.error_text(body) == "too long"


def test_server_info_holds_effective_values():
    info = answers.server_info({"speculative_algorithm": "EAGLE", "speculative_num_steps": 4, "tp_size": 8,
                                "speculative_eagle_topk": 1, "speculative_num_draft_tokens": 5,
                                "attention_backend": "aiter", "decode_attention_backend": "triton",
                                "disable_decode_cuda_graph": True, "disable_custom_all_reduce": True})  # fmt: skip
    assert info.depth == Depth(steps=4, topk=1, draft_tokens=5)
    assert (info.tp, info.attention_backend) == (8, "triton")
    assert not info.has_graphs
    assert not info.has_custom_all_reduce
    assert answers.server_info({"speculative_num_steps": 4}).depth.is_off


# ---- recordings ----------------------------------------------------------------------------------------------------


def recorded(scenario: str, ask: str) -> dict[str, Any]:
    body = json.loads(next((Path(RECORDED) / scenario / "http").glob(f"*_{ask}.json")).read_text())["body"]
    assert isinstance(body, dict)
    return body


COUNTS = [
    ("h200/mimo_always_d4", "gen_64", 13, (0, 0, 0, 0, 13)),
    ("h200/mimo_always_d4", "gen_512", 103, (0, 0, 0, 0, 103)),
    ("h200/mimo_partial_d4", "gen_64", 17, (1, 2, 0, 12, 2)),
    ("h200/mimo_partial_d4", "gen_512", 133, (0, 19, 0, 95, 19)),
    ("h200/mimo_never_d4", "gen_64", 63, (63,)),
    ("h200/mimo_nomtp_d4", "gen_64", 63, (63,)),
    ("h200/glm4_always_d4", "gen_64", 13, (0, 0, 0, 0, 13)),
    ("cpu/matrix/partial_d6", "gen_64", 15, (1, 0, 0, 12, 0, 0, 2)),
    ("cpu/matrix/always_d3", "gen_64", 16, (0, 0, 0, 16)),
]

if RECORDED:

    @pytest.mark.parametrize(("scenario", "ask", "verifies", "histogram"), COUNTS)
    def test_recorded_counters_are_read(scenario, ask, verifies, histogram):
        found = answers.acceptance(recorded(scenario, ask)["meta_info"])
        assert found is not None
        assert (found.verifies, found.histogram) == (verifies, histogram)

    @pytest.mark.parametrize(
        ("scenario", "depth"),
        [("h200/mimo_always_d4", "4-1-5"), ("h200/mimo_always_off", "off"), ("h200/x_topk4", "4-4-8"),
         ("cpu/matrix/partial_d6", "6-1-7")],
    )  # fmt: skip
    def test_the_recorded_depth_is_read(scenario, depth):
        info = answers.server_info(recorded(scenario, "GET_get_server_info"))
        assert info.depth.label == depth
        assert info.version == "0.5.14"
        assert info.served_name

    def test_recorded_log_probabilities_are_read():
        scores = answers.scores(recorded("h200/mimo_always_off", "gen_logprob")["meta_info"])
        assert [score.token for score in scores] == list(range(100, 112))
        assert all(len(score.top) == 2 and score.top[0][0] == score.token for score in scores)


def test_a_reply_that_counts_nothing_has_no_tokens():
    counted = answers.reply({"text": "a", "meta_info": {"finish_reason": "stop"}}, prompt=0, seconds=1.0)
    assert (counted.completion_tokens, counted.prompt_tokens, counted.finish) == (0, 0, "stop")
