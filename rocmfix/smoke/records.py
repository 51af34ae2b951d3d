"""The frozen records of a smoke test, in the order in which they come to be."""

from __future__ import annotations

import re
from enum import Enum

import click
from pydantic import model_validator

from rocmfix.model import Record


class Outcome(str, Enum):
    """How a check ends. A check without a bound ends as not judged, never as passed."""

    PASSED = "passed"
    FAILED = "failed"
    WARNING = "warning"
    NOT_JUDGED = "not judged"


class Depth(Record):
    """A draft depth in the field's spelling: 5-1-6 is steps 5, topk 1, draft tokens 6; 0 steps is off."""

    steps: int
    topk: int = 1
    draft_tokens: int = 0

    @property
    def is_off(self) -> bool:
        return self.steps == 0

    @property
    def label(self) -> str:
        return "off" if self.is_off else f"{self.steps}-{self.topk}-{self.draft_tokens}"

    @classmethod
    def parse(cls, text: str) -> Depth:
        """Read `off`, `4` (topk 1, so 5 draft tokens) or `5-1-6`."""
        if text.strip() in {"off", "0"}:
            return cls(steps=0)
        match = re.fullmatch(r"([0-9]{1,2})(?:-([0-9]{1,2})-([0-9]{1,3}))?", text.strip())
        if not match:
            raise click.BadParameter(f"{text!r} is not a depth: write off, 4 or 5-1-6", param_hint="--depth")
        steps, topk = int(match[1]), int(match[2] or 1)
        if steps == 0 or topk == 0:
            raise click.BadParameter(f"{text!r}: steps and topk start at 1", param_hint="--depth")
        tokens = int(match[3] or steps + 1)
        if topk == 1 and tokens != steps + 1:
            raise click.BadParameter(
                f"{text!r}: with topk 1 sglang makes it {steps}-1-{steps + 1}", param_hint="--depth"
            )
        if tokens < 2:
            raise click.BadParameter(f"{text!r}: draft tokens start at 2", param_hint="--depth")
        return cls(steps=steps, topk=topk, draft_tokens=tokens)


class Ask(Record):
    """One question put to a server: prompts, how to sample, how many at once."""

    name: str
    prompts: tuple[str, ...]
    tokens: int
    temperature: float = 0.0
    streams: int = 1
    ignore_eos: bool = False
    top_logprobs: int = 0
    stop: tuple[str, ...] = ()
    stall_seconds: float = 120.0


class Acceptance(Record):
    """What a server says of its drafts for one reply; `histogram[n]` counts the verifies that kept n drafts."""

    verifies: int
    correct: int | None = None
    proposed: int | None = None
    histogram: tuple[int, ...] = ()


class Score(Record):
    """One sampled token: its own log-probability and the best ones at its position."""

    token: int
    logprob: float
    top: tuple[tuple[int, float], ...] = ()


class Reply(Record):
    """What came back for one prompt."""

    prompt: int
    text: str = ""
    tokens: tuple[int, ...] = ()
    finish: str | None = None
    prompt_tokens: int = 0
    completion_tokens: int = 0
    acceptance: Acceptance | None = None
    scores: tuple[Score, ...] = ()
    seconds: float = 0.0
    first_token_seconds: float | None = None
    error: str | None = None
    stalled: bool = False


class Heard(Record):
    """An ask with its replies, in the order of its prompts."""

    ask: Ask
    replies: tuple[Reply, ...]
    seconds: float

    @property
    def stalled(self) -> tuple[Reply, ...]:
        return tuple(reply for reply in self.replies if reply.stalled)

    @property
    def failed(self) -> tuple[Reply, ...]:
        return tuple(reply for reply in self.replies if reply.error is not None)

    @property
    def completion_tokens(self) -> int:
        return sum(reply.completion_tokens for reply in self.replies)

    @property
    def verifies(self) -> int:
        return sum(reply.acceptance.verifies for reply in self.replies if reply.acceptance)

    def histogram(self, depth: int) -> tuple[int, ...]:
        """Verifies by drafts kept, 0 to `depth`, over all replies (a server trims trailing zeros)."""
        counts = [0] * (depth + 1)
        for reply in self.replies:
            for kept, count in enumerate(reply.acceptance.histogram if reply.acceptance else ()):
                counts[min(kept, depth)] += count
        return tuple(counts)


class ServerInfo(Record):
    """What a server says of itself: the effective values, not the asked ones."""

    version: str | None
    model_path: str | None
    served_name: str | None
    algorithm: str | None
    steps: int | None
    topk: int | None
    draft_tokens: int | None
    tp: int = 1
    pp: int = 1
    dp: int = 1
    port: int | None = None
    chunked_prefill: int | None = None
    longest_prompt: int | None = None
    """How many tokens a prompt may have (`max_req_input_len`), where the server says so."""
    attention_backend: str | None = None
    kv_cache_dtype: str | None = None
    has_graphs: bool = True
    has_custom_all_reduce: bool = True

    @property
    def depth(self) -> Depth:
        if not self.algorithm or not self.steps:
            return Depth(steps=0)
        return Depth(steps=self.steps, topk=self.topk or 1, draft_tokens=self.draft_tokens or self.steps + 1)


