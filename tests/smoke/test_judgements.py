"""The checks' arithmetic, on made-up facts."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given, strategies as st
from pydantic import ValidationError

from rocmfix.smoke.bounds import Bound, Bounds, load_bounds
from rocmfix.smoke.checkpoint import Checkpoint
from rocmfix.smoke.checks import all_checks
from rocmfix.smoke.checks.acceptance import survival
from rocmfix.smoke.checks.temperature import evidence
from rocmfix.smoke.checks.words import first_difference
from rocmfix.smoke.diagnosis import advice_for
from rocmfix.smoke.logs import accept_length
from rocmfix.smoke.records import (
    Depth,
    Gpu,
    Gsm8k,
    LogFacts,
    LogFinding,
    Lookup,
    Outcome,
    Score,
    Start,
    TunedRow,
    Verdict,
)
from tests.smoke.scenes import HOST, INFO, drafted, heard, judge, plan, reply, rung

PASSED, FAILED, WARNING, NOT_JUDGED = Outcome.PASSED, Outcome.FAILED, Outcome.WARNING, Outcome.NOT_JUDGED


def outcome(verdict: Verdict | None) -> Outcome:
    assert verdict is not None
    return verdict.outcome


def test_every_check_explains_itself_and_is_found_once():
    checks = all_checks()
    assert len({check.id for check in checks}) == len(checks) >= 30
    assert all(len(check.explanation) > 40 for check in checks)


def test_a_verdict_without_value_and_bound_cannot_pass_or_fail():
    for judged in (PASSED, FAILED, WARNING):
        with pytest.raises(ValidationError, match="needs a measured value"):
            Verdict(outcome=judged, reason="because")
    assert Verdict(outcome=NOT_JUDGED, reason="no bound").reason


# ---- acceptance ----------------------------------------------------------------------------------------------------


def test_survival_is_the_share_that_kept_one_more_draft():
    assert survival((1, 2, 0, 12, 2)) == (16 / 17, 14 / 16, 1.0, 2 / 14)
    assert survival((63,)) == ()
    assert survival((63, 0, 0)) == (0.0,)


@given(st.lists(st.integers(0, 50), min_size=1, max_size=8))
def test_survival_is_made_of_shares_and_multiplies_to_the_last_bin(histogram):
    rates = survival(tuple(histogram))
    assert all(0 <= rate <= 1 for rate in rates)
    if sum(histogram) and len(rates) == len(histogram) - 1:
        assert math.isclose(math.prod(rates), histogram[-1] / sum(histogram), abs_tol=1e-12)


@pytest.mark.parametrize(
    ("model", "steps", "histogram", "wanted"),
    [
        ("/m", "4", (17, 0, 0, 0, 0), FAILED),  # nothing accepted
        ("/m", "4", (10, 3, 0, 0, 0), FAILED),  # 1.23: what broken drafts measured at depth 3 and deeper
        ("/m", "1", (10, 3), NOT_JUDGED),  # fine at depth 1
        ("/m", "4", (1, 2, 0, 12, 2), NOT_JUDGED),  # above the floor, no bound for this model
    ],
)
def test_accept_length_fails_below_the_floor_and_passes_only_with_a_bound(model, steps, histogram, wanted):
    at = rung(steps, heard("solo", drafted(*histogram)))
    assert outcome(judge("accept-length", at, asked=plan(model=model))) is wanted


def test_a_bound_for_the_model_judges_the_accept_length():
    mine = Bound(check="accept-length", model="*glm-5.2*", floor=4.0, source="mine")
    bounds = Bounds(bounds=(*load_bounds().bounds, mine))
    assert bounds.find("accept-length", ("/models/GLM-5.2-MXFP4",), Depth.parse("5")) == mine
    assert bounds.find("accept-length", ("/models/other",), Depth.parse("5")) is None
    assert not mine.admits(3.9)
    assert mine.admits(4.0)


def test_a_bound_of_one_workload_and_depth_judges_no_other():
    """GLM-5.2's 5.0 is of GSM8K at depth 5: held against other text it would fail a healthy server (3.61)."""
    names = ("/models/GLM-5.2-MXFP4",)
    assert load_bounds().find("accept-length", names, Depth.parse("5"), "gsm8k")
    assert load_bounds().find("accept-length", names, Depth.parse("4"), "gsm8k") is None
    assert load_bounds().find("accept-length", names, Depth.parse("5")) is None


