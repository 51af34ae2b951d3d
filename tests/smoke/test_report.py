"""The report for people and for machines."""

from __future__ import annotations

from xml.etree import ElementTree as ET

from rocmfix.smoke.checks import all_checks
from rocmfix.smoke.records import Outcome, SmokeReport, Subject, Verdict
from rocmfix.smoke.report import headline, junit, markdown, table
from tests.smoke.scenes import drafted, heard, rung

V = Verdict
REPORT = SmokeReport(
    rocmfix="0.1.0",
    started="2026-11-30T02:00:00+00:00",
    seconds=61.5,
    subject=Subject(image="r/sglang:v0.5.14-rocm720-mi35x", digests=("r/sglang@sha256:" + "b" * 64,), model="/models/m",
                  flavour="mi35x-rocm720"),
    before=(V(check="vram", outcome=Outcome.WARNING, measured="9%", bound="at most 5%", reason="a|pipe", advice="free it"),),
    rungs=(
        rung("off", heard("solo", drafted(64)), verdicts=(
            V(check="starts", outcome=Outcome.PASSED, measured="12.0 s", bound="within 60 s", reason="8 tokens"),)),
        rung("4", heard("solo", drafted(1, 2, 0, 12, 2, seconds=0.5)), verdicts=(
            V(check="accept-length", outcome=Outcome.NOT_JUDGED, measured="3.765", reason="no bound is known"),
            V(check="quality", outcome=Outcome.FAILED, measured="0 of 12 right", bound="at least 0.75",
              reason="wanted '42', got '\0\x01<&'", advice="look at the weights"))),
    ),
    unproved=("no ROCm kernel ran",),
)  # fmt: skip


def test_markdown(golden):
    golden("smoke/report.md", markdown(REPORT, {check.id: check.explanation for check in all_checks()}))


def test_table(golden):
    golden("smoke/table.txt", table(REPORT) + "\n")


def test_the_json_reads_back_whole():
    assert SmokeReport.model_validate_json(REPORT.model_dump_json()) == REPORT


def test_junit_counts_and_survives_garbage():
    """A broken server's output is full of control characters, which XML cannot hold."""
    root = ET.fromstring(junit(REPORT))
    suites = {suite.get("name"): suite for suite in root}
    assert set(suites) == {"smoke.before", "smoke.off", "smoke.4-1-5"}
    last = suites["smoke.4-1-5"]
    assert (last.get("tests"), last.get("failures"), last.get("skipped")) == ("2", "1", "1")
    failure = last.find("testcase/failure")
    assert failure is not None
    assert failure.text == "look at the weights"
    assert "0 of 12 right" in failure.get("message", "")


def test_the_headline_fails_on_one_failure_and_on_nothing_passed():
    assert headline(REPORT) == "smoke FAILED: 1 passed, 1 failed, 1 warning, 1 not judged"
    assert headline(REPORT.model_copy(update={"rungs": REPORT.rungs[:1]})) == "smoke passed: 1 passed, 1 warning"
    assert headline(REPORT.model_copy(update={"rungs": (), "before": ()})).startswith("smoke FAILED")


def test_the_report_holds_the_stacks_of_a_hang_as_text_and_what_was_left_out():
    """What a server's processes are called is not ours: no fence to break out of, no control characters."""
    hung = REPORT.rungs[1].model_copy(update={"stacks": "== 7 python3\n```\n# heading\x1b[31m"})
    text = markdown(REPORT.model_copy(update={"rungs": (hung,), "left_out": ("speed", "log")}), {})
    assert (
        "## Stacks of the hang at 4-1-5\n\n    == 7 python3\n    ```\n    # heading\N{REPLACEMENT CHARACTER}[31m\n"
        in text
    )
    assert "- checks left out: speed, log" in text
    assert "Stacks" not in markdown(REPORT, {})
    assert "left out" not in markdown(REPORT, {})
