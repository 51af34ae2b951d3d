"""Each way a server can be broken is caught by the right check, and nothing else fails."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from rocmfix.smoke.fake import PLAYS
from rocmfix.smoke.records import Outcome, SmokeReport


def ended(report: SmokeReport, outcome: Outcome) -> set[tuple[str, str]]:
    """Where which checks ended so."""
    before = {("before", verdict.check) for verdict in report.before if verdict.outcome is outcome}
    return before | {
        (rung.depth.label, verdict.check)
        for rung in report.rungs
        for verdict in rung.verdicts
        if verdict.outcome is outcome
    }


def at(checks: str, *labels: str) -> set[tuple[str, str]]:
    return {(label, check) for label in labels for check in checks.split()}


OFF, D3, D4 = "off", "3-1-4", "4-1-5"


@dataclass(frozen=True)
class Play:
    """What a play has to lead to; `says` has to be in the first failure's reason or advice."""

    plays: str
    fails: set[tuple[str, str]]
    says: str = ""
    warns: set[tuple[str, str]] = field(default_factory=set)
    options: dict[str, object] = field(default_factory=dict)


CASES = [
    Play("slow-at-4", at("speed step-time", D4), "29373", at("worth-it", D4)),
    Play("slow-at-4 fallback", at("log speed step-time", D4), "jit-fused-metadata-guard", at("worth-it", D4)),
    Play("flat", at("same-words survival long-prompt quality", D4), "aiter#2720"),
    Play("dead-head", at("accept-length", D3, D4), "quark-glm-nextn", at("worth-it", D3, D4)),
    Play("greedy", at("temperature", D3, D4), "spec-sampling-hip"),
    Play("hang-at-16", at("concurrency", D3, D4), "--disable-custom-all-reduce (sglang#29313)",
         options={"stall_limit": 2}),
    Play("hang-always", at("concurrency", D4), "not the all-reduce", options={"stall_limit": 2, "depths": "4"}),
    Play("hang-alone", at("sane-replies", D3, D4), "not the all-reduce", options={"stall_limit": 2}),
    Play("fallback", at("log", D4), "jit-negative-cache"),
    Play("untuned", at("log aiter-tables", OFF, D3, D4), "rocmfix build --table"),
    Play("uneven-ranks", at("aiter-ranks", OFF, D3, D4), "AITER_CONFIG_FMOE", options={"tp": 2}),
    Play("jit", at("log", OFF, D3, D4), "PREBUILD_KERNELS"),
    Play("other-words", at("same-words long-prompt", D3, D4), "attention-backend"),
    Play("garbage", at("quality sane-replies", OFF) | at("quality sane-replies survival", D3, D4), "MTP path"),
    Play("wrong", at("quality", OFF, D3, D4), "tuned GEMM"),
    Play("ignores-depth", at("depth", D4), "steps + 1"),
    Play("no-draft-extend", set(), warns=at("draft-extend-graph", D3, D4)),
    Play("eager", at("graphs", OFF, D3, D4), "--cuda-graph-max-bs"),
    Play("chunk", at("long-prompt", D3, D4), "chunk boundary"),
    Play("dies", at("stays-up long-prompt", OFF, D3, D4), "scheduler-died"),
    Play("no-generate", at("starts", OFF, D3, D4), "/health is not a proof"),
    Play("fail-shape", at("starts", OFF, D4), "quark-glm-nextn", options={"depths": "4"}),
    Play("fail-header", at("starts", OFF, D4), "jit-fused-metadata-guard", options={"depths": "4"}),
    Play("fail-oom", at("starts", OFF, D4), "--mem-fraction-static", options={"depths": "4"}),
    Play("fail-port", at("starts", OFF, D4), "--host-network", options={"depths": "4"}),
    Play("fail-silent", at("starts", OFF, D4), "SIGKILL from outside", options={"depths": "4"}),
]  # fmt: skip
HEALTHY = ["", "easy", "tie", "moe", "names-0.5.9", "names-0.5.11"]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.plays.replace(" ", "+"))
def test_a_broken_server_is_caught_by_the_right_check_and_no_other(case, walk):
    report = walk(case.plays, **case.options)
    assert ended(report, Outcome.FAILED) == case.fails
    assert ended(report, Outcome.WARNING) == case.warns
    assert report.is_passed == (not case.fails)
    told = " ".join(f"{v.reason} {v.advice}" for v in report.verdicts if v.outcome is Outcome.FAILED)
    assert case.says in told


@pytest.mark.parametrize("plays", HEALTHY)
def test_a_healthy_server_passes_everything(plays, walk):
    """Only what has no bound stays unjudged: the accept length of a model nobody has measured."""
    report = walk(plays, tp=2 if plays == "moe" else 1)
    assert not ended(report, Outcome.FAILED)
    assert not ended(report, Outcome.WARNING)
    assert ended(report, Outcome.NOT_JUDGED) == at("accept-length", D3, D4)
    assert report.is_passed
    assert at("same-words survival temperature concurrency quality long-prompt log graphs", D4) <= ended(
        report, Outcome.PASSED
    )


def test_gsm8k_runs_where_the_server_runs(walk):
    report = walk("", depths="4", gsm8k=20)
    assert [rung.gsm8k and rung.gsm8k.accuracy for rung in report.rungs] == [0.94, 0.94]
    assert at("gsm8k", OFF, D4) <= ended(report, Outcome.NOT_JUDGED)  # nobody has measured this model


def test_every_play_is_tried():
    played = {word for case in CASES for word in case.plays.split()} | set(HEALTHY)
    assert set(PLAYS) == played - {""} | {"slow-start"}  # this one is for interrupting
