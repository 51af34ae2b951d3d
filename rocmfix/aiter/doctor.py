"""Examines the tables of one AITER: every defect, what it will do at run time, and what to do about it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rocmfix.aiter import frame as csv
from rocmfix.aiter.checks import Check, checks_of
from rocmfix.aiter.findings import SEVERITY, Finding, Kind, Report, Severity
from rocmfix.aiter.frame import Frame, Origin, UnreadableError
from rocmfix.aiter.generation import UNKNOWN, Generation
from rocmfix.aiter.kernels import Kernels, Knowledge
from rocmfix.aiter.layout import CORE, AiterTree
from rocmfix.aiter.neighbours import copied_times, high_errors
from rocmfix.aiter.probing import probe
from rocmfix.aiter.reader import Refusal, Table, TableFile, index, load, merge
from rocmfix.aiter.row import Row, rows_of
from rocmfix.aiter.schema import FAMILIES, FMOE, Family
from rocmfix.aiter.selection import Selection, named, select
from rocmfix.aiter.trouble import gemm_trouble, refused, replaced, table_trouble


def examine(
    tree: AiterTree,
    files: Sequence[TableFile] = (),
    gfx: str = "gfx950",
    *,
    families: Sequence[Family] = FAMILIES,
) -> Report:
    """Every finding about `files`, or about all the tables `tree` ships."""
    rules = probe(tree)
    known = rules if rules is not None and rules.known else None
    selections = named(tree, files) if files else select(tree, known)
    kernels = Kernels(tree)
    findings: list[Finding] = [] if known else [_unknown_reader(tree)]
    counts = dict.fromkeys(Knowledge, 0)
    for selection in selections:
        if selection.family not in families:
            continue
        rows: list[Row] = []
        for file in selection.files:
            frame = _readable(file)
            if isinstance(frame, UnreadableError):
                findings.append(_unreadable(frame, selection))
            else:
                rows += rows_of(frame, selection.family, gfx, kernels)
        findings += _row_findings(rows, checks_of(selection.family))
        _count(rows, counts)
        findings += _missing_files(selection)
        if known is not None and selection.files:
            findings += _reader_findings(selection, known, gfx)
            findings += replaced(tree, selection, known, gfx)
    return Report(
        generation=known.name if known else UNKNOWN,
        findings=tuple(sorted(set(findings), key=_order)),
        rows=sum(counts.values()),
        known=counts[Knowledge.KNOWN],
        untold=counts[Knowledge.CANNOT_TELL],
    )


def _readable(file: TableFile) -> Frame | UnreadableError:
    try:
        return csv.read(file.data, file.path)
    except UnreadableError as error:
        return error


def _order(finding: Finding) -> tuple[int, str, int, str]:
    return list(Severity).index(finding.severity), finding.file, finding.line or 0, finding.kind.value


def _unknown_reader(tree: AiterTree) -> Finding:
    return Finding(
        kind=Kind.UNKNOWN_READER,
        severity=SEVERITY[Kind.UNKNOWN_READER],
        file=tree.shown(CORE),
        line=None,
        key="",
        effect="merging, duplicates and lookups of this AITER are not judged; the rows themselves are",
        hint="report the AITER commit, so that its reader can be added",
    )


def _unreadable(error: UnreadableError, selection: Selection) -> Finding:
    return Finding(
        kind=Kind.UNREADABLE,
        severity=SEVERITY[Kind.UNREADABLE],
        file=error.at.file,
        line=error.at.line,
        key="",
        effect=f"{error.error}: {error}; no table of {selection.family.name} can be used, the first request fails",
        hint="mend the line",
    )


def _missing_files(selection: Selection) -> Iterator[Finding]:
    """What `get_config_file` does with a path that is not there: one of several is passed over, the only one fails."""
    for path in selection.missing:
        yield Finding(
            kind=Kind.MISSING_FILE,
            severity=Severity.SLOW if selection.files else SEVERITY[Kind.MISSING_FILE],
            file=path,
            line=None,
            key="",
            effect=f"{selection.family.variable} names it, and it is not in the image: "
            + ("AITER passes over it" if selection.files else "the first request fails"),
            hint=f"put it there, or unset {selection.family.variable}",
        )


def _row_findings(rows: Sequence[Row], asked: Sequence[Check]) -> Iterator[Finding]:
    for row in rows:
        for check in asked:
            yield from check(row)
    yield from high_errors(rows)
    yield from copied_times(rows)


def _count(rows: Sequence[Row], counts: dict[Knowledge, int]) -> None:
    """Count each row by the worst answer about its kernels."""
    for row in rows:
        told = (row.dispatched,) if row.dispatched else (row.ask(name) for name in row.names)
        answers = {answer.knowledge for answer in told}
        worst = (Knowledge.UNKNOWN, Knowledge.CANNOT_TELL, Knowledge.KNOWN)
        counts[next((knowledge for knowledge in worst if knowledge in answers), Knowledge.KNOWN)] += 1


def _reader_findings(selection: Selection, rules: Generation, gfx: str) -> Iterator[Finding]:
    """What the reader makes of the files: refusals, rows that lose, rows nothing asks for, holes."""
    if selection.family is FMOE:
        result = load(selection.files, selection.untuned, rules, gfx)
        if isinstance(result, Refusal):
            yield from refused(result, selection, rules)
        if not isinstance(result, Refusal) or result.losses:
            table = result if isinstance(result, Table) else _second_start(selection, result, rules, gfx)
            if table is not None:
                yield from table_trouble(table, selection)
    elif selection.family.key:
        yield from gemm_trouble(selection, rules, gfx)


def _second_start(selection: Selection, refusal: Refusal, rules: Generation, gfx: str) -> Table | None:
    """The table of the second start, after the first has deleted the losing rows from the files."""
    lost = {loss.row for loss in refusal.losses}
    files = [without(file, lost) for file in selection.files]
    merged = merge(files, selection.untuned, rules, gfx)
    if isinstance(merged, Refusal):
        return None
    table = index(merged, rules, gfx)
    return table if isinstance(table, Table) else None


def without(file: TableFile, lost: set[Origin]) -> TableFile:
    """The file without some rows; the lines stay, empty, so that line numbers hold."""
    if '"' in file.data.decode("utf-8", errors="replace"):
        return file
    lines = file.data.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
    gone = {origin.line for origin in lost if origin.file == file.path}
    return TableFile(file.path, b"\n".join(b"" if n in gone else line for n, line in enumerate(lines, start=1)))
