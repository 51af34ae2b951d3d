"""Merges table files into one, offline and the same every time, and refuses what it cannot decide.

AITER's own merge happens inside the serving process, depends on directory order and rewrites its sources; a table
merged beforehand and named by the family's variable is read as it is.
"""

from __future__ import annotations

import csv as text_csv
import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from rocmfix.aiter import frame as csv
from rocmfix.aiter.frame import Origin, Record as Line, UnreadableError
from rocmfix.aiter.generation import Act, Generation
from rocmfix.aiter.reader import Refusal, TableFile, load
from rocmfix.aiter.schema import CU_GFX, FMOE, Family
from rocmfix.errors import TableError

DEFAULTS: Mapping[str, str] = {"ksplit": "0", "run_1stage": "0", "xbf16": "0", "flat": "0"}
"""What AITER's union merge fills in (`_FILL_DEFAULTS` in `aiter/jit/core.py`); other gaps stay empty."""


@dataclass(frozen=True)
class MergedTable:
    """The merged file, and where each of its rows came from, in order."""

    data: bytes
    origins: tuple[Origin, ...]
    dropped: tuple[tuple[Origin, Origin], ...]
    """Rows that gave way, each with the row that has its place."""
    empty: tuple[str, ...] = ()
    """Files without a row: what a user names should have one, AITER's own may have none."""


@dataclass(frozen=True)
class _Row:
    cells: Mapping[str, str]
    at: Origin
    rank: int
    """How strongly the user wants it: a preferred file's rows come before all others."""


def without_rows(files: Sequence[str]) -> TableError:
    """What is said of files without a row."""
    return TableError(f"no row in {', '.join(files)}", hint="name tables with rows")


def merge_tables(
    files: Sequence[TableFile],
    family: Family,
    rules: Generation,
    *,
    preferred: Sequence[TableFile] = (),
    gfx: str = "gfx950",
) -> MergedTable:
    """One table of the rows of `files` and `preferred`; for one key the preferred row, else the lower us.

    Raises TableError where neither decides, and where the result is not one this AITER reads.
    """
    found = [(file, _rows(file, turn)) for turn, some in enumerate((files, preferred)) for file in some]
    rows = [row for _, each in found for row in each]
    empty = tuple(file.path for file, each in found if not each)
    if not rows:
        raise without_rows(empty)
    columns = _columns((row.cells for row in rows), family, rules)
    rows, shadows = _unshadowed(rows, family, rules)
    kept, dropped = _decided(rows, family, rules)
    data = _written(columns, [_completed(row, columns) for row in kept])
    merged = MergedTable(data, tuple(row.at for row in kept), (*shadows, *dropped), empty)
    _proved(merged, family, rules, gfx)
    return merged


def _rows(file: TableFile, rank: int) -> list[_Row]:
    try:
        frame = csv.read(file.data, file.path)  # what pandas refuses, or takes for an index, is refused here
        header, *lines = csv.split(file.data.decode("utf-8-sig"), file.path)
    except UnreadableError as error:
        raise TableError(f"{error.at.file}:{error.at.line}: {error}", hint="mend the line first") from None
    if frame.shifted:
        raise TableError(f"{file.path}:1: the rows are longer than the header", hint="take the trailing commas out")
    return [row for line in lines if (row := _row(header, line, file.path, rank)) is not None]


def _row(header: Line, line: Line, path: str, rank: int) -> _Row | None:
    cells = dict(zip(header.fields, line.fields, strict=False))
    if cells.get("_tag") == "flydsl_fallback":
        return None  # no reader since ROCm/aiter#4025 uses it, and older ones drop it from the table
    if line.fields == header.fields:
        raise TableError(f"{path}:{line.line}: a second header line", hint="take it out: it turns the whole table off")
    return _Row(cells, Origin(path, line.line), rank)


def _columns(rows: Iterable[Mapping[str, str]], family: Family, rules: Generation) -> tuple[str, ...]:
    """The key first, as AITER's own tables have it; then the others, in the order they first appear."""
    names = dict.fromkeys(name for row in rows for name in row)
    names.pop("_tag", None)
    key = [name for name in family.key if name in names or (name == "gfx" and rules.key_gfx)]
    return (*key, *(name for name in names if name not in key))


def _key(row: _Row, family: Family, rules: Generation) -> tuple[str, ...]:
    cells = _completed(row, family.key)
    return tuple(cells[name] for name in family.key if name != "gfx" or rules.key_gfx)


def _completed(row: _Row, columns: Sequence[str]) -> dict[str, str]:
    cells = {name: row.cells.get(name) or DEFAULTS.get(name, "") for name in columns}
    if "gfx" in columns and cells["gfx"] in {"", "0"}:
        cells["gfx"] = _gfx(row)
    return cells


