"""The frozen records of drift: what was seen in each source, what changed since the last run, and all that ever did."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum

from packaging.version import Version
from pydantic import ValidationError

from rocmfix.errors import SourceError
from rocmfix.model import Outcome, Record, TreeReport, Verdict
from rocmfix.releases import as_version

BROKEN = (Outcome.NEEDED, Outcome.UNMENDED, Outcome.CONFLICT)
MENDED = (Outcome.UPSTREAM, Outcome.APPLIED)


class Line(str, Enum):
    """What kind of source it is; those of one kind follow one another."""

    RELEASE = "release"
    BRANCH = "branch"
    IMAGE = "image"


class Look(Record):
    """What was found beyond the fixes, and the version of rocmfix that looked: another one may see more."""

    by: str
    found: tuple[str, ...]


class Seen(Record):
    """One source as it was last reached. `not_reached` says why it was not this time; what stands here is then old."""

    source: str
    line: Line
    reached: str | None = None
    """The day it was last reached; None: never."""
    report: TreeReport | None = None
    includes: Look | None = None
    """Unguarded CUDA-only lines that ROCm comes to, as `file: header`; None: nobody looked."""
    broken_tables: Look | None = None
    """Tuned AITER tables that this source's AITER cannot run, as `table: reason`; None: nobody looked."""
    not_reached: str = ""

    def verdict(self, fix_id: str) -> Verdict | None:
        """What it says about one fix, if it was ever asked."""
        verdicts = self.report.verdicts if self.report else ()
        return next((verdict for verdict in verdicts if verdict.fix == fix_id), None)

    def broken(self) -> tuple[Verdict, ...]:
        """The defects that it has."""
        return tuple(v for v in (self.report.verdicts if self.report else ()) if v.verdict in BROKEN)


class What(str, Enum):
    """What can happen between two runs."""

    NEW_SOURCE = "new source"
    UPSTREAM = "newly upstream"
    ARRIVED = "new defect"
    RELAPSED = "broken again"
    CONFLICT = "newly conflicting"
    UNMENDED = "newly unmended"
    COVERED = "now mended by a patch"
    GONE = "no longer applicable"
    RETIRE = "no supported release needs it"
    NEW_FIX = "new in the catalogue"
    DROPPED_FIX = "dropped from the catalogue"
    INCLUDE = "new CUDA-only code on ROCm"
    TABLE = "newly broken table"


class Event(Record):
    """One thing that happened, said once."""

    day: str
    what: What
    source: str
    fix: str = ""
    text: str = ""


class Gap(Record):
    """Something that this run could not look at: it is neither fine nor broken, it is unknown."""

    what: str
    why: str


class Watch(Record):
    """One run: what was seen, what happened since the last one, and what happened before. It is also the state file."""

    format: int = 1
    day: str
    project: str
    oldest: str
    """The oldest supported release."""
    is_first: bool
    seen: tuple[Seen, ...]
    events: tuple[Event, ...] = ()
    gaps: tuple[Gap, ...] = ()
    history: tuple[Event, ...] = ()
    """All events so far, oldest first, those of this run included."""

    @property
    def fixes(self) -> tuple[str, ...]:
        """Every fix that any source was asked about, in the catalogue's order as of the newest answer."""
        reports = [seen.report for seen in self.seen if seen.report]
        return tuple(dict.fromkeys(v.fix for report in reversed(reports) for v in report.verdicts))

    @property
    def releases(self) -> tuple[Seen, ...]:
        """The releases, oldest first."""
        found = [seen for seen in self.seen if seen.line is Line.RELEASE]
        return tuple(sorted(found, key=lambda seen: Version(seen.source)))

    @property
    def today(self) -> tuple[Seen, ...]:
        """What somebody who starts now would take: the newest release, and every branch and image."""
        newest = [seen for seen in self.releases if seen.report][-1:]
        return (*newest, *(seen for seen in self.seen if seen.line is not Line.RELEASE))

    @property
    def unreached(self) -> tuple[Gap, ...]:
        """Every source that this run did not reach, and everything else it could not look at."""
        return (*(Gap(what=seen.source, why=seen.not_reached) for seen in self.seen if seen.not_reached), *self.gaps)

    @property
    def exit_code(self) -> int:
        """12 when a source is in conflict now, else 0: as `check --all-releases`."""
        return 12 if any(v.verdict is Outcome.CONFLICT for seen in self.seen for v in seen.broken()) else 0

    def find(self, source: str) -> Seen | None:
        """The source of that name."""
        return next((seen for seen in self.seen if seen.source == source), None)


def is_supported(seen: Seen, oldest: str) -> bool:
    """Whether it is a release that is still supported."""
    version, first = as_version(seen.source), as_version(oldest)
    return seen.line is Line.RELEASE and version is not None and first is not None and version >= first


def needed_by(fix_id: str, seen: Iterable[Seen], oldest: str) -> tuple[str, ...]:
    """The supported releases that have the defect, oldest first."""
    found = (each for each in seen if is_supported(each, oldest))
    return tuple(each.source for each in found if (v := each.verdict(fix_id)) and v.verdict in BROKEN)


def parse_watch(data: bytes | None, where: str) -> Watch | None:
    """The last run in `data`, or None if there is none. Raises SourceError when it is damaged."""
    if data is None:
        return None
    try:
        return Watch.model_validate_json(data)
    except ValidationError as error:
        raise SourceError(
            f"{where} is no record of a drift run: {error.errors()[0]['msg']}",
            hint="restore it, or move it away: the next run is then a first one, with nothing to compare",
        ) from None
