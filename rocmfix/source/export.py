"""Writes a tree out as a folder."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Protocol, runtime_checkable

from rocmfix.errors import SourceError
from rocmfix.system.files import Copied, write_out
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
        raise SourceError(f"cannot write {tree.source} to {into}: {error}") from error


def _files(tree: Tree) -> Iterable[Copied]:
    for path in tree.paths(""):
        yield Copied(path, tree.read(path) or b"")