def _gfx(row: _Row) -> str:
    cu_num = row.cells.get("cu_num", "")
    gfx = CU_GFX.get(int(cu_num)) if cu_num.isdecimal() else None
    if gfx is None:
        raise TableError(
            f"{row.at.file}:{row.at.line}: no gfx, and {cu_num or 'no'} compute units do not tell which",
            hint="AITER would take the chip it runs on; write the gfx column",
        )
    return gfx


def _unshadowed(
    rows: Sequence[_Row], family: Family, rules: Generation
) -> tuple[list[_Row], tuple[tuple[Origin, Origin], ...]]:
    """Without the rows that would answer in a preferred row's stead: where act_type is ignored, the first counts."""
    if rules.act is not Act.ANY or "act_type" not in family.key:
        return list(rows), ()
    act = [name for name in family.key if name != "gfx" or rules.key_gfx].index("act_type")
    keys = [_key(row, family, rules) for row in rows]
    blind = [(*key[:act], *key[act + 1 :]) for key in keys]
    preferred = {short: (row, key) for row, key, short in zip(rows, keys, blind, strict=True) if row.rank}
    kept: list[_Row] = []
    gone: list[tuple[Origin, Origin]] = []
    for row, key, short in zip(rows, keys, blind, strict=True):
        winner = None if row.rank else preferred.get(short)
        if winner and winner[1] != key:
            gone.append((row.at, winner[0].at))
        else:
            kept.append(row)
    return kept, tuple(gone)


def _decided(
    rows: Sequence[_Row], family: Family, rules: Generation
) -> tuple[list[_Row], tuple[tuple[Origin, Origin], ...]]:
    """The row of each key, in the order keys first appear."""
    winners: dict[tuple[str, ...], _Row] = {}
    beaten: list[tuple[Origin, tuple[str, ...]]] = []
    for row in rows:
        key = _key(row, family, rules)
        present = winners.get(key)
        if present is None:
            winners[key] = row
        else:
            winners[key] = _better(present, row)
            beaten.append(((row if winners[key] is present else present).at, key))
    return list(winners.values()), tuple((origin, winners[key].at) for origin, key in beaten)


def _better(left: _Row, right: _Row) -> _Row:
    if left.rank != right.rank:
        return max(left, right, key=lambda row: row.rank)
    names = {*left.cells, *right.cells} - {"_tag"}
    if _completed(left, tuple(names)) == _completed(right, tuple(names)):
        return left
    first, second = _us(left), _us(right)
    problem = (
        "one of them was never timed" if not (first and second)
        else "their us are equal" if first == second
        else "an mxmoe row's us is the whole pipeline and does not compare" if _pipeline(left) != _pipeline(right)
        else None
    )  # fmt: skip
    if problem:
        raise TableError(
            f"{left.at.file}:{left.at.line} and {right.at.file}:{right.at.line} have one key, and {problem}",
            details=(_described(left), _described(right)),
            hint="--prefer the file whose row you want, or take one of the two out",
        )
    return left if (first or 0) < (second or 0) else right


def _us(row: _Row) -> float | None:
    try:
        value = float(row.cells.get("us", ""))
    except ValueError:
        return None
    return value if value > 0 else None


def _pipeline(row: _Row) -> bool:
    return "flydsl_mxmoe_" in row.cells.get("kernelName1", "")


def _described(row: _Row) -> str:
    names = (row.cells.get(name, "") for name in ("kernelName", "kernelName1", "kernelName2"))
    return f"{row.at.file}:{row.at.line}: us {row.cells.get('us', 'missing')}, {' + '.join(filter(None, names))}"


def _written(columns: Sequence[str], rows: Iterable[Mapping[str, str]]) -> bytes:
    out = io.StringIO()
    writer = text_csv.writer(out, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows([row[name] for name in columns] for row in rows)
    return out.getvalue().encode()


def _proved(merged: MergedTable, family: Family, rules: Generation, gfx: str) -> None:
    """The result must be one this reader takes as it is: no row lost, no column turned to text."""
    file = TableFile("merged.csv", merged.data)
    if family is not FMOE:
        csv.read(file.data, file.path)
        return
    table = load([file], None, rules, gfx)
    if isinstance(table, Refusal) or table.losses:
        reason = f"{table.error}: {table.message}" if isinstance(table, Refusal) else "a row would be lost"
        raise TableError(f"the merged table is not one this AITER reads: {reason}")
    for name in ("cu_num", "token", "model_dim", "inter_dim", "expert", "topk", "use_g1u1", "doweight_stage1"):
        for row, cell in enumerate(table.frame.column(name).cells):
            if isinstance(cell, str) and not cell.isdecimal():
                at = merged.origins[row]
                raise TableError(
                    f"{at.file}:{at.line}: {name} is {cell!r}", hint="mend the cell: it turns the table off"
                )
