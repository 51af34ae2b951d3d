"""Says whether ROCm ever has a C++ file compiled: from the loader call up through everything that uses it."""

from __future__ import annotations

import ast
import posixpath
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from heapq import heappop, heappush
from itertools import count
from typing import TypeAlias

from rocmfix.guards.callers import Caller, Callers, Closed, Found, Later, Root, Untold
from rocmfix.guards.loaders import Loader
from rocmfix.guards.platform import Platform
from rocmfix.guards.program import Program, is_entry
from rocmfix.guards.pyfacts import IMPORTS, RETURNS, Scope, Test
from rocmfix.guards.pysource import PySource
from rocmfix.system.workers import spread

_TELLING = re.compile(
    r"depth|\benvs?\b|SGLANG_|aiter|gfx|server_args|backend|scoring_func|\benable_|\buse_|_mode\b|hisparse",
    re.IGNORECASE,
)
"""Conditions a person can act on; shapes, dtypes and None checks are left out."""


class Reachable(str, Enum):
    """The three answers."""

    YES = "yes"
    NO = "no"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Reach:
    """An answer with its evidence."""

    reachable: Reachable
    chain: tuple[str, ...] = ()
    """From the loader call outwards, each `file:line name`: for `yes` the shortest there is."""
    gate: str = ""
    """What stops ROCm nearest to the loader call, for `no`; why it cannot be told, for `unknown`."""
    conditions: tuple[str, ...] = ()
    """What else must hold on the way, for `yes`."""


@dataclass(frozen=True, slots=True)
class _Step:
    """A caller that ROCm comes to, if it passes `tests`."""

    caller: Caller
    tests: tuple[Test, ...]
    below: _Step | None
    height: int

    @property
    def unit(self) -> tuple[PySource, Scope]:
        return self.caller.source, self.caller.unit


_Order: TypeAlias = "Callable[[int, int], tuple[int, int]]"
"""By the height of a step and by what it costs to find its next caller: the least goes first."""


def _shortest_first(height: int, cost: int) -> tuple[int, int]:
    return height, cost


def _cheapest_first(height: int, cost: int) -> tuple[int, int]:
    return cost, -height


class _Ways:
    """The callers that are still to be looked at, in order; more may be added on the way."""

    def __init__(self, order: _Order, first: Iterable[Found | Later]) -> None:
        self._order = order
        self._number = count()
        self._waiting: list[tuple[tuple[int, int], int, int, _Step | None, Iterator[Found | Later]]] = []
        self._put(0, next(self._number), None, iter(first))

    def add(self, step: _Step, callers: Iterable[Found | Later]) -> None:
        """Look at the callers of `step` as well."""
        self._put(0, next(self._number), step, iter(callers))

    def __iter__(self) -> Iterator[tuple[Found, _Step | None]]:
        """Each caller with the step that it calls."""
        while self._waiting:
            _, number, cost, step, callers = heappop(self._waiting)
            found = next(callers, None)
            if found is None:
                continue
            self._put(cost + isinstance(found, Later), number, step, callers)
            if not isinstance(found, Later):
                yield found, step

    def _put(self, cost: int, number: int, step: _Step | None, callers: Iterator[Found | Later]) -> None:
        turn = self._order(step.height + 1 if step else 0, cost)
        heappush(self._waiting, (turn, number, cost, step, callers))


