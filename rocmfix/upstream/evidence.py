"""Reads measurements for a pull request out of smoke, bench and compile records; invents none."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeAlias

from pydantic import BaseModel, ConfigDict, ValidationError

from rocmfix.errors import GiveBackError
from rocmfix.upstream.records import Evidence, Measured, Shows, Side

_ACCURACY = frozenset({"gsm8k", "quality"})
_SPEED = frozenset({"speed", "step-time", "worth-it", "concurrency"})
_BEHAVIOUR = frozenset({"accept-length"})
"""Shown beside the accuracy, and does not stand for it (ROCm/aiter#2720: 99 % accepted, and wrong)."""
_BENCHED = (
    ("output throughput", "output_throughput", "tok/s"),
    ("median TTFT", "median_ttft_ms", "ms"),
    ("median ITL", "median_itl_ms", "ms"),
    ("p99 ITL", "p99_itl_ms", "ms"),
    ("accept length", "accept_length", ""),
)


class _Read(BaseModel):
    """A record of another version may say more than is read here."""

    model_config = ConfigDict(extra="ignore", frozen=True)


class _Subject(_Read):
    image: str | None = None
    digests: tuple[str, ...] = ()
    image_id: str | None = None
    model: str | None = None
    device: str = "amd"


class _Gpu(_Read):
    gfx: str


class _Host(_Read):
    gpus: tuple[_Gpu, ...] = ()
    has_manifest: bool = False


class _Info(_Read):
    version: str | None = None


class _Depth(_Read):
    steps: int
    topk: int = 1
    draft_tokens: int = 0

    @property
    def label(self) -> str:
        return f"{self.steps}-{self.topk}-{self.draft_tokens}" if self.steps else "off"


class _Verdict(_Read):
    check: str
    outcome: str
    measured: str = ""
    bound: str = ""


class _Gsm8k(_Read):
    accuracy: float


class _Rung(_Read):
    depth: _Depth
    command: tuple[str, ...] = ()
    info: _Info | None = None
    gsm8k: _Gsm8k | None = None
    verdicts: tuple[_Verdict, ...] = ()


class _Smoke(_Read):
    """`smoke/report.json`: rocmfix.smoke.records.SmokeReport."""

    subject: _Subject
    host: _Host | None = None
    rungs: tuple[_Rung, ...]


class _Server(_Read):
    """What sglang's /server_info says of a launch; a router's answer has it under `decode`."""

    version: str | None = None
    model_path: str | None = None
    tp_size: int | None = None
    speculative_num_steps: int | None = None
    speculative_eagle_topk: int | None = None
    speculative_num_draft_tokens: int | None = None
    decode: tuple[_Server, ...] = ()

    @property
    def setup(self) -> str:
        depth = _Depth(
            steps=self.speculative_num_steps or 0,
            topk=self.speculative_eagle_topk or 1,
            draft_tokens=self.speculative_num_draft_tokens or 0,
        )
        return ", ".join(filter(None, (f"tp {self.tp_size}" if self.tp_size else "", f"depth {depth.label}")))


class _Bench(_Read):
    """One line of what `python -m sglang.bench_serving --output-file` writes."""

    backend: str
    dataset_name: str
    request_rate: float | str
    max_concurrency: int | None = None
    completed: int
    server_info: _Server | None = None
    output_throughput: float
    median_ttft_ms: float
    median_itl_ms: float
    p99_itl_ms: float
    accept_length: float | None = None

    @property
    def load(self) -> str:
        streams = f" at {self.max_concurrency} streams" if self.max_concurrency else f" at rate {self.request_rate}"
        return f"{self.dataset_name}, {self.completed} requests{streams}"


class _Built(_Read):
    file: str
    arch: str
    loader: str
    came: str
    kernels: int = 0
    error: str | None = None
    at: str | None = None


class _Compiled(_Read):
    """`rocmfix guards compile --json`: rocmfix.guards.compile.BuildReport."""

    source: str
    toolchain: str
    built: tuple[_Built, ...]


class _Emitted(_Read):
    file: str
    came: str
    why: str | None = None

    @property
    def said(self) -> str:
        why = f": {' '.join(self.why.split())}" if self.why else ""
        return f"`{self.file}`: {_SAYS.get(self.came, self.came)}{why}"


class _Proved(_Read):
    """`rocmfix guards compile --patched --json`: rocmfix.guards.prove.Proof."""

    source: str
    toolchain: str
    files: tuple[str, ...] = ()
    before: tuple[_Built, ...]
    after: tuple[_Built, ...]
    nvcc: str | None = None
    emitted: tuple[_Emitted, ...] = ()

    @property
    def for_cuda(self) -> tuple[str, ...]:
        """What nvcc makes of the changed kernels; nothing where there was none to ask."""
        told = dict.fromkeys(each.said for each in self.emitted) if self.nvcc else ()
        return tuple(f"{each} ({self.nvcc}, sm_90)" for each in told)


_SAYS = {
    "same": "**the same PTX** as before",
    "differs": "**other PTX** than before",
    "fails after": "**does not compile** any more",
    "not compared": "PTX not compared",
}


_Make: TypeAlias = "Callable[[str, bytes, Side | None], tuple[Evidence, ...]]"


def read_evidence(given: str) -> tuple[Evidence, ...]:
    """The records in `[before=|after=]FILE`. Raises GiveBackError when it is none of a kind that is known."""
    side, _, file = given.rpartition("=")
    if side not in ("", "before", "after"):
        side, file = "", given
    path = Path(file)
    try:
        data = path.read_bytes()
    except OSError as error:
        raise GiveBackError(f"cannot read the evidence {path}: {error.strerror}") from None
    for make in (_of_smoke, _of_proof, _of_build, _of_bench):
        found = _tried(make, path.name, data, Side(side) if side else None)
        if found:
            return found
    raise GiveBackError(
        f"{path} is no evidence: neither a smoke report, a bench record nor a compile record",
        hint="rocmfix smoke writes report.json, rocmfix guards compile --json prints one, and so does "
        "sglang.bench_serving --output-file",
    )


def _tried(make: _Make, name: str, data: bytes, side: Side | None) -> tuple[Evidence, ...]:
    try:
        return make(name, data, side)
    except ValidationError:
        return ()


def _of_smoke(name: str, data: bytes, side: Side | None) -> tuple[Evidence, ...]:
    report = _Smoke.model_validate_json(data)
    host, subject = report.host or _Host(), report.subject
    evidence = Evidence(
        file=name,
        kind="smoke",
        # Only an image that rocmfix built says by itself which side it is: others may be patched by hand.
        side=_said(side or (Side.AFTER if host.has_manifest else None), name),
        device=subject.device,
        image=subject.image,
        digest=next(iter(subject.digests), subject.image_id),
        gpus=tuple(gpu.gfx for gpu in host.gpus),
        release=next((rung.info.version for rung in report.rungs if rung.info), None),
        model=subject.model,
        commands=tuple(dict.fromkeys(" ".join(rung.command) for rung in report.rungs if rung.command)),
        values=tuple(value for rung in report.rungs for value in _of_rung(rung)),
    )
    return (evidence,)


def _of_rung(rung: _Rung) -> Iterator[Measured]:
    if rung.gsm8k and not any(verdict.check == "gsm8k" for verdict in rung.verdicts):
        yield Measured(what=f"gsm8k at {rung.depth.label}", value=f"{rung.gsm8k.accuracy:.3f}", shows=Shows.ACCURACY)
    for verdict in rung.verdicts:
        if verdict.measured:
            yield Measured(
                what=f"{verdict.check} at {rung.depth.label}",
                value=verdict.measured,
                bound=verdict.bound,
                outcome=verdict.outcome,
                shows=_shows(verdict.check),
            )


def _shows(check: str) -> Shows:
    kinds = ((_ACCURACY, Shows.ACCURACY), (_SPEED, Shows.SPEED), (_BEHAVIOUR, Shows.BEHAVIOUR))
    return next((shows for checks, shows in kinds if check in checks), Shows.OPERATION)


def _of_bench(name: str, data: bytes, side: Side | None) -> tuple[Evidence, ...]:
    """One record for each line: sglang appends every run to the same file."""
    runs = [_Bench.model_validate_json(line) for line in data.splitlines() if line.strip()]
    return tuple(_of_run(name, run, _said(side, name)) for run in runs)


def _of_run(name: str, run: _Bench, side: Side) -> Evidence:
    server = run.server_info or _Server()
    server = server.decode[0] if server.decode else server
    values = ((what, getattr(run, field), unit) for what, field, unit in _BENCHED)
    return Evidence(
        file=name,
        kind="bench",
        side=side,
        release=server.version,
        model=server.model_path,
        setup=server.setup if run.server_info else "",
        values=tuple(
            Measured(what=f"{what} ({run.load})", value=f"{value:.6g} {unit}".strip(), shows=Shows.SPEED)
            for what, value, unit in values
            if value is not None
        ),
    )


def _of_proof(name: str, data: bytes, side: Side | None) -> tuple[Evidence, ...]:
    """Both sides at once, so that a side that was said counts for nothing."""
    del side
    proof = _Proved.model_validate_json(data)
    sides = ((Side.BEFORE, proof.before), (Side.AFTER, proof.after))
    made = (_compiled(name, each, proof.source, proof.toolchain, built) for each, built in sides)
    return tuple(each.model_copy(update={"about": proof.files, "for_cuda": proof.for_cuda}) for each in made)


def _of_build(name: str, data: bytes, side: Side | None) -> tuple[Evidence, ...]:
    report = _Compiled.model_validate_json(data)
    return (_compiled(name, _said(side, name), report.source, report.toolchain, report.built),)


def _compiled(name: str, side: Side, source: str, toolchain: str, built: tuple[_Built, ...]) -> Evidence:
    values = tuple(Measured(what=_built_name(each), value=_came(each), at=each.loader) for each in built)
    return Evidence(file=name, kind="compile", side=side, release=source, setup=toolchain, values=values)


def _built_name(built: _Built) -> str:
    return f"{built.file} for {built.arch}" + (f", {built.kernels} instantiations" if built.kernels else "")


def _came(built: _Built) -> str:
    if built.came == "compiled":
        return "builds"
    file, _, line = (built.at or "").rpartition(":")
    where = f" at {f'line {line}' if file == built.file else built.at}" if built.at else ""
    why = re.sub(r"\s+", " ", built.error or "")
    return f"{'does not build' if built.came == 'failed' else built.came}: {why}{where}"


def _said(side: Side | None, name: str) -> Side:
    if side is None:
        raise GiveBackError(
            f"{name} does not say whether it was measured before or after the change", hint=f"--evidence after={name}"
        )
    return side
