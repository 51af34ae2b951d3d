"""Reads a CSV the way pandas' `read_csv` does, because that is how AITER reads its tables.

One bad cell changes the type of a whole column, and then no key of the table matches any more; so types are
inferred here by pandas' own rules (`pandas/_libs/parsers.pyx`, `src/parser/tokenizer.c`), without pandas.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from typing import NamedTuple

Cell = str | int | float | bool | None
"""A value as pandas would hold it; None is NaN."""

MISSING = frozenset(
    {"", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN"}
    | {"<NA>", "N/A", "NA", "NULL", "NaN", "None", "n/a", "nan", "null"}
)
"""The texts pandas reads as NaN. `Null`, which AITER's tables use, is not one of them."""

TRUE, FALSE = frozenset({"True", "TRUE", "true"}), frozenset({"False", "FALSE", "false"})
ENDS = re.compile(r"[,\n]|\Z")
INFINITY = re.compile(r"([+-]?)inf(?:inity)?", re.IGNORECASE)


class Kind(Enum):
    """The type of a column."""

    INT = "int"
    FLOAT = "float"
    BOOL = "bool"
    TEXT = "text"
    MIXED = "mixed"


class Origin(NamedTuple):
    """Where a row was written: the file and the 1-based line."""

    file: str
    line: int


class Column(NamedTuple):
    """One column: its type and its cells, in row order."""

    kind: Kind
    cells: tuple[Cell, ...]


class UnreadableError(Exception):
    """What pandas would raise on a file: `error` is the exception's name, `at` the place."""

    def __init__(self, error: str, message: str, at: Origin) -> None:
        super().__init__(message)
        self.error = error
        self.at = at


@dataclass(frozen=True)
class Frame:
    """A table as pandas holds it after `read_csv`, with the place every row came from."""

    columns: tuple[str, ...]
    data: tuple[Column, ...]
    origins: tuple[Origin, ...]
    shifted: bool = False
    """The first row is longer than the header: pandas makes an index of the first column, names move left."""
    short: frozenset[Origin] = frozenset()
    """Rows with fewer fields than the header; the rest is NaN."""

    def __len__(self) -> int:
        return len(self.origins)

    def column(self, name: str) -> Column:
        """The column called `name`; KeyError if there is none."""
        try:
            return self.data[self.columns.index(name)]
        except ValueError:
            raise KeyError(name) from None

    def keys(self, names: Sequence[str]) -> list[tuple[Cell, ...]]:
        """The cells of the columns `names`, one tuple a row; NaN is None, so that it equals itself."""
        return list(zip(*(self.column(name).cells for name in names), strict=True)) if names else []

    def row(self, index: int) -> dict[str, Cell]:
        """Row `index` by column name."""
        return {name: column.cells[index] for name, column in zip(self.columns, self.data, strict=True)}

    def take(self, indices: Sequence[int]) -> Frame:
        """The rows at `indices`, in that order."""
        data = tuple(Column(kind, tuple(cells[i] for i in indices)) for kind, cells in self.data)
        return Frame(self.columns, data, tuple(self.origins[i] for i in indices), self.shifted)

    def with_column(self, name: str, column: Column) -> Frame:
        """The same rows with column `name` set, at the end if it is new."""
        if name in self.columns:
            at = self.columns.index(name)
            return Frame(self.columns, (*self.data[:at], column, *self.data[at + 1 :]), self.origins, self.shifted)
        return Frame((*self.columns, name), (*self.data, column), self.origins, self.shifted)

    def select(self, names: Sequence[str]) -> Frame:
        """The same rows with exactly the columns `names`, in that order."""
        return Frame(tuple(names), tuple(self.column(name) for name in names), self.origins, self.shifted)


class Record(NamedTuple):
    """One line of a CSV, split."""

    line: int
    fields: list[str]


@lru_cache(maxsize=256)  # an examination asks a file for its rows, for its columns and for the merged table
def read(data: bytes, file: str) -> Frame:
    """Read `data` as pandas would; raises UnreadableError where pandas would raise."""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UnreadableError("UnicodeDecodeError", str(error), Origin(file, 1)) from None
    records = split(text, file)
    header = next(records, None)
    if header is None:
        raise UnreadableError("EmptyDataError", "No columns to parse from file", Origin(file, 1))
    names = _names(header.fields)
    width, rows, short = _even(records, len(names), file)
    body = list(zip(*(row.fields for row in rows), strict=True)) if rows else [()] * width
    leading = width - len(names)
    return Frame(
        tuple(names),
        tuple(infer(texts) for texts in body[leading:]),
        tuple(Origin(file, row.line) for row in rows),
        shifted=leading > 0,
        short=short,
    )


def split(text: str, file: str) -> Iterator[Record]:
    """The records of a CSV text; blank lines are skipped, as pandas does."""
    if '"' in text:
        yield from _split_quoted(text, file)
        return
    for number, line in enumerate(text.replace("\r\n", "\n").replace("\r", "\n").split("\n"), start=1):
        if line and (line[0] not in " \t" or line.strip(" \t")):
            yield Record(number, line.split(","))


def _split_quoted(text: str, file: str) -> Iterator[Record]:
    """As tokenizer.c goes: a quote opens only at the start of a field, and may hold commas and line ends."""
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    at, line = 0, 1
    while at < len(text):
        started, fields = line, []
        while True:
            field, at = _field(text, at, Origin(file, started))
            fields.append(field)
            line += field.count("\n")
            at += 1
            if at > len(text) or text[at - 1] == "\n":
                break
        line += 1
        if len(fields) > 1 or fields[0].strip(" \t"):
            yield Record(started, fields)


