"""Waivers: what, why, upstream, removal; and none where none is needed."""

from __future__ import annotations

import hashlib

from tests.upstream.conftest import LOADER, PATCHES, REMEMBERS


def test_a_waiver_names_patch_reason_pull_request_and_removal(run, golden):
    result = run("waiver", "guard", "--image", "reg/sglang:v0.5.14-rocm720-mi35x-rf01234567")
    assert result.exit_code == 0, result.output
    golden("waiver_guard.md", result.stdout)
    digest = hashlib.sha256(PATCHES["guard.patch"].encode()).hexdigest()
    assert digest in result.stdout


def test_a_fix_that_nobody_sent_has_a_visible_todo(run):
    result = run("waiver", "remember")
    assert "**TODO** open one" in result.stdout
    assert "nobody has sent it yet" in result.stdout


def test_on_a_tree_it_names_the_place(run, clone):
    result = run("waiver", "remember", "--onto", clone.root)
    assert f"`{LOADER}:" in result.stdout


def test_a_tree_that_has_the_fix_needs_no_waiver(run, clone):
    clone.write({LOADER: REMEMBERS}, "mended")
    result = run("waiver", "remember", "--onto", clone.root)
    assert result.exit_code == 16
    assert "no waiver is needed" in result.output


def test_an_unknown_fix_names_the_nearest(run):
    result = run("waiver", "rememer")
    assert result.exit_code == 4
    assert "did you mean: remember" in result.output
