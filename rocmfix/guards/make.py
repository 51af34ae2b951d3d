"""Makes the smallest guard that lets hipcc build a file, or says what else stands in the way."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from rocmfix.diff import unified
from rocmfix.guards.chain import Sources, inclusions
from rocmfix.guards.compile import Built, Came, Kernels, build
from rocmfix.guards.conditionals import HIP
from rocmfix.guards.constructs import constructs
from rocmfix.guards.headers import cuda_only
from rocmfix.guards.same import same_for_cuda
from rocmfix.guards.toolchain import Toolchain
from rocmfix.model import Record
from rocmfix.tree import Overlay

NOT_CORRECT: Final = "It compiles; that says nothing of what it computes. Run the kernel's own test on a ROCm GPU."


class Made(Record):
    """A guard that was proved by the compiler, or the reason why there is none."""

    file: str
    patch: str | None = None
    """The unified diff."""
    refusal: str | None = None
    obstacles: tuple[str, ...] = ()
    """What stands in the way besides includes, `line: what`."""
    built: tuple[Built, ...] = ()
    """The proof: every unit of the file, with the guard in place."""


class Makings(Record):
    """What was made of each file that was asked for."""

    files: tuple[Made, ...]


@dataclass(frozen=True)
class Span:
    """Neighbouring `#include` lines that go under one guard."""

    first: int
    last: int
    counterparts: tuple[str, ...]
    """HIP headers in their place."""


def make(kernels: Kernels, file: str, archs: Sequence[str], toolchain: Toolchain) -> Made:
    """Guard the CUDA-only includes of `file` and prove it for `archs`.

    First without HIP headers, then with their counterparts: the first text that every unit compiles with is
    the smallest. A guard that only moves the error to the next line is no guard.
    """
    spans = spans_of(kernels.sources, file)
    obstacles = tuple(
        f"{met.line}: {met.construct.name} ({met.text}): {met.construct.why}"
        for met in constructs(kernels.sources, file)
    )
    shown = kernels.tree.shown(file)
    if not spans:
        return Made(file=shown, refusal="it has no CUDA-only include that ROCm compiles", obstacles=obstacles)
    text = kernels.sources.text(file)
    last: tuple[Built, ...] = ()
    for candidate in _candidates(text, spans):
        if not same_for_cuda(text, candidate):
            continue
        changed = Kernels(Overlay(kernels.tree, {file: candidate.encode()}), like=kernels)
        last = build(changed, [file], archs, toolchain).built
        if last and all(each.came is Came.COMPILED for each in last):
            return Made(file=shown, patch=_diff(file, text, candidate), built=last)
    return Made(file=shown, refusal=_reason(last), obstacles=obstacles, built=last)


def spans_of(sources: Sources, file: str) -> tuple[Span, ...]:
    """The CUDA-only includes that `file` itself has open on ROCm, neighbours together."""
    lines = {line.line: line for line in sources.directives(file) if line.included}
    hit = [
        met.hop.line
        for met in inclusions(sources, file, HIP)
        if met.hop.file == file and met.found is None and met.active is not False and cuda_only(met.name)
    ]
    spans: list[Span] = []
    for number in sorted(set(hit)):
        family = cuda_only(lines[number].included or "") if number in lines else None
        counterpart = (family.counterpart,) if family and family.counterpart else ()
        if spans and spans[-1].last == number - 1:
            known = spans[-1]
            spans[-1] = Span(known.first, number, tuple(dict.fromkeys((*known.counterparts, *counterpart))))
        else:
            spans.append(Span(number, number, counterpart))
    return tuple(spans)


def _candidates(text: str, spans: tuple[Span, ...]) -> Iterator[str]:
    yield _guarded(text, spans, counterparts=False)
    if any(span.counterparts for span in spans):
        yield _guarded(text, spans, counterparts=True)


def _guarded(text: str, spans: tuple[Span, ...], *, counterparts: bool) -> str:
    """`text` with a guard around each span. The CUDA branch keeps its lines as they are."""
    lines = text.split("\n")
    for span in reversed(spans):
        end = "\r" if lines[span.first - 1].endswith("\r") else ""
        hip = [f"#include <{name}>" for name in span.counterparts] if counterparts else []
        before = ["#ifdef USE_ROCM", *hip, "#else"] if hip else ["#ifndef USE_ROCM"]
        lines[span.last : span.last] = ["#endif" + end]
        lines[span.first - 1 : span.first - 1] = [line + end for line in before]
    return "\n".join(lines)


def _diff(file: str, before: str, after: str) -> str:
    return "".join(unified({file: before.encode()}, {file: after.encode()}))


_REASONS: Final = (
    (r"mask must be a 64-bit", "32-bit shuffle masks: HIP 7 wants 64 bits, for a wavefront has 64 lanes"),
    (
        r"invalid (?:output|input) constraint|inline asm|unexpected token|invalid instruction|asm ",
        "inline PTX, which hipcc has not",
    ),
    (r"__nv_\w+", "an NVIDIA type without a HIP name here"),
    (r"'cuda?[A-Z]\w+'", "a CUDA call that no header of the tree turns into HIP's"),
    (r"unknown argument", "a flag for nvcc that hipcc does not take; the loader passes it"),
    (r"(?:cute|cutlass|cub|cooperative_groups|cuda|flashinfer|ptx)\b", "an NVIDIA library"),
)


def _reason(built: tuple[Built, ...]) -> str:
    """The first thing that still stops the compiler, in plain words."""
    left = next((each for each in built if each.came is Came.FAILED), None)
    if left is None:
        other = next((each.error for each in built if each.error), "no loader call compiles it")
        return f"cannot be proved here: {other}"
    missing = re.search(r"'([^']+)' file not found", left.error or "")
    known = missing and cuda_only(missing[1])
    if missing and known:
        return f"the error moves to {left.at}: {missing[1]} ({known.library}), in another file or only for CUDA"
    why = next((reason for pattern, reason in _REASONS if re.search(pattern, left.error or "")), "")
    return f"the error moves to {left.at or 'the command line'}: {left.error}" + (f" ({why})" if why else "")


def patch_text(made: Made, author: str, date: str) -> str:
    """A `git format-patch` file: what patches/ and a pull request take."""
    kernel = made.file.rpartition("/")[2]
    archs = " and ".join(sorted({each.arch for each in made.built}))
    body = (
        f"{kernel} includes CUDA headers that ROCm does not have, so hipcc stops there. Take them only where "
        f"USE_ROCM is not defined. With this, the kernel compiles for {archs}; what a CUDA build sees does not change."
    )
    return (
        "From 0000000000000000000000000000000000000000 Mon Sep 17 00:00:00 2001\n"
        f"From: {author}\nDate: {date}\nSubject: [PATCH] ROCm: let hipcc build {kernel}\n\n"
        f"{textwrap.fill(body, 74)}\n\nSigned-off-by: {author}\n---\n\n{made.patch}"
    )
