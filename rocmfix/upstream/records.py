"""The frozen records of giving a fix back, in the order in which they come to be."""

from __future__ import annotations

from enum import Enum

from rocmfix.model import Outcome, Record


class Proof(str, Enum):
    """What is known about the CUDA side of one changed file."""

    SAME = "same"
    CHANGED = "changed"
    UNKNOWN = "unknown"


class FileProof(Record):
    """One changed file, and why what CUDA runs of it is or is not the same as before."""

    path: str
    added: int
    removed: int
    cuda: Proof
    why: str


class HookState(str, Enum):
    """How one of upstream's pre-commit hooks ended on the changed files."""

    CLEAN = "clean"
    WOULD_CHANGE = "would change"
    BEFORE_TOO = "not clean before either"
    NOT_RUN = "not run"
    NO_FILES = "no files"


class HookResult(Record):
    """One hook of upstream's `.pre-commit-config.yaml`: how it ended, and what it said or why it did not run."""

    hook: str
    pin: str
    state: HookState
    why: str = ""
    said: tuple[str, ...] = ()


class Side(str, Enum):
    """Which side of the fix a measurement was made on."""

    BEFORE = "before"
    AFTER = "after"


class Shows(str, Enum):
    """What a measured value is about."""

    ACCURACY = "accuracy"
    BEHAVIOUR = "behaviour"
    """Something about the answers that does not prove them right."""
    SPEED = "speed"
    OPERATION = "operation"
    """That it starts, stays up and logs no fallback: news only where it fails."""


class Measured(Record):
    """One value that somebody measured, as the record says it."""

    what: str
    value: str
    bound: str = ""
    outcome: str = ""
    shows: Shows = Shows.OPERATION
    at: str = ""
    """What tells two values of one name apart: the loader call of a compilation."""


class Evidence(Record):
    """One smoke, bench or compile record, reduced to what a pull request shows."""

    file: str
    kind: str
    side: Side
    device: str = "amd"
    image: str | None = None
    digest: str | None = None
    gpus: tuple[str, ...] = ()
    release: str | None = None
    model: str | None = None
    setup: str = ""
    """Parallelism and depth, or the compiler."""
    commands: tuple[str, ...] = ()
    about: tuple[str, ...] = ()
    """The changed files that a proof is about; a header's is shown by the files that include it."""
    for_cuda: tuple[str, ...] = ()
    """What nvcc was seen to make of the changed kernels, a sentence each."""
    values: tuple[Measured, ...] = ()


class Refusal(Record):
    """A fix that gets no pull request here, and why."""

    fix: str
    verdict: Outcome
    reason: str
    hint: str


class Pack(Record):
    """One pull request, ready: a branch with one commit, its text, and what was checked."""

    fix: str
    set: str
    project: str
    repository: str
    """Upstream's, as `owner/name`."""
    base: str
    """The branch it is meant for, as upstream calls it."""
    base_commit: str
    branch: str
    commit: str
    is_new: bool
    """False when the branch was there already, with this very change."""
    title: str
    body: str
    patch: str
    files: tuple[FileProof, ...]
    hooks: tuple[HookResult, ...]
    todo: tuple[str, ...]
    """What a person still has to fill in; a pull request with any is opened as a draft."""
    url: str | None = None


class Packs(Record):
    """What `rocmfix pr` made and what it refused: together every fix that was asked for."""

    packs: tuple[Pack, ...]
    refused: tuple[Refusal, ...]
