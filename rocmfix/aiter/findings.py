"""What can be wrong with a table: the named kinds, how bad each is, and one finding."""

from __future__ import annotations

from enum import Enum
from typing import Annotated

from pydantic import AfterValidator

from rocmfix.model import Record
from rocmfix.shown import shown

Shown = Annotated[str, AfterValidator(shown)]
"""A field that is only there to be read: what a table holds may stand in it."""


class Severity(str, Enum):
    """The consequence, worst first."""

    BOOT = "boot"
    """The server dies at start or at the first request."""
    WRONG_OUTPUT = "wrong-output"
    """Answers may be wrong."""
    SLOW = "slow"
    """A heuristic or a worse kernel runs instead of a tuned one."""
    DEAD = "dead"
    """The row does nothing, or says something about itself that is not so."""


class Kind(str, Enum):
    """Every kind of finding; the value is its name in output and documents."""

    UNREADABLE = "unreadable"
    MISSING_FILE = "missing-file"
    MISSING_COLUMN = "missing-column"
    COLUMN_MISMATCH = "column-mismatch"
    DUPLICATE_RAISES = "duplicate-raises"
    UNSORTABLE = "unsortable"
    NUMERIC_GFX = "numeric-gfx"
    UNKNOWN_KERNEL = "unknown-kernel"
    NO_COMPILED_SHAPE = "no-compiled-shape"
    UNNAMED_KERNEL = "unnamed-kernel"
    KNOWN_BAD_KERNEL = "known-bad-kernel"
    TILE_DOES_NOT_DIVIDE = "tile-does-not-divide"
    BLOCK_MISMATCH = "block-mismatch"
    WRONG_STAGE = "wrong-stage"
    BAD_SETTING = "bad-setting"
    FLAT_MISMATCH = "flat-mismatch"
    HIGH_ERROR = "high-error"
    TABLE_OFF = "table-off"
    NO_ROWS = "no-rows"
    HOLE = "hole"
    REPLACED_TABLE = "replaced-table"
    OVERRULED = "overruled"
    ACT_SHADOWED = "act-shadowed"
    ORDER_DEPENDENT = "order-dependent"
    NEVER_TIMED = "never-timed"
    COPIED_TIME = "copied-time"
    IMPOSSIBLE_SPEED = "impossible-speed"
    SPEED_CONTRADICTS_TIME = "speed-contradicts-time"
    ODD_MEASUREMENT = "odd-measurement"
    SHADOWED = "shadowed"
    DELETED_BY_MERGE = "deleted-by-merge"
    UNREACHABLE_TOKEN = "unreachable-token"  # noqa: S105 - a number of tokens
    UNREACHABLE_KEY = "unreachable-key"
    OTHER_CHIP = "other-chip"
    DROPPED_TAG = "dropped-tag"
    LEFTOVER_TAG = "leftover-tag"
    SHIFTED_VALUES = "shifted-values"
    STRAY_FILE = "stray-file"
    UNKNOWN_READER = "unknown-reader"


SEVERITY: dict[Kind, Severity] = {
    Kind.UNREADABLE: Severity.BOOT,
    Kind.MISSING_FILE: Severity.BOOT,
    Kind.MISSING_COLUMN: Severity.BOOT,
    Kind.COLUMN_MISMATCH: Severity.BOOT,
    Kind.DUPLICATE_RAISES: Severity.BOOT,
    Kind.UNSORTABLE: Severity.BOOT,
    Kind.NUMERIC_GFX: Severity.BOOT,
    Kind.UNKNOWN_KERNEL: Severity.BOOT,
    Kind.NO_COMPILED_SHAPE: Severity.BOOT,
    Kind.UNNAMED_KERNEL: Severity.BOOT,
    Kind.KNOWN_BAD_KERNEL: Severity.WRONG_OUTPUT,
    Kind.TILE_DOES_NOT_DIVIDE: Severity.WRONG_OUTPUT,
    Kind.BLOCK_MISMATCH: Severity.WRONG_OUTPUT,
    Kind.WRONG_STAGE: Severity.WRONG_OUTPUT,
    Kind.BAD_SETTING: Severity.BOOT,
    Kind.FLAT_MISMATCH: Severity.WRONG_OUTPUT,
    Kind.HIGH_ERROR: Severity.WRONG_OUTPUT,
    Kind.TABLE_OFF: Severity.SLOW,
    Kind.NO_ROWS: Severity.SLOW,
    Kind.HOLE: Severity.SLOW,
    Kind.REPLACED_TABLE: Severity.SLOW,
    Kind.OVERRULED: Severity.SLOW,
    Kind.ACT_SHADOWED: Severity.SLOW,
    Kind.ORDER_DEPENDENT: Severity.SLOW,
    Kind.NEVER_TIMED: Severity.SLOW,
    Kind.COPIED_TIME: Severity.SLOW,
    Kind.IMPOSSIBLE_SPEED: Severity.SLOW,
    Kind.SPEED_CONTRADICTS_TIME: Severity.SLOW,
    Kind.ODD_MEASUREMENT: Severity.DEAD,
    Kind.SHADOWED: Severity.DEAD,
    Kind.DELETED_BY_MERGE: Severity.DEAD,
    Kind.UNREACHABLE_TOKEN: Severity.DEAD,
    Kind.UNREACHABLE_KEY: Severity.DEAD,
    Kind.OTHER_CHIP: Severity.DEAD,
    Kind.DROPPED_TAG: Severity.DEAD,
    Kind.LEFTOVER_TAG: Severity.DEAD,
    Kind.SHIFTED_VALUES: Severity.DEAD,
    Kind.STRAY_FILE: Severity.DEAD,
    Kind.UNKNOWN_READER: Severity.DEAD,
}
"""The usual severity of a kind; a finding may be milder, as an unknown CK kernel is slow and an unknown FlyDSL
kernel stops the server."""

