"""Shows records to people: tables on a terminal, aligned plain text in a pipe, Markdown for CI."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from rocmfix.model import Matrix, Outcome, PatchPlan, Step, TreeReport, Verdict

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

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
_QUIET = (Outcome.APPLIED, Outcome.UPSTREAM, Outcome.NOT_APPLICABLE)
"""What asks for no action."""


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


def verdict_table(report: TreeReport) -> RenderableType:
    """The table of one tree for a terminal: a line a fix, and what asks for action explained below it.

    Sentences and paths have the whole width: in a column of their own they fall apart on 80 characters.
    """
    from rich.console import Group

    names = max((len(verdict.fix) for verdict in report.verdicts), default=0)
    rows = ordered(report)
    loud = [_loud(verdict, names) for verdict in rows if verdict.verdict not in _QUIET]
    quiet = [_quiet(verdict, names) for verdict in rows if verdict.verdict in _QUIET]
    return Group(*loud, *quiet, "")


_WORD = max(len(outcome.value) for outcome in Outcome)


def _loud(verdict: Verdict, names: int) -> RenderableType:
    from rich.console import Group
    from rich.padding import Padding
    from rich.text import Text

    head = Text.assemble(
        (f"{verdict.verdict.value:<{_WORD}}  ", _STYLE[verdict.verdict]),
        (f"{verdict.fix:<{names}}  ", "bold"),
        upstream(verdict) if verdict.upstream.pr else "",
    )
    parts = [(verdict.reason, ""), (place(verdict), "cyan"), (verdict.advice or "", "italic")]
    below = [Padding(Text(words, style=style, overflow="fold"), (0, 0, 0, 2)) for words, style in parts if words]
    return Group(head, *below, "")


def _quiet(verdict: Verdict, names: int) -> RenderableType:
    from rich.text import Text

    why = place(verdict) if verdict.verdict is Outcome.APPLIED else verdict.reason
    line = f"{verdict.verdict.value:<{_WORD}}  {verdict.fix:<{names}}  {why}"
    return Text(line, style=_STYLE[verdict.verdict], no_wrap=True, overflow="ellipsis")


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


def folded(rows: Sequence[tuple[str, ...]], width: int) -> Iterable[str]:
    """Rows for a terminal: the last cell, a sentence, stands below its row with the whole `width` to itself."""
    for line, row in zip(aligned([row[:-1] for row in rows]), rows, strict=True):
        yield line
        if row is not rows[0]:
            yield textwrap.fill(row[-1], width, initial_indent="  ", subsequent_indent="  ")


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


def plan_lines(plan: PatchPlan, *, in_full: bool = True) -> Iterable[str]:
    """What a plan applies; in full also to which files, and what it skips with the reasons."""
    rows = [("apply", step.fix, step.variant, _how(step, step.files if in_full else ())) for step in plan.apply]
    if in_full:
        rows += [("skip", skip.fix, skip.verdict.value, skip.reason) for skip in plan.skip]
    return aligned(rows) if rows else ()


def _how(step: Step, files: Sequence[str]) -> str:
    moved = sorted({offset for offset in step.offsets if offset})
    offsets = f"({', '.join(f'{offset:+d}' for offset in moved)} lines off)" if moved else ""
    return " ".join(filter(None, (", ".join(files), "(merged in three ways: look at it)" if step.merged else offsets)))


def console(*, stderr: bool = False) -> Console:
    """A console that writes where click writes."""
    from rich.console import Console

    return Console(stderr=stderr, highlight=False, soft_wrap=False)
