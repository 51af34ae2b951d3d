"""`rocmfix.hunks` is held to git's own answers: same fit, same bytes, same offset."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from rocmfix.hunks import Applied, Misfit, Way, apply_changes, may_fit
from rocmfix.patchfile import parse_patch

HEADER = """From 0000000000000000000000000000000000000000 Mon Sep 17 00:00:00 2001
From: A Writer <a@example.com>
Date: Mon, 1 Jun 2026 10:00:00 +0000
Subject: [PATCH] Change a file

Because it was wrong.

Signed-off-by: A Writer <a@example.com>
---
"""
GIT_ENV = {
    **os.environ,
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_DIR": "/nonexistent",
    "LC_ALL": "C",
}


def make_diff(folder: Path, old: bytes | None, new: bytes | None) -> bytes:
    """What git itself writes for the change from `old` to `new`, as a patch of the file f.py."""
    for name, data in (("a", old), ("b", new)):
        (folder / name).mkdir(exist_ok=True)
        (folder / name / "f.py").unlink(missing_ok=True)
        if data is not None:
            (folder / name / "f.py").write_bytes(data)
    done = subprocess.run(
        ["git", "diff", "--no-index", "--no-prefix", "--full-index", "a", "b"],
        cwd=folder, capture_output=True, check=False, env={**os.environ, "GIT_CONFIG_GLOBAL": "/dev/null"},
    )  # fmt: skip
    return HEADER.encode() + re.sub(rb"diff --git [ab]/f.py [ab]/f.py", b"diff --git a/f.py b/f.py", done.stdout)


def git_apply(folder: Path, patch: bytes, data: bytes | None, *flags: str) -> tuple[bytes | None, list[int]] | None:
    """The file after `git apply`, and the offsets git reports; None where git refuses."""
    work = folder / "work"
    work.mkdir(exist_ok=True)
    target = work / "f.py"
    target.unlink(missing_ok=True)
    if data is not None:
        target.write_bytes(data)
    (folder / "p.patch").write_bytes(patch)
    done = subprocess.run(
        ["git", "apply", "-v", "--whitespace=nowarn", *flags, "../p.patch"],
        cwd=work, capture_output=True, text=True, check=False, env=GIT_ENV,
    )  # fmt: skip
    if done.returncode:
        return None
    offsets = [int(number) for number in re.findall(r"\(offset (-?\d+) line", done.stderr)]
    return (target.read_bytes() if target.exists() else None), offsets


def ours(patch: bytes, data: bytes | None, way: Way) -> tuple[bytes | None, list[int]] | None:
    """The same from `apply_changes`."""
    changes = parse_patch(patch, "p.patch").changes
    result = apply_changes(changes, lambda _: data, way)
    if isinstance(result, Misfit):
        return None
    assert may_fit(changes, lambda _: data, way), "may_fit refuses what applies"
    return result.files["f.py"], [landed.offset for landed in result.landed if landed.offset]


lines = st.lists(st.sampled_from(["a\n", "b\n", "c\n", "\n", "  d\n", "x = 1\n"]), max_size=24)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(old=lines, new=lines, tree=lines, ended=st.booleans())
def test_agrees_with_git_on_random_files(tmp_path, old, new, tree, ended):
    """Few distinct lines make hunks that fit in several places: the search order of git decides."""
    end = "" if ended else "last"
    before, after = ("".join(old) + end).encode(), ("".join(new) + end).encode()
    if before == after or not before or not after:
        return
    patch = make_diff(tmp_path, before, after)
    for data in (before, after, "".join(tree).encode(), b"a\n" + before, after + b"b\n"):
        assert ours(patch, data, Way.FORWARD) == git_apply(tmp_path, patch, data)
        assert ours(patch, data, Way.REVERSE) == git_apply(tmp_path, patch, data, "-R")


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(base=st.lists(st.integers(0, 400), min_size=30, max_size=60), data=st.data())
def test_agrees_with_git_on_drifted_files(tmp_path, base, data):
    """The usual life of a patch: the same place, some lines further down, with other edits around it."""
    before = [f"line {number}\n" for number in base]
    spots = data.draw(st.lists(st.integers(0, len(before) - 1), min_size=1, max_size=3, unique=True))
    after = [f"changed {i}\n" if i in spots else line for i, line in enumerate(before)]
    at = data.draw(st.integers(0, len(before)))
    drifted = [*before[:at], *(["new\n"] * data.draw(st.integers(0, 5))), *before[at:]]
    patch = make_diff(tmp_path, "".join(before).encode(), "".join(after).encode())
    tree = "".join(drifted).encode()
    assert ours(patch, tree, Way.FORWARD) == git_apply(tmp_path, patch, tree)


@pytest.mark.parametrize(("old", "new"), [(None, b"a\nb\n"), (b"a\nb\n", None), (b"a", b"a\n"), (b"a\n", b"a")])
def test_agrees_with_git_on_created_removed_and_unended_files(tmp_path, old, new):
    patch = make_diff(tmp_path, old, new)
    for data in (old, new, b"other\n"):
        assert ours(patch, data, Way.FORWARD) == git_apply(tmp_path, patch, data)
        assert ours(patch, data, Way.REVERSE) == git_apply(tmp_path, patch, data, "-R")


NUMBERS = "".join(f"{i}\n" for i in range(1, 21)).encode()


def test_one_changed_context_line_is_a_misfit_that_shows_both_lines(tmp_path):
    """Zero fuzz: GNU patch would take this silently, with fuzz 1."""
    patch = make_diff(tmp_path, NUMBERS, NUMBERS.replace(b"10\n", b"ten\n"))
    tree = NUMBERS.replace(b"12\n", b"twelve\n")
    result = apply_changes(parse_patch(patch, "p").changes, {"f.py": tree}.get)
    assert isinstance(result, Misfit)
    assert (result.path, result.line, result.expects, result.has) == ("f.py", 12, "12", "twelve")


def test_the_line_reported_is_that_of_the_file_as_it_was(tmp_path):
    grown = NUMBERS.replace(b"3\n", b"3\n3.5\n3.6\n", 1).replace(b"17\n", b"XVII\n")
    patch = make_diff(tmp_path, NUMBERS, grown)
    result = apply_changes(parse_patch(patch, "p").changes, {"f.py": NUMBERS}.get)
    assert isinstance(result, Applied)
    assert [landed.line for landed in result.landed] == [4, 17]


def test_a_crlf_tree_is_patched_and_stays_crlf(tmp_path):
    patch = make_diff(tmp_path, NUMBERS, NUMBERS.replace(b"10\n", b"ten\n"))
    tree = NUMBERS.replace(b"\n", b"\r\n")
    result = apply_changes(parse_patch(patch, "p").changes, {"f.py": tree}.get)
    assert isinstance(result, Applied)
    assert result.files["f.py"] == tree.replace(b"10\r\n", b"ten\r\n")
    back = apply_changes(parse_patch(patch, "p").changes, result.files.get, Way.REVERSE)
    assert isinstance(back, Applied)
    assert back.files["f.py"] == tree


def test_a_tree_with_mixed_line_endings_is_not_guessed_at(tmp_path):
    patch = make_diff(tmp_path, NUMBERS, NUMBERS.replace(b"10\n", b"ten\n"))
    tree = NUMBERS.replace(b"9\n", b"9\r\n")
    assert isinstance(apply_changes(parse_patch(patch, "p").changes, {"f.py": tree}.get), Misfit)


def test_a_missing_file_is_a_misfit(tmp_path):
    patch = make_diff(tmp_path, NUMBERS, NUMBERS + b"21\n")
    result = apply_changes(parse_patch(patch, "p").changes, lambda _: None)
    assert result == Misfit("f.py", None, "this file", None)
