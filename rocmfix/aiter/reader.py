"""What the reader of one AITER makes of a list of table files: the rows it ends with, or how it fails.

Follows `update_config_files` of `aiter/jit/core.py` and `get_cfg_2stages` of `aiter/fused_moe.py`, by the rules
of the generation at hand. The code it models is never run; the tests run it and compare.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from rocmfix.aiter import frame as csv
from rocmfix.aiter.frame import Cell, Column, Frame, Kind, Origin, UnreadableError
from rocmfix.aiter.generation import Act, Columns, Duplicates, Generation, Tags
from rocmfix.aiter.schema import CU_GFX, FMOE_KEY

Key = tuple[Cell, ...]
"""The values of a lookup, in the order of the reader's key columns."""


NOTHING = "No objects to concatenate"
"""What v0.1.11 raises where no file has a row."""
NUMERIC_GFX = "gfx holds no text, and pandas 3 puts none into a column of numbers"
"""Since v0.1.16 AITER guesses a gfx that is 0 or missing; pandas 2 only warns."""


@dataclass(frozen=True)
class TableFile:
    """A table file: where it is, as shown, and what is in it."""

    path: str
    data: bytes


@dataclass(frozen=True)
class Loss:
    """A row that takes no part, because another has its key."""

    row: Origin
    winner: Origin
    tied: bool = False
    """Both have the same `us`, and the sort AITER uses is not stable: either may win."""


@dataclass(frozen=True)
class Refusal:
    """The reader raises instead of giving a table."""

    error: str
    message: str
    at: Origin | None = None
    losses: tuple[Loss, ...] = ()
    """Rows that a merge deletes from the files on disk before it raises."""


@dataclass(frozen=True)
class Merged:
    """The one file that is read in the end, and what was lost on the way."""

    frame: Frame
    losses: tuple[Loss, ...] = ()


@dataclass(frozen=True)
class Table:
    """The rows that can be looked up."""

    frame: Frame
    rules: Generation
    exact: Mapping[Key, int]
    """Row by key, act_type included."""
    any_act: Mapping[Key, int]
    """Row by key without act_type."""
    untagged: tuple[Origin, ...] = ()
    """Rows dropped for their `_tag`."""
    losses: tuple[Loss, ...] = field(default=())

    def find(self, key: Key) -> int | None:
        """The row that answers `key` (columns of `key_columns`), or None: the heuristic."""
        if self.rules.bypass and _bypassed(key):
            return None
        found = self._find(key)
        at = key_columns(self.rules).index("token")
        if found is None and key[at] == 131072:
            return self._find((*key[:at], 32768, *key[at + 1 :]))
        return found

    def _find(self, key: Key) -> int | None:
        act = key_columns(self.rules).index("act_type")
        exact = None if self.rules.act is Act.ANY else self.exact.get(key)
        if exact is not None or self.rules.act is Act.EXACT:
            return exact
        return self.any_act.get((*key[:act], *key[act + 1 :]))


def key_columns(rules: Generation) -> tuple[str, ...]:
    """The columns this reader looks rows up by."""
    return FMOE_KEY if rules.key_gfx else FMOE_KEY[1:]


def _bypassed(key: Key) -> bool:
    """`use_cfg` of v0.1.9 to v0.1.12: fp8 block-scale at up to 128 token-slots."""
    row = dict(zip(FMOE_KEY[1:], key, strict=True))
    problem = (row["act_type"], row["dtype"], row["q_type"])
    eights = all(str(row[name]).startswith("torch.float8") for name in ("q_dtype_a", "q_dtype_w"))
    small = int(str(row["token"])) * int(str(row["topk"])) <= 128
    return problem == ("ActivationType.Silu", "torch.bfloat16", "QuantType.per_1x128") and eights and small


def load(files: Sequence[TableFile], untuned: TableFile | None, rules: Generation, gfx: str) -> Table | Refusal:
    """What `files`, in this order, become on a chip `gfx`."""
    try:
        merged = merge(files, untuned, rules, gfx)
        return merged if isinstance(merged, Refusal) else index(merged, rules, gfx)
    except OverflowError as error:  # an infinite cu_num, which AITER does not catch either
        return Refusal("OverflowError", str(error))


def merge(files: Sequence[TableFile], untuned: TableFile | None, rules: Generation, gfx: str) -> Merged | Refusal:
    """The file that is read: the only one as it is, else all of them merged, written and read again."""
    try:
        frames = [csv.read(file.data, file.path) for file in files]
        if len(frames) == 1:
            return Merged(frames[0])
        keys = None if untuned is None else csv.read(untuned.data, untuned.path).columns
    except UnreadableError as error:
        return Refusal(error.error, str(error), error.at)
    joined = _joined(frames, [file.path for file in files], rules, gfx)
    if isinstance(joined, Refusal):
        return joined
    deduped = Merged(joined) if keys is None else _deduplicated(joined, _dedup_key(keys, joined, rules), rules)
    return deduped if isinstance(deduped, Refusal) else _reread(deduped)


