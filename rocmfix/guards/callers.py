"""Finds who has a function, a method or a module of the tree run: the steps that `reach` climbs by."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import chain, count, islice
from typing import TypeAlias

from rocmfix.guards.program import Program, is_entry, within
from rocmfix.guards.pyfacts import Binding, Scope, Test, Use
from rocmfix.guards.pysource import PySource

_MODELS = "EntryClass"
"""What a file calls the models that it has: sglang/srt/models/registry.py looks for it in every file."""
_ITSELF = frozenset({"self", "cls", "super"})
_MAKING = frozenset({"__new__", "__init__", "__post_init__"})
_OTHER_PLATFORMS = ("_cpu", "_npu", "_xpu", "_hpu", "_musa", "_mps", "_tpu")


@dataclass(frozen=True, slots=True)
class Caller:
    """One use that has a unit run, with the import that brought the name in."""

    source: PySource
    use: Use
    bound: Binding | None = None
    imports: bool = False
    """It imports the module: what stands at module level runs then."""
    kept: bool = False
    """The module keeps it under another name, and has it run by whoever uses that."""

    @property
    def ends(self) -> bool:
        """Whether nobody further need be looked for."""
        kept = self.kept and self.use.kept_as != _MODELS
        return self.imports or (not kept and not self.use.scope and is_entry(self.source.path))

    @property
    def unit(self) -> Scope:
        """What runs it: nobody further need be asked than those who use that."""
        return (self.use.kept_as,) if self.kept else self.source.unit(self.use.scope)

    @property
    def name(self) -> str:
        """What the use stands in."""
        if self.kept:
            return self.use.kept_as
        return "import" if self.imports else ".".join(self.use.scope) or "module level"

    def tests(self) -> Iterator[tuple[Test, Scope]]:
        """What must hold for the use and for its import, and where that stands."""
        yield from ((test, self.use.scope) for test in self.use.tests)
        if self.bound:
            yield from ((test, self.bound.scope) for test in self.bound.tests)


@dataclass(frozen=True, slots=True)
class Root:
    """Nobody need be looked for: the server runs it, or a table holds it under a name that the user gives."""

    decorator: str = ""
    """What put it into the table."""


@dataclass(frozen=True, slots=True)
class Closed:
    """ROCm does not come this way."""

    why: str


@dataclass(frozen=True, slots=True)
class Untold:
    """Nobody was found, yet somebody may be there."""

    why: str


@dataclass(frozen=True, slots=True)
class Later:
    """Nobody yet: those who come after this cost more to find."""


Found: TypeAlias = "Caller | Root | Closed | Untold"


class Callers:
    """Whoever uses a unit (a top-level function or class, a method, a module), found once and remembered."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._known: dict[tuple[str, Scope], _Once] = {}

    def of(self, source: PySource, unit: Scope) -> Iterable[Found | Later]:
        """Whoever has `unit` of `source` run, nearest first; never nobody. Read on only as far as it is asked."""
        key = (source.path, unit)
        if key not in self._known:
            self._known[key] = _Once(self._of(source, unit))
        return self._known[key]

    def _of(self, source: PySource, unit: Scope) -> Iterator[Found | Later]:
        if not unit:
            yield from self._imported(source)
        elif len(unit) > 1 or source.is_class(unit):
            yield from self._member(source, unit)
        else:
            yield from self._named(source, unit)
        names = dict.fromkeys((unit[0], unit[-1])) if unit else (source.dotted.rpartition(".")[2],)
        yield from map(Untold, self._program.untold(*names))

    def _named(self, source: PySource, unit: Scope) -> Iterator[Found | Later]:
        """A function or class of the module, or a method by its class: whoever uses the name, here or elsewhere."""
        name = unit[0]
        here = (
            Caller(source, use, kept=_is_kept(use, unit))
            for use in source.uses(name)
            if use.scope[:1] != unit[:1] and _is(use, name) and not _is_own(source, use)
        )
        users = chain.from_iterable(self._by_heir(each, unit) for each in chain(here, self._elsewhere(source, unit)))
        yield from _or_else(users, lambda: self._unused(source, unit))

    def _by_heir(self, user: Found | Later, unit: Scope) -> Iterator[Found | Later]:
        """The user itself; for an heir with a method of its own in the place of `unit`, where that calls this one."""
        heir = user.use.scope if isinstance(user, Caller) and len(unit) > 1 else ()
        if not isinstance(user, Caller) or not self._overrides(user.source, heir, unit):
            yield user
            return
        for use in user.source.uses(unit[-1]):
            if use.base == "super" and within(use.scope, heir):
                yield Caller(user.source, use)

    def _overrides(self, source: PySource, heir: Scope, unit: Scope) -> bool:
        is_heir = source.is_class(heir) and heir[-1] in self._program.families.heirs(unit[0])
        return is_heir and source.function((*heir, *unit[1:])) is not None

    def _elsewhere(self, source: PySource, unit: Scope) -> Iterator[Found | Later]:
        for entries in (True, False):
            yield from () if entries else (Later(),)
            for other, bound, use in self._program.references(source.dotted, unit[0], entries=entries):
                yield Caller(other, use, bound, kept=_is_kept(use, unit))

    def _member(self, source: PySource, unit: Scope) -> Iterator[Found | Later]:
        """A method: its class's own calls of it, and for what others may call, the class itself."""
        owner, method = unit[0], unit[-1] if len(unit) > 1 else ""
        if method.endswith(_OTHER_PLATFORMS):
            yield Closed(f"{self._program.shown(source.path)}: {owner}.{method} is another platform's")
            return
        inside = [] if _unspelled(method) else list(self._on_itself(source, unit))
        if inside:
            yield from inside
            yield Later()
        if method == "forward_cuda" and source.function((owner, "forward_hip")):
            # MultiPlatformOp.dispatch_forward, sglang/srt/layers/utils/multi_platform.py
            if not inside:
                yield Closed(f"{self._program.shown(source.path)}: {owner} has a forward_hip")
        elif not inside or not (_private(method) or self._only_inside(source, method)):
            yield from self._named(source, unit)
        else:
            yield from self._on_kin(owner, method)

    def _on_itself(self, source: PySource, unit: Scope) -> Iterator[Caller]:
        """The class's own calls of its method."""
        for use in source.uses(unit[-1]):
            own = use.base in {*_ITSELF, unit[0]} and use.scope[:1] == unit[:1]
            if own and use.scope[: len(unit)] != unit:
                yield Caller(source, use)

    def _on_kin(self, owner: str, method: str) -> Iterator[Caller]:
        """Calls on itself by a class that an object can be of as well: an heir, a base, a mixin."""
        families = self._program.families
        kin = families.kin(owner) - {owner}
        for path in families.places(kin):
            other = self._program.source(path)
            for use in other.uses(method):
                if use.base in _ITSELF and not kin.isdisjoint(use.scope[:1]):
                    above = use.base == "super" and use.scope[0] in families.heirs(owner)
                    own = use.base == "super" or self._overrides(other, use.scope[:1], (owner, method))
                    if above or not own:
                        yield Caller(other, use)

    def _only_inside(self, source: PySource, method: str) -> bool:
        """Whether no other file calls a method of that name through an object."""
        called = re.compile(rb"\.%s\s*\(" % method.encode())
        return not any(
            use.base not in {"", *_ITSELF} and use.call is not None
            for path in self._program.holding(method)
            if path != source.path and self._program.spells(path, called)
            for use in self._program.source(path).uses(method)
        )

    def _imported(self, source: PySource) -> Iterator[Found | Later]:
        """Code at module level runs when the module is imported."""
        users = (
            Caller(other, _as_use(bound), imports=True)
            for entries in (True, False)
            for other, bound in self._program.importers(source.dotted, entries=entries)
        )
        yield from _or_else(users, lambda: Untold(f"no import of {source.dotted} found"))

    def _unused(self, source: PySource, unit: Scope) -> Found:
        registered = _registered(source, unit)
        if registered or is_entry(source.path):
            return Root(registered)
        name = unit[0]
        other = next(self._naming(source, name), None)
        if other:
            where = self._program.shown(other)
            return Untold(f"{name} is named in {where}, but not as a call this scan can follow")
        return Closed(f"nothing that a server runs calls {name}")

    def _naming(self, source: PySource, name: str) -> Iterator[str]:
        """Other files that spell `name` and may mean that of `source`: a table of names, an attribute of something.

        One that has the name from an import or of its own is none: its uses were looked at, or are of another.
        """
        quoted = re.compile(rb"[\"']%s[\"']" % re.escape(name.encode()))
        for path in self._program.holding(name):
            other = self._program.source(path)
            known = other.function((name,)) or any(bound.symbol == name for bound in other.imports(name))
            if other is not source and (not known or self._program.spells(path, quoted)):
                yield path


