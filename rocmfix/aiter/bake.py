"""What an image needs to carry tuned rows: one complete table, the variable that selects it, where rows are from."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rocmfix.aiter.doctor import examine
from rocmfix.aiter.findings import Finding, Kind, Severity
from rocmfix.aiter.launch import CUS
from rocmfix.aiter.layout import AiterTree
from rocmfix.aiter.merging import MergedTable, merge_tables
from rocmfix.aiter.probing import probe
from rocmfix.aiter.reader import TableFile
from rocmfix.aiter.schema import FMOE
from rocmfix.aiter.selection import select
from rocmfix.aiter.sources import TableSource
from rocmfix.errors import TableError
from rocmfix.model import Record

TABLE = f"/etc/rocmfix/aiter/{FMOE.name}.csv"
COMPILED = f"/etc/rocmfix/aiter/{FMOE.name}.compiled.csv"
"""Only the wanted rows: what is to be compiled ahead of time."""
AOT = ("aiter.aot.flydsl.moe", "aiter.aot.flydsl.mxfp4_moe")
"""Each compiles kernels the other passes over (`aiter/aot/flydsl`), so both are needed."""


class RowSource(Record):
    """Rows of the baked table that came from one place."""

    file: str
    lines: tuple[int, ...]
    sha256: str
    repo: str | None = None
    commit: str | None = None
    path: str | None = None


class Baked(Record):
    """What the manifest records about a baked table, and what the image needs besides its files."""

    path: str
    sha256: str
    rows: int
    env: Mapping[str, str]
    """The variable that selects the table."""
    sources: tuple[RowSource, ...]
    aot: tuple[tuple[str, ...], ...]
    """Commands that compile the FlyDSL kernels of the wanted rows ahead of time; the base image has the others."""
    aot_env: Mapping[str, str]


@dataclass(frozen=True)
class Wanted:
    """A table the user asked for, and the pinned source it came from, if any."""

    file: TableFile
    source: TableSource | None = None


def bake(tree: AiterTree, wanted: Sequence[Wanted], gfx: str = "gfx950") -> tuple[Baked, Mapping[str, bytes]]:
    """The complete fused-MoE table of `tree` with the wanted rows in it: the record, and files by image path.

    A variable replaces every shipped table (`get_config_file` in `aiter/jit/core.py`), so the shipped rows are in
    it too. Raises TableError for a row whose kernel this AITER lacks: AOT would pass over it and exit 0.
    """
    rules = probe(tree)
    if rules is None or not rules.known:
        raise TableError(f"{tree.source}: this AITER reads its tables in a way not seen before; nothing is baked")
    chosen = [_kept(item) for item in wanted]
    _refuse_bad_rows(tree, chosen, gfx)
    shipped = next((s for s in select(tree, rules) if s.family is FMOE), None)
    files = shipped.files if shipped else ()
    merged = merge_tables(files, FMOE, rules, preferred=chosen, gfx=gfx)
    compiled = _rows_from(merged, chosen)
    baked = Baked(
        path=TABLE,
        sha256=hashlib.sha256(merged.data).hexdigest(),
        rows=len(merged.origins),
        env={FMOE.variable: TABLE},
        sources=_sources(merged, [*files, *chosen], wanted),
        aot=_aot(tree, compiled),
        aot_env={"AITER_AOT_IMPORT": "1", "GPU_ARCHS": gfx, "CU_NUM": str(CUS[gfx])},
    )
    return baked, {TABLE: merged.data, **({COMPILED: compiled} if baked.aot else {})}


def _rows_from(merged: MergedTable, files: Sequence[TableFile]) -> bytes:
    """The merged table's header and the rows that came from `files`."""
    header, *lines = merged.data.splitlines()
    names = {file.path for file in files}
    rows = [line for line, origin in zip(lines, merged.origins, strict=True) if origin.file in names]
    return b"\n".join([header, *rows]) + b"\n"


def _kept(wanted: Wanted) -> TableFile:
    """The file with only the rows its source says to keep; other lines are emptied, so that line numbers hold."""
    keep = dict(part.split("=", 1) for part in wanted.source.keep) if wanted.source else {}
    if not keep:
        return wanted.file
    header, *lines = wanted.file.data.decode("utf-8-sig").splitlines()
    at = {name: header.split(",").index(name) for name in keep}
    kept = [line if all(line.split(",")[at[n]] == v for n, v in keep.items()) else "" for line in lines if line]
    return TableFile(wanted.file.path, ("\n".join([header, *kept]) + "\n").encode())


def _refuse_bad_rows(tree: AiterTree, chosen: Sequence[TableFile], gfx: str) -> None:
    """A baked row may not stop the server or be known to give wrong answers."""
    report = examine(tree, chosen, gfx)
    bad = [f for f in report.findings if f.severity is Severity.BOOT or f.kind is Kind.UNKNOWN_KERNEL or _is_wrong(f)]
    if bad:
        raise TableError(
            f"{len(bad)} rows cannot be baked into {tree.source}",
            details=tuple(f"{f.file}:{f.line}: {f.kind.value}: {f.effect}" for f in bad[:10]),
            hint="rocmfix aiter doctor shows all; take a table made for this AITER, or retune",
        )


def _is_wrong(finding: Finding) -> bool:
    return finding.kind in {Kind.KNOWN_BAD_KERNEL, Kind.TABLE_OFF}


def _sources(merged: MergedTable, files: Sequence[TableFile], wanted: Sequence[Wanted]) -> tuple[RowSource, ...]:
    pinned = {item.file.path: item.source for item in wanted}
    original = {item.file.path: item.file for item in wanted}
    result = []
    for file in files:
        lines = tuple(sorted(origin.line for origin in merged.origins if origin.file == file.path))
        if not lines:
            continue
        source = pinned.get(file.path)
        digest = hashlib.sha256(original.get(file.path, file).data).hexdigest()
        result.append(
            RowSource(
                file=file.path,
                lines=lines,
                sha256=digest,
                repo=source.repo if source else None,
                commit=source.commit if source else None,
                path=source.path if source else None,
            )
        )
    return tuple(result)


def _aot(tree: AiterTree, compiled: bytes) -> tuple[tuple[str, ...], ...]:
    if b"flydsl_" not in compiled:
        return ()
    modules = [name for name in AOT if tree.read(f"{name.replace('.', '/')}.py") is not None]
    return tuple(("python3", "-m", module, "--csv", COMPILED) for module in modules)
