"""A small upstream with a pull-request template, a catalogue of fixes for it, and a GitHub of our own."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from rocmfix.cli import main
from tests.spine.catalogs import cut, make_catalog
from tests.upstream.fake_github import TOKEN, FakeGitHub, serving

KERNEL = "python/sglang/csrc/kernel.cuh"
LOADER = "python/sglang/loader.py"
KERNEL_TEXT = "// kernel\n#include <vector>\n#include <cuda_runtime.h>\n\nint f();\n"
GUARDED = KERNEL_TEXT.replace("#include <cuda_runtime.h>", "#ifndef USE_ROCM\n#include <cuda_runtime.h>\n#endif")
LOADER_TEXT = "def load(name):\n    return build(name)\n\n\ndef quiet():\n    return False\n"
REMEMBERS = LOADER_TEXT.replace("    return build(name)\n", "    return remember(build, name)\n")
QUIET = LOADER_TEXT.replace("return False", "return _is_hip")

TEMPLATE = """<!-- Thank you. -->

## Motivation

<!-- Why? -->

## Modifications

<!-- What? -->

## Accuracy Tests

<!-- Scores, please. -->

## Speed Tests and Profiling

<!-- Numbers, please. -->

## Release Notes

<!-- One line. -->

## Checklist

- [ ] Format your code with pre-commit.
- [ ] Add unit tests.
- [ ] Update documentation.
- [ ] Provide accuracy and speed benchmark results.

## Review and Merge Process

1. Ping the merge oncall.
"""
PRE_COMMIT = """
exclude: ^vendored/
repos:
  - repo: https://github.com/pre-commit/pre-commit-hooks
    rev: v5.0.0
    hooks:
      - id: trailing-whitespace
      - id: end-of-file-fixer
      - id: check-ast
      - id: no-commit-to-branch
  - repo: https://github.com/pre-commit/mirrors-clang-format
    rev: v0.0.1
    hooks:
      - id: clang-format
        args: [--style=file]
"""
SERIES = """
project = "sglang"
summary = "A set for tests of giving back"

[[fix]]
id = "guard"
why = "hipcc cannot find cuda_runtime.h"
upstream = { status = "merged", pr = "sgl-project/sglang#1", since = "0.5.15" }
relevant = [{ file = "python/sglang/csrc/kernel.cuh" }]
fixed = [{ include_guarded = "cuda_runtime.h" }]
remove_when = "the oldest supported release is 0.5.15"
variant = [{ file = "guard.patch", since = "0.5.10" }]

[[fix]]
id = "remember"
why = "failed builds are repeated for ever"
upstream = { status = "local", reason = "nobody has sent it yet" }
relevant = [{ file = "python/sglang/loader.py" }]
fixed = [{ python = "load", has = "remember(...)" }]
remove_when = "upstream remembers failed builds"
variant = [{ file = "remember.patch", since = "0.5.10" }]

[[fix]]
id = "quiet"
why = "it says too much at night"
upstream = { status = "submitted", pr = "sgl-project/sglang#2" }
relevant = [{ file = "python/sglang/loader.py" }]
fixed = [{ python = "quiet", lacks = "return False" }]
remove_when = "upstream is quiet at night"
variant = [{ file = "quiet.patch", since = "0.5.10" }]
"""
PATCHES = {
    "guard.patch": cut({KERNEL: KERNEL_TEXT}, {KERNEL: GUARDED}, "ROCm: guard the header"),
    "remember.patch": cut({LOADER: LOADER_TEXT}, {LOADER: REMEMBERS}, "ROCm: remember failed builds"),
    "quiet.patch": cut({LOADER: LOADER_TEXT}, {LOADER: QUIET}, "Say less"),
}


class Clone:
    """A clone of upstream in a test, driven by real git."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def git(self, *args: str) -> str:
        """Run git here; its output without the last newline."""
        done = subprocess.run(["git", *args], cwd=self.root, capture_output=True, text=True, check=True)
        return done.stdout.rstrip("\n")

    def write(self, files: dict[str, str], subject: str) -> None:
        """Write files and commit them."""
        for path, text in files.items():
            target = self.root / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text)
        self.git("add", "-A")
        self.git("commit", "-qm", subject)


@pytest.fixture
def catalogue_folder(tmp_path: Path) -> Path:
    """The catalogue, for `--patches`."""
    make_catalog(tmp_path / "patches", SERIES, PATCHES)
    return tmp_path / "patches"


@pytest.fixture
def run(catalogue_folder: Path) -> Callable[..., Result]:
    """`run("pr", "guard", "--onto", clone)`: rocmfix with the test catalogue, as a user would run it."""

    def invoke(*args: object) -> Result:
        return CliRunner().invoke(main, [str(arg) for arg in (*args, "--patches", catalogue_folder)])

    return invoke


@pytest.fixture
def clone(tmp_path: Path) -> Clone:
    """A clone of an upstream that has all three defects, made by somebody with a name."""
    root = tmp_path / "a clone"
    root.mkdir()
    made = Clone(root)
    made.git("init", "-q", "-b", "main")
    made.git("config", "user.name", "Jo Engineer")
    made.git("config", "user.email", "jo@example.com")
    made.write(
        {
            KERNEL: KERNEL_TEXT,
            LOADER: LOADER_TEXT,
            "python/sglang/srt/__init__.py": "",
            ".github/pull_request_template.md": TEMPLATE,
            ".pre-commit-config.yaml": PRE_COMMIT,
        },
        "upstream",
    )
    return made


@pytest.fixture
def github(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeGitHub]:
    """A GitHub on this machine, and a token for it in the environment."""
    with serving() as server:
        monkeypatch.setenv("GITHUB_API_URL", server.url)
        monkeypatch.setenv("GH_TOKEN", TOKEN)
        yield server
