"""Measures the table doctor on the newest AITER at hand, as a ratio to loading the same files with pandas."""

from __future__ import annotations

import io
import os
import sys
import time
from collections.abc import Callable

import pandas as pd  # type: ignore[import-untyped]

from rocmfix.aiter.doctor import examine
from rocmfix.aiter.frame import read
from rocmfix.aiter.layout import AiterTree
from rocmfix.aiter.schema import FAMILIES, FMOE, Family
from rocmfix.aiter.selection import select
from rocmfix.source import open_tree


def best(work: Callable[[], object], times: int = 3) -> float:
    """The shortest of a few runs, in seconds of this process: other work on the machine does not count."""
    taken = []
    for _ in range(times):
        start = time.process_time()
        work()
        taken.append(time.process_time() - start)
    return min(taken)


def afresh(tree: AiterTree, families: tuple[Family, ...]) -> None:
    """One examination as a new process would make it."""
    read.cache_clear()
    examine(tree, families=families)


def load(tree: AiterTree, families: tuple[Family, ...]) -> int:
    """Read the same files with pandas."""
    files = [file for selection in select(tree, None) if selection.family in families for file in selection.files]
    return sum(len(pd.read_csv(io.BytesIO(file.data))) for file in files)


def main() -> None:
    """Print the figures for the tree named by the argument or ROCMFIX_AITER_TREES."""
    spec = sys.argv[1] if len(sys.argv) > 1 else os.environ.get("ROCMFIX_AITER_TREES", "").split(os.pathsep)[-1]
    if not spec:
        print("aiter: name a checkout, or set ROCMFIX_AITER_TREES")
        return
    tree = AiterTree(open_tree(spec, project="aiter"))
    for name, families, limit in (("fmoe", (FMOE,), 3.0), ("all", FAMILIES, 10.0)):
        doctor = best(lambda families=families: afresh(tree, families))
        pandas = best(lambda families=families: load(tree, families))
        print(
            f"aiter doctor {name}: {doctor:.2f} s (limit {limit} s), {doctor / pandas:.0f}x pandas (limit 100x), "
            f"{load(tree, families)} rows"
        )


main()