@pytest.mark.parametrize(
    ("length", "accuracy", "wanted"), [(5.94, 0.94, PASSED), (3.61, 0.7, FAILED), (None, 0.94, None)]
)
def test_gsm8k_is_held_against_what_the_model_gives_there(length, accuracy, wanted):
    at = rung("5", gsm8k=Gsm8k(accuracy=accuracy, accept_length=length))
    asked = plan(model="/models/GLM-5.2-MXFP4", gsm8k=200)
    found = judge("gsm8k-accept-length", at, asked=asked)
    assert (found and found.outcome) is wanted
    assert outcome(judge("gsm8k", at, asked=asked)) is (PASSED if accuracy > 0.9 else FAILED)


def test_the_accept_length_of_a_phase_is_the_mean_of_its_decode_lines():
    assert accept_length("Decode batch, accept len: 5.00, x\nPrefill\nDecode batch, accept len: 4.00, x\n") == 4.5
    assert accept_length("Decode batch, cuda graph: True\n") is None


def test_flat_survival_fails_only_with_wrong_words():
    flat = heard("solo", drafted(0, 0, 0, 0, 13))
    right = heard("words", reply("abcd"))
    off = rung("off", right)
    assert outcome(judge("survival", rung("4", flat, right), off)) is PASSED
    assert outcome(judge("survival", rung("4", flat, heard("words", reply("abzz"))), off)) is FAILED
    falling = heard("solo", drafted(1, 2, 0, 12, 2))
    assert outcome(judge("survival", rung("4", falling, heard("words", reply("abzz"))), off)) is PASSED


# ---- speed ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("seconds", "speed", "step"), [(1.0, PASSED, PASSED), (1.9, PASSED, PASSED),
                                                         (2.1, FAILED, PASSED), (33.0, FAILED, FAILED)])  # fmt: skip
def test_speed_is_held_against_depth_three(seconds, speed, step):
    """The headline defect: 6.9 instead of 227 tokens a second, with a good accept length (sglang#29373)."""
    three = rung("3", heard("solo", drafted(0, 0, 0, 16)))
    four = rung("4", heard("solo", drafted(0, 0, 0, 16, seconds=seconds)))
    assert outcome(judge("speed", four, three)) is speed
    assert outcome(judge("step-time", four, three)) is step


def test_speed_is_not_judged_on_a_cpu_or_without_a_shallower_depth():
    four = rung("4", heard("solo", drafted(0, 0, 0, 16)))
    assert outcome(judge("speed", four)) is NOT_JUDGED
    assert (
        outcome(judge("speed", four, rung("3", heard("solo", drafted(0, 0, 0, 16))), asked=plan("cpu"))) is NOT_JUDGED
    )
    assert outcome(judge("speed", four, rung("1", heard("solo", drafted(0, 16))))) is PASSED


def test_a_collapse_names_the_gravest_line_of_the_log():
    finding = LogFinding(signature="fused-copy-fallback", count=9, line="...", is_steady=True)
    slow = rung("4", heard("solo", drafted(0, 0, 0, 16, seconds=40)), log=LogFacts(findings=(finding,)))
    verdict = judge("speed", slow, rung("3", heard("solo", drafted(0, 0, 0, 16))))
    assert verdict is not None
    assert "jit-fused-metadata-guard" in verdict.advice


# ---- words ---------------------------------------------------------------------------------------------------------


def scored(gap: float) -> tuple[Score, ...]:
    return tuple(Score(token=97 + i, logprob=-0.1, top=((97 + i, -0.1), (1, -0.1 - gap))) for i in range(4))


