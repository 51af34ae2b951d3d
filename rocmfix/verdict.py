"""Judges each fix of a catalogue on a tree, from the tree's content alone."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache

from rocmfix.catalog import Catalog, Fix, PatchSet, Variant
from rocmfix.hunks import Applied, Landed, Misfit, Read, Way, apply_changes, may_fit
from rocmfix.model import How, Outcome, TreeReport, Upstream, Verdict
from rocmfix.patchfile import Patch
from rocmfix.probe import Answer, ask_all
from rocmfix.tree import Tree


@dataclass(frozen=True)
class Done:
    """Our own record that a fix was applied: which variant, and the blob id of each file afterwards."""

    variant: str
    after: Mapping[str, str | None] = field(default_factory=dict)
    """None where the file was removed. Empty when the record is a commit trailer: then the content must show it."""
    merged: bool = False


Record = Mapping[str, Done]
"""What we did to a tree, by fix id: from `.rocmfix/state.json`, commit trailers, or an image's manifest."""


def judge_all(catalog: Catalog, tree: Tree, record: Record | None = None) -> TreeReport:
    """Judge every fix of `catalog` on `tree`. `record` says what rocmfix did to it; content still decides."""
    read = lru_cache(maxsize=None)(tree.read)
    verdicts = (_shown(judge(each, fix, read, (record or {}).get(fix.id)), tree) for each, fix in catalog.fixes())
    return TreeReport(source=tree.source, release=tree.release, verdicts=tuple(verdicts))


def judge(patches: PatchSet, fix: Fix, read: Read, done: Done | None = None) -> Verdict:
    """Judge one fix, in the order of DESIGN section 4: the first that holds decides."""
    return next(verdict for verdict in _in_order(patches, fix, read, done) if verdict)


def blob_id(data: bytes) -> str:
    """Git's id of a file's content."""
    return hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()


def candidates(fix: Fix, read: Read) -> tuple[Variant, ...]:
    """The variants that speak of this tree, by their own `relevant` probes."""
    return tuple(v for v in fix.variant if ask_all(v.relevant, read, fix.subject).holds)


def mended(fix: Fix, read: Read) -> Answer | None:
    """The answer of the `fixed` probes that hold: the fix's own, or those of a variant meant for this tree."""
    for probes in (fix.fixed, *(variant.fixed for variant in candidates(fix, read))):
        answer = ask_all(probes, read, fix.subject)
        if probes and answer.holds:
            return answer
    return None


def nearest_misfit(patches: PatchSet, fix: Fix, read: Read) -> tuple[Variant, Misfit] | None:
    """On a conflict: the variant that comes nearest to applying, and its first hunk that does not fit."""
    misfits = [
        (variant, result)
        for variant in candidates(fix, read) or fix.variant
        if isinstance(result := apply_changes(patches.patch(variant).changes, read), Misfit)
    ]
    return max(misfits, key=lambda pair: (pair[1].line is not None, pair[1].fit), default=None)


def _in_order(patches: PatchSet, fix: Fix, read: Read, done: Done | None) -> Iterator[Verdict | None]:
    relevant = ask_all(fix.relevant, read, fix.subject)
    if not relevant.holds:
        yield _verdict(fix, Outcome.NOT_APPLICABLE, relevant.why, relevant)
    variants = candidates(fix, read)
    yield _mended(patches, fix, variants, read, done)
    applying = [(v, result) for v in variants if (result := _try(patches.patch(v), read, Way.FORWARD))]
    if len(applying) > 1:
        names = " and ".join(variant.file for variant, _ in applying)
        yield _verdict(fix, Outcome.CONFLICT, f"two variants apply: {names}", relevant, advice=_TELL_APART)
    if applying:
        yield _needed(fix, *applying[0])
    yield _unmended(fix, read)
    yield _conflict(patches, fix, read, relevant)


_TELL_APART = "give each variant a `relevant` probe of its own: patches/README.md"
_REFRESH = "rocmfix refresh {set} --onto TREE proposes a variant for this shape"


