"""Makes the smallest guard that lets hipcc build a file, or says what else stands in the way."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from rocmfix.diff import unified
from rocmfix.guards.chain import Sources, inclusions
from rocmfix.guards.compile import MISSING, Built, Came, Kernels, build, is_open
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
    with_it: tuple[str, ...] = ()
    """Headers of the tree that stopped the compiler in their turn, and are guarded by the same patch."""
    refusal: str | None = None
    obstacles: tuple[str, ...] = ()
    """What stands in the way besides includes, `line: what`."""
    built: tuple[Built, ...] = ()
    """The proof: every unit that reads the file, with the guard in place. For a refusal, up to what failed."""


class Makings(Record):
    """What was made of each file that was asked for."""

    files: tuple[Made, ...]


@dataclass(frozen=True)
class Span:
    """Neighbouring `#include` lines that go under one guard."""

    first: int
    last: int
    counterparts: tuple[str, ...]
    """What ROCm reads in their place."""


def make(kernels: Kernels, file: str, archs: Sequence[str], toolchain: Toolchain) -> Made:
    """Guard the CUDA-only includes of `file`, a header or what a loader names, and prove it for `archs`.

    The proof is every file that reads it, those that ROCm comes to if it comes to any. First without HIP headers,
    then with their counterparts, and where that only brings the compiler to the CUDA-only include of a header of the
    tree, with that header too: the first texts that every unit compiles with are the smallest. A guard that only
    moves the error is no guard.
    """
    shown = kernels.tree.shown(file)
    obstacles = tuple(
        f"{met.line}: {met.construct.name} ({met.text}): {met.construct.why}"
        for met in constructs(kernels.sources, file)
    )
    if not _is_text(kernels, file):
        return Made(
            file=shown, refusal="it is not UTF-8, and a patch of it would not be what it is", obstacles=obstacles
        )
    if not spans_of(kernels.sources, file):
        return Made(file=shown, refusal="it has no CUDA-only include that ROCm compiles", obstacles=obstacles)
    reading = kernels.compiled_for(file)
    compiled = reading if file in reading else tuple(filter(kernels.reachable.__contains__, reading)) or reading
    guarded: list[str] = [file]
    built: tuple[Built, ...] = ()
    while True:
        for candidate in _candidates(kernels.sources, guarded):
            changed = Kernels(Overlay(kernels.tree, candidate), like=kernels)
            built = build(changed, compiled, archs, toolchain, until_failure=True).built
            if built and all(each.came is Came.COMPILED for each in built):
                with_it = tuple(kernels.tree.shown(path) for path in guarded[1:])
                return Made(file=shown, patch=_diff(kernels.sources, candidate), with_it=with_it, built=built)
        further = _stopped_in(kernels, built)
        if further is None or further in guarded:
            return Made(file=shown, refusal=_reason(built), obstacles=obstacles, built=built)
        guarded.append(further)


def _stopped_in(kernels: Kernels, built: tuple[Built, ...]) -> str | None:
    """The file of the tree whose CUDA-only include is what stops the compiler."""
    left = next((each for each in built if each.came is Came.FAILED and each.at), None)
    missing = MISSING.search(left.error or "") if left else None
    if left is None or missing is None or cuda_only(missing[1]) is None:
        return None
    named = {kernels.tree.shown(path): path for path in kernels.sources.files}
    file = named.get((left.at or "").rpartition(":")[0])
    return file if file and spans_of(kernels.sources, file) and _is_text(kernels, file) else None


def _is_text(kernels: Kernels, file: str) -> bool:
    """Whether the text of `file` is its bytes: a patch is made of text."""
    return kernels.sources.text(file).encode() == kernels.tree.read(file)


def spans_of(sources: Sources, file: str) -> tuple[Span, ...]:
    """The CUDA-only includes that `file` itself has open on ROCm, neighbours together."""
    lines = {line.line: line for line in sources.directives(file)}
    hit = [met.hop.line for met in inclusions(sources, file, HIP) if met.hop.file == file and is_open(met)]
    spans: list[Span] = []
    for number in sorted(set(hit)):
        family, last = cuda_only(lines[number].included or ""), lines[number].end
        counterpart = family.in_its_place if family else ()
        if spans and spans[-1].last == number - 1:
            known = spans[-1]
            spans[-1] = Span(known.first, last, tuple(dict.fromkeys((*known.counterparts, *counterpart))))
        else:
            spans.append(Span(number, last, counterpart))
    return tuple(spans)


def _candidates(sources: Sources, files: Sequence[str]) -> Iterator[dict[str, bytes]]:
    """New texts of `files`, each the same for CUDA: without HIP headers, and with them where there are any."""
    spans = {file: spans_of(sources, file) for file in files}
    helped = any(span.counterparts for each in spans.values() for span in each)
    for counterparts in (False, True) if helped else (False,):
        texts = {
            file: (sources.text(file), _guarded(sources.text(file), spans[file], counterparts=counterparts))
            for file in files
        }
        if all(same_for_cuda(before, after) for before, after in texts.values()):
            yield {file: after.encode() for file, (_, after) in texts.items()}


def _guarded(text: str, spans: tuple[Span, ...], *, counterparts: bool) -> str:
    """`text` with a guard around each span. The CUDA branch keeps its lines as they are."""
    mark = "\ufeff" if text.startswith("\ufeff") else ""  # only at the very start is it no part of the text
    lines = text.removeprefix(mark).split("\n")
    for span in reversed(spans):
        end = "\r" if lines[span.first - 1].endswith("\r") else ""
        hip = span.counterparts if counterparts else ()
        before = ["#ifdef USE_ROCM", *hip, "#else"] if hip else ["#ifndef USE_ROCM"]
        lines[span.last : span.last] = ["#endif" + end]
        lines[span.first - 1 : span.first - 1] = [line + end for line in before]
    return mark + "\n".join(lines)


def _diff(sources: Sources, after: dict[str, bytes]) -> str:
    return "".join(unified({file: sources.text(file).encode() for file in after}, after))


_REASONS: Final = (
    (r"mask must be a 64-bit", "32-bit shuffle masks: HIP 7 wants 64 bits, for a wavefront has 64 lanes"),
    (
        r"invalid (?:output|input) constraint|inline asm|unexpected token|invalid instruction|asm ",
        "inline PTX, which hipcc has not",
    ),
    (r"__(?:nv|NV)_\w+", "an NVIDIA type or value without a HIP name here"),
    (r"'(?:cu(?:da)?[A-Z]|CU[A-Za-z])\w+'", "a CUDA name that no header of the tree turns into HIP's"),
    (r"identifier '__\w+'", "a CUDA intrinsic that HIP has not under this name"),
    (r"expected namespace name|cublas|cudnn|nvshmem", "an NVIDIA library"),
    (r"unknown argument", "a flag for nvcc that hipcc does not take; the loader passes it"),
    (r"(?:cute|cutlass|cub|cooperative_groups|cuda|flashinfer|ptx)\b", "an NVIDIA library"),
)


def _reason(built: tuple[Built, ...]) -> str:
    """The first thing that still stops the compiler, in plain words."""
    left = next((each for each in built if each.came is Came.FAILED), None)
    if left is None:
        other = next((each.error for each in built if each.error), "no loader call compiles it")
        return f"cannot be proved here: {other}"
    missing = MISSING.search(left.error or "")
    known = missing and cuda_only(missing[1])
    if missing and known:
        return f"the error moves to {left.at}: {missing[1]} ({known.library}), which is behind no guard that helps"
    why = next((reason for pattern, reason in _REASONS if re.search(pattern, left.error or "")), "")
    return f"the error moves to {left.at or 'the command line'}: {left.error}" + (f" ({why})" if why else "")


def patch_text(made: Made, author: str, date: str) -> str:
    """A `git format-patch` file: what patches/ and a pull request take."""
    kernel = made.file.rpartition("/")[2]
    archs = " and ".join(sorted({each.arch for each in made.built}))
    with_it = " and ".join(path.rpartition("/")[2] for path in made.with_it)
    body = (
        f"{kernel} includes CUDA headers that ROCm does not have, so hipcc stops there"
        f"{f', and then in {with_it}' if with_it else ''}. Take them only where USE_ROCM is not defined. "
        f"With this, the kernel compiles for {archs}; what a CUDA build sees does not change."
    )
    return (
        "From 0000000000000000000000000000000000000000 Mon Sep 17 00:00:00 2001\n"
        f"From: {author}\nDate: {date}\nSubject: [PATCH] ROCm: let hipcc build {kernel}\n\n"
        f"{textwrap.fill(body, 74)}\n\nSigned-off-by: {author}\n---\n\n{made.patch}"
    )
