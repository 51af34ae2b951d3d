"""Finds CUDA-only language in what is left of a file when it is compiled as HIP."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, TypeAlias

from rocmfix.guards.chain import Seen, Sources, walk
from rocmfix.guards.conditionals import CUDA, HIP
from rocmfix.guards.directives import plain

_PTX = (
    r"ld|st|cp|mma|ldmatrix|stmatrix|mov|cvt|cvta|fma|add|sub|mul|red|atom|bar|barrier|fence|membar|mbarrier|"
    r"griddepcontrol|tcgen05|wgmma|prefetch|createpolicy|ex2|rcp|tanh|shfl|lop3|prmt|setmaxnreg|elect|multimem|"
    r"clusterlaunchcontrol|setp|selp|mapa|isspacep|max|min|nanosleep|redux|vote"
)


@dataclass(frozen=True, slots=True)
class Construct:
    """A kind of CUDA-only language."""

    name: str
    pattern: re.Pattern[str]
    why: str


CONSTRUCTS: Final = (
    Construct("inline PTX", re.compile(rf'\basm\s*(?:volatile)?\s*\(\s*"[^"]*?\b(?:{_PTX})\.'), "hipcc has no PTX"),
    Construct(
        "32-bit shuffle mask",
        re.compile(
            r"\b__(?:shfl|shfl_up|shfl_down|shfl_xor|ballot|any|all|activemask)_sync\s*\(\s*0[xX][fF]{8}[uU]?\b"
        ),
        "HIP 7 wants a 64-bit mask: a wavefront has 64 lanes",
    ),
    Construct("__nv_ type", re.compile(r"\b__nv_\w+"), "an NVIDIA type or function"),
    Construct(
        "NVIDIA library",
        re.compile(r"\b(?:cub|cute|cutlass|cuda::(?:ptx|std)|cooperative_groups|flashinfer|nvcuda)::\w+"),
        "a library that ROCm does not have under this name",
    ),
    Construct(
        "CUDA call", re.compile(r"\bcu(?:da)?[A-Z]\w{3,}"), "a CUDA name that no header of the tree turns into HIP's"
    ),
    Construct("__grid_constant__", re.compile(r"\b__(?:grid_constant|cluster_dims)__"), "an nvcc attribute"),
)


@dataclass(frozen=True, slots=True)
class Met:
    """One construct at one line."""

    construct: Construct
    text: str
    line: int


def constructs(sources: Sources, path: str) -> Iterator[Met]:
    """The first use of each CUDA-only construct that HIP would compile in `path`, and that is not written for HIP."""
    hip, cuda = walk(sources, path, HIP), walk(sources, path, CUDA)
    out = (*hip.gaps[path], *cuda.gaps[path])
    text = _lines(sources.text(path), lambda number: not _in(number, out))
    given = hip.macros.keys() | _given_by(sources, hip, cuda)
    for construct in CONSTRUCTS:
        for found in construct.pattern.finditer(text):
            word = " ".join(found[0].split())
            if word.partition("::")[0] not in given:
                yield Met(construct, word, _line(text, found.start()))
                break


_Stretches: TypeAlias = "tuple[tuple[int, int], ...]"


def _given_by(sources: Sources, hip: Seen, cuda: Seen) -> set[str]:
    """Every name in lines that ROCm reads and CUDA does not: there it is that CUDA's names get a meaning."""
    without = {file: tuple(cuda.gaps.get(file, [_EVERY_LINE])) for file in hip.gaps}
    return {
        name
        for file, gaps in without.items()
        if gaps
        for name in _names(sources.text(file), gaps, tuple(hip.gaps[file]))
    }


@lru_cache(maxsize=256)  # the headers of one kernel are most often those of the next, and read the same
def _names(text: str, among: _Stretches, out: _Stretches) -> frozenset[str]:
    return frozenset(_WORD.findall(_lines(text, lambda number: _in(number, among) and not _in(number, out))))


def _in(number: int, stretches: _Stretches) -> bool:
    return any(start <= number <= end for start, end in stretches)


_EVERY_LINE: Final = (1, sys.maxsize)
_WORD: Final = re.compile(r"\w+")
_NEWLINES: Final = re.compile("[\n\x0b\x1c]")


def _lines(text: str, wanted: Callable[[int], bool]) -> str:
    """`text` with all lines but those `wanted`, and all directives, made empty."""
    lines, number = plain(text).split("\n"), 1
    for index, line in enumerate(lines):
        height = 1 + len(_NEWLINES.findall(line))
        if not wanted(number) or line.lstrip().startswith("#"):
            lines[index] = "\x0b" * (height - 1)
        number += height
    return "\n".join(lines)


def _line(text: str, at: int) -> int:
    return 1 + len(_NEWLINES.findall(text, 0, at))
