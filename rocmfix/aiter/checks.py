"""What one row says about itself that cannot be so: each check is one decorated function."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from rocmfix.aiter.findings import SEVERITY, Finding, Kind, Severity
from rocmfix.aiter.frame import Cell, Frame, Origin
from rocmfix.aiter.kernels import Answer, Kernels, Knowledge
from rocmfix.aiter.known_bad import KNOWN_BAD
from rocmfix.aiter.reader import guess_gfx
from rocmfix.aiter.schema import BF16, CHIPS, CU_GFX, GEMMS, Family

PEAK: Mapping[str, Mapping[str, float]] = {
    "gfx950": {"float4": 10066, "float8": 5033, "int8": 5033, "bfloat16": 2517, "float16": 2517},
    "gfx942": {"float8": 2615, "int8": 2615, "bfloat16": 1307, "float16": 1307},
}
"""Dense TFLOPS of the fastest chip: MI355X and MI325X, from AMD's data sheets."""
FULL: Mapping[str, int] = {"gfx950": 256, "gfx942": 304}
TILE = re.compile(r"^flydsl_moe(?P<stage>[12])_a\w+?_t(?P<m>\d+)x(?P<n>\d+)x(?P<k>\d+)")
BLOCK = re.compile(r"^(?:flydsl_moe[12]_a\w+?_t(\d+)x|moe_ck2stages_gemm1_\d+x(\d+)x)")
SORT_BLOCK = re.compile(r"_sbm(\d+)")
FLAGS = ("run_1stage", "xbf16", "flat")


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
        cell = self.cells.get(name)
        try:
            value = None if cell is None else float(cell)
        except ValueError:
            return None
        return value if value is not None and math.isfinite(value) else None

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

    def ask(self, name: str) -> Answer:
        """Whether this AITER has the kernel `name` for the row's chip."""
        return self.dispatched or self.kernels.ask(name, self.gfx, moe="kernelName1" in self.cells)

    @cached_property
    def dispatched(self) -> Answer | None:
        """What is known by the row's `libtype` alone, if that decides (`aiter/tuned_gemm.py`)."""
        return self.kernels.dispatch(self.text("libtype")) if self.family is BF16 else None

    def finding(self, kind: Kind, effect: str, hint: str, severity: Severity | None = None) -> Finding:
        """A finding at this row."""
        return Finding(
            kind=kind, severity=severity or SEVERITY[kind], file=self.at.file, line=self.at.line, key=self.key,
            effect=effect, hint=hint,
        )  # fmt: skip


Check = Callable[[Row], Iterator[Finding]]
CHECKS: list[Check] = []
MOE_CHECKS: list[Check] = []
"""Of columns that only a fused-MoE row has: nine rows of ten are a GEMM's, and are not asked."""


def check(function: Check) -> Check:
    """Register a row check."""
    CHECKS.append(function)
    return function


def moe_check(function: Check) -> Check:
    """Register a check of fused-MoE rows."""
    MOE_CHECKS.append(function)
    return function


def checks_of(family: Family) -> tuple[Check, ...]:
    """Those that a row of `family` is asked."""
    return tuple(CHECKS) if family in GEMMS else (*CHECKS, *MOE_CHECKS)


def rows(frame: Frame, family: Family, gfx: str, kernels: Kernels) -> Iterator[Row]:
    """The rows of a file, ready for the checks."""
    columns = [column.cells for column in frame.data]
    for index, origin in enumerate(frame.origins):
        cells = {name: cells[index] for name, cells in zip(frame.columns, columns, strict=True)}
        if all(cells.get(name) in {name, None} for name in family.key):
            continue  # a second header, or a line of nothing: no row, and what it does to the table is said elsewhere
        own = cells.get("gfx")
        cu_num = cells.get("cu_num")
        chip = own if isinstance(own, str) and own else guess_gfx(None if cu_num == math.inf else cu_num, gfx)
        yield Row(cells, origin, family, chip.strip(), origin in frame.short, kernels)


