"""Says whether ROCm ever has a C++ file compiled: from the loader call up through everything that uses it."""

from __future__ import annotations

import ast
import posixpath
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum

from rocmfix.guards.callers import Caller, Callers, Closed, Found, Later, Registered, Untold
from rocmfix.guards.loaders import Loader
from rocmfix.guards.platform import Platform
from rocmfix.guards.program import Program
from rocmfix.guards.pyfacts import Scope, Test
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

    @property
    def unit(self) -> tuple[PySource, Scope]:
        return self.caller.source, self.caller.source.unit(self.caller.use.scope)


class Reachability:
    """Climbs breadth first from a loader call to whoever causes it: no answer hangs on what was asked before."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._platform = Platform(program)
        self._callers = Callers(program)

    def of(self, loader: Loader) -> Reach:
        """Whether ROCm can come to this loader call."""
        first = self._followed(Caller(loader.source, loader.use), None)
        return first if isinstance(first, Reach) else self._climbed(first)

    def _climbed(self, first: _Step) -> Reach:
        seen, level = {first.unit}, [first]
        stopped: dict[Reachable, Reach] = {}
        while level:
            above: list[_Step] = []
            for step, found in self._in_turn(level):
                further = self._followed(found, step)
                if isinstance(further, _Step):
                    if further.unit not in seen:
                        seen.add(further.unit)
                        above.append(further)
                elif further.reachable is Reachable.YES:
                    return further
                else:
                    stopped.setdefault(further.reachable, further)
            level = above
        itself = Reach(Reachable.NO, self._chain(first), "only reached from itself")
        return stopped.get(Reachable.UNKNOWN) or stopped.get(Reachable.NO, itself)

    def _in_turn(self, level: list[_Step]) -> Iterator[tuple[_Step, Found]]:
        """Whoever calls each of `level`, of all first those who cost little to find."""
        asked = [(step, iter(self._callers.of(*step.unit))) for step in level]
        while asked:
            later = []
            for step, callers in asked:
                for found in callers:
                    if isinstance(found, Later):
                        later.append((step, callers))
                        break
                    yield step, found
            asked = later

    def _followed(self, found: Found, below: _Step | None) -> Reach | _Step:
        """One step up from `below`, or the answer where the climb ends there."""
        match found:
            case Caller():
                return self._through(found, below)
            case Registered(decorator):
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
        step = _Step(caller, tuple(unsure), below)
        return self._reached(step) if caller.ends else step

    def _reached(self, step: _Step | None, *conditions: str) -> Reach:
        tests = (test for each in _from_loader(step) for test in each.tests)
        told = [text for text in map(condition, tests) if _TELLING.search(text)]
        return Reach(Reachable.YES, self._chain(step), "", tuple(dict.fromkeys([*told, *conditions])))

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
        program.note_broken(broken)
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
    return f"{text} fails on ROCm" if text.startswith("import ") else f"needs {text}, which ROCm does not pass"
