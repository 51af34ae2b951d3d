"""Upstream's formatters: run as pinned or said not to have run; old sins are not blamed on a change."""

from __future__ import annotations

import sys

import pytest

from rocmfix.errors import GiveBackError
from rocmfix.tree import MemoryTree
from rocmfix.upstream.hooks import parse, run_hooks
from rocmfix.upstream.records import HookState
from tests.upstream.conftest import PRE_COMMIT

BUILT_IN = "repos:\n  - repo: local\n    rev: v5\n    hooks:\n      - id: {}\n"


def states(config, before, after, settings=None):
    results = run_hooks(config, {"a.py": before}, {"a.py": after}, MemoryTree(settings or {}))
    return {result.hook: result.state for result in results}


def test_each_hook_of_upstreams_ends_somewhere():
    found = states(PRE_COMMIT, b"x = 1\n", b"x = 2\n")
    assert found == {
        "trailing-whitespace": HookState.CLEAN,
        "end-of-file-fixer": HookState.CLEAN,
        "check-ast": HookState.CLEAN,
        "no-commit-to-branch": HookState.CLEAN,
        "clang-format": HookState.NO_FILES,
    }


@pytest.mark.parametrize(
    ("hook", "after"),
    [
        ("trailing-whitespace", b"x = 2 \n"),
        ("end-of-file-fixer", b"x = 2"),
        ("check-ast", b"x = (\n"),
        ("check-merge-conflict", b"<<<<<<< ours\nx = 1\n"),
        ("debug-statements", b"x = 1\nbreakpoint()\n"),
        ("debug-statements", b"import ipdb.stuff\n"),
        ("debug-statements", b"from pdb import set_trace\n"),
        ("detect-private-key", b"KEY = '-----BEGIN " + b"RSA PRIVATE KEY-----'\n"),
    ],
)
def test_what_a_change_makes_worse_is_seen(hook, after):
    assert states(BUILT_IN.format(hook), b"x = 1\n", after) == {hook: HookState.WOULD_CHANGE}


def test_what_was_there_before_is_not_blamed_on_the_change():
    assert states(BUILT_IN.format("trailing-whitespace"), b"x = 1 \n", b"x = 1 \ny = 2\n") == {
        "trailing-whitespace": HookState.CLEAN
    }


@pytest.mark.parametrize(
    ("hook", "data"), [("check-added-large-files", b"x" * 600_000), ("check-shebang-scripts-are-executable", b"#!x\n")]
)
def test_what_is_wrong_with_a_new_file_only(hook, data):
    assert states(BUILT_IN.format(hook), None, data) == {hook: HookState.WOULD_CHANGE}
    assert states(BUILT_IN.format(hook), data, data + b"y\n") == {hook: HookState.CLEAN}


def test_a_debuggers_name_in_other_places_is_no_debugger():
    text = b"q = 1\npdb = q\n'breakpoint()'\nfrom . import thing\n"
    assert states(BUILT_IN.format("debug-statements"), b"x = 1\n", text) == {"debug-statements": HookState.CLEAN}


def test_no_patch_touches_a_link():
    assert states(BUILT_IN.format("check-symlinks"), b"x = 1\n", b"x = 2\n") == {"check-symlinks": HookState.NO_FILES}


def test_a_formatter_of_another_version_is_not_asked():
    config = "repos:\n  - repo: r\n    rev: v0.0.1\n    hooks:\n      - id: ruff\n        args: [--select=F401]\n"
    (result,) = run_hooks(config, {"a.py": b"x = 1\n"}, {"a.py": b"x = 2\n"}, MemoryTree())
    assert result.state is HookState.NOT_RUN
    assert "upstream pins 0.0.1" in result.why


@pytest.fixture
def ruff_version(monkeypatch):
    """The ruff beside this Python, found by name as a user's would be."""
    import subprocess
    from pathlib import Path

    folder = Path(sys.executable).parent
    monkeypatch.setenv("PATH", str(folder), prepend=":")
    return subprocess.run([folder / "ruff", "--version"], capture_output=True, text=True, check=True).stdout.split()[1]


def test_a_pinned_formatter_judges_the_change(ruff_version):
    config = f"repos:\n  - repo: r\n    rev: v{ruff_version}\n    hooks:\n      - id: ruff\n        args: [--select=F401, --fixable=F401]\n"
    assert states(config, b"x = 1\n", b"x = 2\n") == {"ruff": HookState.CLEAN}
    assert states(config, b"x = 1\n", b"import os\n\nx = 1\n") == {"ruff": HookState.WOULD_CHANGE}
    assert states(config, b"import os\n", b"import os\n\nx = 1\n") == {"ruff": HookState.BEFORE_TOO}
    assert states(config, b"import os\n", b"x = 1\n\nimport os\n") == {"ruff": HookState.BEFORE_TOO}, "it moved"
    assert states(config, b"import os\n", b"import os\nimport re\n") == {"ruff": HookState.WOULD_CHANGE}


def test_a_formatters_diff_is_compared_by_what_it_changes(ruff_version):
    config = f"repos:\n  - repo: r\n    rev: v{ruff_version}\n    hooks:\n      - id: ruff-format\n"
    old = b"x = {'a':1}\n"
    assert states(config, old, b"y = 1\n" + old) == {"ruff-format": HookState.BEFORE_TOO}
    assert states(config, old, b"y = {'b':1}\n" + old) == {"ruff-format": HookState.WOULD_CHANGE}


def test_a_formatter_that_cannot_judge_is_not_called_unclean(ruff_version):
    config = f"repos:\n  - repo: r\n    rev: v{ruff_version}\n    hooks:\n      - id: ruff\n        args: [--config=gone.toml]\n"
    (result,) = run_hooks(config, {"a.py": b"x = 1\n"}, {"a.py": b"x = 2\n"}, MemoryTree())
    assert result.state is HookState.NOT_RUN
    assert "ruff ended with 2" in result.why


def test_upstreams_own_excludes_hold():
    config = "exclude: ^vendored/\nrepos:\n  - repo: r\n    rev: v1\n    hooks:\n      - id: isort\n        files: ^python/\n        exclude: |\n          (?x)^(\n            python/gen\\.py|\n            python/old\\.py\n          )$\n"
    (hook,) = parse(config)
    assert hook.takes("python/a.py")
    assert not any(map(hook.takes, ("python/gen.py", "docs/a.py", "python/a.cu")))


@pytest.mark.parametrize("config", ["repos: 3", "[]", "a: b: c", "repos:\n  - repo: x\n"])
def test_a_damaged_configuration_is_an_error(config):
    with pytest.raises(GiveBackError):
        parse(config)
