"""Real files of real releases, patched by real git, for tests that run the code a fix leaves behind."""

import functools
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from packaging.version import Version

from rocmfix.catalog import load
from rocmfix.tree import PACKAGE, Tree
from tests.fixes.jit import Compiler, Jit, Replays, open_jit
from tests.fixes.world import World, forget

CATALOG = load()

ReleaseTree = Callable[[str], Tree]


@pytest.fixture(scope="session")
def patched_files(tmp_path_factory: pytest.TempPathFactory, release_tree: ReleaseTree) -> Callable[..., Path]:
    """Writes some files of a release, applies one fix to them with git, and says where; once a session."""

    @functools.cache
    def write(release: str, files: tuple[str, ...], fix: str | None) -> Path:
        root = tmp_path_factory.mktemp(f"{release}-{fix}-")
        tree = release_tree(release)
        patch, touched = patch_for(fix, release) if fix else (None, ())
        for file in {*expand(tree, files), *touched}:
            data = tree.read(file)
            assert data is not None, f"{release} has no {file}"
            (root / file).parent.mkdir(parents=True, exist_ok=True)
            (root / file).write_bytes(data)
        if patch:
            git_apply(root, patch)
        return root / "python"

    return write


@pytest.fixture
def checkout(patched_files: Callable[..., Path]) -> Iterator[Callable[..., World]]:
    """`checkout(release, *files, fix=ID)` gives those files of a release, with that fix, as a world to open."""
    opened: list[World] = []
    before = forget()

    def make(release: str, *files: str, fix: str | None = None) -> World:
        opened.append(World(patched_files(release, files, fix)))
        return opened[-1]

    yield make
    for world in opened:
        world.close()
    forget()
    sys.modules.update(before)


@pytest.fixture
def depth_5(
    checkout: Callable[..., World], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., tuple[Replays, Compiler]]:
    """`depth_5(release, hip=..., fix=...)`: a draft of 5 steps whose graphs can be replayed, and a compiler that fails."""

    def make(release: str, *, hip: str | None, fix: str | None, warn: Any = None) -> tuple[Replays, Compiler]:
        jit = Jit(release)
        world = checkout(release, *jit.files, fix=fix)
        compiler = Compiler(tmp_path, monkeypatch)
        open_jit(world, compiler, hip=hip, warn=warn)
        return Replays(world, jit, hip=hip), compiler

    return make


def expand(tree: Tree, files: tuple[str, ...]) -> Iterator[str]:
    """Repository paths of `files`, which are relative to the package; one that ends in `/` means all below it."""
    for file in files:
        path = f"{PACKAGE}/{file}"
        yield from tree.paths(path) if file.endswith("/") else (path,)


def patch_for(fix_id: str, release: str) -> tuple[Path, tuple[str, ...]]:
    """The patch of the variant cut for `release`, and the files it touches."""
    patches, fix = CATALOG.find(fix_id)
    version = Version(release)
    (variant,) = (v for v in fix.variant if Version(v.since) <= version < Version(v.until or "9999"))
    return patches.folder / variant.file, patches.patch(variant).paths


def git_apply(root: Path, patch: Path) -> None:
    """Apply `patch` below `root` as a user would by hand: strict, and isolated from any repository around."""
    env = {**os.environ, "GIT_CEILING_DIRECTORIES": str(root.parent), "GIT_CONFIG_GLOBAL": "/dev/null"}
    done = subprocess.run(["git", "apply", str(patch)], cwd=root, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