def _joined(frames: Sequence[Frame], paths: Sequence[str], rules: Generation, gfx: str) -> Frame | Refusal:
    """The rows of all files, one below the other. A file without rows adds none, and its columns count all the same."""
    first = frames[0]
    strict = {Columns.SAME: (), Columns.SAME_BUT_TAG: ("_tag",)}.get(rules.columns)
    if strict is None:
        names = _union(frames)
        return _tagged(csv.concat(_with_rows([_filled(frame, names, rules, gfx) for frame in frames])))
    for frame, path in zip(frames[1:], paths[1:], strict=True):
        if _without(frame.columns, strict) != _without(first.columns, strict):
            error = "ValueError" if rules.duplicates is Duplicates.RAISE else "AssertionError"
            return Refusal(error, f"Column mismatch between {paths[0]} and this file", Origin(path, 1))
    if rules.columns is Columns.SAME_BUT_TAG and rules.duplicates is Duplicates.FASTEST:
        frames = [frame for frame in frames if len(frame)]  # v0.1.11 alone forgets the others, their _tag included
        if not frames:
            return Refusal("ValueError", NOTHING, Origin(paths[0], 1))
    names = _union(frames)
    joined = csv.concat(_with_rows([_with_gaps(frame, names) for frame in frames]))
    return joined if rules.columns is Columns.SAME else _tagged(joined)


def _with_rows(frames: Sequence[Frame]) -> Sequence[Frame]:
    """Those that have rows; pandas takes no type from the others."""
    return [frame for frame in frames if len(frame)] or frames[:1]


def _without(names: Sequence[str], dropped: Sequence[str]) -> list[str]:
    return [name for name in names if name not in dropped]


def _union(frames: Sequence[Frame]) -> tuple[str, ...]:
    """Every column; AITER puts a new one before `tflops`, and the order of columns decides nothing else."""
    return tuple(dict.fromkeys(name for frame in frames for name in frame.columns))


def _filled(frame: Frame, names: Sequence[str], rules: Generation, gfx: str) -> Frame:
    for name in names:
        if name not in frame.columns:
            if name == "gfx" and "cu_num" in frame.columns and rules.columns is Columns.UNION_GFX:
                frame = frame.with_column(name, _guessed(frame, gfx))
            else:
                frame = frame.with_column(name, Column(Kind.INT, (0,) * len(frame)))
    return frame.select(names)


def _with_gaps(frame: Frame, names: Sequence[str]) -> Frame:
    for name in names:
        if name not in frame.columns:
            frame = frame.with_column(name, Column(Kind.FLOAT, (None,) * len(frame)))
    return frame.select(names)


def _tagged(frame: Frame) -> Frame:
    if "_tag" not in frame.columns:
        return frame
    cells = tuple("" if cell is None else cell for cell in frame.column("_tag").cells)
    return frame.with_column("_tag", Column(Kind.MIXED, cells))


def guess_gfx(cu_num: Cell, gfx: str) -> str:
    """`gfx_from_cu_num` in `aiter/jit/utils/chip_info.py`: the chip at hand where cu_num says nothing."""
    try:
        return CU_GFX.get(int(cu_num), gfx)  # type: ignore[arg-type] # what int() refuses is answered below
    except (TypeError, ValueError):
        return gfx


def _guessed(frame: Frame, gfx: str) -> Column:
    return Column(Kind.TEXT, tuple(guess_gfx(cell, gfx) for cell in frame.column("cu_num").cells))


def _dedup_key(untuned: Sequence[str], frame: Frame, rules: Generation) -> tuple[str, ...]:
    names = list(untuned)
    if rules.dedup_cu and "cu_num" not in names:
        names.append("cu_num")
    if rules.dedup_gfx and "gfx" in frame.columns and "gfx" not in names:
        names.append("gfx")
    if "_tag" in frame.columns and rules.columns is not Columns.SAME:
        names.append("_tag")
    return tuple(name for name in names if name in frame.columns or not rules.dedup_present)


def _deduplicated(frame: Frame, names: Sequence[str], rules: Generation) -> Merged | Refusal:
    try:
        keys = frame.keys(names)
    except KeyError as error:
        return Refusal("KeyError", f"no column {error}")
    raises = rules.duplicates is Duplicates.RAISE
    if raises and len(set(keys)) == len(keys):
        return Merged(frame)
    order = _by_us(frame)
    if order is None:
        text = "No 'us' column to determine best performing entry"
        return Refusal("RuntimeError", text) if raises and "us" not in frame.columns else _us_refusal(frame)
    winners: dict[Key, int] = {}
    for row in order:
        winners.setdefault(keys[row], row)
    losses = _losses(frame, keys, winners)
    if raises:
        message = f"Found {_repeated(keys)} duplicate shape entries"
        return Refusal("RuntimeError", message, losses[0].row if losses else None, losses)
    kept = [row for row in order if winners[keys[row]] == row]
    return Merged(frame.take(kept), losses)


