"""The frozen records, in pipeline order: what one stage hands to the next. Read this first."""

from __future__ import annotations

from enum import Enum

from pydantic import BaseModel, ConfigDict


class Record(BaseModel):
    """A frozen record: refuses unknown keys, prints as JSON, holds tuples rather than lists."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)


class Status(str, Enum):
    """How a fix stands with upstream."""

    MERGED = "merged"
    SUBMITTED = "submitted"
    REJECTED = "rejected"
    LOCAL = "local"


class Upstream(Record):
    """Where upstream stands on a defect: `pr` is `owner/repo#N`, `since` the first release with its fix."""

    status: Status
    pr: str | None = None
    since: str | None = None


class Outcome(str, Enum):
    """What a tree says about a fix, in the order in which it is decided (DESIGN: verdicts)."""

    NOT_APPLICABLE = "not-applicable"
    APPLIED = "applied"
    UPSTREAM = "upstream"
    NEEDED = "needed"
    UNMENDED = "unmended"
    CONFLICT = "conflict"


class How(str, Enum):
    """How a tree that has the fix came to it: our very change, or other words for it."""

    IDENTICAL = "identical"
    DIFFERENTLY = "differently"


class Verdict(Record):
    """One fix judged on one tree. `file` and `line` (1-based) say where that was seen, as the tree spells it."""

    fix: str
    verdict: Outcome
    how: How | None = None
    reason: str
    file: str | None = None
    line: int | None = None
    variant: str | None = None
    """The patch file that applies, or has been applied."""
    upstream: Upstream
    advice: str | None = None
    """What to do where no patch of ours helps."""


class TreeReport(Record):
    """Every fix of the catalogue judged on one tree."""

    source: str
    release: str | None
    """What the tree claims to be. No verdict depends on it."""
    verdicts: tuple[Verdict, ...]

    @property
    def exit_code(self) -> int:
        """0 clean, 10 needed, 11 unmended, 12 conflict; the highest holds."""
        return max((_EXIT_CODES.get(verdict.verdict, 0) for verdict in self.verdicts), default=0)


class Matrix(Record):
    """Fixes x trees."""

    trees: tuple[TreeReport, ...]

    @property
    def exit_code(self) -> int:
        """12 if anything is a conflict, else 0: old releases are meant to need fixes."""
        return 12 if any(tree.exit_code == 12 for tree in self.trees) else 0


_EXIT_CODES = {Outcome.NEEDED: 10, Outcome.UNMENDED: 11, Outcome.CONFLICT: 12}


class Step(Record):
    """One fix to be applied: which patch, by digest (sha256), and the line offsets at which it landed."""

    fix: str
    set: str
    variant: str
    digest: str
    files: tuple[str, ...]
    offsets: tuple[int, ...] = ()
    merged: bool = False
    """A clean three-way merge of the variant into a shape it was not cut for: a person should look at it."""


class Skip(Record):
    """One fix not to be applied, and why."""

    fix: str
    verdict: Outcome
    reason: str
    unasked: bool = False
    """Left out because the user asked for other fixes only."""


class PatchPlan(Record):
    """What will be applied, in order, and what will not: together every fix of the catalogue."""

    source: str
    release: str | None
    apply: tuple[Step, ...]
    skip: tuple[Skip, ...]
