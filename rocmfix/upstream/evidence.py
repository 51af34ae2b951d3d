"""Reads measurements for a pull request out of smoke, bench and compile records; invents none."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, TypeAlias

from pydantic import BaseModel, ConfigDict, ValidationError

from rocmfix.errors import GiveBackError
from rocmfix.upstream.records import Evidence, Measured, Side

_SPEED = frozenset({"speed", "step-time", "worth-it", "concurrency"})
"""The smoke checks whose measured value is a speed."""


class _Read(BaseModel):
    """A record of another version of rocmfix may say more than is read here."""

    model_config = ConfigDict(extra="ignore", frozen=True)


class _Subject(_Read):
    image: str | None = None
    digests: tuple[str, ...] = ()
    image_id: str | None = None


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


class _Rung(_Read):
    depth: _Depth
    command: tuple[str, ...] = ()
    info: _Info | None = None
    gsm8k: float | None = None
    verdicts: tuple[_Verdict, ...] = ()


class _Smoke(_Read):
    subject: _Subject
    host: _Host | None = None
    rungs: tuple[_Rung, ...]


class _Value(_Read):
    name: str
    value: float | str
    unit: str = ""


class _Bench(_Read):
    bench: str
    image: str | None = None
    digest: str | None = None
    gpus: tuple[str, ...] = ()
    command: tuple[str, ...] = ()
    values: tuple[_Value, ...]


class _Compiled(_Read):
    file: str
    gfx: str
    compiler: str
    ok: bool
    cuda_unchanged: bool | None = None


class _Gate(_Read):
    compiled: tuple[_Compiled, ...]


def read_evidence(given: str) -> Evidence:
    """The record in `[before=|after=]FILE`. Raises GiveBackError when it is none that rocmfix writes."""
    side, _, file = given.rpartition("=")
    if side not in ("", "before", "after"):
        side, file = "", given
    path = Path(file)
    try:
        data = path.read_bytes()
    except OSError as error:
        raise GiveBackError(f"cannot read the evidence {path}: {error.strerror}") from None
    found = (_tried(make, path.name, data, Side(side) if side else None) for make in (_of_smoke, _of_bench, _of_gate))
    evidence = next(filter(None, found), None)
    if evidence is None:
        raise GiveBackError(
            f"{path} is no evidence: neither a smoke report, a bench record nor a compile record",
            hint="rocmfix smoke writes report.json; rocmfix bench and rocmfix guards compile print theirs with --json",
        )
    return evidence


_Make: TypeAlias = "Callable[[str, bytes, Side | None], Evidence]"


def _tried(make: _Make, name: str, data: bytes, side: Side | None) -> Evidence | None:
    try:
        return make(name, data, side)
    except ValidationError:
        return None


def _of_smoke(name: str, data: bytes, side: Side | None) -> Evidence:
    report = _Smoke.model_validate_json(data)
    host = report.host or _Host()
    return Evidence(
        file=name,
        kind="smoke",
        side=side or (Side.AFTER if host.has_manifest else Side.BEFORE),
        image=report.subject.image,
        digest=next(iter(report.subject.digests), report.subject.image_id),
        gpus=tuple(gpu.gfx for gpu in host.gpus),
        release=next((rung.info.version for rung in report.rungs if rung.info), None),
        commands=tuple(dict.fromkeys(" ".join(rung.command) for rung in report.rungs if rung.command)),
        values=tuple(_smoke_values(report.rungs)),
    )


def _smoke_values(rungs: Iterable[_Rung]) -> Iterator[Measured]:
    for rung in rungs:
        if rung.gsm8k is not None:
            yield Measured(what=f"GSM8K at {rung.depth.label}", value=f"{rung.gsm8k:.3f}")
        for verdict in rung.verdicts:
            if verdict.measured:
                yield Measured(
                    what=f"{verdict.check} at {rung.depth.label}",
                    value=verdict.measured,
                    bound=verdict.bound,
                    outcome=verdict.outcome,
                    is_speed=verdict.check in _SPEED,
                )


def _of_bench(name: str, data: bytes, side: Side | None) -> Evidence:
    record = _Bench.model_validate_json(data)
    values = (
        Measured(what=value.name, value=f"{_number(value.value)} {value.unit}".strip(), is_speed=True)
        for value in record.values
    )
    return Evidence(
        file=name,
        kind="bench",
        side=_said(side, name),
        image=record.image,
        digest=record.digest,
        gpus=record.gpus,
        commands=(" ".join(record.command),) if record.command else (),
        values=tuple(values),
    )


def _of_gate(name: str, data: bytes, side: Side | None) -> Evidence:
    gate = _Gate.model_validate_json(data)
    values = (
        Measured(what=f"{each.file} for {each.gfx} ({each.compiler})", value=_compiled(each)) for each in gate.compiled
    )
    return Evidence(file=name, kind="compile", side=side or Side.AFTER, values=tuple(values))


def _compiled(each: _Compiled) -> str:
    cuda = {True: "; what CUDA compiles is unchanged", False: "; what CUDA compiles CHANGED", None: ""}
    return ("builds" if each.ok else "does NOT build") + cuda[each.cuda_unchanged]


def _said(side: Side | None, name: str) -> Side:
    if side is None:
        raise GiveBackError(f"{name} does not say whether it was measured before or after", hint=f"after={name}")
    return side


def _number(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
