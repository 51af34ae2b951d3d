"""What loading a catalogue refuses is what `rocmfix lint` reports."""

from __future__ import annotations

import json
import os

import pytest
from click.testing import CliRunner

from rocmfix.catalog import load
from rocmfix.cli import main
from rocmfix.errors import CatalogError
from tests.spine.catalogs import make_catalog
from tests.spine.conftest import PATCHES, SERIES

GUARD = SERIES[: SERIES.index('[[fix]]\nid = "remember"')]
FILE = {"guard.patch": PATCHES["guard.patch"]}
VARIANT = 'variant = [{ file = "guard.patch", since = "0.5.10" }]'


def refused(folder, series, patches=FILE):
    with pytest.raises(CatalogError) as caught:
        make_catalog(folder, series, patches)
    return "\n".join((caught.value.message, *caught.value.details))


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("summary =", "sumary =", "sumary: Extra inputs"),
        ('status = "merged"', 'status = "megred"', "Input should be 'merged', 'submitted'"),
        (', pr = "sgl-project/sglang#1"', "", "status merged needs the pull request"),
        (', since = "0.5.15" }', " }", "status merged needs the first release"),
        ('{ status = "merged", pr = "sgl-project/sglang#1", since = "0.5.15" }', '{ status = "local" }', "needs a reason"),
        ('why = "hipcc', 'who = "hipcc', "why: Field required"),
        ('id = "guard"', 'id = "Guard it"', "id: String should match"),
        ('include_guarded = "cuda_runtime.h"', 'include_garded = "x.h"', "a probe has exactly one of the keys"),
        ('include_guarded = "cuda_runtime.h"', 'python = "f", has = "a b"', "not Python: 'a b'"),
        ('include_guarded = "cuda_runtime.h"', 'python = "f", has = "a"', "a python probe can never hold in"),
        ('{ include_guarded = "cuda_runtime.h" }', '{ any = [{ python = "f" }, { text = "abc" }] }', "a python probe can never"),
        ('{ include_guarded = "cuda_runtime.h" }', '{ not = { python = "f" } }', "a python probe can never hold in"),
        ('include_guarded = "cuda_runtime.h"', 'text = "abc", in = "python/x.py"', "a text probe misjudges Python"),
        ('include_guarded = "cuda_runtime.h"', 'include_guarded = "a.h", in = "../x.cuh"', "leaves the tree: ../x.cuh"),
        ('include_guarded = "cuda_runtime.h"', 'include_guarded = "a.h", in = "/x.cuh"', "leaves the tree: /x.cuh"),
        ('include_guarded = "cuda_runtime.h"', 'python = "", in = "python/x.py"', "always exists"),
        ("fixed = [{", 'fixed = [{ text = "abc" }, { not = { text = "abc" } }, {', "asks for a probe and its opposite"),
        ('fixed = [{ include_guarded = "cuda_runtime.h" }]', "fixed = []", "at least 1 item"),
        (VARIANT, "", "neither a variant nor an unmended shape"),
        (VARIANT, 'variant = [{ file = "../guard.patch", since = "0.5.10" }]', "file: String should match"),
        (VARIANT, 'variant = [{ file = "guard.patch", since = "yesterday" }]', "not a release: yesterday"),
        (VARIANT, 'variant = [{ file = "guard.patch", since = "0.5.12", until = "0.5.11" }]', "ends before it begins"),
        (VARIANT, VARIANT.replace("}]", '}, { file = "guard.patch", since = "0.5.9", until = "0.5.10" }]'), "guard.patch is there twice"),
        (VARIANT, VARIANT.replace("}]", '}, { file = "other.patch", since = "0.5.12" }]'), "overlapping windows"),
        (VARIANT, VARIANT.replace("guard.patch", "gone.patch"), "gone.patch is listed, but there is no such file"),
        ('project = "sglang"', 'project = "aiter"', "says project 'aiter', but lies under sglang/"),
        ("[[fix]]", "[[fix]", "is not TOML"),
        ("[[fix]]", 'gfx = ["gx950"]\n[[fix]]', "gfx.0: Input should be 'gfx942' or 'gfx950'"),
    ],
)  # fmt: skip
def test_refuses_a_wrong_series(tmp_path, old, new, said):
    assert old in GUARD
    assert said in refused(tmp_path, GUARD.replace(old, new, 1))


def test_a_fault_is_said_once_and_names_its_fix(tmp_path):
    """A list with a wrong item is to pydantic also an empty one."""
    two = VARIANT.replace("}]", '}, { file = "other.patch", since = "0.5.12" }]')
    assert refused(tmp_path, GUARD.replace(VARIANT, two)).splitlines() == [
        "sglang/test-set/series.toml is wrong",
        "guard: guard.patch and other.patch have overlapping windows",
    ]


