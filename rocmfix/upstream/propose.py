"""Proposes what a drift run means for `series.toml`: status, windows, and fixes to drop. Pure."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator

from packaging.version import Version

from rocmfix.catalog import Catalog, Fix, PatchSet
from rocmfix.model import Outcome, Record, Status
from rocmfix.upstream.watch import MENDED, Watch, needed_by


class Proposal(Record):
    """One edit of one `series.toml`, with its reason."""

    set: str
    fix: str
    why: str
    before: str
    """The lines it replaces."""
    after: str


_DOUBT = {
    Status.MERGED: "",
    Status.SUBMITTED: "; make sure that this pull request did it",
    Status.REJECTED: "; find the pull request that did it",
    Status.LOCAL: "; find the pull request that did it",
}


def proposals(catalog: Catalog, now: Watch) -> tuple[Proposal, ...]:
    """Every edit that what was seen asks for."""
    return tuple(each for patches, fix in catalog.fixes() for each in _for(patches, fix, now))


def as_diff(patches: PatchSet, text: str, found: tuple[Proposal, ...]) -> str:
    """The proposals for one set as a diff of its `series.toml`, whose text is given."""
    edited = text
    for each in found:
        if each.set == patches.name:
            block = _block(edited, each.fix)
            edited = edited.replace(block, block.replace(each.before, each.after, 1), 1)
    name = f"patches/{patches.name}/series.toml"
    lines = difflib.unified_diff(text.splitlines(True), edited.splitlines(True), f"a/{name}", f"b/{name}")
    return "".join(lines)


def _for(patches: PatchSet, fix: Fix, now: Watch) -> Iterator[Proposal]:
    text = (patches.folder / "series.toml").read_text(encoding="utf-8")
    block = _block(text, fix.id)
    is_seen = any(seen.verdict(fix.id) for seen in now.releases if not seen.not_reached)
    if not is_seen:
        return
    if not needed_by(fix.id, now.seen, now.oldest):
        why = f"no release from {now.oldest} on needs it: remove the fix and its patches"
        yield Proposal(set=patches.name, fix=fix.id, why=why, before=block, after="")
        return
    since = _upstream_since(fix.id, now)
    line = re.search(r"^upstream *=.*$", block, re.MULTILINE)
    if since and line and (fix.upstream.status is not Status.MERGED or fix.upstream.since != since):
        pr = fix.upstream.pr or "owner/repo#N"
        after = f'upstream = {{ status = "merged", pr = "{pr}", since = "{since}" }}'
        why = f"{since} is the first release that has it{_DOUBT[fix.upstream.status]}"
        yield Proposal(set=patches.name, fix=fix.id, why=why, before=line[0], after=after)
    yield from _window(patches, fix, now, block)


def _window(patches: PatchSet, fix: Fix, now: Watch, block: str) -> Iterator[Proposal]:
    """An open window that ends: the newest variant does not apply to a later release."""
    newest = max(fix.variant, key=lambda variant: Version(variant.since), default=None)
    if newest is None or newest.until:
        return
    beyond = (seen for seen in now.releases if Version(seen.source) > Version(newest.since))
    ended = [s.source for s in beyond if (v := s.verdict(fix.id)) and v.verdict in (*MENDED, Outcome.CONFLICT)]
    # One key a line under [[fix.variant]], or all of them in one line.
    found = re.search(rf'file *= *"{re.escape(newest.file)}"(,? *|\n *)since *= *"[^"]*"', block)
    if ended and found:
        why = f"{newest.file} does not apply from {ended[0]} on"
        after = f'{found[0]}{found[1]}until = "{ended[0]}"'
        yield Proposal(set=patches.name, fix=fix.id, why=why, before=found[0], after=after)


def _upstream_since(fix_id: str, now: Watch) -> str | None:
    """The first of the releases, up to the newest, that all have it from upstream."""
    first = None
    for seen in reversed(now.releases):
        verdict = seen.verdict(fix_id)
        if verdict is None or verdict.verdict is not Outcome.UPSTREAM:
            break
        first = seen.source
    return first


def _block(text: str, fix_id: str) -> str:
    """The part of a `series.toml` that is about one fix: to the next one, comments above that left to it."""
    parts = re.split(r"^(?=\[\[fix\]\])", text, flags=re.MULTILINE)
    return next((part for part in parts if re.search(rf'^id *= *"{re.escape(fix_id)}"$', part, re.MULTILINE)), "")
