"""Real files of real releases, patched by real git, for tests that run the code a fix leaves behind."""

import functools
import os
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from packaging.version import Version

from rocmfix.catalog import Fix, Variant, load
from rocmfix.tree import PACKAGE, Tree
from tests.fixes.world import World, forget

CATALOG = load(Path(__file__).parents[2] / "patches")


@dataclass(frozen=True)
class WheelTree:
    """A wheel, read where it lies."""

    archive: zipfile.ZipFile
    source: str
    release: str | None

    def read(self, path: str) -> bytes | None:
        name = self.shown(path)
        return self.archive.read(name) if name in self.archive.NameToInfo else None

    def shown(self, path: str) -> str:
        return path.removeprefix("python/")

    def paths(self, under: str) -> Iterable[str]:
        return sorted(
            f"python/{name}"
            for name in self.archive.namelist()
            if name.startswith(self.shown(under)) and not name.endswith("/")
        )


@pytest.fixture(scope="session")
def release_tree() -> Callable[[str], Tree]:
    """Gives the tree of a release from its wheel in $ROCMFIX_WHEELS."""

    @functools.lru_cache(maxsize=None)
    def tree(version: str) -> Tree:
        (wheel,) = Path(os.environ["ROCMFIX_WHEELS"]).glob(f"sglang-{version}-*.whl")
        return WheelTree(zipfile.ZipFile(wheel), version, version)

    return tree


@pytest.fixture
def checkout(tmp_path: Path, release_tree: Callable[[str], Tree]) -> Iterator[Callable[..., World]]:
    """`checkout(release, *files, fix=ID)` writes those files of a release, applies that fix with git, and opens them."""
    opened: list[World] = []
    before = forget()

    def make(release: str, *files: str, fix: str | None = None) -> World:
        tree = release_tree(release)
        root = tmp_path / f"{release}-{fix}-{len(opened)}"
        patch = patch_for(fix, release) if fix else None
        for file in sorted({*expand(tree, files), *(patch[1] if patch else ())}):
            data = tree.read(file)
            assert data is not None, f"{release} has no {file}"
            path = root / file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        if patch:
            git_apply(root, patch[0])
        opened.append(World(root / "python"))
        return opened[-1]

    yield make
    for world in opened:
        world.close()
    forget()
    sys.modules.update(before)


def expand(tree: Tree, files: tuple[str, ...]) -> Iterator[str]:
    """Repository paths of `files`, which are relative to the package; one that ends in `/` means all below it."""
    for file in files:
        path = f"{PACKAGE}/{file}"
        yield from tree.paths(path) if file.endswith("/") else (path,)


def patch_for(fix_id: str, release: str) -> tuple[Path, tuple[str, ...]]:
    """The patch of the variant cut for `release`, and the files it touches."""
    patches, fix = CATALOG.find(fix_id)
    variant = variant_for(fix, release)
    return patches.folder / variant.file, patches.patch(variant).paths


def variant_for(fix: Fix, release: str) -> Variant:
    (found,) = (v for v in fix.variant if Version(v.since) <= Version(release) < Version(v.until or "9999"))
    return found


def git_apply(root: Path, patch: Path) -> None:
    """Apply `patch` below `root` as a user would by hand: strict, and isolated from any repository around."""
    env = {**os.environ, "GIT_CEILING_DIRECTORIES": str(root.parent), "GIT_CONFIG_GLOBAL": "/dev/null"}
    done = subprocess.run(["git", "apply", str(patch)], cwd=root, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
