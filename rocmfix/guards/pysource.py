"""One Python file as who-uses-what, read as far as it is asked: a name is looked for where the text spells it."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from operator import attrgetter
from typing import Final, NamedTuple, TypeVar

from rocmfix.guards.pieces import Piece, members, pieces
from rocmfix.guards.pyfacts import Assigned, Binding, Facts, Scope, Test, Use
from rocmfix.guards.pyreader import Reader


class _Unread(NamedTuple):
    """A statement that nobody has asked for yet."""

    piece: Piece
    scope: Scope
    tests: tuple[Test, ...]

    def wanted(self, word: str, seen_from: Scope | None) -> bool:
        """Whether it spells `word` as a whole, and where that may be seen from `seen_from`."""
        return self.piece.holds(word) and (seen_from is None or self.visible(seen_from))

    def visible(self, scope: Scope) -> bool:
        """Whether a name that it binds may be seen from `scope`, or is one of a class that `scope` names."""
        inner = (*self.scope, self.piece.opens) if self.piece.opens else self.scope
        shared = min(len(scope), len(inner)) if scope else len(inner)
        return scope[:shared] == inner[:shared] or self.piece.holds("global")


class PySource:
    """A Python file. One that is no valid Python has nothing in it, and is noted in `broken` once it was read."""

    def __init__(self, path: str, text: str, broken: dict[str, str] | None = None) -> None:
        """`broken` takes, by path, the line and what is wrong there."""
        self.path = path
        self.dotted = dotted(path)
        self._broken = {} if broken is None else broken
        self._text = text
        self._facts = Facts()
        self._kept: list[Facts] = []
        """Facts that were given out: answers about them are remembered by the identity of their syntax."""
        self._reader = Reader(self._facts, path, self.dotted)
        self._asked: set[tuple[str, Scope | None, str]] = set()
        self._unread: list[_Unread] = []
        try:
            self._unread = self._in_turn(pieces(text), (), ())
        except _NOT_PYTHON:
            self._read_whole()

    def imports(self, name: str, seen_from: Scope | None = None) -> tuple[Binding, ...]:
        """Imports of the symbol or dotted module `name`, and under that name; `*` is what brings in everything.

        `seen_from` is where that must be visible; what is not may be left out.
        """
        self._find("import *" if name == "*" else name, seen_from, beside="import")
        return _in_order(self._facts.imports.get(name, ()))

    def imports_from(self, module: str) -> tuple[Binding, ...]:
        """Imports of something in `module`."""
        self._find(module.rpartition(".")[2], beside="import")
        found = {bound for bounds in self._facts.imports.values() for bound in bounds}
        return _in_order(bound for bound in found if bound.symbol and bound.module == module)

    def uses(self, name: str) -> tuple[Use, ...]:
        """Every read of a name or attribute `name`."""
        self._find(name)
        return _in_order(self._facts.uses.get(name, ()))

    def assigned(self, name: str, seen_from: Scope | None = None) -> tuple[Assigned, ...]:
        """What `name` is given; attributes of self as `self.name`. For `seen_from` see `imports`."""
        self._find(name.rpartition(".")[2], seen_from)
        return tuple(self._facts.assigned.get(name, ()))

    def function(self, scope: Scope) -> ast.FunctionDef | ast.AsyncFunctionDef | None:
        """The function or method at `scope`."""
        if scope not in self._facts.functions:
            self._find(scope[-1], scope)
        return self._facts.functions.get(scope)

    def redefined(self, scope: Scope) -> bool:
        """Whether the function at `scope` stands there more than once, so that none can be told to be meant."""
        return self.function(scope) is not None and scope in self._facts.redefined

    def functions(self) -> dict[Scope, ast.FunctionDef | ast.AsyncFunctionDef]:
        """Every function of the file."""
        self._find("def")
        return self._facts.functions

    def calls(self, keywords: tuple[str, ...]) -> tuple[Use, ...]:
        """Every call that passes one of `keywords`."""
        for keyword in keywords:
            self._find(keyword)
        return _in_order(
            use for use in self._facts.calls if use.call and any(given.arg in keywords for given in use.call.keywords)
        )

    def is_class(self, scope: Scope) -> bool:
        """Whether `scope`, that of something found here, is a class."""
        return scope in self._facts.classes

    def is_parameter(self, name: str, scope: Scope) -> bool:
        """Whether `name` is an argument of a function around `scope`, and so nothing of the module's."""
        functions = (self.function(scope[:end]) for end in range(1, len(scope) + 1))
        return any(name in _arguments(each.args) for each in functions if each)

    def unit(self, scope: Scope) -> Scope:
        """The function or method of the module that `scope` lies in, without the functions nested in it."""
        return next((scope[:end] for end in range(1, len(scope) + 1) if not self.is_class(scope[:end])), scope)

    def _find(self, word: str, seen_from: Scope | None = None, beside: str = "") -> None:
        """Read every statement that spells `word`, and `beside` with it."""
        asked = (word, seen_from, beside)
        if not self._asked.isdisjoint({asked, (word, None, beside), (word, None, "")}):
            return
        self._asked.add(asked)
        if word not in self._text or beside not in self._text:
            return
        waiting = [each for each in self._unread if word in each.piece.text]
        if not waiting:
            return
        self._unread = [each for each in self._unread if word not in each.piece.text]
        try:
            while waiting:
                each = waiting.pop()
                if beside not in each.piece.text or not each.wanted(word, seen_from):
                    self._unread.append(each)
                elif each.piece.is_class and (cut := members(each.piece)):
                    waiting += self._class(cut, each)
                else:
                    self._read(each)
        except _NOT_PYTHON:
            self._read_whole()

    def _class(self, cut: list[Piece], whole: _Unread) -> list[_Unread]:
        self._read(_Unread(cut[0], whole.scope, whole.tests))
        return self._in_turn(cut[1:], (*whole.scope, cut[0].opens), whole.tests)

    def _in_turn(self, cut: list[Piece], scope: Scope, tests: tuple[Test, ...]) -> list[_Unread]:
        """Read what decides whether the statements after it run; the others are left."""
        left = []
        for piece in cut:
            each = _Unread(piece, scope, tests)
            if piece.decides:
                tests = self._read(each)
            else:
                left.append(each)
        return left

    def _read(self, each: _Unread) -> tuple[Test, ...]:
        body, self._reader.shift = each.piece.statements()
        return self._reader.block(body, each.scope, each.tests)

    def _read_whole(self) -> None:
        """Cut in the wrong place, or no Python at all: read everything again, as it stands."""
        self._kept.append(self._facts)
        self._facts, self._unread = Facts(), []
        self._reader = Reader(self._facts, self.path, self.dotted)
        try:
            self._reader.block(ast.parse(self._text).body, (), ())
        except _NOT_PYTHON as error:
            line, why = (error.lineno, error.msg) if isinstance(error, SyntaxError) else (None, str(error))
            self._broken[self.path] = f"{line or 1}: {why or 'too much for the parser'}"


_NOT_PYTHON: Final = (SyntaxError, ValueError, RecursionError, MemoryError)

Fact = TypeVar("Fact", Binding, Use)


def _arguments(given: ast.arguments) -> set[str]:
    every = (*given.posonlyargs, *given.args, given.vararg, *given.kwonlyargs, given.kwarg)
    return {each.arg for each in every if each}


def _in_order(found: Iterable[Fact]) -> tuple[Fact, ...]:
    return tuple(sorted(found, key=attrgetter("line")))


def dotted(path: str) -> str:
    """`python/sglang/srt/utils/__init__.py` is the module `sglang.srt.utils`."""
    return path.removeprefix("python/").removesuffix(".py").removesuffix("/__init__").replace("/", ".")
