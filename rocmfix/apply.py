"""Writes a patched tree to disk, or takes it back: everything or nothing."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path, PurePosixPath

from rocmfix.errors import ApplyError
from rocmfix.plan import Patched
from rocmfix.record import read_state
from rocmfix.source.folder import DirTree
from rocmfix.state import FOLDER, STATE, State, before_file, edited_since
from rocmfix.system import files, journal
from rocmfix.tree import Tree


def write_in_place(tree: DirTree, patched: Patched) -> None:
    """Write `patched` into the plain tree it was made from, with the record that `revert_plain` needs.

    Raises ApplyError with the tree as it was: a link in the way, a full disk, a file edited in between.
    """
    if not patched.changes:
        return
    before = {_located(tree, path): data for path, data in patched.before.items()}
    after = {_located(tree, path): data for path, data in patched.after.items()}
    state = (read_state(tree) or State()).then(patched)
    journal.replace_all(tree.root, {**after, **_kept(tree, state), **_stale(tree, after)}, expected=before)


def write_out(tree: Tree, patched: Patched, out: Path) -> None:
    """Write a patched copy of `tree` to the new folder `out`, with the record that `revert_plain` needs.

    Raises ApplyError when `out` exists; a failure or Ctrl-C leaves no part of it.
    """
    from rocmfix.source import export, open_tree

    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise ApplyError(f"{out} exists and is not empty", hint="name a new folder, or use --in-place on a tree")
    with files.new_folder(out) as work:
        export(tree, work)
        copy = open_tree(str(work))
        if not isinstance(copy, DirTree):
            raise TypeError(copy)
        write_in_place(copy, patched)


def revert_plain(tree: DirTree, state: State) -> tuple[str, ...]:
    """Put every file of `state` back to the byte, remove the record, and return the paths.

    Raises ApplyError when a file was edited since, naming each.
    """
    edited = edited_since(state, {file.path: tree.read(file.path) for file in state.files})
    if edited:
        raise ApplyError(
            f"{len(edited)} file(s) of {tree.source} were edited after rocmfix patched them; nothing was reverted",
            details=tuple(tree.shown(path) for path in edited),
            hint="save your edits as a patch, restore those files from rocmfix diff, and revert again",
        )
    back = {_located(tree, file.path): _before(tree, file.before) for file in state.files}
    blobs = {file.before for file in state.files if file.before}
    gone: dict[str, bytes | None] = dict.fromkeys((STATE, *map(before_file, blobs)))
    journal.replace_all(tree.root, {**back, **gone, **_stale(tree, back)})
    return tuple(back)


def _located(tree: DirTree, path: str) -> str:
    located = tree.locate(path)
    if located is None:
        raise ApplyError(f"{path} has no place in {tree.source}", hint="give the folder above the sglang package")
    return located


def _kept(tree: DirTree, state: State) -> dict[str, bytes | None]:
    """The record, and each file as it was before rocmfix unless it is kept already."""
    kept: dict[str, bytes | None] = {STATE: state.model_dump_json(indent=2).encode() + b"\n"}
    for file in state.files:
        if file.before and files.read_inside(tree.root, before_file(file.before)) is None:
            kept[before_file(file.before)] = tree.read(file.path)
    return kept


def _before(tree: DirTree, blob: str | None) -> bytes | None:
    if blob is None:
        return None
    data = files.read_inside(tree.root, before_file(blob))
    if data is None:
        raise ApplyError(
            f"{tree.root}/{before_file(blob)} is missing", hint=f"fetch the tree again; {FOLDER} is damaged"
        )
    return data


def _stale(tree: DirTree, changed: Mapping[str, bytes | None]) -> dict[str, bytes | None]:
    """Bytecode of changed modules, to be removed: Python may trust it over the new source."""
    stale: dict[str, bytes | None] = {}
    for path in changed:
        source = PurePosixPath(path)
        if source.suffix == ".py":
            cache = tree.root / source.parent / "__pycache__"
            found = sorted(cache.glob(f"{source.stem}.*.pyc")) if cache.is_dir() else []
            stale.update({str(each.relative_to(tree.root)): None for each in found})
    return stale