def _mended(
    patches: PatchSet, fix: Fix, variants: tuple[Variant, ...], read: Read, done: Done | None
) -> Verdict | None:
    for variant in variants:
        landed = _try(patches.patch(variant), read, Way.REVERSE)
        if landed:
            outcome = Outcome.APPLIED if done else Outcome.UPSTREAM
            reason = "rocmfix applied it" if done else "has this very change"
            place = Answer(True, landed[0].path, landed[0].line)
            return _verdict(fix, outcome, reason, place, how=None if done else How.IDENTICAL, variant=variant.file)
    if done and done.after and all(_has(read, path, blob) for path, blob in done.after.items()):
        reason = "rocmfix merged it into a shape it was not cut for" if done.merged else "rocmfix applied it"
        return _verdict(fix, Outcome.APPLIED, reason, _at(done), variant=done.variant)
    answer = mended(fix, read)
    if answer is None:
        return None
    outcome, how = (Outcome.APPLIED, None) if done else (Outcome.UPSTREAM, How.DIFFERENTLY)
    file = done.variant if done else None
    return _verdict(fix, outcome, f"mended in other words: {answer.why}", answer, how=how, variant=file)


def _needed(fix: Fix, variant: Variant, landed: tuple[Landed, ...]) -> Verdict:
    moved = sorted({each.offset for each in landed if each.offset})
    offsets = f" (applies {', '.join(f'{offset:+d}' for offset in moved)} lines off)" if moved else ""
    place = Answer(True, landed[0].path, landed[0].line)
    return _verdict(fix, Outcome.NEEDED, fix.why + offsets, place, variant=variant.file)


def _unmended(fix: Fix, read: Read) -> Verdict | None:
    for shape in fix.unmended:
        answer = ask_all(shape.probe or fix.relevant, read, fix.subject)
        if answer.holds:
            return _verdict(fix, Outcome.UNMENDED, shape.reason or fix.why, answer, advice=shape.advice)
    return None


def _conflict(patches: PatchSet, fix: Fix, read: Read, relevant: Answer) -> Verdict:
    nearest = nearest_misfit(patches, fix, read)
    if nearest is None:
        reason = "broken, but in a shape that no patch and no advice of ours knows"
        return _verdict(fix, Outcome.CONFLICT, reason, relevant, advice=_REFRESH.format(set=patches.name))
    variant, misfit = nearest
    has = "nothing there" if misfit.has is None else f"`{misfit.has.strip()}`"
    reason = f"{variant.file} expects `{misfit.expects.strip()}`, the tree has {has}"
    place = Answer(False, misfit.path, misfit.line)
    advice = _REFRESH.format(set=patches.name)
    return _verdict(fix, Outcome.CONFLICT, reason, place, variant=variant.file, advice=advice)


def _try(patch: Patch, read: Read, way: Way) -> tuple[Landed, ...] | None:
    if not may_fit(patch.changes, read, way):
        return None
    result = apply_changes(patch.changes, read, way)
    return result.landed if isinstance(result, Applied) else None


def _has(read: Read, path: str, blob: str | None) -> bool:
    data = read(path)
    return (None if data is None else blob_id(data)) == blob


def _at(done: Done) -> Answer:
    return Answer(True, next(iter(done.after)), None)


def _verdict(  # noqa: PLR0913 - one constructor for every verdict
    fix: Fix,
    outcome: Outcome,
    reason: str,
    place: Answer,
    *,
    how: How | None = None,
    variant: str | None = None,
    advice: str | None = None,
) -> Verdict:
    upstream = Upstream(status=fix.upstream.status, pr=fix.upstream.pr, since=fix.upstream.since)
    return Verdict(
        fix=fix.id,
        verdict=outcome,
        how=how,
        reason=reason,
        file=place.file,
        line=place.line,
        variant=variant,
        upstream=upstream,
        advice=advice,
    )


def _shown(verdict: Verdict, tree: Tree) -> Verdict:
    """The verdict in the tree's own words: its path, and its name in a command to copy."""
    file = tree.shown(verdict.file) if verdict.file else None
    advice = verdict.advice and verdict.advice.replace("--onto TREE", f"--onto {tree.source}")
    return verdict.model_copy(update={"file": file, "advice": advice})
