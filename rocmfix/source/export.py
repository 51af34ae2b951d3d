"""Writes a tree out as a folder."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Protocol, runtime_checkable

from rocmfix.errors import SourceError
from rocmfix.system.files import Copied, new_folder, write_out
from rocmfix.tree import Tree


@runtime_checkable
class Whole(Protocol):
    """A tree that knows all of itself: files outside the package, modes and links too."""

    def copies(self) -> Iterable[Copied]:
        """Everything that a folder with this tree would hold, as the tree spells it."""


def export(tree: Tree, into: Path) -> None:
    """Write `tree` into the empty folder `into`, in its own layout."""
    copies = tree.copies() if isinstance(tree, Whole) else _files(tree)
    try:
        write_out(into, copies)
    except OSError as error:
        raise SourceError(
            f"cannot write {tree.source} to {into}: {error.strerror or error}",
            hint="name a folder where there is room and where you may write",
        ) from error


def _files(tree: Tree) -> Iterable[Copied]:
    for path in tree.paths(""):
        yield Copied(path, tree.read(path) or b"")


def export_sources(tree: Tree, folder: Path) -> int:
    """Write the project's files to the new `folder` as upstream's repository has them; return how many.

    Raises SourceError when `folder` exists and holds something, and leaves nothing on failure.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise SourceError(f"{folder} exists and is not empty", hint="name a new folder")
    paths = tuple(tree.paths("python"))
    try:
        with new_folder(folder) as work:
            write_out(work, (Copied(path, tree.read(path) or b"") for path in paths))
    except OSError as error:
        raise SourceError(
            f"cannot make the folder {folder}: {error.strerror or error}", hint="name a folder where you may write"
        ) from error
    return len(paths)
