"""What a row says of itself that the rows beside it contradict."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from statistics import median

from rocmfix.aiter.findings import Finding, Kind
from rocmfix.aiter.row import Row
from rocmfix.aiter.schema import FMOE

KERNEL_FAMILY = re.compile(r"\D*")
ERROR_LIMIT: Mapping[bool, float] = {True: 0.1, False: 0.05}
"""Of the fused-MoE tuner, and of the others (`errRatio` in `gemm_moe_tune.py` and `aiter/utility/base_tuner.py`)."""

WITHOUT: Mapping[bool, str] = {True: "with AITER_BYPASS_TUNE_CONFIG=1", False: "without the row"}
"""How the answers of a row are done without; only `aiter/fused_moe.py` reads the variable."""
ERRORS = {"err1": "kernelName1", "err2": "kernelName2", "errRatio": "kernelName", "err_ratio": "kernelName"}
"""The errors that tuners write, and which kernel each is of."""


def high_errors(all_rows: Sequence[Row]) -> Iterator[Finding]:
    """Errors that stand out: above the tuner's limit, and twice what rows like it have.

    The limit alone says nothing: for some kernels and data types every row that upstream ships is above it.
    """
    alike: dict[tuple[str, ...], list[tuple[Row, float]]] = {}
    for row in all_rows:
        for name in ERRORS.keys() & row.cells.keys():
            value = _error(row.text(name), name)
            if value is not None:
                maker = KERNEL_FAMILY.match(row.text(ERRORS[name]))
                types = (row.text(column) for column in ("q_dtype_a", "q_dtype_w", "q_type"))
                alike.setdefault((name, row.gfx, maker[0] if maker else "", *types), []).append((row, value))
    for (name, *_), found in alike.items():
        usual = median(value for _, value in found)
        for row, value in found:
            limit = ERROR_LIMIT[row.family is FMOE]
            if value > max(limit, 2 * usual):
                effect = f"{name} is {value:.1%}; the tuner's limit is {limit:.0%}, and rows like it have {usual:.1%}"
                yield row.finding(Kind.HIGH_ERROR, effect, f"compare accuracy {WITHOUT[row.family is FMOE]}")


def _error(text: str, name: str) -> float | None:
    """A share from a cell: a percentage, or a fraction; a bare 1 in err1 or err2 may be either, and is neither."""
    percent = text.endswith("%")
    try:
        value = float(text.rstrip("%")) / (100 if percent else 1)
    except ValueError:
        return None
    return (
        value if 0 <= value <= 1 and (percent or name.startswith("err_") or name == "errRatio" or value < 1) else None
    )


def copied_times(all_rows: Sequence[Row]) -> Iterator[Finding]:
    """Neighbouring buckets of one shape with the same us to the last digit, whichever files they stand in."""
    shapes: dict[tuple[object, ...], list[Row]] = {}
    for row in all_rows:
        if row.family.key and "token" in row.cells and row.number("us"):
            shape = (row.gfx, *(row.cells.get(name) for name in row.family.key if name not in {"gfx", "token"}))
            shapes.setdefault(shape, []).append(row)
    for found in shapes.values():
        found.sort(key=lambda row: row.number("token") or 0)
        for before, after in itertools.pairwise(found):
            if before.number("us") == after.number("us") and before.number("token") != after.number("token"):
                place = (
                    f"{before.at.file}:{before.at.line}"
                    if before.at.file != after.at.file
                    else f"line {before.at.line}"
                )
                effect = f"us {after.text('us')} is that of token {before.text('token')} ({place})"
                yield after.finding(Kind.COPIED_TIME, effect, "time this bucket by itself")