MEANING: dict[Kind, str] = {
    Kind.UNREADABLE: "pandas cannot read the file: the first request of its kind fails",
    Kind.MISSING_FILE: "a variable of the image names a table that is not in it",
    Kind.MISSING_COLUMN: "a column the reader needs is not there: the first request fails",
    Kind.COLUMN_MISMATCH: "files that are merged have different columns: this AITER refuses them",
    Kind.DUPLICATE_RAISES: "two rows of one key: AITER raises, and from v0.1.12 rewrites the files first (#2503)",
    Kind.UNSORTABLE: "us holds text: the merge cannot sort and fails",
    Kind.NUMERIC_GFX: "gfx is 0 or empty in rows, and text in none: with pandas 3 the first request fails",
    Kind.UNKNOWN_KERNEL: "this AITER has no kernel of that name",
    Kind.NO_COMPILED_SHAPE: "an mxmoe row for a shape whose sorting kernel is not compiled (aiter#5156)",
    Kind.UNNAMED_KERNEL: "a kernel that the row needs has no name",
    Kind.KNOWN_BAD_KERNEL: "a kernel that gave wrong answers, with the thread that says so",
    Kind.TILE_DOES_NOT_DIVIDE: "the tile does not divide the dimension it tiles",
    Kind.WRONG_STAGE: "a kernel of one stage is named for the other",
    Kind.BLOCK_MISMATCH: "block_m, which sorts the tokens, is not the block the kernel takes",
    Kind.BAD_SETTING: "block_m, ksplit, run_1stage, xbf16 or flat is nothing that AITER can run the row with",
    Kind.FLAT_MISMATCH: "flat is not what the assembly manifest says of the kernel (aiter#4628)",
    Kind.HIGH_ERROR: "the error measured at tuning is above the tuner's own limit, and twice that of rows like it",
    Kind.TABLE_OFF: "a cell makes a whole key column text: every row of the merged table misses, silently",
    Kind.NO_ROWS: "the table that is read has no row: every lookup runs the heuristic",
    Kind.HOLE: "a shape lacks rows for some buckets: those token counts run the heuristic",
    Kind.REPLACED_TABLE: "a variable of the image replaces the shipped tables, and lookups they answer now miss",
    Kind.OVERRULED: "the row answers, and AITER runs its heuristic all the same (aiter#3377)",
    Kind.ACT_SHADOWED: "act_type is ignored and a row for another activation comes first (aiter#4394)",
    Kind.ORDER_DEPENDENT: "which of two rows counts depends on the order of files in a directory",
    Kind.NEVER_TIMED: "us is 0 or missing: the row was not measured, and wins every lowest-us merge",
    Kind.COPIED_TIME: "neighbouring buckets have the same us to the last digit: one was copied",
    Kind.IMPOSSIBLE_SPEED: "the us mean more operations a second than the chip can do",
    Kind.SPEED_CONTRADICTS_TIME: "tflops and us disagree: the row was made from one of another shape",
    Kind.ODD_MEASUREMENT: "a measured value is no number: no tuner wrote it",
    Kind.SHADOWED: "an earlier row of the same key wins",
    Kind.DELETED_BY_MERGE: "the merge drops the row for one with a lower us",
    Kind.UNREACHABLE_TOKEN: "no token count is rounded to this bucket",
    Kind.UNREACHABLE_KEY: "a key cell has a value that no lookup asks for",
    Kind.OTHER_CHIP: "gfx, cu_num and the data types do not belong to one chip",
    Kind.DROPPED_TAG: "the reader drops the row for its _tag",
    Kind.LEFTOVER_TAG: "a _tag that means nothing to this reader",
    Kind.SHIFTED_VALUES: "a field is missing in the row: values sit one column to the left",
    Kind.STRAY_FILE: "a file that this AITER merges although it is no .csv",
    Kind.UNKNOWN_READER: "this AITER reads tables in a way not seen before: what it does cannot be told",
}


class Finding(Record):
    """One defect: where it is, what will happen, what to do."""

    kind: Kind
    severity: Severity
    file: Shown
    line: int | None
    key: Shown
    effect: Shown
    hint: Shown


class Report(Record):
    """What the doctor found."""

    generation: str
    findings: tuple[Finding, ...]
    rows: int
    known: int
    """Rows all of whose kernels this AITER has."""
    untold: int
    """Rows with a kernel that the source does not say is there or not."""

    @property
    def worst(self) -> Severity | None:
        """The worst severity found."""
        order = list(Severity)
        return min((finding.severity for finding in self.findings), key=order.index, default=None)
