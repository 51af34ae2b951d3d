"""Keeps `.patch` files in step with commits, and cuts a new variant where none fits."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from packaging.version import Version

from rocmfix.catalog import Fix, PatchSet, Variant
from rocmfix.checkout import FIX, PATCH, Checkout, open_checkout
from rocmfix.errors import ApplyError
from rocmfix.merge import Proposal, patch_text, propose
from rocmfix.model import Outcome
from rocmfix.patchfile import parse_patch
from rocmfix.source.folder import DirTree
from rocmfix.system.files import write_atomic
from rocmfix.tree import Tree
from rocmfix.verdict import judge


@dataclass(frozen=True)
class Export:
    """One patch file as it would be written, and what has to be added to `series.toml` for it, if anything."""

    file: str
    text: str
    old: str | None
    entry: str | None = None

    @property
    def is_changed(self) -> bool:
        """Whether writing it would change a byte."""
        return self.text != self.old


def exports(patches: PatchSet, tree: Tree, *, offline: bool = False) -> tuple[Export, ...]:
    """What `refresh SET --onto TREE` writes.

    From a checkout that has our commits, each commit of the set is exported back to its patch file. From any other
    tree, each fix of the set that is a conflict there gets a new variant by a three-way merge. Raises ApplyError
    when the merge conflicts, with the conflicting lines.
    """
    checkout = open_checkout(tree) if isinstance(tree, DirTree) else None
    commits = checkout.ours() if checkout else {}
    ids = {fix.id for fix in patches.series.fix}
    if checkout and ids & set(commits):
        return tuple(_exported(patches, checkout, fix_id) for fix_id in commits if fix_id in ids)
    return tuple(_cut(patches, fix, tree, offline=offline) for fix in _conflicts(patches, tree))


def write(patches: PatchSet, found: tuple[Export, ...]) -> None:
    """Write the changed ones into the set's folder."""
    for export in found:
        if export.is_changed:
            write_atomic(patches.folder / export.file, export.text.encode())


def _conflicts(patches: PatchSet, tree: Tree) -> Iterator[Fix]:
    for fix in patches.series.fix:
        if judge(patches, fix, tree.read).verdict is Outcome.CONFLICT:
            yield fix


def _exported(patches: PatchSet, checkout: Checkout, fix_id: str) -> Export:
    commit = checkout.ours()[fix_id]
    text = checkout.repo.format_patch(commit.id).decode()
    text = re.sub(rf"^(?:{FIX}|{PATCH}): .*\n", "", text, flags=re.MULTILINE)
    file = dict(commit.trailers)[PATCH].rpartition("/")[2]
    parse_patch(text.encode(), f"{patches.name}/{file}")
    there = patches.folder / file
    old = there.read_text(encoding="utf-8") if there.is_file() else None
    return Export(file, old if old is not None and _unindexed(old) == _unindexed(text) else text, old)


def _unindexed(text: str) -> str:
    """Without the `index` lines: they name the files as other fixes, applied before, left them."""
    return re.sub(r"^index [0-9a-f]{40,64}\.\.[0-9a-f]{40,64}", "index", text, flags=re.MULTILINE)


def _cut(patches: PatchSet, fix: Fix, tree: Tree, *, offline: bool) -> Export:
    proposal = propose(patches, fix, tree, offline=offline)
    if proposal.conflicts:
        raise ApplyError(
            f"{patches.name}: {fix.id} does not merge into {tree.source} by itself ({', '.join(proposal.conflicts)})",
            details=tuple(_marked(proposal, tree)),
            hint="if upstream mended it in other words, a `fixed` probe should say so; else cut a variant by hand",
        )
    stem = re.sub(r"_[0-9]{4}(p[0-9]+)?$", "", proposal.variant.file.removesuffix(".patch"))
    file = f"{stem}_{_mark(tree.release)}.patch"
    text = patch_text(patches, proposal, tree)
    return Export(file, text, None, _entry(fix, proposal.variant, file, tree.release))


def _mark(release: str | None) -> str:
    """0.5.15.post1 as `0515p1`, for file names."""
    if release is None:
        return "new"
    version = Version(release)
    return f"{version.minor:02d}{version.micro:02d}" + (f"p{version.post}" if version.post else "")


def _marked(proposal: Proposal, tree: Tree) -> Iterator[str]:
    """The lines in conflict; git knows the two sides by ids only."""
    for path in proposal.conflicts:
        text = (proposal.files.get(path) or b"").decode("utf-8", "replace")
        text = re.sub(r"^<<<<<<< .*$", lambda _: f"<<<<<<< {tree.source}", text, flags=re.MULTILINE)
        text = re.sub(r"^>>>>>>> .*$", lambda _: f">>>>>>> {proposal.variant.file}", text, flags=re.MULTILINE)
        for found in re.finditer(r"^<<<<<<<.*?^>>>>>>> [^\n]*$", text, re.MULTILINE | re.DOTALL):
            yield from found.group(0).splitlines()[:20]


def _entry(fix: Fix, variant: Variant, file: str, release: str | None) -> str:
    """The lines for `series.toml`: windows may not overlap, so the one that the new one cuts short is named."""
    since = release or variant.since
    lines = ["[[fix.variant]]", f'file = "{file}"', f'since = "{since}"']
    later = [v.since for v in fix.variant if Version(v.since) > Version(since)]
    if later:
        lines.append(f'until = "{min(later, key=Version)}"')
    for other in fix.variant:
        if Version(other.since) < Version(since) and (not other.until or Version(since) < Version(other.until)):
            lines += ["", f'# and in the entry of {other.file}: until = "{since}"']
    return "\n".join(lines)