@check
def unknown_kernel(row: Row) -> Iterator[Finding]:
    """The image's AITER lacks the kernel: sglang#35591, aiter#2792."""
    if row.dispatched and row.dispatched.knowledge is Knowledge.UNKNOWN:
        effect = f"{row.dispatched.why}: KeyError at the first request of this shape"
        yield row.finding(Kind.UNKNOWN_KERNEL, effect, "take the row out or retune")
        return
    for name in row.names:
        answer = row.ask(name)
        if answer.knowledge is Knowledge.UNKNOWN:
            composable = name.startswith("moe_ck2stages_")
            does = "CK prints 'ck kernel not found' and takes a heuristic" if composable else "the first request fails"
            severity = Severity.SLOW if composable else Severity.BOOT
            yield row.finding(
                Kind.UNKNOWN_KERNEL, f"{name}: {answer.why}; {does}", "take the row out or retune", severity
            )


@moe_check
def compiled_shape(row: Row) -> Iterator[Finding]:
    """An mxmoe row needs a sorting kernel compiled for its experts, hidden size and topk: aiter#5156."""
    if any(name.startswith("flydsl_mxmoe_") for name in row.names):
        expert, dim, topk = (row.number(name) for name in ("expert", "model_dim", "topk"))
        if expert is not None and dim is not None and topk is not None:
            answer = row.kernels.has_shape(int(expert), int(dim), int(topk))
            if answer.knowledge is Knowledge.UNKNOWN:
                yield row.finding(
                    Kind.NO_COMPILED_SHAPE, f"the first request aborts: {answer.why}", "use a FlyDSL v1 row"
                )


@moe_check
def known_bad(row: Row) -> Iterator[Finding]:
    """A kernel that gave wrong answers on a shape like this."""
    for bad in KNOWN_BAD:
        named = row.gfx == bad.gfx and any(bad.kernel in name for name in row.names)
        if named and all(row.text(name) == value for name, value in bad.where):
            yield row.finding(Kind.KNOWN_BAD_KERNEL, bad.symptom, f"see {bad.thread}; {bad.instead}")


@moe_check
def tile_divides(row: Row) -> Iterator[Finding]:
    """The tile must divide what it tiles: stage 1 cuts inter_dim by N, stage 2 by K (`resolve_flydsl_*`)."""
    inter = row.number("inter_dim")
    for name in row.names:
        tile = TILE.match(name)
        if tile and inter:
            size, what = (int(tile["n"]), "tile_n") if tile["stage"] == "1" else (int(tile["k"]), "tile_k")
            if size and inter % size:  # no kernel has a tile of 0: that name is unknown, and said to be
                forced = row.kernels.forces_tiles
                does = "AITER runs another tile than the row says" if forced else "it reads out of bounds"
                severity = Severity.SLOW if forced else Severity.WRONG_OUTPUT
                effect = f"{what}={size} does not divide inter_dim={int(inter)}: {does}"
                yield row.finding(Kind.TILE_DOES_NOT_DIVIDE, effect, "name a tile of 128", severity)


@moe_check
def block_matches(row: Row) -> Iterator[Finding]:
    """block_m must be the tile of stage 1 and the sort block of stage 2: it sizes both (`get_2stage_cfgs`)."""
    block = row.number("block_m")
    if "block_m" in row.cells and not (block and block > 0 and block == int(block)):
        told = row.text("block_m") or "missing"
        effect = f"block_m is {told}, no number of rows: the first request that this row answers fails"
        yield row.finding(Kind.BLOCK_MISMATCH, effect, "set block_m to the kernel's tile", Severity.BOOT)
        return
    for name in row.names:
        tile, sorted_by = BLOCK.match(name), SORT_BLOCK.search(name)
        if tile and block:
            takes = int(sorted_by[1]) if sorted_by else int(tile[1] or tile[2])
            if takes != block:
                yield row.finding(
                    Kind.BLOCK_MISMATCH, f"block_m is {int(block)}, {name} takes {takes}", "set block_m to it"
                )


@moe_check
def flat_matches(row: Row) -> Iterator[Finding]:
    """A one-stage assembly row must say of the kernel's layout what the manifest says."""
    if row.number("run_1stage") and "flat" in row.cells:
        listed = row.kernels.flat(row.text("kernelName1"), row.gfx)
        if listed is not None and listed != int(row.number("flat") or 0):
            effect = f"flat is {row.text('flat') or 'missing'}, the manifest says {listed}"
            yield row.finding(Kind.FLAT_MISMATCH, effect, "set flat to the manifest's value")


