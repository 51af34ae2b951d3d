"""Proposes a patch for a shape that no variant fits: a three-way merge from the release a variant was cut for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath

from rocmfix.catalog import Fix, PatchSet, Variant
from rocmfix.diff import unified
from rocmfix.errors import ApplyError
from rocmfix.hunks import Applied, apply_changes
from rocmfix.patchfile import Patch, message_part, parse_patch
from rocmfix.source import open_release
from rocmfix.system import files
from rocmfix.system.merge import merge
from rocmfix.system.repo import FILE, Blobs, Entry, Repo, new_repo
from rocmfix.tree import Tree


@dataclass(frozen=True)
class Proposal:
    """A fix merged into a tree it was not cut for. Clean or not, a person decides."""

    fix: Fix
    variant: Variant
    """The variant it was merged from."""
    files: Mapping[str, bytes | None]
    """The merged files by repository path; with conflict markers where `conflicts` names them."""
    conflicts: tuple[str, ...]
    messages: tuple[str, ...]


def propose(patches: PatchSet, fix: Fix, tree: Tree, *, offline: bool = False) -> Proposal:
    """The best merge of a variant of `fix` into `tree`: a clean one if any variant gives one.

    The base of the merge is the file as it was in the release that the variant was cut for, whose wheel this
    needs. Files that moved are followed. Raises ApplyError when the fix has no variant.
    """
    if not fix.variant:
        raise ApplyError(f"{fix.id} has no variant to merge from", hint=f"write one: {patches.folder}")
    proposals = [_merged(patches, fix, variant, tree, offline=offline) for variant in reversed(fix.variant)]
    return min(proposals, key=lambda proposal: len(proposal.conflicts))


def as_patch(patches: PatchSet, proposal: Proposal, tree: Tree) -> Patch:
    """The proposal as a patch for this very tree, with the author and message of the variant it came from."""
    return parse_patch(patch_text(patches, proposal, tree).encode(), f"{patches.name}/{proposal.variant.file}")


def patch_text(patches: PatchSet, proposal: Proposal, tree: Tree) -> str:
    """The same as the text of a `git format-patch` file."""
    before = {path: tree.read(path) for path in proposal.files}
    return message_part(patches.text(proposal.variant)) + "".join(unified(before, proposal.files))


def _merged(patches: PatchSet, fix: Fix, variant: Variant, tree: Tree, *, offline: bool) -> Proposal:
    base_tree = open_release(variant.since, offline=offline)
    patch = patches.patch(variant)
    base = {path: base_tree.read(path) for path in patch.paths}
    result = apply_changes(patch.changes, base.get)
    if not isinstance(result, Applied):
        raise ApplyError(f"{variant.file} does not apply to {variant.since}, the release it says it was cut for")
    ours = {path: tree.read(path) for path in _kin(tree, patch.paths)}
    with files.scratch_folder() as folder:
        repo = new_repo(folder)
        sides = [_write(repo, side) for side in (base, ours, result.files)]
        merged = merge(repo, base=sides[0], ours=sides[1], theirs=sides[2])
        return Proposal(fix, variant, _changed(repo, sides[1], merged.tree), merged.conflicts, merged.messages)


def _kin(tree: Tree, paths: tuple[str, ...]) -> tuple[str, ...]:
    """The files of `tree` at `paths`, or those of the same name elsewhere: where such a file may have moved."""
    missing = {PurePosixPath(path).name for path in paths if tree.read(path) is None}
    moved = [path for path in tree.paths("python") if PurePosixPath(path).name in missing] if missing else []
    return (*(path for path in paths if tree.read(path) is not None), *moved)


def _write(repo: Repo, side: Mapping[str, bytes | None]) -> str:
    return repo.write_tree(
        None, {path: Entry(FILE, repo.write_blob(data)) for path, data in side.items() if data is not None}
    )


def _changed(repo: Repo, ours: str, merged: str) -> dict[str, bytes | None]:
    before, after = repo.entries(ours), repo.entries(merged)
    changed = sorted(path for path in {*before, *after} if before.get(path) != after.get(path))
    with Blobs(repo) as blobs:
        return {path: blobs.read(after[path].blob) if path in after else None for path in changed}
