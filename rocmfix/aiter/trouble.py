"""Turns what the reader model says into findings: refusals, losing rows, rows nothing asks for, holes."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence

from rocmfix.aiter import frame as csv
from rocmfix.aiter.findings import SEVERITY, Finding, Kind
from rocmfix.aiter.frame import Cell, Column, Frame, Kind as CellKind, Origin
from rocmfix.aiter.generation import Act, Duplicates, Generation, Tags
from rocmfix.aiter.layout import AiterTree
from rocmfix.aiter.reader import NOTHING, NUMERIC_GFX, Loss, Refusal, Table, key_columns, load, merge
from rocmfix.aiter.schema import FMOE
from rocmfix.aiter.selection import Selection, shipped

NUMBERS = ("cu_num", "token", "model_dim", "inter_dim", "expert", "topk", "use_g1u1", "doweight_stage1")
TEXTS: Mapping[str, re.Pattern[str]] = {
    "gfx": re.compile(r"gfx\d+[a-z]?"),
    "dtype": re.compile(r"torch\.\w+"),
    "q_dtype_a": re.compile(r"torch\.\w+"),
    "q_dtype_w": re.compile(r"torch\.\w+"),
    "q_type": re.compile(r"QuantType\.\w+"),
    "act_type": re.compile(r"ActivationType\.\w+"),
}
TAKEN = ("block_m", "ksplit", "kernelName1", "kernelName2")
"""What `get_2stage_cfgs` takes of a row without asking whether it is there."""
REFUSALS: Mapping[str, Kind] = {
    "KeyError": Kind.MISSING_COLUMN,
    "AssertionError": Kind.COLUMN_MISMATCH,
    "RuntimeError": Kind.DUPLICATE_RAISES,
    "TypeError": Kind.UNSORTABLE,
}


def finding(kind: Kind, at: Origin | None, key: str, effect: str, hint: str) -> Finding:
    """A finding at a place, or about no line in particular."""
    return Finding(
        kind=kind,
        severity=SEVERITY[kind],
        file=at.file if at else "",
        line=at.line if at and at.line else None,
        key=key,
        effect=effect,
        hint=hint,
    )


SAID: Mapping[str, Kind] = {NOTHING: Kind.UNREADABLE, NUMERIC_GFX: Kind.NUMERIC_GFX}
HINTS = {
    Kind.DUPLICATE_RAISES: "name each key once",
    Kind.UNREADABLE: "give one of the files a row",
    Kind.NUMERIC_GFX: "write the chip into the column",
    Kind.UNSORTABLE: "mend the cell",
    Kind.MISSING_COLUMN: "add the column; between cells is a comma",
}


def refused(refusal: Refusal, selection: Selection, rules: Generation) -> Iterator[Finding]:
    """Why the reader raises; one finding a row that a merge would delete from the files."""
    if refusal.error in {"ParserError", "UnicodeDecodeError", "EmptyDataError"}:
        return  # said of the file itself
    kind = _kind_of(refusal)
    if refusal.losses:
        for loss in refusal.losses:
            yield _duplicate(loss)
        return
    place = refusal.at or Origin(selection.files[0].path, 1)
    when = "at import" if rules.at_import else "at the first request"
    hint = HINTS.get(kind, "give every file the same columns")
    yield finding(kind, place, "", f"{refusal.error} {when}: {refusal.message}", hint)


def _kind_of(refusal: Refusal) -> Kind:
    if "Column mismatch" in refusal.message:
        return Kind.COLUMN_MISMATCH
    if refusal.message in SAID:
        return SAID[refusal.message]
    return REFUSALS.get(refusal.error, Kind.DUPLICATE_RAISES)


def _duplicate(loss: Loss) -> Finding:
    effect = (
        f"the first request raises, after deleting this row from the file for {loss.winner.file}:{loss.winner.line} "
        "(lower us); in a container that is every start"
    )
    return finding(Kind.DUPLICATE_RAISES, loss.row, "", effect, "keep one of the two rows: rocmfix aiter merge")


def table_trouble(table: Table, selection: Selection) -> Iterator[Finding]:
    """Everything about rows that will not answer, and shapes that are not answered."""
    off = _text_columns(table)
    yield from _unsaid(table, selection)
    if not len(table.frame):
        place, effect = Origin(selection.files[0].path, 0), "the table has no row: every lookup runs the heuristic"
        yield finding(Kind.NO_ROWS, place, "", effect, "name a table with rows")
    yield from _table_off(table, selection, off)
    yield from _losers(table)
    yield from _dropped(table)
    yield from _act_shadows(table)
    yield from _unreachable(table, off)
    if not off:
        yield from _holes(table)


def _unsaid(table: Table, selection: Selection) -> Iterator[Finding]:
    missing = [name for name in TAKEN if name not in table.frame.columns]
    if missing and len(table.frame):
        effect = f"no column {', '.join(missing)}: KeyError at the first request that a row answers"
        yield finding(Kind.MISSING_COLUMN, Origin(selection.files[0].path, 1), "", effect, "add the column")


def key_text(names: Sequence[str], cells: Sequence[Cell]) -> str:
    """A key to read."""
    return " ".join(f"{name}={cell}" for name, cell in zip(names, cells, strict=True))


def _key(table: Table, row: int) -> str:
    names = key_columns(table.rules)
    return key_text(names, [table.frame.column(name).cells[row] for name in names])


def _text_columns(table: Table) -> tuple[str, ...]:
    return tuple(name for name in NUMBERS if any(isinstance(cell, str) for cell in table.frame.column(name).cells))


def _table_off(table: Table, selection: Selection, off: Sequence[str]) -> Iterator[Finding]:
    for name in off:
        for file in selection.files:
            frame = csv.read(file.data, file.path)
            column = frame.column(name) if name in frame.columns else None
            if column is None or column.kind is not CellKind.TEXT:
                continue
            for at, cell in _odd_cells(frame, column):
                effect = f"{name} is {cell!r}: the column becomes text and all {len(table.frame)} rows miss, silently"
                hint = "the first row is longer than the header" if frame.shifted else "mend the cell"
                yield finding(Kind.TABLE_OFF, at, "", effect, hint)


def _odd_cells(frame: Frame, column: Column) -> Iterator[tuple[Origin, Cell]]:
    """The cells that are no numbers; of a shifted file the first, since all are."""
    odd = [
        (at, cell)
        for at, cell in zip(frame.origins, column.cells, strict=True)
        if isinstance(cell, str) and csv.infer([cell]).kind not in {CellKind.INT, CellKind.FLOAT}
    ]
    return iter(odd[:1] if frame.shifted else odd)


def _losers(table: Table) -> Iterator[Finding]:
    merging = table.rules.duplicates is Duplicates.FASTEST
    for loss in table.losses:
        place = f"{loss.winner.file}:{loss.winner.line}"
        if loss.tied and merging:
            effect = f"same key and us as {place}: either may be kept, the sort is not stable"
            yield finding(Kind.ORDER_DEPENDENT, loss.row, "", effect, "keep one of the two rows")
        elif merging:
            effect = f"the merge keeps {place}, whose us is lower"
            yield finding(Kind.DELETED_BY_MERGE, loss.row, "", effect, "times of different kernels do not compare")
        elif loss.row.file != loss.winner.file:
            effect = f"{place} has the same key; the first file in directory order counts"
            yield finding(Kind.ORDER_DEPENDENT, loss.row, "", effect, "keep one of the two rows")
        else:
            yield finding(
                Kind.SHADOWED, loss.row, "", f"{place} has the same key and comes first", "keep one of the two"
            )


def _dropped(table: Table) -> Iterator[Finding]:
    filled = table.rules.tags is Tags.ANY_DROPPED
    for at in table.untagged:
        effect = "this AITER drops every row with a _tag" + (", and a missing _tag is merged as 0" if filled else "")
        if not filled:
            effect = "the row is a leftover of the FlyDSL fallback, which is gone (ROCm/aiter#4025)"
        yield finding(Kind.DROPPED_TAG, at, "", effect, "empty the cell, or take the row out")


def _act_shadows(table: Table) -> Iterator[Finding]:
    if table.rules.act is not Act.ANY:
        return
    names = key_columns(table.rules)
    act = names.index("act_type")
    for key, row in table.exact.items():
        winner = table.any_act[(*key[:act], *key[act + 1 :])]
        if winner != row:
            first = table.frame.origins[winner]
            effect = (
                f"{first.file}:{first.line} is for {table.frame.column('act_type').cells[winner]} and answers instead"
            )
            yield finding(Kind.ACT_SHADOWED, table.frame.origins[row], _key(table, row), effect, "put this row first")


def _unreachable(table: Table, off: Sequence[str]) -> Iterator[Finding]:
    names = key_columns(table.rules)
    tests: list[tuple[str, Callable[[Cell], bool]]] = [
        (name, _number_asked(name, table.rules)) for name in NUMBERS if name not in off
    ]
    exact = table.rules.act is Act.EXACT
    tests += [(name, _text_asked(TEXTS[name])) for name in TEXTS if name in names and (exact or name != "act_type")]
    for name, is_asked in tests:
        kind = Kind.UNREACHABLE_TOKEN if name == "token" else Kind.UNREACHABLE_KEY
        for row, cell in enumerate(table.frame.column(name).cells):
            if not is_asked(cell):
                effect = f"no request asks for {name}={'nothing' if cell is None else repr(cell)}"
                yield finding(
                    kind, table.frame.origins[row], _key(table, row), effect, "correct the cell or drop the row"
                )


def _number_asked(name: str, rules: Generation) -> Callable[[Cell], bool]:
    if name == "token":
        buckets = {*rules.ladder, rules.bucket(1 << 20)}
        return lambda cell: cell in buckets
    if name in {"use_g1u1", "doweight_stage1"}:
        return lambda cell: cell in {0, 1}
    return lambda cell: isinstance(cell, int | float) and cell > 0 and float(cell).is_integer()


def _text_asked(pattern: re.Pattern[str]) -> Callable[[Cell], bool]:
    return lambda cell: isinstance(cell, str) and pattern.fullmatch(cell) is not None


def _holes(table: Table) -> Iterator[Finding]:
    """Shapes with some buckets and not others; rows for other activation types of one shape complete each other."""
    names = [name for name in key_columns(table.rules) if name not in {"token", "act_type", "q_dtype_a"}]
    shapes: dict[tuple[Cell, ...], set[Cell]] = {}
    places: dict[tuple[Cell, ...], Origin] = {}
    tokens = table.frame.column("token").cells
    for row, shape in enumerate(table.frame.keys(names)):
        shapes.setdefault(shape, set()).add(tokens[row])
        places.setdefault(shape, table.frame.origins[row])
    for shape, have in shapes.items():
        missing = [bucket for bucket in table.rules.ladder if bucket not in have]
        if missing and len(missing) < len(table.rules.ladder):
            place = Origin(places[shape].file, 0)
            effect = f"no row for token {', '.join(map(str, missing))}: those counts run the heuristic"
            yield finding(Kind.HOLE, place, key_text(names, shape), effect, "tune them: rocmfix aiter tune")


def replaced(tree: AiterTree, selection: Selection, rules: Generation, gfx: str) -> Iterator[Finding]:
    """A variable replaces every shipped table (aiter#1327): what those answer and the named ones do not."""
    if selection.family is not FMOE or not tree.env.get(FMOE.variable):
        return
    instead = load(selection.files, selection.untuned, rules, gfx)
    before = load(shipped(tree, FMOE, rules), selection.untuned, rules, gfx)
    if isinstance(instead, Refusal) or isinstance(before, Refusal):
        return
    lost = sum(instead.find(key) is None for key in before.exact)
    if lost:
        effect = f"{FMOE.variable} replaces the shipped tables: {lost} of {len(before.exact)} lookups miss now"
        hint = "rocmfix aiter merge, or rocmfix build --table: both keep the shipped rows"
        yield finding(Kind.REPLACED_TABLE, Origin(selection.files[0].path, 0), "", effect, hint)


def gemm_trouble(selection: Selection, rules: Generation, gfx: str) -> Iterator[Finding]:
    """A GEMM table: `read_csv().drop_duplicates()`, then `set_index().to_dict("index")`, which refuses repeats."""
    merged = merge(selection.files, selection.untuned, rules, gfx)
    if isinstance(merged, Refusal):
        yield from refused(merged, selection, rules)
        return
    asked = {"cu_num", *_untuned_columns(selection)} | ({"gfx"} if rules.key_gfx else set())
    key = [name for name in selection.family.key if name in asked]
    missing = [name for name in key if name not in merged.frame.columns and name != "gfx"]
    if missing:
        place = Origin(selection.files[0].path, 1)
        yield finding(Kind.MISSING_COLUMN, place, "", f"no column {missing}", "add the column")
        return
    names = [name for name in key if name in merged.frame.columns]
    seen: dict[tuple[Cell, ...], int] = {}
    whole = merged.frame.keys(merged.frame.columns)
    for row, cells in enumerate(merged.frame.keys(names)):
        first = seen.setdefault(cells, row)
        if first != row and whole[first] != whole[row]:
            other = merged.frame.origins[first]
            effect = f"{other.file}:{other.line} has the same key: ValueError at the first GEMM of this family"
            yield finding(
                Kind.DUPLICATE_RAISES,
                merged.frame.origins[row],
                key_text(names, cells),
                effect,
                "keep one of the two rows",
            )


def _untuned_columns(selection: Selection) -> tuple[str, ...]:
    """The shape columns this AITER knows; before ROCm/aiter keyed on q_dtype_w its file had none."""
    file = selection.untuned
    return selection.family.key if file is None else csv.read(file.data, file.path).columns
