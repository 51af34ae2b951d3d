"""Prints what the table verbs find, for people; every record prints as JSON by itself."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from rocmfix.aiter.coverage import Coverage
from rocmfix.aiter.findings import MEANING, Finding, Kind, Report, Severity
from rocmfix.aiter.lookup import Answer


def report_lines(report: Report, *, most: int = 5) -> Iterator[str]:
    """The findings, worst kinds first, at most `most` of each kind; then the count of rows."""
    for severity in Severity:
        for kind in Kind:
            found = [f for f in report.findings if f.kind is kind and f.severity is severity]
            if found:
                yield f"{severity.value}: {kind.value} ({len(found)}): {MEANING[kind]}"
                yield from _places(found[:most] if most else found)
                if most and len(found) > most:
                    yield f"    … and {len(found) - most} more (--all)"
    told = report.rows - report.known - report.untold
    yield (
        f"{report.rows} rows, reader {report.generation}: kernels known {report.known}, unknown {told}, "
        f"cannot be told {report.untold}; {len(report.findings)} findings"
    )


def _places(found: Iterable[Finding]) -> Iterator[str]:
    for finding in found:
        place = finding.file if finding.line is None else f"{finding.file}:{finding.line}"
        yield f"  {place}"
        if finding.key:
            yield f"    {finding.key}"
        yield f"    {finding.effect}; {finding.hint}"


def coverage_lines(coverage: Coverage) -> Iterator[str]:
    """A grid: one line a shape, one mark a bucket."""
    shapes: dict[str, list[Answer]] = {}
    for key in coverage.keys:
        shapes.setdefault(_shape(key), []).append(key)
    buckets = sorted({key.token for key in coverage.keys})
    width = max(len(str(bucket)) for bucket in buckets) + 1
    yield "bucket" + "".join(str(bucket).rjust(width) for bucket in buckets)
    for shape, keys in shapes.items():
        marks = {key.token: ("+" if key.hit else "-") for key in keys}
        yield "      " + "".join(marks.get(bucket, "").rjust(width) for bucket in buckets) + f"   {shape}"
    for why in dict.fromkeys(key.why for key in coverage.missing):
        yield f"  - {why}"
    yield f"{coverage.hit} of {coverage.total} lookups hit (+ tuned row, - heuristic); reader {coverage.generation}"


def _shape(key: Answer) -> str:
    types = f"{_bare(key.q_dtype_a)}/{_bare(key.q_dtype_w)} {_bare(key.q_type)} {_bare(key.act_type)}"
    return f"{key.gfx} {key.model_dim}x{key.inter_dim} E{key.expert} top{key.topk} {types}"


def _bare(text: str) -> str:
    return text.rpartition(".")[2]


def answer_lines(answers: Sequence[Answer]) -> Iterator[str]:
    """Each lookup with the row that answers it."""
    for key in answers:
        yield f"token {key.token} {_shape(key)}"
        if key.hit:
            yield f"  {key.file}:{key.line}"
            yield from (f"  {name}" for name in key.kernels)
        yield f"  {key.why}"
