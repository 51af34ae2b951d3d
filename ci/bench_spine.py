"""The spine's speed as ratios: `check --all-releases`, `apply` and `--help`, each against a baseline of this run."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from rocmfix.catalog import load
from rocmfix.diff import unified
from rocmfix.engine import patch_tree
from rocmfix.source import open_release, open_releases
from rocmfix.source.export import export
from rocmfix.source.folder import open_folder

ROCMFIX = [sys.executable, "-m", "rocmfix"]
GIT_ENV = {**os.environ, "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1", "GIT_DIR": "/nonexistent"}


def seconds(action: Callable[[], object], times: int = 3) -> float:
    """The median wall time of `action`."""
    taken = []
    for _ in range(times):
        start = time.perf_counter()
        action()
        taken.append(time.perf_counter() - start)
    return statistics.median(taken)


def run(*argv: object, cwd: Path | None = None, env: dict[str, str] | None = None) -> int:
    return subprocess.run(list(map(str, argv)), cwd=cwd, env=env, capture_output=True, check=False).returncode


def show(name: str, ours: float, baseline: float, goal: float, *, plus: bool = False) -> None:
    measured, unit = (ours - baseline, "s above") if plus else (ours / baseline, "x")
    mark = "met" if measured <= goal else "MISSED"
    print(f"{name}: {ours:.2f} s / {baseline:.2f} s = {measured:.2f} {unit} (goal {goal} {unit}: {mark})")


def bench_matrix(folder: Path) -> None:
    catalog = load()
    patches = [(p.folder / v.file, p.patch(v).paths) for p, f in catalog.fixes() for v in f.variant]
    roots = []
    for tree in open_releases():
        root = folder / tree.source
        for path in {path for _, paths in patches for path in paths}:
            data = tree.read(path)
            if data is not None:
                (root / path).parent.mkdir(parents=True, exist_ok=True)
                (root / path).write_bytes(data)
        roots.append(root)

    def checks() -> None:
        for root in roots:
            for patch, _ in patches:
                run("git", "apply", "--check", patch, cwd=root, env=GIT_ENV)
                run("git", "apply", "--check", "-R", patch, cwd=root, env=GIT_ENV)

    ours = seconds(lambda: run(*ROCMFIX, "check", "--all-releases", "--json"))
    name = f"check --all-releases / git apply --check, -R --check of {len(patches)} patches on {len(roots)} releases"
    show(name, ours, seconds(checks, 1), 1.0)


def bench_apply(folder: Path) -> None:
    tree = open_release("0.5.14")
    patched = patch_tree(load(), tree)
    diff = folder / "all.patch"
    diff.write_bytes("".join(unified(patched.before, patched.after, tree)).encode())
    ours, theirs = [], []
    for number in range(5):
        for name, taken in (("ours", ours), ("git", theirs)):
            root = folder / f"{name}{number}"
            root.mkdir()
            export(tree, root)
            assert open_folder(root, source=str(root)).release == "0.5.14"
            argv = [*ROCMFIX, "apply", root, "--in-place"] if name == "ours" else ["git", "apply", diff]
            env = None if name == "ours" else GIT_ENV
            start = time.perf_counter()
            assert run(*argv, cwd=root if name == "git" else None, env=env) == 0
            taken.append(time.perf_counter() - start)
    show("apply --in-place on 0.5.14 / git apply of the same diff", statistics.median(ours),
         statistics.median(theirs), 0.3, plus=True)  # fmt: skip


def bench_help() -> None:
    ours = seconds(lambda: run(*ROCMFIX, "--help"), 9)
    show(
        "rocmfix --help / python -c 'import click'",
        ours,
        seconds(lambda: run(sys.executable, "-c", "import click"), 9),
        2.0,
    )


def main() -> None:
    run(*ROCMFIX, "check", "--all-releases")  # fills the wheel cache
    bench_help()
    with tempfile.TemporaryDirectory() as folder:
        bench_apply(Path(folder))
    with tempfile.TemporaryDirectory() as folder:
        bench_matrix(Path(folder))


if __name__ == "__main__":
    main()
