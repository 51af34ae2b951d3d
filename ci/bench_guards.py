"""Times the guards scan of releases against `grep -rn` over the same files.

    python ci/bench_guards.py 0.5.14 0.5.23

Reads wheels from rocmfix's cache. Bounds are wall seconds: reachability runs on every CPU there is.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from rocmfix.guards.chain import Sources
from rocmfix.guards.loaders import loaders
from rocmfix.guards.program import Program, uncollected
from rocmfix.guards.reach import Reachable, reach
from rocmfix.guards.scan import cuda_lines
from rocmfix.source import open_release
from rocmfix.system.compiler import workspace
from rocmfix.system.files import Copied, write_out
from rocmfix.tree import PACKAGE, Overlay, Tree

T = TypeVar("T")
_BOUNDS = {"include scan": 1.0, "reachability": 5.0}


def main(releases: list[str]) -> int:
    """One table a release; 1 when a bound does not hold."""
    return max([_bench(release) for release in releases], default=0)


def _bench(release: str) -> int:
    tree = _in_memory(open_release(release))
    sources = Sources(tree)
    with workspace() as folder:
        write_out(folder, (Copied(path, tree.read(path) or b"") for path in sources.files))
        print(f"\n{release}: {len(sources.files)} C++ files")
        timed("grep -rn", lambda: _grep(folder))
    lines, scan_took = timed("include scan", lambda: cuda_lines(Sources(tree)))
    answers, reach_took = timed("reachability", lambda: _reach(tree))
    untold = answers.count(Reachable.UNKNOWN)
    print(f"  {len(lines)} CUDA-only includes, {len(answers)} loader calls, {untold} cannot tell")
    return int(scan_took > _BOUNDS["include scan"] or reach_took > _BOUNDS["reachability"])


def _in_memory(tree: Tree) -> Tree:
    """Unzipping is not what is timed."""
    return Overlay(tree, {path: tree.read(path) for path in tree.paths(PACKAGE)})


def _grep(folder: Path) -> None:
    subprocess.run(
        ["grep", "-rnE", '# *include *[<"](cuda|cub|cute|cutlass|cooperative)', "."],
        cwd=folder,
        capture_output=True,
        check=False,
    )


def _reach(tree: Tree) -> list[Reachable]:
    with uncollected():
        program = Program(tree)
        return [answer.reachable for answer in reach(program, tuple(loaders(program, Sources(tree))))]


def timed(name: str, work: Callable[[], T]) -> tuple[T, float]:
    """Run `work` and print what it took; children count."""
    cpu, wall = sum(_times()), time.perf_counter()
    result = work()
    cpu, wall = sum(_times()) - cpu, time.perf_counter() - wall
    print(
        f"  {name:14} {cpu:6.2f} s cpu {wall:6.2f} s wall" + (f"   bound {_BOUNDS[name]} s" if name in _BOUNDS else "")
    )
    return result, wall


def _times() -> tuple[float, ...]:
    return tuple(os.times())[:4]


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:] or ["0.5.14", "0.5.23"]))
