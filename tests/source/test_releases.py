"""The list of releases: complete, unambiguous, and helpful about what is not in it."""

import json
import subprocess
import sys
from datetime import date
from pathlib import Path

import pytest

from rocmfix.errors import CatalogError, SourceError
from rocmfix.releases import load_releases, releases
from rocmfix.shipped import shipped
from rocmfix.source import open_tree

KNOWN = (
    "0.5.8 0.5.8.post1 0.5.9 0.5.10 0.5.10.post1 0.5.11 0.5.12 0.5.12.post1 0.5.13 0.5.13.post1 0.5.14 0.5.15 "
    "0.5.15.post1 0.5.16 0.5.17 0.5.18 0.5.19 0.5.20 0.5.21 0.5.22 0.5.23"
)


def test_holds_every_release_oldest_first_with_every_wheel() -> None:
    known = releases()
    assert known.versions() == tuple(KNOWN.split())
    assert known.find("0.5.8").date == date(2026, 1, 23)
    assert len(known.find("0.5.23").wheels) == 6
    assert not any("cp310" in name for name in known.find("0.5.23").wheels)
    assert {len(wheel.sha256) for release in known.release for wheel in release.wheels.values()} == {64}


def test_names_no_package_index() -> None:
    """The index is the user's own: pip asks it."""
    assert "http" not in (shipped("patches") / "sglang/releases.toml").read_text()


@pytest.mark.parametrize("version", ["0.5.14", "v0.5.14", "0.5.14.0"])
def test_a_release_is_found_however_it_is_written(version: str) -> None:
    assert releases().find(version).version == "0.5.14"


@pytest.mark.parametrize(
    ("version", "nearest"),
    [("0.5.24", "0.5.23"), ("0.5.14.post1", "0.5.14"), ("0.5.15rc1", "0.5.14"), ("0.4", "0.5.8"), ("1!0.1", "0.5.23")],
)
def test_an_unknown_release_names_the_nearest_and_another_way(version: str, nearest: str) -> None:
    with pytest.raises(SourceError, match=f"nearest is {nearest}$") as caught:
        open_tree(version)
    assert "pip download" in (caught.value.hint or "")


WHEEL = '"sglang-0.5.8-py3-none-any.whl" = { size = 1, sha256 = "' + "0" * 64 + '" }'
ENTRY = f'[[release]]\nversion = "0.5.8"\ndate = 2026-01-23\n[release.wheels]\n{WHEEL}\n'


@pytest.mark.parametrize(
    "text",
    [
        "project = 1",
        "not toml",
        'project = "sglang"\n' + ENTRY + ENTRY,
        'project = "sglang"\n' + ENTRY.replace("0" * 64, "xyz"),
        'project = "sglang"\n' + ENTRY.replace('version = "0.5.8"', 'version = "0.5.9"'),
        'project = "sglang"\n' + ENTRY.replace(WHEEL, ""),
        'project = "sglang"\nextra = 1\n' + ENTRY,
        'project = "sglang"\n' + ENTRY.replace("0.5.8", "0.5.9") + ENTRY,
    ],
)
def test_a_wrong_list_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "releases.toml").write_text(text)
    with pytest.raises(CatalogError, match="no list of releases"):
        load_releases(tmp_path / "releases.toml")


def test_ci_releases_writes_what_loads(tmp_path: Path) -> None:
    """From the index's answer: no pre-release, no yanked file, no source archive, nothing older than asked for."""

    def file(name: str, **more: object) -> dict[str, object]:
        return {
            "filename": name,
            "hashes": {"sha256": "a" * 64},
            "size": 5,
            "upload-time": "2026-02-03T04:05:06Z",
            **more,
        }

    answer = [
        file("sglang-0.5.9-py3-none-any.whl"),
        file("sglang-0.5.10-cp311-cp311-win32.whl"),
        file("sglang-0.5.10-cp312-cp312-win32.whl", **{"upload-time": "2026-02-01T00:00:00Z"}),
        file("sglang-0.5.10rc1-py3-none-any.whl"),
        file("sglang-0.5.10.tar.gz"),
        file("sglang-0.5.11-py3-none-any.whl", yanked="broken"),
        file("sglang-0.5.8-py3-none-any.whl"),
    ]
    root = Path(__file__).parents[2]
    said = subprocess.run([sys.executable, root / "ci/releases", "0.5.9"], input=json.dumps({"files": answer}), capture_output=True, text=True, check=True)  # fmt: skip
    (tmp_path / "releases.toml").write_text(said.stdout)
    loaded = load_releases(tmp_path / "releases.toml")
    assert loaded.versions() == ("0.5.9", "0.5.10")
    assert loaded.find("0.5.10").date == date(2026, 2, 1)
    assert len(loaded.find("0.5.10").wheels) == 2