@pytest.mark.parametrize(("gap", "wanted"), [(0.05, PASSED), (0.099, PASSED), (0.2, FAILED), (9.0, FAILED)])
def test_a_difference_is_a_tie_only_where_the_best_two_are_close(gap, wanted):
    off = rung("off", heard("words", reply("abcd", scores=scored(gap))))
    verdict = judge("same-words", rung("4", heard("words", reply("abxd"))), off)
    assert outcome(verdict) is wanted
    assert verdict
    assert "1 ties" in verdict.measured or wanted is FAILED


def test_a_difference_with_an_unknown_gap_fails():
    verdict = judge("same-words", rung("4", heard("words", reply("abxd"))), rung("off", heard("words", reply("abcd"))))
    assert outcome(verdict) is FAILED


def test_a_shorter_reply_differs_where_it_ends():
    found = first_difference(reply("abcd"), reply("ab"))
    assert found is not None
    assert found.place == 2
    assert first_difference(reply("abcd"), reply("abcd")) is None


def test_same_words_are_not_judged_without_a_twin():
    assert outcome(judge("same-words", rung("4", heard("words", reply())))) is NOT_JUDGED


# ---- temperature ---------------------------------------------------------------------------------------------------


def sampled(*, hits: int, misses: int, p: float) -> tuple[Score, ...]:
    """A reply's scores: the first token is prefill's, and always the best one here."""
    best = ((1, math.log(p)),)
    return tuple(Score(token=token, logprob=math.log(p), top=best) for token in [1] + [1] * hits + [2] * misses)


def test_the_first_token_of_a_reply_is_no_evidence():
    hits, expected, variance, count = evidence(heard("sampled", reply(scores=sampled(hits=0, misses=9, p=0.5))))
    assert (hits, count) == (0, 9)
    assert math.isclose(expected, 4.5)
    assert math.isclose(variance, 2.25)


@pytest.mark.parametrize(
    ("hits", "misses", "p", "wanted"),
    [
        (160, 0, 0.33, FAILED),  # upstream's HIP branch, as measured: z = 17
        (55, 105, 0.33, PASSED),
        (40, 0, 0.5, FAILED),  # exactly enough evidence: sum of 1 - p is 20, z = 6.3
        (39, 0, 0.5, NOT_JUDGED),
        (500, 0, 0.9999, NOT_JUDGED),  # a peaked model says the best token at any temperature
    ],
)
def test_temperature_holds_hits_against_probabilities(hits, misses, p, wanted):
    at = rung("4", heard("sampled", reply(scores=sampled(hits=hits, misses=misses, p=p))))
    assert outcome(judge("temperature", at)) is wanted


@given(st.integers(41, 400), st.floats(0.02, 0.5))
def test_a_greedy_server_is_always_caught_once_there_is_evidence(count, p):
    """The two bounds fit: where the sum of 1 - p is 20 or more, picking the best token always gives z above 4."""
    at = rung("4", heard("sampled", reply(scores=sampled(hits=count, misses=0, p=p))))
    assert outcome(judge("temperature", at)) is FAILED


# ---- host ----------------------------------------------------------------------------------------------------------

GPU = Gpu(gfx="gfx950", compute_units=256, partition="SPX", vram_used_bytes=1, vram_total_bytes=100, ras_errors=0)


