"""What people see, as golden files."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from rocmfix.model import How, Matrix, Outcome, PatchPlan, Skip, Status, Step, TreeReport, Upstream, Verdict
from rocmfix.report import matrix_lines, plan_lines, summary, verdict_lines, verdict_table

MERGED = Upstream(status=Status.MERGED, pr="sgl-project/sglang#29373", since="0.5.15")
LOCAL = Upstream(status=Status.LOCAL)
REPORT = TreeReport(
    source="0.5.14",
    release="0.5.14",
    verdicts=(
        Verdict(fix="not-there", verdict=Outcome.NOT_APPLICABLE, reason="no such file", upstream=LOCAL),
        Verdict(
            fix="guard-it", verdict=Outcome.NEEDED, reason="hipcc cannot find cuda_runtime.h, and is run again at every replay",
            file="sglang/jit_kernel/csrc/elementwise/fused_metadata_copy.cuh", line=38, variant="guard.patch", upstream=MERGED,
        ),
        Verdict(
            fix="too-large", verdict=Outcome.UNMENDED, reason="the kernel faults", file="sglang/pool.py", line=7,
            upstream=Upstream(status=Status.SUBMITTED, pr="sgl-project/sglang#33968"), advice="run with --direct",
        ),
        Verdict(
            fix="other-words", verdict=Outcome.UPSTREAM, how=How.DIFFERENTLY, reason="mended in other words: " + "so " * 40,
            file="sglang/a.py", line=3, upstream=MERGED,
        ),
        Verdict(
            fix="odd-shape", verdict=Outcome.CONFLICT, reason="x.patch expects `a`, the tree has `b`", file="sglang/b.py", line=9,
            upstream=LOCAL, advice="rocmfix refresh sglang/set --onto TREE proposes a variant for this shape",
        ),
        Verdict(fix="done", verdict=Outcome.APPLIED, reason="rocmfix applied it", file="sglang/c.py", line=1, upstream=MERGED),
    ),
)  # fmt: skip
PLAN = PatchPlan(
    source="0.5.14",
    release="0.5.14",
    apply=(
        Step(fix="guard-it", set="sglang/s", variant="guard.patch", digest="0" * 64, files=("a.cuh",), offsets=(0, 3)),
        Step(fix="x", set="sglang/s", variant="x.patch", digest="1" * 64, files=("a.py", "b.py"), merged=True),
    ),
    skip=(Skip(fix="not-there", verdict=Outcome.NOT_APPLICABLE, reason="no such file"),),
)


@pytest.mark.parametrize("width", [80, 130])
def test_the_table_of_a_terminal(golden, width):
    out = io.StringIO()
    Console(file=out, width=width, force_terminal=False).print(verdict_table(REPORT))
    golden(f"check-{width}.txt", "\n".join(line.rstrip() for line in out.getvalue().splitlines()) + "\n")


@pytest.mark.parametrize("width", [60, 80, 119])
def test_no_terminal_is_too_narrow_for_the_names(width):
    """A pod's terminal has 80 columns: a fix or a verdict cut short cannot be copied into the next command."""
    out = io.StringIO()
    Console(file=out, width=width, force_terminal=False).print(verdict_table(REPORT))
    for verdict in REPORT.verdicts:
        assert f"{verdict.verdict.value} " in out.getvalue()
        assert f"{verdict.fix}" in out.getvalue()


def test_plain_lines_for_a_pipe(golden):
    golden("check-plain.txt", "\n".join([*verdict_lines(REPORT), summary(REPORT, 6)]) + "\n")


def test_the_last_line_says_how_much_was_judged():
    assert summary(REPORT, 20).endswith("6 of 20 known defects judged")


def test_the_matrix(golden):
    old = REPORT.model_copy(update={"release": "0.5.12.post1"})
    golden("matrix.txt", "\n".join(matrix_lines(Matrix(trees=(old, REPORT)))) + "\n")


def test_a_plan(golden):
    golden("plan.txt", "\n".join(plan_lines(PLAN)) + "\n")


def test_records_as_json(golden):
    golden("report.json", REPORT.model_dump_json(indent=2) + "\n")
    assert TreeReport.model_validate_json(REPORT.model_dump_json()) == REPORT


@pytest.mark.parametrize(
    ("outcomes", "code"),
    [
        ((), 0),
        ((Outcome.UPSTREAM, Outcome.APPLIED, Outcome.NOT_APPLICABLE), 0),
        ((Outcome.NEEDED, Outcome.UPSTREAM), 10),
        ((Outcome.UNMENDED, Outcome.NEEDED), 11),
        ((Outcome.UNMENDED, Outcome.CONFLICT, Outcome.NEEDED), 12),
    ],
)
def test_the_highest_exit_code_holds(outcomes, code):
    verdicts = tuple(Verdict(fix=o.value, verdict=o, reason="r", upstream=LOCAL) for o in outcomes)
    tree = TreeReport(source="s", release=None, verdicts=verdicts)
    assert tree.exit_code == code
    assert Matrix(trees=(tree,)).exit_code == (12 if code == 12 else 0)
