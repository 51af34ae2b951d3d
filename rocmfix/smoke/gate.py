"""Says why a smoke report does not vouch for an image; pure. No reasons means that it does."""

from __future__ import annotations

import datetime as dt
import re

from rocmfix.smoke.records import Outcome, SmokeReport


def judge_report(report: SmokeReport, digest: str, now: dt.datetime, max_age: dt.timedelta) -> tuple[str, ...]:
    """The reasons against publishing the image of `digest` (its id or a registry digest) on this report."""
    return (
        *_other_image(report, digest),
        *_wrong_age(report, now, max_age),
        *_not_passed(report),
    )


def _other_image(report: SmokeReport, digest: str) -> tuple[str, ...]:
    known = {_bare(text) for text in (report.subject.image_id, *report.subject.digests) if text} - {None}
    wanted = _bare(digest)
    if wanted is None:
        return (f"{digest!r} is not a digest: sha256: and 64 hexadecimal digits",)
    if not known:
        return ("the report names no image digest: it was made from a URL or a process",)
    if wanted not in known:
        return (f"the report is of {', '.join(sorted(text for text in known if text))}, not of {wanted}",)
    return ()


def _wrong_age(report: SmokeReport, now: dt.datetime, max_age: dt.timedelta) -> tuple[str, ...]:
    try:
        started = dt.datetime.fromisoformat(report.started)
    except ValueError:
        return (f"the report's start is no date: {report.started!r}",)
    if started.tzinfo is None:
        return ("the report's start has no time zone",)
    age = now - started
    if age > max_age:
        return (f"the report is {_days(age)} old, at most {_days(max_age)} is asked for",)
    if age < -dt.timedelta(minutes=5):  # clocks differ a little between machines
        return (f"the report is from the future ({report.started})",)
    return ()


def _not_passed(report: SmokeReport) -> tuple[str, ...]:
    failures = [
        f"{where}: {verdict.check} failed ({verdict.measured}; {verdict.bound})"
        for where, verdicts in (
            ("before", report.before),
            *((rung.depth.label, rung.verdicts) for rung in report.rungs),
        )
        for verdict in verdicts
        if verdict.outcome is Outcome.FAILED
    ]
    if failures:
        return tuple(failures)
    if not any(rung.depth.steps and rung.start.is_ready for rung in report.rungs):
        return ("no depth with speculation was proved",)
    if not report.is_passed:
        return ("nothing in the report passed",)
    if report.left_out:
        return (f"--only left out {', '.join(report.left_out)}",)
    return () if _has_same_words(report) else ("no depth was compared with a server without speculation (--no-off)",)


def _has_same_words(report: SmokeReport) -> bool:
    return any(
        verdict.check == "same-words" and verdict.outcome is Outcome.PASSED
        for rung in report.rungs
        for verdict in rung.verdicts
    )


def _bare(text: str | None) -> str | None:
    match = re.search(r"sha256:[0-9a-f]{64}$", text or "")
    return match[0] if match else None


def _days(span: dt.timedelta) -> str:
    return f"{span.total_seconds() / 86400:.1f} days"
