"""One lookup of the fused-MoE table: its key as typed, logged or derived, and the row that answers it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Annotated

from pydantic import Field, StringConstraints, ValidationError

from rocmfix.aiter.findings import Shown
from rocmfix.aiter.frame import Cell
from rocmfix.aiter.generation import Generation
from rocmfix.aiter.reader import Table, key_columns
from rocmfix.aiter.schema import FMOE_KEY
from rocmfix.errors import TableError
from rocmfix.model import Record

LOGGED = re.compile(
    r"\[fused_moe\] (?:using [^(]*(?:default|\(kernelName1=.*?\)) for|(?:no tuned FlyDSL|tuned) config (?:found )?for) "
    r"\((?P<key>[^()]*)\)"
)
"""The lines of `get_2stage_cfgs` that print the key; both with AITER's own prefix and with sglang's."""
WEIGHT = {"gfx": 9, "cu_num": 9, "model_dim": 5, "inter_dim": 3}
"""How far apart two keys are that differ in a column: another model is farther than another expert count."""
ENUM = re.compile(r"<(?P<name>\w+\.\w+): -?\d+>")


Word = Annotated[str, StringConstraints(max_length=100)]


class MoeKey(Record):
    """The fourteen values a fused-MoE lookup is made with; `token` is a bucket once rounded."""

    gfx: Word
    cu_num: int
    token: Annotated[int, Field(gt=0)]
    model_dim: int
    inter_dim: int
    expert: int
    topk: int
    act_type: Word
    dtype: Word
    q_dtype_a: Word
    q_dtype_w: Word
    q_type: Word
    use_g1u1: int
    doweight_stage1: int

    def cells(self, rules: Generation) -> tuple[Cell, ...]:
        """The values in the order this reader uses."""
        return tuple(getattr(self, name) for name in key_columns(rules))

    def rounded(self, rules: Generation) -> MoeKey:
        """The same lookup with the token count rounded to its bucket."""
        return self.model_copy(update={"token": rules.bucket(self.token)})


class Answer(MoeKey):
    """A lookup and what answers it."""

    hit: bool
    file: Shown | None = None
    line: int | None = None
    kernels: tuple[Shown, ...] = ()
    neighbours: tuple[int, ...] = ()
    """Of a miss: the nearest buckets below and above that rows of the same shape have."""
    why: Shown = ""


def answer(table: Table, key: MoeKey) -> Answer:
    """The row that answers `key`, or why none does."""
    wanted = key.rounded(table.rules)
    row = table.find(wanted.cells(table.rules))
    if row is None:
        near = _neighbours(table, wanted)
        why = f"no row: {heuristic(wanted)}; {_rows_at(near, wanted) if near else _nearest(table, wanted)}"
        return Answer(**wanted.model_dump(), hit=False, neighbours=near, why=why)
    cells = table.frame.row(row)
    origin = table.frame.origins[row]
    kernels = tuple(str(cells[name]) for name in ("kernelName1", "kernelName2") if cells.get(name) is not None)
    why = _why_hit(key, wanted, cells)
    return Answer(**wanted.model_dump(), hit=True, file=origin.file, line=origin.line, kernels=kernels, why=why)


def _why_hit(asked: MoeKey, wanted: MoeKey, cells: dict[str, Cell]) -> str:
    notes = []
    if asked.token != wanted.token:
        notes.append(f"{asked.token} tokens are rounded to bucket {wanted.token}")
    if cells.get("token") != wanted.token:
        notes.append(f"bucket {wanted.token} has no row, {cells.get('token')} stands in")
    if cells.get("act_type") != wanted.act_type:
        notes.append(f"the row is for {cells.get('act_type')}: this AITER ignores act_type")
    return "; ".join(notes) or "every key column matches"


def _neighbours(table: Table, wanted: MoeKey) -> tuple[int, ...]:
    """The nearest buckets below and above at which a row of the same shape would answer."""
    cells = {bucket: wanted.model_copy(update={"token": bucket}).cells(table.rules) for bucket in table.rules.ladder}
    have = [bucket for bucket in cells if table.find(cells[bucket]) is not None]
    return (*[each for each in have if each < wanted.token][-1:], *[each for each in have if each > wanted.token][:1])


def _rows_at(buckets: Sequence[int], wanted: MoeKey) -> str:
    return f"this shape has rows at {' and '.join(map(str, buckets))}, none at {wanted.token}"


def _nearest(table: Table, wanted: MoeKey) -> str:
    """The nearest row differs in the fewest columns, and in these."""
    names = key_columns(table.rules)
    cells = wanted.cells(table.rules)
    best: tuple[int, tuple[str, ...]] | None = None
    for key in table.exact:
        pairs = [(name, have) for name, have, want in zip(names, key, cells, strict=True) if have != want]
        distance = sum(WEIGHT.get(name, 1) for name, _ in pairs)
        if best is None or distance < best[0]:
            best = (distance, tuple(f"{name}={have}" for name, have in pairs))
    return f"the nearest row has {', '.join(best[1])}" if best else "the table has no row"


def heuristic(key: MoeKey) -> str:
    """What runs when no row answers (`get_2stage_cfgs`); the cost is from ROCm/aiter#3911."""
    if key.q_type != "QuantType.per_1x32" or "float4" not in key.q_dtype_w:
        return "AITER's default heuristic runs"
    tile = 32 if key.token < 2048 else 64 if key.token < 4096 else 128 if key.token < 16384 else 64
    cost = "43.2 us against 29.6 us tuned at one token, about 8 % end to end at low concurrency (ROCm/aiter#3911)"
    return f"the FlyDSL heuristic runs (tile {tile}x128x256), {cost}"


COPY = "copy the tuple from a [fused_moe] log line, or the first fourteen cells of a row"


def parse(text: str) -> MoeKey:
    """A key typed by hand, copied from a log or begun by a row: values with commas between, with or without gfx."""
    inner = text.strip()
    if match := LOGGED.search(inner):
        inner = match["key"]
    parts = [_bare(part) for part in inner.strip("()").split(",")]
    typed = len(parts)
    if not parts[0].startswith("gfx"):
        parts.insert(0, {"256": "gfx950"}.get(parts[0], "gfx942"))
    if len(parts) < len(FMOE_KEY):
        raise TableError(
            f"not a fused-MoE key: {typed} values where {len(FMOE_KEY)} are needed",
            details=(", ".join(FMOE_KEY),),
            hint=COPY,
        )
    try:
        return MoeKey.model_validate(dict(zip(FMOE_KEY, parts, strict=False)))
    except ValidationError as error:
        wrong = ", ".join(f"{each['loc'][0]} is {each['input']}" for each in error.errors())
        raise TableError(f"not a fused-MoE key: {wrong}", hint=COPY) from None


def _bare(part: str) -> str:
    """A value as a table has it: no quotes, an enum by its name, truth as 0 or 1."""
    text = part.strip().strip("'\"")
    if match := ENUM.fullmatch(text):
        text = match["name"]
    return {"True": "1", "False": "0"}.get(text, text)


def keys_in(log: str) -> tuple[MoeKey, ...]:
    """Every distinct key a server log names, in order; each is printed once a rank, and often twice."""
    found = dict.fromkeys(match[0] for match in LOGGED.finditer(log))
    return tuple(dict.fromkeys(parse(line) for line in found))


def rows_by_key(table: Table, keys: Sequence[MoeKey]) -> Iterator[Answer]:
    """The answer to each key."""
    return (answer(table, key) for key in keys)