@check
def never_timed(row: Row) -> Iterator[Finding]:
    """A time of zero is no time: rtp-llm#1345 was refused for such rows."""
    if "us" in row.cells and not (row.number("us") or 0) > 0:
        yield row.finding(
            Kind.NEVER_TIMED, f"us is {row.text('us') or 'missing'}", "time it with gemm_moe_tune.py --run_config"
        )


def operations(row: Row) -> float | None:
    """Millions of operations: 2*m*n*k*topk for both MoE stages (`calculate` in AITER's tuners), 2*M*N*K for a GEMM."""
    names: tuple[str, ...] = (
        ("token", "model_dim", "inter_dim", "topk") if "inter_dim" in row.cells else ("M", "N", "K")
    )
    names += ("B",) if "B" in row.cells else ()
    sizes = [row.number(name) for name in names]
    if None in sizes:
        return None
    product = 2.0
    for size in sizes:
        product *= size or 0
    if "inter_dim" in names:
        product *= 3 if row.number("use_g1u1") else 2
    return product / 1e6


@check
def impossible_speed(row: Row) -> Iterator[Finding]:
    """More operations a second than the chip has: no run gave this time (aiter#4194)."""
    us, work = row.number("us"), operations(row)
    kind = row.text("q_dtype_a") or _gemm_type(row.family.name)
    peak = next((tflops for name, tflops in PEAK.get(row.gfx, {}).items() if name in kind), None)
    cu_num = row.number("cu_num")
    if not (us and us > 0 and work and peak and cu_num):
        return
    bound = peak * min(1.0, cu_num / FULL[row.gfx])
    if work / us > bound:
        effect = f"{us} us would be {work / us:.0f} TFLOPS; the chip does {bound:.0f} at most"
        yield row.finding(Kind.IMPOSSIBLE_SPEED, effect, "retune the row on the chip")


def _gemm_type(name: str) -> str:
    return {"a4": "float4", "a8": "float8", "bf": "bfloat16"}.get(name[:2], "")


@check
def speed_contradicts_time(row: Row) -> Iterator[Finding]:
    """Tflops is work over time; where it is not, the row was made from another one."""
    us, work, tflops = row.number("us"), operations(row), row.number("tflops")
    if row.family.name.startswith("bf16") or not (us and us > 0 and work and tflops and tflops > 0):
        return
    if not 0.8 < tflops * us / work < 1.25:
        effect = f"tflops {tflops:.4g} but us {us:.4g} means {work / us:.4g}"
        yield row.finding(Kind.SPEED_CONTRADICTS_TIME, effect, "time it with the tuner's --run_config")


@check
def other_chip(row: Row) -> Iterator[Finding]:
    """Gfx and cu_num of different chips (aiter#4735, #4634), or a data type the chip does not have."""
    cu_num = row.number("cu_num")
    hint = "put the row under its own chip"
    if row.gfx in CHIPS and cu_num is not None and int(cu_num) not in CHIPS[row.gfx]:
        yield row.finding(
            Kind.OTHER_CHIP, f"no {row.gfx} has {int(cu_num)} compute units ({CU_GFX.get(int(cu_num), '?')})", hint
        )
    wrong = {"gfx950": "fnuz", "gfx942": "float8_e4m3fn"}.get(row.gfx)
    kinds = {row.text(name) for name in ("q_dtype_a", "q_dtype_w")}
    if wrong and any(kind.endswith(wrong) for kind in kinds):
        yield row.finding(Kind.OTHER_CHIP, f"{row.gfx} asks for the other float8: the row never matches", hint)


@moe_check
def shifted_values(row: Row) -> Iterator[Finding]:
    """A short row whose flags hold what belongs to the next column."""
    odd = [name for name in FLAGS if row.number(name) not in {None, 0.0, 1.0, 2.0}]
    if odd and (row.short or row.cells.get("bw") is None):
        effect = f"{odd[0]} is {row.text(odd[0])}: a field before it is missing"
        yield row.finding(Kind.SHIFTED_VALUES, effect, "put the missing field back")


@check
def leftover_tag(row: Row) -> Iterator[Finding]:
    """A `_tag` other than the one readers know."""
    tag = row.text("_tag")
    if tag not in {"", "0", "0.0", "flydsl_fallback"}:
        yield row.finding(Kind.LEFTOVER_TAG, f"_tag is {tag}", "empty the cell")