@pytest.mark.parametrize(
    ("check", "changes", "asked", "wanted"),
    [
        ("gpu-devices", {}, {}, PASSED),
        ("gpu-devices", {"kfd": "missing"}, {}, FAILED),
        ("gpu-devices", {"dri": "not permitted"}, {}, FAILED),
        ("gpu-count", {"gpus": (GPU,) * 4}, {"tp": 4}, PASSED),
        ("gpu-count", {"gpus": (GPU,) * 4}, {"tp": 4, "pp": 2}, FAILED),
        ("gpu-count", {"gpus": (GPU,) * 8, "environment": (("HIP_VISIBLE_DEVICES", "0,1"),)}, {"tp": 4}, FAILED),
        ("gpu-count", {"gpus": (GPU,) * 8, "environment": (("HIP_VISIBLE_DEVICES", "0,1,2,3"),
                       ("ROCR_VISIBLE_DEVICES", "4,5"))}, {"tp": 2}, FAILED),
        ("gpu-target", {"gpus": (GPU,)}, {"flavour": "mi35x-rocm720"}, PASSED),
        ("gpu-target", {"gpus": (GPU,)}, {"flavour": "mi30x-rocm720"}, FAILED),
        ("gpu-target", {"gpus": (GPU,)}, {}, NOT_JUDGED),
        ("vram", {"gpus": (GPU,)}, {}, PASSED),
        ("vram", {"gpus": (GPU, GPU.model_copy(update={"vram_used_bytes": 50}))}, {}, FAILED),
        ("partition", {"gpus": (GPU,), "rows": (TunedRow(key="k", compute_units=256, kernels=()),)}, {}, PASSED),
        ("partition", {"gpus": (GPU.model_copy(update={"compute_units": 32, "partition": "CPX"}),),
                       "rows": (TunedRow(key="k", compute_units=256, kernels=()),)}, {}, FAILED),
        ("partition", {"gpus": (GPU,)}, {}, NOT_JUDGED),
        ("aiter-import", {"aiter": "package", "aiter_origin": "/x/aiter/__init__.py"}, {}, PASSED),
        ("aiter-import", {"aiter": "empty namespace"}, {}, FAILED),
        ("aiter-import", {"environment": (("SGLANG_USE_AITER", "1"),)}, {}, FAILED),
        ("aiter-import", {}, {}, NOT_JUDGED),
        ("simulated-acceptance", {}, {}, PASSED),
        ("simulated-acceptance", {"environment": (("SGLANG_SIMULATE_ACC_LEN", "3.5"),)}, {}, FAILED),
        ("simulated-acceptance", {}, {"env": (("SGLANG_SIMULATE_ACC_LEN", "3.5"),)}, FAILED),
        ("host-settings", {"numa_balancing": 0, "iommu_passthrough": True}, {}, PASSED),
        ("host-settings", {"numa_balancing": 1, "iommu_passthrough": True}, {}, WARNING),
        ("host-settings", {"numa_balancing": 0, "iommu_passthrough": False}, {}, WARNING),
        ("image-env", {}, {}, WARNING),
        ("image-env", {"environment": (("HSA_NO_SCRATCH_RECLAIM", "1"), ("NCCL_MIN_NCHANNELS", "112"),
                       ("SGLANG_USE_AITER", "1"))}, {}, PASSED),
        ("image-env", {"environment": (("HSA_NO_SCRATCH_RECLAIM", "1"), ("NCCL_MIN_NCHANNELS", "112"),
                       ("SGLANG_USE_AITER", "1"), ("ROCM_QUICK_REDUCE_QUANTIZATION", "INT8"))}, {"tp": 4}, WARNING),
    ],
)  # fmt: skip
def test_the_machine_is_judged_before_anything_starts(check, changes, asked, wanted):
    host = HOST.model_copy(update=changes)
    assert outcome(judge(check, rung(), host=host, asked=plan(**asked))) is wanted


# ---- log -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("version", "device", "captures", "wanted"),
    [
        ("0.5.14", "amd", ("target verify", "draft extend"), PASSED),
        ("0.5.15", "amd", ("target verify",), FAILED),
        ("0.5.18", "amd", ("target verify",), FAILED),
        ("0.5.19", "amd", ("target verify",), WARNING),
        ("0.5.15", "nvidia", ("target verify",), WARNING),
    ],
)
def test_a_missing_draft_extend_capture_is_the_finding(version, device, captures, wanted):
    info = INFO.model_copy(update={"version": version})
    at = rung("4", info=info, log=LogFacts(captures=captures))
    assert outcome(judge("draft-extend-graph", at, asked=plan(device))) is wanted


