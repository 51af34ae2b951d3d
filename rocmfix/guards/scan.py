"""Scans a tree: every CUDA-only line, whether it is guarded, and whether ROCm ever compiles it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from rocmfix.guards.chain import Inclusion, Sources, inclusions
from rocmfix.guards.conditionals import HIP
from rocmfix.guards.constructs import constructs
from rocmfix.guards.findings import Finding, Scan
from rocmfix.guards.headers import cuda_only
from rocmfix.guards.loaders import loaders
from rocmfix.guards.program import Program, uncollected
from rocmfix.guards.reach import Reach, Reachable, reach
from rocmfix.system.workers import at_once
from rocmfix.tree import Tree

_BEST = (Reachable.YES, Reachable.UNKNOWN, Reachable.NO)


@dataclass
class CudaLine:
    """One CUDA-only include and the compilations that come to it."""

    file: str
    line: int
    include: str
    active: bool = False
    via: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """For each file compiled, the headers that lead to this line, nearest first."""
    past: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """The same for files whose compilation passes it by, a guard being shut."""


def scan(tree: Tree) -> Scan:
    """Includes, constructs and reachability of one tree."""
    with uncollected():
        return _scanned(tree)


def _scanned(tree: Tree) -> Scan:
    sources = Sources(tree)
    program = Program(tree)
    reached = reach_of_files(program, sources)
    lines, found = at_once(lambda: cuda_lines(sources), lambda: list(_constructs(sources, reached)))
    found += [_finding(sources, line, reached) for line in lines]
    return Scan(
        source=tree.source,
        findings=tuple(sorted(found, key=lambda each: (each.file, each.line, each.include))),
        unread=program.unread,
    )


def cuda_lines(sources: Sources) -> list[CudaLine]:
    """Every CUDA-only include of the tree, with what a compiler with USE_ROCM makes of it."""
    lines: dict[tuple[str, int], CudaLine] = {}
    for root in sources.files:
        for met in inclusions(sources, root, HIP):
            if met.found is None and cuda_only(met.name):
                key = (met.hop.file, met.hop.line)
                line = lines.setdefault(key, CudaLine(*key, met.name))
                _note(line, root, met)
    return list(lines.values())


def _note(line: CudaLine, root: str, met: Inclusion) -> None:
    ways = line.past if met.active is False else line.via
    ways.setdefault(root, tuple(hop.file for hop in reversed(met.via)))
    line.active = bool(line.via)


def reach_of_files(program: Program, sources: Sources) -> dict[str, Reach]:
    """For each file that a loader names, the best answer among its loaders."""
    found = tuple(loaders(program, sources))
    best: dict[str, Reach] = {}
    for loader, answer in zip(found, reach(program, found), strict=True):
        for file in loader.files:
            best[file] = min((best.get(file, answer), answer), key=_rank)
    return best


def _rank(answer: Reach) -> tuple[int, int]:
    return (_BEST.index(answer.reachable), len(answer.conditions))


def _finding(sources: Sources, line: CudaLine, reached: dict[str, Reach]) -> Finding:
    ways = line.via if line.active else line.past
    roots = [root for root in ways if root in reached]
    root = min(roots, key=lambda each: _rank(reached[each]) if each in reached else (len(_BEST), 0), default=line.file)
    answer = reached.get(root) or Reach(Reachable.UNKNOWN, (), "no loader call names a file that includes it")
    return _told(sources, line.file, line.line, line.include, answer, guarded=not line.active, via=ways.get(root, ()))


def _told(  # noqa: PLR0913 - one record's fields
    sources: Sources, file: str, line: int, include: str, answer: Reach, *, guarded: bool, via: tuple[str, ...]
) -> Finding:
    return Finding(
        file=sources.shown(file),
        line=line,
        include=include,
        guarded=guarded,
        reachable=answer.reachable,
        chain=(*(sources.shown(header) for header in via), *answer.chain),
        gate=answer.gate or None,
        condition=" and ".join(answer.conditions) or None,
    )


def _constructs(sources: Sources, reached: dict[str, Reach]) -> Iterator[Finding]:
    """CUDA-only language in files that a loader names; in what nobody loads it harms nobody."""
    for file, answer in reached.items():
        for each in constructs(sources, file) if answer.reachable is not Reachable.NO else ():
            name = each.construct.name
            include = name if name == "inline PTX" else f"{name}: {each.text}"
            yield _told(sources, file, each.line, include, answer, guarded=False, via=())
