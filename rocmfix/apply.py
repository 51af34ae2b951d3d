"""Writes a patched tree to disk, or takes it back: everything or nothing."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from rocmfix import checkout as checkouts
from rocmfix.checkout import open_checkout
from rocmfix.errors import ApplyError
from rocmfix.plan import Patched
from rocmfix.record import read_state, refuse_half_written, roots_of
from rocmfix.source.export import export
from rocmfix.source.folder import DirTree, open_folder
from rocmfix.state import FOLDER, STATE, State, before_file, edited_since
from rocmfix.system import files, journal
from rocmfix.tree import Tree
from rocmfix.verdict import blob_id


@dataclass(frozen=True)
class Reverted:
    """What `revert` did: a line for each step, and one for all of it."""

    lines: tuple[str, ...]
    summary: str


def write(tree: Tree, patched: Patched, out: Path | None) -> str:
    """Write `patched` to the new folder `out`, or into the tree it was made from; say where.

    Raises ApplyError with everything as it was.
    """
    if out is not None:
        _write_out(tree, patched, out)
        return str(out)
    if not isinstance(tree, DirTree):
        raise ApplyError(f"{tree.source} cannot be patched in place", hint="write a patched copy: --out DIR")
    if not patched.changes:
        return tree.source
    checkout = open_checkout(tree)
    if checkout and read_state(tree) is None:
        commits = checkout.commit(patched, lambda paths: _stale(checkout.repo.folder, paths))
        return f"{tree.source} as {len(commits)} commit(s), HEAD now {commits[-1][:12]}"
    _write_plain(tree, patched)
    return tree.source


def recover(tree: Tree) -> tuple[str, ...]:
    """Put back what a killed run had written below `tree`, or in the checkout around it; the paths."""
    roots = roots_of(tree) if isinstance(tree, DirTree) else ()
    return tuple(path for root in roots for path in checkouts.recover(root))


def revert(tree: Tree, *, dry_run: bool = False) -> Reverted:
    """Take back what rocmfix did to `tree`. Raises ApplyError when it did nothing, or files were edited since."""
    if not isinstance(tree, DirTree):
        raise ApplyError(
            f"{tree.source} is not a folder: there is nothing to revert",
            hint="give the folder that apply patched (--in-place) or wrote (--out)",
        )
    restored = () if dry_run else tuple(f"restored {path}" for path in recover(tree))
    refuse_half_written(tree)
    state = read_state(tree)
    if state:
        paths = _revert_plain(tree, state, dry_run=dry_run)
        return Reverted(tuple(f"restored {path}" for path in paths), f"{len(state.fixes)} fix(es) in {tree.source}")
    checkout = open_checkout(tree)
    if restored and not (checkout and checkout.ours()):
        return Reverted(restored, f"what a killed run had written in {tree.source}")
    if checkout is None:
        raise ApplyError(
            f"rocmfix did nothing in {tree.source}: no {STATE} there, and no checkout",
            hint="give the folder that apply patched (--in-place) or wrote (--out)",
        )
    lines = checkout.revert(lambda paths: _stale(checkout.repo.folder, paths), dry_run=dry_run)
    return Reverted(lines, f"{len(lines)} commit(s) in {tree.source}")


def _write_plain(tree: DirTree, patched: Patched) -> None:
    before = {_located(tree, path): data for path, data in patched.before.items()}
    after = {_located(tree, path): data for path, data in patched.after.items()}
    state = (read_state(tree) or State()).then(patched)
    journal.replace_all(tree.root, {**after, **_kept(tree, state), **_stale(tree.root, after)}, expected=before)


def _write_out(tree: Tree, patched: Patched, out: Path) -> None:
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise ApplyError(f"{out} exists and is not empty", hint="name a new folder, or use --in-place on a tree")
    try:
        with files.new_folder(out) as work:
            export(tree, work)
            _write_plain(open_folder(work, source=str(out)), patched)
    except OSError as error:
        raise ApplyError(
            f"cannot make the folder {out}: {error.strerror or error}", hint="name a folder where you may write"
        ) from error


def _revert_plain(tree: DirTree, state: State, *, dry_run: bool) -> tuple[str, ...]:
    edited = edited_since(state, {file.path: tree.read(file.path) for file in state.files})
    if edited:
        raise ApplyError(
            f"{len(edited)} file(s) of {tree.source} were edited after rocmfix patched them; nothing was reverted",
            details=tuple(tree.shown(path) for path in edited),
            hint="keep your edits elsewhere, put those files back as rocmfix left them, and revert again",
        )
    back = {_located(tree, file.path): _before(tree, file.before) for file in state.files}
    blobs = {file.before for file in state.files if file.before}
    gone: dict[str, bytes | None] = dict.fromkeys((STATE, *map(before_file, blobs)))
    if not dry_run:
        journal.replace_all(tree.root, {**back, **gone, **_stale(tree.root, back)})
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
    if blob_id(data) != blob:
        raise ApplyError(
            f"{tree.root}/{before_file(blob)} was edited: it is not what its name says; nothing was reverted",
            hint=f"fetch the tree again; {FOLDER} is damaged",
        )
    return data


def _stale(root: Path, changed: Iterable[str]) -> dict[str, None]:
    """Bytecode of changed modules, to be removed: Python may trust it over the new source."""
    stale: dict[str, None] = {}
    for path in changed:
        source = PurePosixPath(path)
        if source.suffix == ".py":
            cache = root / source.parent / "__pycache__"
            found = sorted(cache.glob(f"{source.stem}.*.pyc")) if cache.is_dir() else []
            stale.update({str(each.relative_to(root)): None for each in found})
    return stale
