"""A small upstream of two files, a catalogue of three fixes for it, and ways to run rocmfix on them."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from rocmfix.cli import main
from tests.spine.catalogs import cut, make_catalog

KERNEL = "python/sglang/csrc/kernel.cuh"
LOADER = "python/sglang/loader.py"
OTHER = "python/sglang/other.py"
BEFORE = {
    KERNEL: "// kernel\n#include <vector>\n#include <cuda_runtime.h>\n\nint f();\nint g();\nint h();\n",
    LOADER: (
        "import os\n\n\ndef load(name):\n    try:\n        return build(name)\n    except OSError:\n        return None\n"
        "\n\ndef quiet():\n    return False\n"
    ),
    OTHER: "VALUE = 1\n",
}
MID = {**BEFORE, LOADER: BEFORE[LOADER].replace("        return None\n", "        remember(name)\n        raise\n")}
AFTER = {
    KERNEL: BEFORE[KERNEL].replace("#include <cuda_runtime.h>", "#ifndef USE_ROCM\n#include <cuda_runtime.h>\n#endif"),
    LOADER: MID[LOADER].replace("    return False\n", "    return True\n"),
    OTHER: BEFORE[OTHER],
}
SERIES = """
project = "sglang"
summary = "A set for tests of the engine"

[[fix]]
id = "guard"
why = "hipcc cannot find cuda_runtime.h"
upstream = { status = "merged", pr = "sgl-project/sglang#1", since = "0.5.15" }
relevant = [{ file = "python/sglang/csrc/kernel.cuh" }]
fixed = [{ include_guarded = "cuda_runtime.h" }]
remove_when = "never, it is a test"
variant = [{ file = "guard.patch", since = "0.5.10" }]

[[fix]]
id = "remember"
why = "failed builds are repeated for ever"
upstream = { status = "local", reason = "it is a test" }
relevant = [{ file = "python/sglang/loader.py" }]
fixed = [{ python = "load", has = "remember(_)" }]
remove_when = "never, it is a test"
variant = [{ file = "remember.patch", since = "0.5.10" }]

[[fix]]
id = "quiet"
why = "it says too much at night"
upstream = { status = "local", reason = "it is a test" }
relevant = [{ file = "python/sglang/loader.py" }]
fixed = [{ python = "quiet", has = "return True" }]
remove_when = "never, it is a test"
variant = [{ file = "quiet.patch", since = "0.5.10" }]
"""
PATCHES = {
    "guard.patch": cut({KERNEL: BEFORE[KERNEL]}, {KERNEL: AFTER[KERNEL]}, "[AMD] Guard the header"),
    "remember.patch": cut({LOADER: BEFORE[LOADER]}, {LOADER: MID[LOADER]}, "[AMD] Remember failed builds"),
    "quiet.patch": cut({LOADER: MID[LOADER]}, {LOADER: AFTER[LOADER]}, "[AMD] Say less"),
}


@pytest.fixture
def catalogue_folder(tmp_path: Path) -> Path:
    """The catalogue, for `--patches`."""
    make_catalog(tmp_path / "patches", SERIES, PATCHES)
    return tmp_path / "patches"


@pytest.fixture
def run(catalogue_folder) -> Callable[..., Result]:
    """`run("apply", tree, "--in-place")`: rocmfix with the test catalogue, as a user would run it."""

    def invoke(*args: object) -> Result:
        patches = [] if args[0] in {"revert", "export"} else ["--patches", str(catalogue_folder)]
        return CliRunner().invoke(main, [str(arg) for arg in (*args, *patches)])

    return invoke


def write_tree(root: Path, *, wheel: bool = False) -> Path:
    """The broken tree on disk, in repository or wheel layout."""
    for path, text in BEFORE.items():
        target = root / (path.removeprefix("python/") if wheel else path)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)
    (root / ("sglang" if wheel else "python/sglang") / "srt").mkdir()
    return root


def content(root: Path) -> dict[str, bytes]:
    """Every file below `root` but git's own."""
    return {
        str(path.relative_to(root)): path.read_bytes()
        for path in sorted(root.rglob("*"))
        if path.is_file() and ".git" not in path.relative_to(root).parts
    }


@dataclass(frozen=True)
class Clone:
    """A git checkout in a test, driven by real git."""

    root: Path

    def git(self, *args: str) -> str:
        """Run git here; its output without the last newline."""
        identity = ["-c", "user.name=T", "-c", "user.email=t@example.com"]
        done = subprocess.run(
            ["git", *identity, *args], cwd=self.root, capture_output=True, text=True, check=True
        )  # fmt: skip
        return done.stdout.rstrip("\n")

    def log(self, format_: str) -> list[str]:
        """`git log --format=...`, newest first."""
        return self.git("log", f"--format={format_}").splitlines()


@pytest.fixture
def clone(tmp_path) -> Clone:
    """A checkout of the broken tree with one commit."""
    made = Clone(write_tree(tmp_path / "a checkout"))
    made.git("init", "-q", "-b", "main")
    made.git("add", "-A")
    made.git("commit", "-q", "-m", "upstream")
    return made
