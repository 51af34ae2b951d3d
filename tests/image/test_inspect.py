"""Claims about an image are held against what it holds."""

from __future__ import annotations

import pytest

from rocmfix.catalog import load
from rocmfix.image.compare import compare
from rocmfix.image.inspect import Seen, xray
from rocmfix.image.text import claims_lines, compare_lines, facts_lines
from rocmfix.image.tree import ImageTree, Layout
from rocmfix.system.container import File
from tests.image.conftest import rocmfix

PACKAGE = "/sgl-workspace/sglang/python/sglang"


def seen(name: str = "lmsysorg/sglang:v0.5.14-rocm720-mi35x", release: str = "0.5.14", **more) -> Seen:
    files = {
        f"{PACKAGE}/_version.py": f"__version__ = '{release}'\n".encode(),
        "/sgl-workspace/aiter/aiter/configs/tuned_fmoe.csv": b"a,b\n1,2\n3,4\n\n",
        "/sgl-workspace/aiter/aiter/configs/untuned_fmoe.csv": b"a\n1\n",
    }
    held = {
        path: File(path, data, 0o644, 0, 0, 1, size=len(data))
        for path, data in {**files, **more.pop("files", {})}.items()
    }
    values = {
        "id": "sha256:1", "size": 10, "platform": "linux/amd64", "labels": {}, "env": (("GPU_ARCH", "gfx950-rocm720"),),
        "layers": ("a", "b"), "commit": "c" * 40, "aiter": None, "manifest": None,
    }  # fmt: skip
    return Seen(
        name=name, tree=ImageTree(f"image:{name}", Layout(PACKAGE, "/sgl-workspace/aiter"), held), **{**values, **more}
    )


def untrue(image: Seen) -> list[tuple[str, str, str]]:
    return [(d.who, d.says, d.holds) for d in xray(load(), image).disagreements]


def test_an_image_that_is_what_it_says_has_nothing_untrue():
    assert (
        untrue(
            seen(labels={"org.opencontainers.image.version": "v0.5.14", "org.opencontainers.image.revision": "c" * 40})
        )
        == []
    )


@pytest.mark.parametrize(
    ("image", "who", "holds"),
    [
        (seen(release="0.5.15.dev3"), "tag v0.5.14-rocm720-mi35x", "sglang 0.5.15.dev3"),
        (seen(name="x/y:v0.5.14-rocm720-mi30x-20260701"), "tag v0.5.14-rocm720-mi30x-20260701", "GPU_ARCH=gfx950-rocm720"),
        (seen(labels={"org.opencontainers.image.version": "0.5.13"}), "label org.opencontainers.image.version", "sglang 0.5.14"),
        (seen(labels={"org.opencontainers.image.revision": "d" * 40}), "label org.opencontainers.image.revision", "c" * 40),
        (seen(labels={"io.rocmfix.fixes": "x"}), "label io.rocmfix.fixes", "no manifest in the image"),
        (seen(shadow="/opt/venv/sglang"), "site-packages", f"judged: {PACKAGE}"),
    ],
    ids=["release", "gpu", "version", "revision", "manifest", "shadow"],
)  # fmt: skip
def test_what_is_untrue_is_named(image, who, holds):
    assert [(name, what) for name, _, what in untrue(image)] == [(who, holds)]


def test_tables_are_counted_without_blank_lines_and_untuned_ones_left_out():
    assert [(t.path.rpartition("/")[2], t.rows) for t in xray(load(), seen()).tables] == [("tuned_fmoe.csv", 2)]


def test_many_shipped_tables_are_one_line_and_what_the_env_names_is_one_of_its_own():
    configs = {f"/sgl-workspace/aiter/aiter/configs/model_configs/m{n}_tuned_fmoe.csv": b"a\n1\n" for n in range(9)}
    env = (("AITER_CONFIG_FMOE", "/t.csv"), ("GPU_ARCH", "gfx950-rocm720"))
    lines = list(facts_lines(xray(load(), seen(files={**configs, "/t.csv": b"a\n1\n2\n"}, env=env))))
    assert [line for line in lines if line.startswith("table")] == [
        "table     /t.csv  2 rows  AITER_CONFIG_FMOE", "tables    10 that AITER ships  11 rows",
    ]  # fmt: skip


def test_people_read_the_untrue_last():
    lines = list(claims_lines(xray(load(), seen(release="0.5.15"))))
    assert lines[-1].startswith("UNTRUE    tag v0.5.14-rocm720-mi35x says v0.5.14; the image holds sglang 0.5.15")


def test_two_images_are_compared_by_layers_files_env_and_tables():
    one = seen()
    other = seen(
        release="0.5.15", layers=("a", "c", "d"), env=(("GPU_ARCH", "gfx942"),),
        files={"/sgl-workspace/aiter/aiter/configs/tuned_fmoe.csv": b"a,b\n1,2\n"},
    )  # fmt: skip
    comparison = compare((one, xray(load(), one)), (other, xray(load(), other)))
    assert (comparison.shared_layers, comparison.own_layers) == (1, (1, 2))
    assert [d.name for d in comparison.files] == ["python/sglang/_version.py"]
    assert [(d.one, d.other) for d in comparison.env] == [("gfx950-rocm720", "gfx942")]
    assert len(comparison.tables) == 1
    assert any(line.startswith("sglang") and "0.5.14 -> 0.5.15" in line for line in compare_lines(comparison))


def test_an_image_compared_with_itself_differs_in_nothing():
    one = seen()
    comparison = compare((one, xray(load(), one)), (one, xray(load(), one)))
    assert comparison.is_same
    assert list(compare_lines(comparison))[-1] == "nothing that was looked at differs"


@pytest.mark.docker
@pytest.mark.upstream
def test_a_stock_image_needs_fixes_and_ours_does_not(base, built):
    stock, ours = rocmfix("inspect", base), rocmfix("inspect", built)
    assert stock.exit_code in (10, 11)
    assert "jit-fused-metadata-guard" in stock.stdout
    assert "not by rocmfix" in stock.stdout
    assert stock.stdout.endswith(" known defects judged\n")
    assert "flavour mi35x-rocm720" in ours.stdout
    assert "7d604afe5fa7efba63c0dce323b95d9daf2db112" in ours.stdout
    assert "UNTRUE" not in ours.stdout


@pytest.mark.docker
@pytest.mark.upstream
def test_comparing_with_the_base_shows_the_fixes(base, built):
    result = rocmfix("compare", base, built)
    assert result.exit_code == 0
    assert "jit-fused-metadata-guard: needed -> applied" in result.stdout
    assert "1 shared, 0 only in one, 1 only in the other" in result.stdout


@pytest.mark.docker
@pytest.mark.upstream
def test_an_image_is_a_source_like_any_other(base, built):
    """`check image:REF` reads the tree inside, and our manifest there: applied, not upstream."""
    stock, ours = rocmfix("check", f"image:{base}"), rocmfix("check", f"image:{built}")
    assert "rocmfix applied it" in ours.stdout
    assert stock.exit_code in (10, 11)
    assert "rocmfix applied it" not in stock.stdout


@pytest.mark.docker
def test_an_image_name_that_is_none():
    result = rocmfix("check", "image:Not A Name")
    assert result.exit_code == 3
    assert "names no image" in result.stderr
