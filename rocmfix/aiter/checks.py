"""What one row says about itself that cannot be so: each check is one decorated function."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping

from rocmfix.aiter.findings import Finding, Kind, Severity
from rocmfix.aiter.kernels import Knowledge
from rocmfix.aiter.known_bad import KNOWN_BAD
from rocmfix.aiter.row import Row, number
from rocmfix.aiter.schema import CHIPS, CU_GFX, FMOE, Family

PEAK: Mapping[str, Mapping[str, float]] = {
    "gfx950": {"float4": 10066, "float8": 5033, "int8": 5033, "bfloat16": 2517, "float16": 2517},
    "gfx942": {"float8": 2615, "int8": 2615, "bfloat16": 1307, "float16": 1307},
}
"""Dense TFLOPS of the fastest chip: MI355X and MI325X, from AMD's data sheets."""
FULL: Mapping[str, int] = {"gfx950": 256, "gfx942": 304}
TILE = re.compile(r"^flydsl_moe(?P<stage>[12])_a\w+?_t(?P<m>\d+)x(?P<n>\d+)x(?P<k>\d+)")
BLOCK = re.compile(r"^(?:flydsl_moe[12]_a\w+?_t(\d+)x|moe_ck2stages_gemm1_\d+x(\d+)x)")
STAGE = re.compile(r"^(?:flydsl_moe|flydsl_mxmoe_g|moe_ck2stages_gemm)([12])_")
SORT_BLOCK = re.compile(r"_sbm(\d+)")
FLAGS = ("run_1stage", "xbf16", "flat")
MEASURED = ("us1", "us2", "err1", "err2", "errRatio", "err_ratio", "tflops")


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
    return (*CHECKS, *MOE_CHECKS) if family is FMOE else tuple(CHECKS)


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
    for name in row.names:
        tile, sorted_by = BLOCK.match(name), SORT_BLOCK.search(name)
        if tile and block:
            takes = int(sorted_by[1]) if sorted_by else int(tile[1] or tile[2])
            if takes != block:
                yield row.finding(
                    Kind.BLOCK_MISMATCH, f"block_m is {int(block)}, {name} takes {takes}", "set block_m to it"
                )


@moe_check
def right_stage(row: Row) -> Iterator[Finding]:
    """AITER takes any name for either stage (`get_2stage_cfgs`), and runs the other stage's kernel."""
    for column, stage in (("kernelName1", "1"), ("kernelName2", "2")):
        found = STAGE.match(row.text(column))
        if found and found[1] != stage and not row.one_stage:
            effect = f"{column} is {row.text(column)}, a kernel of stage {found[1]}"
            yield row.finding(Kind.WRONG_STAGE, effect, "name a kernel of each stage")


@moe_check
def bad_setting(row: Row) -> Iterator[Finding]:
    """What AITER computes with must be a number where it does (`get_2stage_cfgs`)."""
    for name, why in _unusable(row):
        effect = f"{name} is {row.text(name) or 'missing'}: {why}"
        yield row.finding(Kind.BAD_SETTING, effect, "write what the tuner writes there")


FAILS = "the first request that this row answers fails"


def _unusable(row: Row) -> Iterator[tuple[str, str]]:
    block, first = row.number("block_m"), row.text("kernelName1")
    if "block_m" in row.cells and not (block and block > 0 and block == int(block)):
        yield "block_m", f"no number of rows, {FAILS}"
    if row.one_stage and isinstance(row.cells["run_1stage"], str):
        yield "run_1stage", "all of the column becomes text, text is true, and rows of two stages fail as one"
    elif row.one_stage and first and not first.startswith(("_Z", "flydsl_mxmoe_")):  # an mxmoe row is not asked
        yield "run_1stage", f"one stage is run, which {first} is no kernel of: {FAILS}"
    for name, code, is_read in (
        ("ksplit", "splitk=", not row.one_stage and not first.startswith("_Z")),  # assembly does not split
        ("xbf16", '"xbf16" in cfg', row.one_stage),
        ("flat", '"flat" in cfg', row.one_stage),
    ):
        if is_read and name in row.cells and row.number(name) is None and row.kernels.looked_up_with(code):
            yield name, FAILS