def _repeated(keys: Sequence[Key]) -> int:
    counts: dict[Key, int] = {}
    for key in keys:
        counts[key] = counts.get(key, 0) + 1
    return sum(count for count in counts.values() if count > 1)


def _us_refusal(frame: Frame) -> Refusal:
    if "us" not in frame.columns:
        return Refusal("KeyError", "no column 'us'")
    odd = next(i for i, cell in enumerate(frame.column("us").cells) if isinstance(cell, str))
    return Refusal("TypeError", "'us' holds text among numbers and cannot be sorted", frame.origins[odd])


def _by_us(frame: Frame) -> list[int] | None:
    """Row numbers by ascending `us`, NaN last; None where pandas cannot sort."""
    if "us" not in frame.columns:
        return None
    cells = frame.column("us").cells
    if len({isinstance(cell, str) for cell in cells if cell is not None}) > 1:
        return None
    present = [i for i, cell in enumerate(cells) if cell is not None]
    present.sort(key=lambda i: cells[i])  # type: ignore[arg-type,return-value] # one type, checked above
    return present + [i for i, cell in enumerate(cells) if cell is None]


def _losses(frame: Frame, keys: Sequence[Key], winners: Mapping[Key, int]) -> tuple[Loss, ...]:
    us = frame.column("us").cells if "us" in frame.columns else (None,) * len(frame)
    return tuple(
        Loss(frame.origins[row], frame.origins[winner], tied=us[row] == us[winner])
        for row, key in enumerate(keys)
        if (winner := winners[key]) != row
    )


def _reread(merged: Merged) -> Merged:
    frame = merged.frame
    data = tuple(csv.reread(column) for column in frame.data)
    return Merged(Frame(frame.columns, data, frame.origins), merged.losses)


def index(merged: Merged, rules: Generation, gfx: str) -> Table | Refusal:
    """The rows by key, as `get_cfg_2stages` builds its dictionaries."""
    frame = merged.frame
    if rules.key_gfx:
        if "gfx" not in frame.columns and "cu_num" not in frame.columns:
            return Refusal("KeyError", "no column 'cu_num'")
        filled = _with_gfx(frame, gfx)
        if (at := _unfillable(frame)) is not None:
            return Refusal("TypeError", NUMERIC_GFX, at)
        frame = filled
    frame, dropped = _untagged(frame, rules)
    names = key_columns(rules)
    missing = [name for name in names if name not in frame.columns]
    if missing:
        return Refusal("KeyError", f"no column {missing}", Origin(frame.origins[0].file, 1) if len(frame) else None)
    keys = frame.keys(names)
    exact: dict[Key, int] = {}
    any_act: dict[Key, int] = {}
    losses = []
    act = names.index("act_type")
    for row, key in enumerate(keys):
        first = exact.setdefault(key, row)
        if first != row:
            losses.append(Loss(frame.origins[row], frame.origins[first]))
        any_act.setdefault((*key[:act], *key[act + 1 :]), row)
    if losses and not rules.first_match:
        message = "DataFrame index must be unique for orient='index'."
        return Refusal("ValueError", message, losses[0].row)
    return Table(frame, rules, exact, any_act, dropped, (*merged.losses, *losses))


def _unfillable(frame: Frame) -> Origin | None:
    """The first row whose gfx would be guessed, in a column that cannot hold the guess."""
    column = frame.column("gfx") if {"gfx", "cu_num"} <= set(frame.columns) else None
    if column is None or column.kind not in {Kind.INT, Kind.FLOAT}:
        return None
    return next((at for at, cell in zip(frame.origins, column.cells, strict=True) if _says_nothing(cell)), None)


def _says_nothing(cell: Cell) -> bool:
    return cell is None or str(cell) in {"0", "", "nan", "None"}


def _with_gfx(frame: Frame, gfx: str) -> Frame:
    """`_ensure_gfx_column`: the column, guessed where it is missing or says nothing."""
    if "gfx" not in frame.columns:
        return frame.with_column("gfx", _guessed(frame, gfx))
    cells = frame.column("gfx").cells
    units = frame.column("cu_num").cells if "cu_num" in frame.columns else None
    filled = tuple(
        guess_gfx(units[row], gfx) if units and _says_nothing(cell) else cell for row, cell in enumerate(cells)
    )
    return frame.with_column("gfx", Column(Kind.MIXED, filled))


def _untagged(frame: Frame, rules: Generation) -> tuple[Frame, tuple[Origin, ...]]:
    if rules.tags is Tags.KEPT or "_tag" not in frame.columns:
        return frame, ()
    tags = ["" if cell is None else cell for cell in frame.column("_tag").cells]
    drop = [tag != "" if rules.tags is Tags.ANY_DROPPED else tag == "flydsl_fallback" for tag in tags]
    kept = frame.take([row for row, gone in enumerate(drop) if not gone])
    return kept, tuple(frame.origins[row] for row, gone in enumerate(drop) if gone)
