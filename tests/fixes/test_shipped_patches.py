"""Every shipped patch: taken by real `git am` and `git apply` on each release it is for, and written as refresh would."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from rocmfix.catalog import PatchSet, Variant, load
from rocmfix.checkout import open_checkout
from rocmfix.hunks import Applied, apply_changes
from rocmfix.model import Outcome
from rocmfix.plan import Wanted, carry_out, make_plan
from rocmfix.refresh import exports
from rocmfix.source.folder import open_folder
from rocmfix.system.files import Copied, write_out
from rocmfix.verdict import judge_all

pytestmark = pytest.mark.upstream
CATALOG = load()
VARIANTS = [(patches, variant) for patches, fix in CATALOG.fixes() for variant in fix.variant]
GIT = ["git", "-c", "user.name=T", "-c", "user.email=t@example.com"]
ENV = {**os.environ, "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1"}


def git(root: Path, *args: str) -> str:
    done = subprocess.run([*GIT, *args], cwd=root, env=ENV, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def checkout(release_tree, tmp_path: Path):
    """`checkout(release, paths)`: a repository that holds those files of a release, in upstream's layout."""

    def make(release: str, paths: tuple[str, ...]) -> Path:
        tree = release_tree(release)
        root = tmp_path / release
        root.mkdir()
        write_out(root, (Copied(path, tree.read(path) or b"") for path in paths))
        (root / "python/sglang/srt").mkdir(parents=True, exist_ok=True)
        git(root, "init", "-q")
        git(root, "add", "-A")
        git(root, "commit", "-q", "-m", release)
        return root

    return make


@pytest.mark.parametrize(("patches", "variant"), VARIANTS, ids=[variant.file for _, variant in VARIANTS])
def test_git_am_makes_of_it_what_we_make_of_it(patches: PatchSet, variant: Variant, checkout):
    patch = patches.patch(variant)
    root = checkout(variant.since, patch.paths)
    before = {path: (root / path).read_bytes() for path in patch.paths}
    git(root, "am", "-q", str(patches.folder / variant.file))
    result = apply_changes(patch.changes, before.get)
    assert isinstance(result, Applied)
    assert {path: (root / path).read_bytes() for path in patch.paths} == result.files


@pytest.mark.parametrize(("patches", "variant"), VARIANTS, ids=[variant.file for _, variant in VARIANTS])
def test_it_is_written_as_refresh_writes_it(patches: PatchSet, variant: Variant, checkout, release_tree, request):
    """Cut on the release it says it was cut for; `--update-golden` rewrites it."""
    fix = next(fix for fix in patches.series.fix if variant in fix.variant)
    tree = release_tree(variant.since)
    plan = make_plan(CATALOG, judge_all(CATALOG, tree), Wanted(fixes=(fix.id,)))
    assert [step.variant for step in plan.apply] == [variant.file]
    root = checkout(variant.since, patches.patch(variant).paths)
    folder = open_folder(root, source=str(root))
    made = open_checkout(folder)
    assert made is not None
    made.commit(carry_out(CATALOG, plan, tree), lambda _: {})
    (export,) = exports(patches, folder)
    if export.is_changed and request.config.getoption("--update-golden"):
        (patches.folder / export.file).write_text(export.text)
    assert not export.is_changed or request.config.getoption("--update-golden")


def test_what_a_release_needs_fits_together_in_one_git_apply(release_tree, checkout):
    """The whole plan of the oldest and newest release of each variant, as one stream, by real git."""
    for release in sorted({variant.since for _, variant in VARIANTS}):
        tree = release_tree(release)
        report = judge_all(CATALOG, tree)
        patched = carry_out(CATALOG, make_plan(CATALOG, report), tree)
        needed = [v.fix for v in report.verdicts if v.verdict is Outcome.NEEDED]
        assert [change.step.fix for change in patched.changes] == needed
        root = checkout(release, tuple(patched.before))
        for change in patched.changes:
            folder = CATALOG.find(change.step.fix)[0].folder
            git(root, "apply", str(folder / change.step.variant))
        assert {path: (root / path).read_bytes() for path in patched.after} == patched.after