def lookups(*times: tuple[str, int], tuned: bool = True, kernels: tuple[str, ...] = ("a", "b")) -> LogFacts:
    return LogFacts(lookups=(Lookup(key="k", kernels=kernels, is_tuned=tuned, times=times),))


@pytest.mark.parametrize(
    ("times", "wanted"),
    [
        ((("0", 1), ("1", 1)), PASSED),
        ((("0", 1),), FAILED),
        ((("0", 2), ("1", 1)), FAILED),
        ((("", 2),), PASSED),
        ((("", 3),), FAILED),
    ],
)
def test_every_rank_looks_up_the_same_keys(times, wanted):
    at = rung("4", info=INFO.model_copy(update={"tp": 2}), log=lookups(*times))
    assert outcome(judge("aiter-ranks", at)) is wanted


@pytest.mark.parametrize(
    ("facts", "rows", "wanted"),
    [
        (lookups(("", 1)), (TunedRow(key="k", compute_units=1, kernels=("a", "b")),), PASSED),
        (lookups(("", 1)), (TunedRow(key="k", compute_units=1, kernels=("a", "other")),), FAILED),
        (lookups(("", 1), tuned=False, kernels=()), (TunedRow(key="x", compute_units=1, kernels=()),), FAILED),
        (lookups(("", 1)), (), PASSED),
        (lookups(("", 1), tuned=False, kernels=()), (), FAILED),
    ],
)
def test_what_runs_is_what_was_baked(facts, rows, wanted):
    host = HOST.model_copy(update={"rows": rows})
    assert outcome(judge("aiter-tables", rung("4", log=facts), host=host)) is wanted


@pytest.mark.parametrize(("moved", "wanted"), [(0, PASSED), (3, FAILED)])
def test_hardware_errors_must_not_move(moved, wanted):
    assert outcome(judge("ras", rung("4", ras_delta=moved))) is wanted
    assert judge("ras", rung("4")) is None


# ---- flags ---------------------------------------------------------------------------------------------------------


def flags(architecture: str, depth: str, *words: str, **asked: Any) -> Verdict | None:
    checkpoint = Checkpoint(
        folder="", architectures=(architecture,), layers=1, mtp_layers=1, quant_method=None, sizes=(), tensors=()
    )
    return judge("known-bad-flags", rung(depth, command=words), checkpoint=checkpoint, asked=plan(**asked))


def test_aiter_mla_with_an_fp8_cache_is_refused_from_depth_four_on():
    fp8 = ("--kv-cache-dtype", "fp8_e4m3")
    assert outcome(flags("DeepseekV3ForCausalLM", "4", *fp8)) is FAILED
    assert outcome(flags("DeepseekV3ForCausalLM", "3", *fp8)) is PASSED
    assert outcome(flags("DeepseekV3ForCausalLM", "4")) is PASSED
    assert outcome(flags("DeepseekV3ForCausalLM", "4", *fp8, "--attention-backend=triton")) is PASSED
    assert outcome(flags("GlmMoeDsaForCausalLM", "5", *fp8)) is PASSED  # DSA goes through tilelang


def test_the_custom_all_reduce_is_refused_where_it_hangs_unless_asked_for():
    assert outcome(flags("X", "4", tp=4)) is FAILED
    assert outcome(flags("X", "4", tp=4, runs_known_bad=True)) is WARNING
    assert outcome(flags("X", "4", "--disable-custom-all-reduce", tp=4)) is PASSED
    assert outcome(flags("X", "4", tp=4, concurrency=(8,))) is PASSED
    assert outcome(flags("X", "off", tp=4)) is PASSED
    assert outcome(flags("X", "4", tp=1)) is PASSED


# ---- what was not asked, and what did not end ------------------------------------------------------------------------


STALL = reply("", error="no token for 2 s", stalled=True)
LOST = reply("", error="connection lost: reset")


