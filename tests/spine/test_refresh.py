"""Patch files from commits, and new variants by merging."""

from __future__ import annotations

import json

import pytest

from rocmfix import merge as merge_module
from rocmfix.tree import MemoryTree
from tests.spine.conftest import BEFORE, LOADER, write_tree

SET = "test-set"


@pytest.fixture
def stored(catalogue_folder):
    """The patch files as they lie in the catalogue."""
    return lambda: {path.name: path.read_text() for path in (catalogue_folder / "sglang" / SET).glob("*.patch")}


@pytest.fixture(autouse=True)
def base_release(monkeypatch):
    """The release the variants were cut for is the broken tree of these tests."""
    tree = MemoryTree({path: text.encode() for path, text in BEFORE.items()}, release="0.5.10")
    monkeypatch.setattr(merge_module, "open_release", lambda *_, **__: tree)


def test_what_was_applied_exports_to_the_byte(clone, run, stored):
    run("apply", clone.root, "--in-place")
    assert run("refresh", SET, "--onto", clone.root).exit_code == 0
    first = stored()
    assert run("refresh", SET, "--onto", clone.root, "--check").exit_code == 0
    run("revert", clone.root)
    assert run("apply", clone.root, "--in-place").exit_code == 0, "what was exported applies"
    assert run("refresh", SET, "--onto", clone.root, "--check").exit_code == 0
    assert stored() == first
    assert "Rocmfix-" not in "".join(first.values())


def test_an_edited_commit_is_exported(clone, run, stored):
    run("apply", clone.root, "--in-place")
    run("refresh", SET, "--onto", clone.root)
    before = stored()
    (clone.root / LOADER).write_text((clone.root / LOADER).read_text().replace("return True", "return True  # at last"))
    clone.git("commit", "-qa", "--amend", "--no-edit")
    checked = run("refresh", SET, "--onto", clone.root, "--check")
    assert checked.exit_code == 1
    assert stored() == before, "--check writes nothing"
    assert run("refresh", SET, "--onto", clone.root).exit_code == 0
    changed = {name for name, text in stored().items() if text != before[name]}
    assert changed == {"quiet.patch"}
    assert "+    return True  # at last" in stored()["quiet.patch"]


def test_a_new_variant_is_cut_by_a_three_way_merge(tmp_path, run, stored):
    """Upstream rewrote a line of the context: no variant fits, but the change still merges."""
    tree = write_tree(tmp_path / "tree")
    (tree / LOADER).write_text((tree / LOADER).read_text().replace("    try:\n", "    try:  # to build\n"))
    assert run("check", tree).exit_code == 12
    result = run("refresh", SET, "--onto", tree)
    assert result.exit_code == 0, result.output
    assert "[[fix.variant]]" in result.stdout
    new = set(stored()) - {"guard.patch", "remember.patch", "quiet.patch"}
    assert len(new) == 1
    text = stored()[new.pop()]
    assert "     try:  # to build" in text
    assert "Signed-off-by: A Writer" in text


@pytest.mark.parametrize(
    ("since", "said"),
    [
        ("0.5.11", 'since = "0.5.11"\n\n# and in the entry of remember.patch: until = "0.5.11"\n'),
        ("0.5.9", 'since = "0.5.9"\nuntil = "0.5.10"\n'),
        ("0.5.10", 'since = "0.5.10"\n\n'),
    ],
)
def test_a_new_variant_says_which_window_it_cuts_short(tmp_path, run, since, said):
    """Windows may not overlap: without that the next lint fails on lines that were printed to be pasted."""
    tree = write_tree(tmp_path / "tree")
    (tree / LOADER).write_text((tree / LOADER).read_text().replace("    try:\n", "    try:  # to build\n"))
    (tree / "python/sglang/version.py").write_text(f'__version__ = "{since}"\n')
    result = run("refresh", SET, "--onto", tree, "--dry-run")
    assert said in result.stdout, result.output


def test_a_merge_that_conflicts_shows_the_lines(tmp_path, run, stored):
    tree = write_tree(tmp_path / "tree")
    (tree / LOADER).write_text((tree / LOADER).read_text().replace("        return None", "        return False"))
    before = stored()
    result = run("refresh", SET, "--onto", tree)
    assert result.exit_code == 5
    assert "  <<<<<<< " + str(tree) in result.stderr
    assert "  >>>>>>> remember.patch\n" in result.stderr
    assert "return False" in result.stderr
    assert stored() == before


def test_a_moved_file_is_followed(tmp_path, run, stored):
    tree = write_tree(tmp_path / "tree")
    (tree / LOADER).rename(tree / "python/sglang/srt/loader.py")
    series = tmp_path / "patches/sglang" / SET / "series.toml"
    series.write_text(
        series.read_text().replace(
            'file = "python/sglang/loader.py"', 'file = ["python/sglang/loader.py", "python/sglang/srt/loader.py"]'
        )
    )
    result = run("refresh", SET, "--onto", tree)
    assert result.exit_code == 0, result.output
    new = set(stored()) - {"guard.patch", "remember.patch", "quiet.patch"}
    assert new == {"remember_new.patch", "quiet_new.patch"}
    assert all("a/python/sglang/srt/loader.py" in stored()[file] for file in new)


def test_a_clean_merge_is_applied_only_when_asked_and_stays_marked(tmp_path, run):
    tree = write_tree(tmp_path / "tree")
    (tree / LOADER).write_text((tree / LOADER).read_text().replace("    try:\n", "    try:  # to build\n"))
    assert run("apply", tree, "--in-place").exit_code == 5
    result = run("apply", tree, "--in-place", "--merge", "--fix", "remember")
    assert result.exit_code == 0, result.output
    assert "merged in three ways" in result.stdout
    assert "remember(name)" in (tree / LOADER).read_text()
    assert "merged it into a shape it was not cut for" in run("check", tree).stdout
    assert run("revert", tree).exit_code == 0


def test_a_merged_commit_says_which_variant_it_came_from(clone, run):
    text = (clone.root / LOADER).read_text().replace("    try:\n", "    try:  # to build\n")
    (clone.root / LOADER).write_text(text)
    clone.git("commit", "-qam", "mine")
    assert run("apply", clone.root, "--in-place", "--merge", "--fix", "remember").exit_code == 0
    verdicts = {v["fix"]: v for v in json.loads(run("check", clone.root, "--json").stdout)["verdicts"]}
    assert (verdicts["remember"]["verdict"], verdicts["remember"]["variant"]) == ("applied", "remember.patch")


def test_nothing_to_refresh_says_so(tmp_path, run):
    result = run("refresh", SET, "--onto", write_tree(tmp_path / "tree"))
    assert result.exit_code == 0
    assert "nothing of sglang/test-set to refresh" in result.stdout
