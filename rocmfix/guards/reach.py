"""Says whether ROCm ever has a C++ file compiled: from the loader call up through everything that uses it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum
from itertools import chain

from rocmfix.guards.loaders import Loader
from rocmfix.guards.platform import Platform
from rocmfix.guards.program import Program, related, within
from rocmfix.guards.pyfacts import Binding, Scope, Test, Use
from rocmfix.guards.pysource import PySource

_DEEPEST = 7
"""A chain this long that no gate has stopped is taken as reached: the warning matters more than its last hop."""
_TELLING = re.compile(
    r"depth|\benvs?\b|SGLANG_|aiter|gfx|server_args|backend|scoring_func|\benable_|\buse_|_mode\b|hisparse",
    re.IGNORECASE,
)
"""Conditions a person can act on; shapes, dtypes and None checks are left out."""
_OTHER_PLATFORMS = ("_cpu", "_npu", "_xpu", "_hpu", "_musa", "_mps", "_tpu")


_EVERY_PLATFORM = re.compile(
    r"/srt/(?:models|managers|entrypoints|model_executor|speculative)/|/runtime/(?:models|pipelines\w*)/"
)
"""Models are imported by folder and chosen by the checkpoint; the others are the server itself."""


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
    """From the loader call outwards, each `file:line name`."""
    gate: str = ""
    """What stops ROCm, for `no`; why it cannot be told, for `unknown`."""
    conditions: tuple[str, ...] = ()
    """What else must hold on the way, for `yes`."""


class Reachability:
    """Climbs from a use to whoever causes it, remembering every answer."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._platform = Platform(program)
        self._answers: dict[tuple[str, Scope], Reach] = {}
        self._climbing: set[tuple[str, Scope]] = set()

    def of(self, loader: Loader) -> Reach:
        """Whether ROCm can come to this loader call."""
        return self._through(loader.source, None, loader.use, 0)

    def _through(self, source: PySource, bound: Binding | None, use: Use, depth: int) -> Reach:
        """The answer for one use: its own tests and its import's, then whoever causes it."""
        here = f"{self._program.shown(source.path)}:{use.line}"
        tests = [(test, use.scope) for test in use.tests]
        if bound:
            tests += [(test, bound.scope) for test in bound.tests]
        conditions: list[str] = []
        for test, scope in tests:
            passed = self._platform.truth(test, source, scope)
            if passed is False:
                return Reach(Reachable.NO, (here,), f"{self._program.shown(source.path)}:{test.line}: {_gate(test)}")
            if passed is None:
                conditions.append(condition(test))
        above = self._climb(source, use.scope, depth + 1)
        name = ".".join(use.scope) or "module level"
        if above.reachable is Reachable.YES:
            kept = tuple(dict.fromkeys((*(text for text in conditions if _TELLING.search(text)), *above.conditions)))
            return Reach(Reachable.YES, (f"{here} {name}", *above.chain), "", kept)
        return Reach(above.reachable, (f"{here} {name}", *above.chain), above.gate)

    def _climb(self, source: PySource, scope: Scope, depth: int) -> Reach:
        unit = source.unit(scope)
        key = (source.path, unit)
        if key in self._answers:
            return self._answers[key]
        if depth > _DEEPEST:
            return Reach(Reachable.YES)
        if key in self._climbing:
            return Reach(Reachable.NO, (), "only reached from itself")
        self._climbing.add(key)
        try:
            answer = self._answered(source, unit, depth)
        finally:
            self._climbing.discard(key)
        self._answers[key] = answer
        return answer

    def _answered(self, source: PySource, unit: Scope, depth: int) -> Reach:
        if _EVERY_PLATFORM.search(source.path):
            return Reach(Reachable.YES, (f"{self._program.shown(source.path)} (runs on every platform)",))
        if not unit:
            return self._imported(source)
        if len(unit) > 1 or source.is_class(unit):
            return self._member(source, unit, depth)
        return self._named(source, unit[0], unit, depth)

    def _named(self, source: PySource, name: str, unit: Scope, depth: int) -> Reach:
        """A top-level function or class: whoever uses its name, here or elsewhere."""
        here = (
            (source, None, use)
            for use in source.uses(name)
            if use.scope[: len(unit)] != unit and _is(use, name) and not _is_own(source, use)
        )
        elsewhere = self._program.references(source.dotted, name)
        return self._any(chain(here, elsewhere), depth) or self._unused(source, name, unit)

    def _member(self, source: PySource, unit: Scope, depth: int) -> Reach:
        """A method: its class's own calls of it, and for what others may call, the class itself."""
        owner, method = unit[0], unit[-1] if len(unit) > 1 else ""
        if method.endswith(_OTHER_PLATFORMS):
            return Reach(
                Reachable.NO, (), f"{self._program.shown(source.path)}: {owner}.{method} is another platform's"
            )
        inside = [
            use
            for use in (source.uses(method) if method else ())
            if use.base in {"self", "cls", "super", owner}
            and use.scope[:1] == unit[:1]
            and use.scope[: len(unit)] != unit
        ]
        answer = self._any(((source, None, use) for use in inside), depth) if inside else None
        if answer and (answer.reachable is Reachable.YES or _private(method)):
            return answer
        if method == "forward_cuda" and source.function((owner, "forward_hip")):
            # MultiPlatformOp.dispatch_forward, sglang/srt/layers/utils/multi_platform.py
            return answer or Reach(Reachable.NO, (), f"{self._program.shown(source.path)}: {owner} has a forward_hip")
        outside = self._outside(source, unit, depth) if inside and answer else None
        if outside is None and answer:
            return answer
        return self._named(source, owner, (owner,), depth)

    def _outside(self, source: PySource, unit: Scope, depth: int) -> Reach | None:
        """Calls of a public method through an object, anywhere; None when there are none."""
        method = unit[-1]
        found = (
            (other, None, use)
            for path in self._program.holding(method)
            for other in (self._program.source(path),)
            for use in other.uses(method)
            if use.base not in {"", "self", "cls", "super"} and use.call is not None and other is not source
        )
        return self._any(found, depth)

    def _imported(self, source: PySource) -> Reach:
        """Code at module level runs when the module is imported."""
        users = ((other, None, _as_use(bound)) for other, bound in self._program.importers(source.dotted))
        blocked = None
        for other, _, use in users:
            gate = self._blocked(other, use)
            if gate is None:
                return Reach(Reachable.YES, (f"{self._program.shown(other.path)}:{use.line} import",))
            blocked = blocked or gate
        return blocked or Reach(Reachable.UNKNOWN, (), f"no import of {source.dotted} found")

    def _blocked(self, source: PySource, use: Use) -> Reach | None:
        for test in use.tests:
            if self._platform.truth(test, source, use.scope) is False:
                where = self._program.shown(source.path)
                return Reach(Reachable.NO, (f"{where}:{use.line}",), f"{where}:{test.line}: {_gate(test)}")
        return None

    def _any(self, uses: Iterable[tuple[PySource, Binding | None, Use]], depth: int) -> Reach | None:
        """The best answer among `uses`: yes before unknown before no; None when there is no use."""
        best: Reach | None = None
        for source, bound, use in uses:
            answer = self._through(source, bound, use, depth)
            if answer.reachable is Reachable.YES:
                return answer
            if best is None or (answer.reachable is Reachable.UNKNOWN and best.reachable is Reachable.NO):
                best = answer
        return best

    def _unused(self, source: PySource, name: str, unit: Scope) -> Reach:
        registered = _registered(source, unit)
        if registered:
            return Reach(Reachable.YES, (), "", (registered,))
        other = next(self._naming(source, name), None)
        if other:
            where = self._program.shown(other)
            return Reach(Reachable.UNKNOWN, (), f"{name} is named in {where}, but not as a call this scan can follow")
        return Reach(Reachable.NO, (), f"nothing that a server runs calls {name}")

    def _naming(self, source: PySource, name: str) -> Iterator[str]:
        """Other files that spell `name` and may mean that of `source`: a table of names, an attribute of something."""
        quoted = re.compile(rb"[\"']%s[\"']" % re.escape(name.encode()))
        for path in self._program.holding(name):
            other = self._program.source(path)
            theirs = other.function((name,)) or any(
                bound.symbol == name and not related(bound.module, source.dotted) for bound in other.imports(name)
            )
            if other is not source and (not theirs or self._program.spells(path, quoted)):
                yield path


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


def _is(use: Use, name: str) -> bool:
    """A bare name, or the operator that torch.ops makes of it."""
    return not use.base or (use.base.startswith("torch.ops") and use.name == name)


def _is_own(source: PySource, use: Use) -> bool:
    """A name that the function around it has for itself: an argument or a local variable."""
    own = (one.scope for one in source.assigned(use.name, use.scope))
    return not use.base and (
        source.is_parameter(use.name, use.scope)
        or any(scope and within(use.scope, scope) and not source.is_class(scope) for scope in own)
    )


def _private(method: str) -> bool:
    return method.startswith("_") and not method.endswith("__")


def _as_use(bound: Binding) -> Use:
    return Use(bound.name, "", bound.scope, bound.tests, bound.line, None)


def _registered(source: PySource, unit: Scope) -> str:
    """The decorator that hands a function to a table under a name, such as an attention backend's."""
    function = source.function(unit)
    for decorator in function.decorator_list if function else ():
        if isinstance(decorator, ast.Call) and decorator.args and isinstance(decorator.args[0], ast.Constant):
            return ast.unparse(decorator)
    return ""
