"""One row of a table with what its checks ask of it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from rocmfix.aiter import frame as csv
from rocmfix.aiter.findings import SEVERITY, Finding, Kind, Severity
from rocmfix.aiter.frame import Cell, Frame, Origin
from rocmfix.aiter.kernels import Answer, Kernels
from rocmfix.aiter.reader import guess_gfx
from rocmfix.aiter.schema import BF16, Family


@dataclass(frozen=True)
class Row:
    """One row with what its checks need."""

    cells: Mapping[str, Cell]
    at: Origin
    family: Family
    gfx: str
    short: bool
    kernels: Kernels

    def number(self, name: str) -> float | None:
        """The cell as a finite number, or None; a column that another line made text still holds its numbers."""
        return number(self.cells.get(name))

    def text(self, name: str) -> str:
        """The cell as text; NaN is empty."""
        cell = self.cells.get(name)
        return "" if cell is None else str(cell)

    @property
    def key(self) -> str:
        """The key to read; with the chip that the row is for, also where it has no such cell."""
        cells = {**self.cells, "gfx": self.gfx}
        return " ".join(f"{name}={cells[name]}" for name in self.family.key if name in cells)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The kernels the row names."""
        cells = (self.text(name) for name in ("kernelName1", "kernelName2", "kernelName"))
        return tuple(cell for cell in cells if cell not in {"", "Null"})

    @property
    def one_stage(self) -> bool:
        """Whether AITER runs it as one stage; what is missing or text is true in Python."""
        return "run_1stage" in self.cells and self.number("run_1stage") != 0

    def ask(self, name: str) -> Answer:
        """Whether this AITER has the kernel `name` for the row's chip."""
        return self.dispatched or self.kernels.ask(name, self.gfx, moe="kernelName1" in self.cells)

    @cached_property
    def dispatched(self) -> Answer | None:
        """What is known by the row's `libtype` alone, if that decides (`aiter/tuned_gemm.py`)."""
        return self.kernels.dispatch(self.text("libtype")) if self.family is BF16 else None

    @property
    def retune(self) -> str:
        """What to do about a time that is none: the command of the family's own tuner, where this AITER has one."""
        tuner = self.kernels.tuner(self.family)
        return f"time it on the chip with {tuner}" if tuner else "time it on the chip"

    def finding(self, kind: Kind, effect: str, hint: str, severity: Severity | None = None) -> Finding:
        """A finding at this row."""
        return Finding(
            kind=kind, severity=severity or SEVERITY[kind], file=self.at.file, line=self.at.line, key=self.key,
            effect=effect, hint=hint,
        )  # fmt: skip


def number(cell: Cell) -> float | None:
    """`cell` as a finite number, as pandas would read it by itself, or None."""
    if isinstance(cell, str):
        kind, (cell,) = csv.infer([cell])
        cell = cell if kind in {csv.Kind.INT, csv.Kind.FLOAT} else None
    return float(cell) if isinstance(cell, int | float) and math.isfinite(cell) else None


def rows_of(frame: Frame, family: Family, gfx: str, kernels: Kernels) -> Iterator[Row]:
    """The rows of a file, ready for the checks."""
    columns = [column.cells for column in frame.data]
    for index, origin in enumerate(frame.origins):
        cells = {name: cells[index] for name, cells in zip(frame.columns, columns, strict=True)}
        if family.key and all(cells.get(name) in {name, None} for name in family.key):
            continue  # a second header, or a line of nothing: no row, and what it does to the table is said elsewhere
        own = cells.get("gfx")
        cu_num = cells.get("cu_num")
        chip = own if isinstance(own, str) and own else guess_gfx(None if cu_num == math.inf else cu_num, gfx)
        yield Row(cells, origin, family, chip.strip(), origin in frame.short, kernels)