class Gpu(Record):
    """One GPU as the kernel driver shows it."""

    gfx: str
    compute_units: int
    partition: str | None = None
    vram_used_bytes: int | None = None
    vram_total_bytes: int | None = None
    ras_errors: int | None = None


class TunedRow(Record):
    """A tuned MoE row of a baked table: the part of its key a log line shows, and its kernels."""

    key: str
    compute_units: int
    kernels: tuple[str, ...]


class HostFacts(Record):
    """What a probe found where the server runs: devices, environment, AITER, host settings."""

    kfd: str
    dri: str
    gpus: tuple[Gpu, ...] = ()
    environment: tuple[tuple[str, str], ...] = ()
    aiter: str = "absent"
    aiter_origin: str | None = None
    numa_balancing: int | None = None
    iommu_passthrough: bool | None = None
    has_manifest: bool = False
    rows: tuple[TunedRow, ...] = ()

    def env(self, name: str) -> str | None:
        return dict(self.environment).get(name)


class LogFinding(Record):
    """A signature that was met in a log."""

    signature: str
    count: int
    line: str
    is_steady: bool


class Lookup(Record):
    """One AITER MoE lookup as logged: its key, its kernels, and how often each rank said so."""

    key: str
    kernels: tuple[str, ...]
    is_tuned: bool
    times: tuple[tuple[str, int], ...]


class LogFacts(Record):
    """What a server's log tells: signatures met, graphs captured, decode lines with and without a graph."""

    findings: tuple[LogFinding, ...] = ()
    captures: tuple[str, ...] = ()
    decodes_in_graph: int = 0
    decodes_eager: int = 0
    lookups: tuple[Lookup, ...] = ()
    lines: int = 0


class Cause(Record):
    """Why a server did not start or died: a name, the telling line, what to do."""

    id: str
    why: str
    fix: str
    line: str = ""
    source: str = ""


class Gsm8k(Record):
    """What a run of the image's own GSM8K test gave: its accuracy, and the accept length logged meanwhile."""

    accuracy: float
    accept_length: float | None


class Exit(Record):
    """How a server's process ended."""

    code: int | None
    out_of_memory: bool = False


class Start(Record):
    """How a start went."""

    is_ready: bool
    seconds: float
    limit: float
    exit: Exit | None = None
    cause: Cause | None = None
    warnings: tuple[str, ...] = ()


class Verdict(Record):
    """How one check ended: what was measured, against which bound, why, and what to do about it."""

    outcome: Outcome
    reason: str
    check: str = ""
    measured: str = ""
    bound: str = ""
    advice: str = ""

    @model_validator(mode="after")
    def _is_judged_with_evidence(self) -> Verdict:
        if self.outcome is not Outcome.NOT_JUDGED and not (self.measured and self.bound):
            raise ValueError(f"{self.outcome.value} needs a measured value and its bound")
        return self


class Rung(Record):
    """One depth of the ladder: how its server was started, what it answered, how it was judged."""

    depth: Depth
    command: tuple[str, ...] = ()
    url: str = ""
    log_file: str = ""
    start: Start
    info: ServerInfo | None = None
    is_ours: bool | None = None
    heard: tuple[Heard, ...] = ()
    retry: Heard | None = None
    retry_flag: str | None = None
    stacks: str | None = None
    died: Cause | None = None
    gsm8k: Gsm8k | None = None
    ras_delta: int | None = None
    log: LogFacts | None = None
    verdicts: tuple[Verdict, ...] = ()

    def answer(self, name: str) -> Heard | None:
        """What was heard to the ask of this name."""
        return next((heard for heard in self.heard if heard.ask.name == name), None)


class Subject(Record):
    """What was tested: enough to refuse a report that belongs to something else."""

    image: str | None = None
    image_id: str | None = None
    digests: tuple[str, ...] = ()
    model: str | None = None
    flavour: str | None = None
    device: str = "amd"
    runtime: str = "docker"
    urls: tuple[str, ...] = ()


class SmokeReport(Record):
    """A whole smoke test; prints as JSON and gates a release."""

    format: int = 1
    rocmfix: str
    started: str
    seconds: float
    subject: Subject
    host: HostFacts | None = None
    before: tuple[Verdict, ...] = ()
    rungs: tuple[Rung, ...] = ()
    left_out: tuple[str, ...] = ()
    """The checks that --only left out."""
    unproved: tuple[str, ...] = ()

    @property
    def verdicts(self) -> tuple[Verdict, ...]:
        return self.before + tuple(verdict for rung in self.rungs for verdict in rung.verdicts)

    @property
    def is_passed(self) -> bool:
        """Something passed and nothing failed."""
        outcomes = {verdict.outcome for verdict in self.verdicts}
        return Outcome.PASSED in outcomes and Outcome.FAILED not in outcomes