@pytest.mark.parametrize("old", ['id = "guard"', "[[fix]]"])
def test_a_fault_in_a_fix_without_a_name_counts_it(tmp_path, old):
    wrong = GUARD.replace('id = "guard"\n', "") if old != "[[fix]]" else GUARD.replace("[[fix]]", "[fix]")
    assert refused(tmp_path, wrong).splitlines()[1] in (
        "fix.0.id: Field required",
        "fix: Input should be a valid tuple",
    )


def test_refuses_a_patch_that_nothing_lists(tmp_path):
    said = refused(tmp_path, GUARD, {**FILE, "stray.patch": PATCHES["quiet.patch"]})
    assert "stray.patch is there, but series.toml does not list it" in said


def test_refuses_one_id_in_two_sets(tmp_path):
    make_catalog(tmp_path, GUARD, FILE, name="one")
    with pytest.raises(CatalogError, match="fix id guard is there twice"):
        make_catalog(tmp_path, GUARD, FILE, name="two")


@pytest.mark.parametrize("name", ["guard.patch", "series.toml"])
def test_refuses_a_huge_file_before_reading_it(tmp_path, name):
    make_catalog(tmp_path, GUARD, FILE)
    with (tmp_path / "sglang/test-set" / name).open("r+b") as file:
        file.truncate(100_000_000)
    with pytest.raises(CatalogError, match="larger than"):
        load(tmp_path)


@pytest.mark.parametrize("what", ["link", "device", "pipe"])
@pytest.mark.parametrize("file", ["guard.patch", "series.toml"])
def test_refuses_a_file_that_is_none(tmp_path, file, what):
    """A device has no end, and a pipe waits for one."""
    make_catalog(tmp_path, GUARD, FILE)
    there = tmp_path / "sglang/test-set" / file
    there.rename(tmp_path / "elsewhere")
    if what == "pipe":
        os.mkfifo(there)
    else:
        there.symlink_to(tmp_path / "elsewhere" if what == "link" else "/dev/null")
    with pytest.raises(CatalogError, match=f"{file}: is not a regular file"):
        load(tmp_path)


def test_an_empty_folder_is_no_catalogue(tmp_path):
    with pytest.raises(CatalogError, match="no patch sets in"):
        load(tmp_path)


def test_a_fix_that_does_not_exist_names_the_nearest(tmp_path):
    catalog = make_catalog(tmp_path, SERIES, PATCHES)
    with pytest.raises(CatalogError) as caught:
        catalog.find("gaurd")
    assert caught.value.hint == "did you mean: guard"


def test_a_set_goes_by_either_name(tmp_path):
    catalog = make_catalog(tmp_path, SERIES, PATCHES)
    assert catalog.find_set("test-set") is catalog.find_set("sglang/test-set") is catalog.sets[0]
    with pytest.raises(CatalogError) as caught:
        catalog.find_set("test")
    assert caught.value.hint == "there are: sglang/test-set"


def test_lint_says_what_was_looked_at_and_fails_with_its_own_code(tmp_path):
    make_catalog(tmp_path, SERIES, PATCHES)
    result = CliRunner().invoke(main, ["lint", "--patches", str(tmp_path)])
    assert (result.exit_code, result.stdout) == (0, f"1 sets, 3 fixes, 3 patches in {tmp_path}/sglang: sound\n")
    (tmp_path / "sglang/test-set/guard.patch").unlink()
    assert CliRunner().invoke(main, ["lint", "--patches", str(tmp_path)]).exit_code == 4


def test_the_shipped_catalogue_is_sound():
    catalog = load()
    assert {fix.id for _, fix in catalog.fixes()} >= {"jit-fused-metadata-guard", "quark-glm-nextn"}


def test_fixes_list_and_show(tmp_path):
    make_catalog(tmp_path, SERIES, PATCHES)
    listed = CliRunner().invoke(main, ["fixes", "list", "--patches", str(tmp_path)]).stdout
    assert [line.split()[0] for line in listed.splitlines()] == ["FIX", "guard", "remember", "quiet"]
    as_json = CliRunner().invoke(main, ["fixes", "list", "--json", "--patches", str(tmp_path)]).stdout
    assert [fix["id"] for each in json.loads(as_json)["sets"] for fix in each["fix"]] == ["guard", "remember", "quiet"]
    shown = CliRunner().invoke(main, ["fixes", "show", "guard", "--patches", str(tmp_path)]).stdout
    for said in ("hipcc cannot find cuda_runtime.h", "sgl-project/sglang#1 in 0.5.15", "guard.patch", "A Writer"):
        assert said in shown