class Reachability:
    """Climbs breadth first from a loader call to whoever causes it: no answer hangs on what was asked before."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._platform = Platform(program)
        self._callers = Callers(program)
        self._above: dict[tuple[PySource, Scope], Reach] = {}
        """What stops ROCm above a step in an entry: it is the same for whatever lies below."""
        self._reaches: set[tuple[PySource, Scope]] = set()
        """Units that ROCm was found to come to, by whatever way."""

    def of(self, loader: Loader) -> Reach:
        """Whether ROCm can come to this loader call."""
        return self._climbed([Caller(loader.source, loader.use)], _shortest_first, self._entered)

    def _entered(self, step: _Step) -> Reach | _Step:
        """The answer for a step in a file that the server runs: whether the server comes to it, by whatever way.

        What that way hangs on is not told: there are others.
        """
        if not is_entry(step.caller.source.path):
            return step
        if step.unit not in self._reaches and step.unit not in self._above:
            above = self._climbed(self._callers.of(*step.unit), _cheapest_first, self._joined)
            if above.reachable is Reachable.YES:
                self._reaches.add(step.unit)
            else:
                self._above[step.unit] = above
        if step.unit in self._reaches:
            return self._reached(step)
        above = self._above[step.unit]
        return Reach(above.reachable, (*self._chain(step), *above.chain), above.gate)

    def _joined(self, step: _Step) -> Reach | _Step:
        """The answer for a step that ROCm was found to come to before."""
        return self._reached(step) if step.unit in self._reaches else step

    def _climbed(self, first: Iterable[Found | Later], order: _Order, ended: Callable[[_Step], Reach | _Step]) -> Reach:
        """The answer for what `first` call, one step up after the other until `ended` has an answer for a step."""
        seen: set[tuple[PySource, Scope]] = set()
        stopped: dict[Reachable, Reach] = {}
        below: _Step | None = None
        ways = _Ways(order, first)
        for found, below in ways:
            if isinstance(found, Caller) and not found.ends and (found.source, found.unit) in seen:
                continue
            further = self._followed(found, below)
            if isinstance(further, _Step):
                further = ended(further)
            if isinstance(further, _Step):
                seen.add(further.unit)
                ways.add(further, self._callers.of(*further.unit))
            elif further.reachable is Reachable.YES:
                self._reaches.update(step.unit for step in _from_loader(below))
                return further
            else:
                stopped.setdefault(further.reachable, further)
        itself = Reach(Reachable.NO, self._chain(below), "only reached from itself")
        return stopped.get(Reachable.UNKNOWN) or stopped.get(Reachable.NO, itself)

    def _followed(self, found: Found, below: _Step | None) -> Reach | _Step:
        """One step up from `below`, or the answer where the climb ends there."""
        match found:
            case Caller():
                return self._through(found, below)
            case Root(decorator):
                return self._reached(below, decorator)
            case Closed(why):
                return Reach(Reachable.NO, self._chain(below), why)
            case Untold(why):
                return Reach(Reachable.UNKNOWN, self._chain(below), why)

    def _through(self, caller: Caller, below: _Step | None) -> Reach | _Step:
        """Past the tests of a use and of its import."""
        unsure = []
        for test, scope in caller.tests():
            passed = self._platform.truth(test, caller.source, scope)
            if passed is False:
                gate = f"{self._program.shown(caller.source.path)}:{test.line}: {_gate(test)}"
                return Reach(Reachable.NO, (*self._chain(below), self._at(caller)), gate)
            if passed is None:
                unsure.append(test)
        step = _Step(caller, tuple(unsure), below, below.height + 1 if below else 0)
        return self._reached(step) if caller.ends else step

    def _reached(self, step: _Step | None, *conditions: str) -> Reach:
        tests = (test for each in _from_loader(step) for test in each.tests)
        told = [text for text in map(condition, tests) if _TELLING.search(text) and not text.startswith(RETURNS)]
        way = self._chain(step)
        if step and is_entry(step.caller.source.path):
            way = (*way[:-1], f"{way[-1]} (runs on every platform)")
        return Reach(Reachable.YES, way, "", tuple(dict.fromkeys(filter(None, [*told, *conditions]))))

    def _chain(self, step: _Step | None) -> tuple[str, ...]:
        return tuple(f"{self._at(each.caller)} {each.caller.name}" for each in _from_loader(step))

    def _at(self, caller: Caller) -> str:
        return f"{self._program.shown(caller.source.path)}:{caller.use.line}"


def reach(program: Program, loaders: Sequence[Loader]) -> tuple[Reach, ...]:
    """The answer for each loader call. Calls of one folder share their callers, so one process asks for them all."""
    climb = Reachability(program)
    folders: dict[str, list[int]] = {}
    for number, loader in enumerate(loaders):
        folders.setdefault(posixpath.dirname(loader.source.path), []).append(number)
    largest_first = sorted(folders.values(), key=len, reverse=True)
    told: dict[int, Reach] = {}
    for answers, broken in spread(
        lambda numbers: ([(number, climb.of(loaders[number])) for number in numbers], program.broken), largest_first
    ):
        told.update(answers)
        program.broken.update(broken)
    return tuple(_unless_loaded_unseen(program, loaders[number], told[number]) for number in range(len(loaders)))


def _unless_loaded_unseen(program: Program, loader: Loader, answer: Reach) -> Reach:
    """`no` only where no broken file may load the same."""
    names = {posixpath.basename(file).partition(".")[0] for file in loader.files}
    why = next(program.untold(*sorted(names)), None) if answer.reachable is Reachable.NO else None
    return Reach(Reachable.UNKNOWN, answer.chain, why) if why else answer


def _from_loader(step: _Step | None) -> list[_Step]:
    steps = []
    while step:
        steps.append(step)
        step = step.below
    return steps[::-1]


def condition(test: Test) -> str:
    """A condition in the field's words: `self.speculative_num_steps > 3` is `depth >= 4`."""
    match test.expr:
        case ast.Compare(
            left=ast.Name(id=name) | ast.Attribute(attr=name),
            ops=[ast.Gt() | ast.GtE() as op],
            comparators=[ast.Constant(value=int(number))],
        ) if name.endswith("speculative_num_steps"):
            least = number + isinstance(op, ast.Gt)
            return f"depth >= {least}" if test.holds else f"depth < {least}"
        case _:
            text = " ".join(test.text.split())
            return text if len(text) <= 120 else text[:117] + "..."


def _gate(test: Test) -> str:
    text = condition(test)
    if text.startswith(IMPORTS):
        return f"{text} fails on ROCm"
    if text.startswith(RETURNS):
        return f"{text.removeprefix(RETURNS)}() raises on ROCm"
    return f"needs {text}, which ROCm does not pass"
