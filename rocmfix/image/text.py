"""Image records as lines for people."""

from __future__ import annotations

from collections.abc import Iterator

from rocmfix.image.compare import Comparison, Difference
from rocmfix.image.inspect import ImageReport
from rocmfix.image.progress import size
from rocmfix.image.verify import Verified

_FEW = 5
_MANY = 30
"""Changed files beyond which a comparison of two releases would only scroll."""


def facts_lines(report: ImageReport) -> Iterator[str]:
    """What an image is and holds, apart from the verdicts."""
    yield f"image     {report.image}  {size(report.size)}  {report.platform}"
    yield f"id        {report.id}"
    yield f"sglang    {report.release or 'unknown'}  {report.commit or 'no commit'}  {report.package}"
    yield f"aiter     {report.aiter or 'none found'}"
    built = f"flavour {report.flavour}, {len(report.applied)} fixes applied" if report.flavour else "not by rocmfix"
    yield f"built     {built}"
    for variable, value in report.env:
        yield f"env       {variable}={value}"
    yield from _table_lines(report)


def claims_lines(report: ImageReport) -> Iterator[str]:
    """How much was read, and the claims that do not hold: last, where they are read."""
    if report.reading:
        reading = report.reading
        yield (
            f"read      {size(reading.bytes)} of {size(reading.of)}"
            f" ({reading.layers} of {reading.of_layers} layers opened), nothing pulled"
        )
    for each in report.disagreements:
        yield f"UNTRUE    {each.who} says {each.says}; the image holds {each.holds}"


def _table_lines(report: ImageReport) -> Iterator[str]:
    """What the ENV names, each; what AITER ships, as one line where that would scroll (an image has ninety)."""
    shipped = [table for table in report.tables if table.variable is None]
    for table in report.tables:
        if table.variable:
            yield f"table     {table.path}  {table.rows} rows  {table.variable}"
        elif len(shipped) <= _FEW:
            yield f"table     {table.path}  {table.rows} rows"
    if len(shipped) > _FEW:
        yield f"tables    {len(shipped)} that AITER ships  {sum(table.rows for table in shipped)} rows"


def verified_lines(verified: Verified) -> Iterator[str]:
    """What was found in order."""
    yield f"{verified.image} is as its manifest says ({verified.manifest})"
    fixes = ", ".join(verified.applied) or "none"
    tables = f"{verified.tables} table{'' if verified.tables == 1 else 's'}"
    yield f"{verified.files} files, {tables}, flavour {verified.flavour}, fixes: {fixes}"


def problem_lines(verified: Verified) -> Iterator[str]:
    """Each disagreement; of a table with many changed rows the first few."""
    rows = [problem for problem in verified.problems if problem.what == "table"]
    left_out = rows[_MANY:]
    for problem in verified.problems:
        if problem in left_out:
            continue
        yield f"{problem.what:9} {problem.where}"
        yield f"          manifest says  {problem.says}"
        yield f"          image holds    {problem.holds}"
    if left_out:
        yield f"table     and {len(left_out)} more rows (--json lists all)"


def compare_lines(comparison: Comparison) -> Iterator[str]:
    """Two images side by side: what is the same in one line, what differs in full."""
    one, other = comparison.sizes
    yield f"one       {comparison.one}  {size(one)}"
    yield f"other     {comparison.other}  {size(other)}  ({other - one:+d} bytes)"
    own = comparison.own_layers
    yield f"layers    {comparison.shared_layers} shared, {own[0]} only in one, {own[1]} only in the other"
    for name, pair in (("sglang", comparison.releases), ("commit", comparison.commits), ("aiter", comparison.aiter)):
        if pair[0] != pair[1]:
            yield f"{name:9} {pair[0]} -> {pair[1]}"
    groups = (("fix", comparison.fixes), ("env", comparison.env), ("table", comparison.tables))
    for name, differences in (*groups, ("label", comparison.labels), ("file", comparison.files)):
        yield from _difference_lines(name, differences)
    if comparison.is_same:
        yield "nothing that was looked at differs"


def _difference_lines(name: str, differences: tuple[Difference, ...]) -> Iterator[str]:
    for each in differences[:_MANY]:
        yield f"{name:9} {each.name}: {each.one or 'absent'} -> {each.other or 'absent'}"
    if len(differences) > _MANY:
        yield f"{name:9} and {len(differences) - _MANY} more (--json lists all)"