def _field(text: str, at: int, start: Origin) -> tuple[str, int]:
    """The field that begins at `at`, and where it ends."""
    parts: list[str] = []
    while text[at : at + 1] == '"' and (not parts or parts[-1] == '"'):
        closing = text.find('"', at + 1)
        if closing < 0:
            raise UnreadableError("ParserError", "EOF inside string", start)
        parts.append(text[at + 1 : closing])
        at = closing + 1
        if text[at : at + 1] != '"':
            break
        parts.append('"')  # a doubled quote stands for one
    end = ENDS.search(text, at).start()  # type: ignore[union-attr] # the pattern matches the end of the text too
    return "".join(parts) + text[at:end], end


def _names(fields: list[str]) -> list[str]:
    """Header names as pandas makes them: blanks are numbered, repeats get a suffix."""
    names: list[str] = []
    for index, field in enumerate(fields):
        name = field or f"Unnamed: {index}"
        unique, count = name, 0
        while unique in names:
            count += 1
            unique = f"{name}.{count}"
        names.append(unique)
    return names


def _even(records: Iterable[Record], header: int, file: str) -> tuple[int, list[Record], frozenset[Origin]]:
    """Rows of equal width: only the first may be wider than the header; short ones are filled."""
    width = header
    rows: list[Record] = []
    short = set[Origin]()
    for record in records:
        if not rows:
            width = max(header, len(record.fields))
        elif len(record.fields) > width:
            message = f"Expected {width} fields in line {record.line}, saw {len(record.fields)}"
            raise UnreadableError("ParserError", message, Origin(file, record.line))
        if len(record.fields) < header:
            short.add(Origin(file, record.line))
        record.fields.extend([""] * (width - len(record.fields)))
        rows.append(record)
    return width, rows, frozenset(short)


def infer(texts: Sequence[str]) -> Column:
    """The type pandas gives a column: integers, else numbers, else truth values, else text."""
    missing = [text in MISSING for text in texts]
    present = [text for text, gone in zip(texts, missing, strict=True) if not gone] if any(missing) else texts
    if not texts:
        return Column(Kind.MIXED, ())
    for kind, convert in ((Kind.INT, _ints), (Kind.FLOAT, _floats), (Kind.BOOL, _bools)):
        values = convert(present)
        if values is not None:
            return _with_gaps(kind, values, missing)
    return _with_gaps(Kind.TEXT, list(present), missing)


def _with_gaps(kind: Kind, values: Sequence[Cell], missing: list[bool]) -> Column:
    if len(values) == len(missing):
        return Column(kind, tuple(values))
    if kind is Kind.INT:  # NaN exists only among floats
        kind, values = Kind.FLOAT, [float(value) for value in values if value is not None]
    rest = iter(values)
    return Column(Kind.MIXED if kind is Kind.BOOL else kind, tuple(None if gone else next(rest) for gone in missing))


def _ints(texts: Sequence[str]) -> list[Cell] | None:
    return _converted(texts, int)


def _floats(texts: Sequence[str]) -> list[Cell] | None:
    return _converted(texts, float)


def _converted(texts: Sequence[str], convert: Callable[[str], Cell]) -> list[Cell] | None:
    try:
        values = [convert(text) for text in texts]
    except ValueError:
        return None
    # Python also reads 1_000, and nan in forms that pandas does not.
    letters = "".join(texts)
    if "_" in letters or (("n" in letters or "N" in letters) and not all(map(_is_number, texts))):
        return None
    return values


def _is_number(text: str) -> bool:
    return not ("n" in text or "N" in text) or INFINITY.fullmatch(text) is not None


def _bools(texts: Sequence[str]) -> list[Cell] | None:
    if all(text in TRUE or text in FALSE for text in texts):
        return [text in TRUE for text in texts]
    return None


def written(cell: Cell) -> str:
    """`cell` as `DataFrame.to_csv` writes it."""
    return "" if cell is None else str(cell)


def reread(column: Column) -> Column:
    """What a column becomes when it is written with `to_csv` and read again."""
    if column.kind in {Kind.INT, Kind.FLOAT, Kind.BOOL} and None not in column.cells:
        return column
    return infer([written(cell) for cell in column.cells])


def concat(frames: Sequence[Frame]) -> Frame:
    """Frames of the same columns, one below the other, typed as `pandas.concat` types them."""
    columns = frames[0].columns
    data = tuple(_stack([frame.data[i] for frame in frames]) for i in range(len(columns)))
    return Frame(columns, data, tuple(origin for frame in frames for origin in frame.origins))


def _stack(parts: Sequence[Column]) -> Column:
    cells = tuple(cell for part in parts for cell in part.cells)
    kinds = {part.kind for part in parts}
    if len(kinds) == 1:
        return Column(kinds.pop(), cells)
    mixes = kinds >= {Kind.BOOL, Kind.FLOAT} and parts[0].kind is not Kind.FLOAT  # as pandas 2 and 3 do
    if kinds <= {Kind.INT, Kind.FLOAT, Kind.BOOL} and not mixes:
        kind, make = (Kind.FLOAT, float) if Kind.FLOAT in kinds else (Kind.INT, int)
        return Column(kind, tuple(None if cell is None else make(cell) for cell in cells))
    return Column(Kind.MIXED, cells)