class _Once:
    """A generator that can be read again: what has been made is kept."""

    def __init__(self, made: Iterator[Found | Later]) -> None:
        self._made = made
        self._kept: list[Found | Later] = []

    def __iter__(self) -> Iterator[Found | Later]:
        for at in count():
            if at == len(self._kept):
                self._kept.extend(islice(self._made, 1))
            if at == len(self._kept):
                return
            yield self._kept[at]


def _or_else(found: Iterator[Found | Later], otherwise: Callable[[], Found]) -> Iterator[Found | Later]:
    """Everything of `found`; `otherwise` when there is nobody."""
    nobody = True
    for each in found:
        nobody = nobody and isinstance(each, Later)
        yield each
    if nobody:
        yield Later()
        yield otherwise()


def _is(use: Use, name: str) -> bool:
    """A bare name, or the operator that torch.ops makes of it."""
    return not use.base or (use.base.startswith("torch.ops") and use.name == name)


def _is_kept(use: Use, unit: Scope) -> bool:
    """Whether a module only names it there, or makes an object of its class, for others to use."""
    method = unit[-1] if len(unit) > 1 else ""
    return bool(use.kept_as) and (use.call is None or (bool(method) and method not in _MAKING))


def _is_own(source: PySource, use: Use) -> bool:
    """A name that the function around it has for itself: an argument or a local variable."""
    own = (one.scope for one in source.assigned(use.name, use.scope))
    return not use.base and (
        source.is_parameter(use.name, use.scope)
        or any(scope and within(use.scope, scope) and not source.is_class(scope) for scope in own)
    )


def _private(method: str) -> bool:
    return method.startswith("_")


def _unspelled(method: str) -> bool:
    """`__call__` and its kin are called without their name, `forward` by torch; the class itself has none."""
    return method in {"", "forward"} or (method.startswith("__") and method.endswith("__"))


def _as_use(bound: Binding) -> Use:
    return Use(bound.name, "", bound.scope, bound.tests, bound.line, None)


def _registered(source: PySource, unit: Scope) -> str:
    """The decorator that hands a function to a table under a name, such as an attention backend's."""
    function = source.function(unit)
    for decorator in function.decorator_list if function else ():
        if isinstance(decorator, ast.Call) and decorator.args and isinstance(decorator.args[0], ast.Constant):
            return ast.unparse(decorator)
    return ""
