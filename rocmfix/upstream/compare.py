"""Says what happened between two drift runs, each thing once. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from packaging.version import Version

from rocmfix.model import Outcome, Verdict
from rocmfix.releases import as_version
from rocmfix.upstream.watch import BROKEN, MENDED, Event, Gap, Line, Look, Seen, Watch, What, needed_by


def next_run(last: Watch | None, now: Watch) -> Watch:
    """`now` with its events, and with the history of `last` before them. A first run has nothing to compare."""
    if last is None:
        return now
    events = tuple(_events(last, now))
    return now.model_copy(update={"events": events, "history": (*last.history, *events)})


def carried(last: Watch | None, seen: Seen) -> Seen:
    """`seen`, or where it was not reached, what was known of it, marked as old."""
    before = last.find(seen.source) if last else None
    return before.model_copy(update={"not_reached": seen.not_reached}) if seen.not_reached and before else seen


def new_gaps(last: Watch | None, now: Watch) -> tuple[Gap, ...]:
    """What this run could not look at and the last one could."""
    known = {gap.what for gap in last.unreached} if last else set()
    return tuple(gap for gap in now.unreached if gap.what not in known)


def _events(last: Watch, now: Watch) -> Iterator[Event]:
    known = set(last.fixes)
    for fix_id in now.fixes:
        if fix_id not in known:
            yield _event(now, What.NEW_FIX, "catalogue", fix_id)
    for fix_id in last.fixes:
        if fix_id not in now.fixes:
            yield _event(now, What.DROPPED_FIX, "catalogue", fix_id)
    for seen in now.seen:
        yield from _of_source(last, now, seen)
    for fix_id in now.fixes:
        yield from _retirement(last, now, fix_id)


def _of_source(last: Watch, now: Watch, seen: Seen) -> Iterator[Event]:
    before = last.find(seen.source)
    if before is None:
        what = f"new {seen.line.value}"
        yield _event(
            now,
            What.NEW_SOURCE,
            seen.source,
            text=f"{what}, not reached: {seen.not_reached}" if seen.not_reached else what,
        )
    if seen.report is None:
        return
    reference = before if before and before.report else _reference(now, seen)
    if reference is None:
        return
    for verdict in seen.report.verdicts:
        old = reference.verdict(verdict.fix)
        what_now = _change(old.verdict, verdict.verdict) if old else None
        if old and what_now:
            yield _event(now, what_now, seen.source, verdict.fix, _said(old, verdict))
    yield from _of_looks(now, reference, seen)


def _of_looks(now: Watch, reference: Seen, seen: Seen) -> Iterator[Event]:
    """News beyond the fixes; a first look, or one by another version of rocmfix, is none."""
    new: dict[str, list[str]] = {}
    for name in _added(reference.includes, seen.includes, str):
        file, _, header = name.partition(": ")
        new.setdefault(file, []).append(header)
    for file, headers in new.items():
        yield _event(now, What.INCLUDE, seen.source, text=f"{file}: {', '.join(headers)}")
    # A table that stays broken is no news, though each AITER gives reasons of its own.
    for name in _added(reference.broken_tables, seen.broken_tables, lambda found: found.partition(": ")[0]):
        yield _event(now, What.TABLE, seen.source, text=name)


def _added(old: Look | None, new: Look | None, key: Callable[[str], str]) -> Iterator[str]:
    if old and new and old.by == new.by:
        known = set(map(key, old.found))
        yield from (name for name in new.found if key(name) not in known)


def _change(old: Outcome, new: Outcome) -> What | None:
    """What a change of verdict means; None where nobody has to act or know."""
    if old is new or (old in MENDED and new in MENDED):
        return None
    match new:
        case Outcome.CONFLICT:
            return What.CONFLICT
        case Outcome.UNMENDED:
            return What.UNMENDED
        case Outcome.UPSTREAM | Outcome.APPLIED:
            return What.UPSTREAM if old in BROKEN else None
        case Outcome.NOT_APPLICABLE:
            return What.GONE if old in BROKEN else None
        case Outcome.NEEDED:
            return What.ARRIVED if old is Outcome.NOT_APPLICABLE else What.RELAPSED if old in MENDED else What.COVERED


def _reference(now: Watch, seen: Seen) -> Seen | None:
    """What a source that is new follows: the release before it, or for anything else the release it grew from."""
    reached = [each for each in now.releases if each.report and each.source != seen.source]
    label = seen.source if seen.line is Line.RELEASE else (seen.report.release if seen.report else None)
    version = as_version(label) if label else None
    if version is None:
        return reached[-1] if reached else None
    inclusive = seen.line is not Line.RELEASE
    older = [
        each for each in reached if Version(each.source) < version or (inclusive and Version(each.source) == version)
    ]
    return older[-1] if older else None


def _retirement(last: Watch, now: Watch, fix_id: str) -> Iterator[Event]:
    before = needed_by(fix_id, last.seen, last.oldest)
    if before and not needed_by(fix_id, now.seen, now.oldest):
        text = f"{before[-1]} was the last that needed it; the oldest supported release is {now.oldest}"
        yield _event(now, What.RETIRE, "catalogue", fix_id, text)


def _said(old: Verdict, new: Verdict) -> str:
    where = f" ({new.file}:{new.line or 1})" if new.file else ""
    return f"{old.verdict.value} -> {new.verdict.value}: {new.reason}{where}"


def _event(now: Watch, what: What, source: str, fix: str = "", text: str = "") -> Event:
    return Event(day=now.day, what=what, source=source, fix=fix, text=text)