@pytest.mark.parametrize("lost", [STALL, LOST])
def test_a_single_stream_that_does_not_end_fails(lost):
    """A server that hung at depth 4 in its longest reply had passed: everything about it was not judged."""
    at = rung("4", heard("words", reply()), heard("solo", reply(), lost))
    verdict = judge("sane-replies", at)
    assert verdict is not None
    assert (verdict.outcome, verdict.measured) == (FAILED, "1 of 3 replies are odd")
    assert (lost.error or "")[:12] in verdict.reason or lost.stalled
    for name in ("accept-length", "survival", "speed", "step-time"):
        unended = judge(name, at, rung("3", heard("solo", drafted(0, 0, 0, 9))))
        assert unended is not None
        assert (unended.outcome, unended.reason) == (NOT_JUDGED, "the single stream did not end")


def test_a_hang_of_the_words_without_speculation_fails_too():
    assert outcome(judge("sane-replies", rung("off", heard("words", STALL)))) is FAILED


def test_a_server_that_hangs_is_not_said_to_be_alive():
    assert outcome(judge("stays-up", rung("4", heard("words", STALL)))) is NOT_JUDGED
    assert outcome(judge("stays-up", rung("4", heard("words", reply())))) is PASSED


@pytest.mark.parametrize(
    ("name", "missing"),
    [("same-words", "words"), ("temperature", "sampled"), ("quality", "questions"), ("long-prompt", "long"),
     ("concurrency", "crowd"), ("worth-it", "solo"), ("sane-replies", "words, solo")],
)  # fmt: skip
def test_a_check_whose_question_was_not_put_says_so(name, missing):
    verdict = judge(name, rung("4"), asked=plan(concurrency=(16,)))
    assert verdict is not None
    assert verdict.outcome is NOT_JUDGED
    assert missing in verdict.reason or name == "same-words"
    down = rung("4").model_copy(update={"start": Start(is_ready=False, seconds=1, limit=1)})
    assert judge(name, down, asked=plan(concurrency=(16,))) is None or name == "same-words"


def test_streams_left_out_at_a_depth_are_told_from_streams_not_reached():
    left_out = judge("concurrency", rung("4"), asked=plan(concurrency=(16,), crowd_depths=(5,)))
    assert left_out is not None
    assert left_out.reason == "not asked at this depth"
    assert judge("concurrency", rung("4"), asked=plan(concurrency=())) is None


def test_a_log_probability_above_zero_is_a_certainty_and_no_crash():
    certain = reply("ab", scores=(Score(token=97, logprob=5000.0, top=((97, 5000.0),)),) * 2)
    assert evidence(heard("sampled", certain)) == (1, 1.0, 0.0, 1)


@pytest.mark.parametrize(("algorithm", "said"), [("EAGLE", "is EAGLE"), (None, "is off")])
def test_the_depth_check_names_the_algorithm(algorithm, said):
    info = INFO.model_copy(update={"algorithm": algorithm})
    verdict = judge("depth", rung("4" if algorithm else "off", info=info))
    assert verdict is not None
    assert said in verdict.reason


@pytest.mark.parametrize(("graph", "eager", "ends"), [(1, 1, PASSED), (1, 2, FAILED), (0, 2, FAILED), (3, 0, PASSED)])
def test_at_least_half_of_the_decode_lines_are_in_a_graph(graph, eager, ends):
    verdict = judge("graphs", rung("4", log=LogFacts(decodes_in_graph=graph, decodes_eager=eager)))
    assert verdict is not None
    assert (verdict.outcome, verdict.measured) == (ends, f"{graph} of {graph + eager} decode lines in a graph")


def test_a_verdict_bears_its_checks_name():
    assert {(judge(name, rung("4")) or Verdict(outcome=NOT_JUDGED, reason="")).check for name in ("depth", "stays-up")} == {
        "depth", "stays-up",
    }  # fmt: skip


def test_slowness_is_not_put_down_to_a_line_that_is_no_failure():
    harmless = LogFinding(signature="draft-tokens-corrected", count=1, line="adjusted", is_steady=True)
    assert advice_for(LogFacts(findings=(harmless,))).startswith("nothing in the log tells why")
