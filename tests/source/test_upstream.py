"""What is claimed of real releases: each opens, claims itself, and any of its wheels serves."""

from collections.abc import Callable
from pathlib import Path

import pytest

from rocmfix.releases import Release, releases
from rocmfix.source import open_releases, open_tree
from rocmfix.source.cache import wheel_of
from rocmfix.tree import Tree
from tests.conftest import WHEELS

pytestmark = pytest.mark.upstream


def test_every_release_opens_and_claims_itself(release_tree: Callable[[str], Tree]) -> None:
    for version in releases().versions():
        tree = release_tree(version)
        assert tree.release == version
        assert tree.read("python/sglang/version.py")
        assert len(list(tree.paths("python/sglang"))) > 1000


def test_all_releases_open_together_without_network(
    release_tree: Callable[[str], Tree], monkeypatch: pytest.MonkeyPatch
) -> None:
    for version in releases().versions():
        release_tree(version)
    monkeypatch.setenv("ROCMFIX_CACHE", str(WHEELS))
    assert [tree.release for tree in open_releases(offline=True)] == list(releases().versions())


def test_any_wheel_of_a_release_has_the_same_source(tmp_path: Path, release_tree: Callable[[str], Tree]) -> None:
    """Made for another Python and another machine; only compiled modules differ."""
    known = releases().find("0.5.11")
    here = release_tree("0.5.11")
    name = next(name for name in known.wheels if "cp310" in name and "aarch64" in name)
    other_only = Release(version=known.version, date=known.date, wheels={name: known.wheels[name]})
    there = open_tree(str(wheel_of("sglang", other_only, tmp_path, offline=False)))
    source = [path for path in there.paths("python/sglang") if not path.endswith(".so")]
    assert source == [path for path in here.paths("python/sglang") if not path.endswith(".so")]
    assert [path for path in source if here.read(path) != there.read(path)] == []