@moe_check
def unnamed_kernel(row: Row) -> Iterator[Finding]:
    """An empty name is NaN to AITER, which asks it how it begins, or hands it to C++."""
    needed = ("kernelName1",) if row.one_stage else ("kernelName1", "kernelName2")
    empty = [name for name in needed if name in row.cells and not row.text(name)]
    if empty:
        severity = Severity.SLOW if _needs_no_name(row) else None
        effect = f"no {' and no '.join(empty)}: {'AITER takes a kernel of its own choice' if severity else FAILS}"
        yield row.finding(Kind.UNNAMED_KERNEL, effect, "name the kernel, or take the row out", severity)


def _needs_no_name(row: Row) -> bool:
    """fp4 and fp8 weights by blocks of 32 have a way of their own where no name decides before."""
    if row.one_stage or row.text("q_type") != "QuantType.per_1x32":
        return False
    if any(name.startswith(("flydsl_", "opus_")) for name in row.names):
        return False
    asks_only_text = row.kernels.looked_up_with("isinstance(kernelName1, str)")  # since v0.1.18
    asks_first = row.kernels.looked_up_with('kernelName1.startswith("flydsl_")')  # since v0.1.12
    return asks_only_text or (row.text("act_type") == "ActivationType.Swiglu" and not asks_first)


@moe_check
def overruled(row: Row) -> Iterator[Finding]:
    """From ROCm/aiter#3377 a FlyDSL heuristic comes before the kernels that an fp4 row of other makes names."""
    if (
        row.names
        and not row.one_stage
        and row.text("q_type") == "QuantType.per_1x32"
        and row.text("q_dtype_a").startswith(("torch.float4", "torch.float8"))
        and row.text("q_dtype_w").startswith("torch.float4")
        and row.text("act_type") != "ActivationType.Swiglu"  # which way that goes hangs on how the gate is laid out
        and not row.text("_tag")  # such a row is not even read
        and row.number("use_g1u1")
        and not row.number("doweight_stage1")
        and not any(name.startswith(("flydsl_", "opus_")) for name in row.names)
        and row.kernels.looked_up_with('"AITER_FLYDSL_FORCE", "1"')
    ):
        yield row.finding(Kind.OVERRULED, "AITER runs its FlyDSL heuristic in place of these kernels", OVERRULED)


OVERRULED = "take a row that names FlyDSL kernels, or set AITER_FLYDSL_FORCE=0"


@moe_check
def flat_matches(row: Row) -> Iterator[Finding]:
    """A one-stage assembly row must say of the kernel's layout what the manifest says."""
    if row.one_stage and row.number("flat") is not None:
        listed = row.kernels.flat(row.text("kernelName1"), row.gfx)
        if listed is not None and listed != int(row.number("flat") or 0):
            effect = f"flat is {row.text('flat')}, the manifest says {listed}"
            yield row.finding(Kind.FLAT_MISMATCH, effect, "set flat to the manifest's value")


@check
def never_timed(row: Row) -> Iterator[Finding]:
    """A time of zero is no time: rtp-llm#1345 was refused for such rows."""
    if "us" in row.cells and not (row.number("us") or 0) > 0:
        yield row.finding(Kind.NEVER_TIMED, f"us is {row.text('us') or 'missing'}", row.retune)


@check
def odd_measurement(row: Row) -> Iterator[Finding]:
    """A tuner writes numbers, and an error also as a percentage. What is not there says nothing that is not so."""
    odd = [name for name in MEASURED if row.text(name) and not _is_measured(row, name)]
    if odd:
        cells = ", ".join(f"{name} is {row.text(name)}" for name in odd)
        yield row.finding(Kind.ODD_MEASUREMENT, cells, row.retune)


def _is_measured(row: Row, name: str) -> bool:
    text = row.text(name)
    percent = name.startswith("err") and text.endswith("%")
    return number(text[:-1] if percent else row.cells[name]) is not None


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
        yield row.finding(Kind.IMPOSSIBLE_SPEED, effect, row.retune)


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
        yield row.finding(Kind.SPEED_CONTRADICTS_TIME, effect, row.retune)


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
