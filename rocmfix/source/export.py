"""Copies a tree out to a folder, in the layout it has."""

from __future__ import annotations

from pathlib import Path

from rocmfix.errors import SourceError
from rocmfix.source.wheel import WheelTree
from rocmfix.system import files
from rocmfix.tree import Tree


def export(tree: Tree, folder: Path) -> None:
    """Write every file of `tree` below the empty `folder`; of a wheel also what lies beside the package.

    Raises SourceError when a name in the tree leaves the folder, or when a file cannot be written.
    """
    if isinstance(tree, WheelTree):
        content = ((name, tree.archive.read(name)) for name in tree.archive.names() if not name.endswith("/"))
    else:
        content = ((tree.shown(path), tree.read(path)) for path in tree.paths(""))
    try:
        for path, data in content:
            files.write_inside(folder, path, data or b"")
    except OSError as error:
        where = error.filename or folder
        raise SourceError(f"cannot write {where}: {error.strerror or error}; nothing was kept") from error
