"""Shows records to people: tables on a terminal, aligned plain text in a pipe, Markdown for CI."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from rocmfix.model import Matrix, Outcome, PatchPlan, Step, TreeReport, Verdict

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.text import Text

_ORDER = (
    Outcome.CONFLICT,
    Outcome.NEEDED,
    Outcome.UNMENDED,
    Outcome.APPLIED,
    Outcome.UPSTREAM,
    Outcome.NOT_APPLICABLE,
)
_STYLE = {
    Outcome.CONFLICT: "bold red",
    Outcome.NEEDED: "bold yellow",
    Outcome.UNMENDED: "magenta",
    Outcome.APPLIED: "green",
    Outcome.UPSTREAM: "dim green",
    Outcome.NOT_APPLICABLE: "dim",
}
_LETTER = {
    Outcome.CONFLICT: "X",
    Outcome.NEEDED: "N",
    Outcome.UNMENDED: "u",
    Outcome.APPLIED: "a",
    Outcome.UPSTREAM: ".",
    Outcome.NOT_APPLICABLE: "-",
}
_QUIET = (Outcome.UPSTREAM, Outcome.NOT_APPLICABLE)


def place(verdict: Verdict) -> str:
    """`file:line`, or as much of it as there is."""
    line = f":{verdict.line}" if verdict.line else ""
    return f"{verdict.file}{line}" if verdict.file else ""


def upstream(verdict: Verdict) -> str:
    """`sglang#29373 in 0.5.15`, or where it stands."""
    stand = verdict.upstream
    if not stand.pr:
        return "none"
    pr = stand.pr.rpartition("/")[2]
    return f"{pr} in {stand.since}" if stand.since else f"{pr} {stand.status.value}"


def summary(report: TreeReport, catalog_size: int) -> str:
    """The last line of `check`: how many fixes there are of each verdict, and how much was judged."""
    counts = [(outcome, sum(v.verdict is outcome for v in report.verdicts)) for outcome in _ORDER]
    said = ", ".join(f"{count} {outcome.value}" for outcome, count in counts if count)
    return f"{said}. {len(report.verdicts)} of {catalog_size} known defects judged"


def ordered(report: TreeReport) -> list[Verdict]:
    """The verdicts, those that ask for action first."""
    return sorted(report.verdicts, key=lambda verdict: _ORDER.index(verdict.verdict))


def verdict_table(report: TreeReport, width: int) -> RenderableType:
    """The table of one tree for a terminal; where that is narrow, fix and pull request stand above the reason."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    is_wide = width >= 120  # what stands beside the reason takes 70
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, header_style="bold")
    if is_wide:
        table.add_column("fix", no_wrap=True)
    table.add_column("verdict", no_wrap=True)
    table.add_column("reason" if is_wide else "fix", ratio=1, overflow="fold")
    if is_wide:
        table.add_column("upstream", no_wrap=True)
    for verdict in ordered(report):
        quiet = verdict.verdict in _QUIET
        fix = Text(verdict.fix, style="dim" if quiet else "bold")
        said = Text(verdict.verdict.value, style=_STYLE[verdict.verdict])
        pr = Text(upstream(verdict), style="dim" if quiet else "")
        reason = _reason(verdict)
        if is_wide:
            table.add_row(fix, said, reason, pr)
        else:
            beside = "" if quiet or not verdict.upstream.pr else pr
            reason = Text.assemble(fix, "  ", beside, "" if quiet else "\n", reason)
            reason.no_wrap, reason.overflow = quiet, "ellipsis" if quiet else "fold"
            table.add_row(said, reason)
    return table


def _reason(verdict: Verdict) -> Text:
    """Why; then where, and what else to do, for what asks for it. What does not gets one line."""
    from rich.text import Text

    if verdict.verdict in _QUIET:
        return Text(verdict.reason, style="dim", no_wrap=True, overflow="ellipsis")
    reason = Text(verdict.reason, overflow="fold")
    reason.append(f"\n{place(verdict)}", style="cyan")
    if verdict.advice:
        reason.append(f"\n{verdict.advice}", style="italic")
    return reason


def verdict_lines(report: TreeReport) -> Iterable[str]:
    """The same as aligned plain text, one verdict a line: for pipes and grep."""
    rows = [("FIX", "VERDICT", "WHERE", "UPSTREAM", "REASON")]
    for v in ordered(report):
        reason = f"{v.reason}; {v.advice}" if v.advice else v.reason
        rows.append((v.fix, v.verdict.value, place(v) or "-", upstream(v), reason))
    return aligned(rows)


def aligned(rows: Sequence[tuple[str, ...]]) -> Iterable[str]:
    """Rows as lines, columns padded to their widest cell, the last one free."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]) - 1)]
    for row in rows:
        cells = [cell.ljust(width) for cell, width in zip(row[:-1], widths, strict=True)]
        yield "  ".join((*cells, row[-1])).rstrip()


def matrix_lines(matrix: Matrix) -> Iterable[str]:
    """Fixes x trees, a letter a cell."""
    heads = [short(tree) for tree in matrix.trees]
    width = max(map(len, heads), default=0)
    fixes = [verdict.fix for verdict in matrix.trees[0].verdicts] if matrix.trees else []
    label = max(map(len, fixes), default=0)
    yield " " * label + "".join(f" {head:>{width}}" for head in heads)
    for i, fix in enumerate(fixes):
        cells = (_LETTER[tree.verdicts[i].verdict] for tree in matrix.trees)
        yield fix.ljust(label) + "".join(f" {cell:>{width}}" for cell in cells)
    yield ""
    yield ", ".join(f"{letter} {outcome.value}" for outcome, letter in _LETTER.items())


def short(tree: TreeReport) -> str:
    """The tree's name as a column head: `14`, `15p1`."""
    name = tree.release or tree.source
    return name.removeprefix("0.5.").replace(".post", "p")


def plan_lines(plan: PatchPlan, *, skips: bool = True) -> Iterable[str]:
    """What a plan applies, and what it skips with the reasons."""
    rows = [("apply", step.fix, step.variant, f"{', '.join(step.files)}{_offsets(step)}") for step in plan.apply]
    if skips:
        rows += [("skip", skip.fix, skip.verdict.value, skip.reason) for skip in plan.skip]
    return aligned(rows) if rows else ()


def _offsets(step: Step) -> str:
    if step.merged:
        return " (merged in three ways: look at it)"
    moved = sorted({offset for offset in step.offsets if offset})
    return f" ({', '.join(f'{offset:+d}' for offset in moved)} lines off)" if moved else ""


def console(*, stderr: bool = False) -> Console:
    """A console that writes where click writes."""
    from rich.console import Console

    return Console(stderr=stderr, highlight=False, soft_wrap=False)
