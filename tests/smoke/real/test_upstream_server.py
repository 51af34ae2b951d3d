"""The ladder against upstream's own sglang server with an MTP head, on this machine's CPU."""

from __future__ import annotations

from pathlib import Path

import pytest

from rocmfix.smoke.checks import all_checks
from rocmfix.smoke.records import Outcome, SmokeReport, Verdict
from tests.conftest import WHEELS
from tests.smoke.real import checkpoint, install
from tests.smoke.real.server import smoke

pytestmark = pytest.mark.server


@pytest.fixture(scope="session")
def python(in_ci: bool) -> Path:  # noqa: FBT001 - a fixture
    """The interpreter of an environment that holds sglang: 1.6 GB, made once, kept in the cache."""
    if not in_ci and not install.is_made(WHEELS):
        pytest.skip("python tests/smoke/real/install.py makes the environment for this test")
    return install.environment(WHEELS)


def counts(report: SmokeReport) -> dict[str, tuple[int, tuple[int, ...]]]:
    """Verify steps and drafts kept in the single stream of 64 tokens, at each depth."""
    found = {}
    for rung in report.rungs:
        heard = rung.answer("solo")
        assert heard is not None, rung.start
        assert heard.completion_tokens == 64
        found[rung.depth.label] = (heard.verifies, heard.histogram(rung.depth.steps) if heard.verifies else ())
    return found


def verdict(report: SmokeReport, label: str, check: str) -> Verdict:
    verdicts = next(rung.verdicts for rung in report.rungs if rung.depth.label == label)
    return next(verdict for verdict in verdicts if verdict.check == check)


def failures(report: SmokeReport) -> set[str]:
    return {verdict.check for verdict in report.verdicts if verdict.outcome is Outcome.FAILED}


def test_the_ladder_from_off_to_depth_six(python, tmp_path):
    """A head that errs after d, h, l, p, t and x: its counts equal an H200's to the token."""
    bounds = tmp_path / "bounds.toml"
    bounds.write_text(
        '[[bound]]\ncheck = "accept-length"\nmodel = "*partial*"\nsteps = [4]\nfloor = 3.764\nceiling = 3.766\nsource = "64 / 17"\n'
    )
    code, report = smoke(
        python, checkpoint.write(tmp_path / "partial", head="partial"), tmp_path / "out",
        "--depth", "3,4,6", "--concurrency", "4", "--crowd-depth", "4", "--bounds", str(bounds),
        only=[check.id for check in all_checks() if check.id != "temperature"],  # this model is too certain to tell
    )  # fmt: skip
    assert code == 0, [v for v in report.verdicts if v.outcome is Outcome.FAILED]
    assert counts(report) == {
        "off": (0, ()),
        "3-1-4": (17, (1, 0, 2, 14)),
        "4-1-5": (17, (1, 2, 0, 12, 2)),
        "6-1-7": (15, (1, 0, 0, 12, 0, 0, 2)),
    }
    for label in ("3-1-4", "4-1-5", "6-1-7"):
        for check in ("depth", "is-ours", "same-words", "long-prompt", "quality", "survival", "sane-replies", "log"):
            assert verdict(report, label, check).outcome is Outcome.PASSED, (label, check)
    assert verdict(report, "4-1-5", "accept-length").outcome is Outcome.PASSED
    assert verdict(report, "4-1-5", "concurrency").outcome is Outcome.PASSED
    assert verdict(report, "6-1-7", "accept-length").outcome is Outcome.NOT_JUDGED
    assert verdict(report, "4-1-5", "speed").outcome is Outcome.NOT_JUDGED
    assert report.rungs[0].info is not None
    assert report.rungs[0].info.version == "0.5.14"


def test_a_head_that_is_always_right_keeps_every_draft(python, tmp_path):
    model = checkpoint.write(tmp_path / "always", head="always")
    _, report = smoke(python, model, tmp_path / "out", "--depth", "4", "--no-off", only=("starts", "survival"))
    assert counts(report) == {"4-1-5": (13, (0, 0, 0, 0, 13))}
    assert failures(report) == set()


def test_missing_mtp_tensors_are_caught_although_the_server_is_healthy(python, tmp_path):
    """Upstream loads without them and says nothing; by the headers before the start, and by the drafts after it."""
    model = checkpoint.write(tmp_path / "none", head="none")
    code, report = smoke(
        python, model, tmp_path / "out", "--depth", "4", "--no-off",
        only=("starts", "accept-length", "mtp-tensors"),
    )  # fmt: skip
    assert code == 1
    assert report.rungs[0].start.is_ready
    verifies, histogram = counts(report)["4-1-5"]
    assert sum(histogram) == verifies > 46  # 63 in fresh memory; what lies in used memory may be right now and then
    assert failures(report) == {"accept-length", "mtp-tensors"}


@pytest.mark.parametrize("verify", ["hip", None])
def test_upstreams_hip_branch_ignores_temperature_and_a_sampler_does_not(python, tmp_path, verify):
    """B21: the branch that 0.5.14 takes on HIP, on a model with flat probabilities; then a sampler in its place."""
    model = checkpoint.write(tmp_path / "soft", sharpness=checkpoint.SOFT)
    _, report = smoke(
        python, model, tmp_path / "out", "--depth", "4", "--no-off", verify=verify, only=("starts", "temperature")
    )
    judged = verdict(report, "4-1-5", "temperature")
    assert judged.outcome is (Outcome.FAILED if verify == "hip" else Outcome.PASSED), judged
