"""Works out what a list-building part of a Python file would produce, without running it.

AITER writes its kernel lists as loops over tile sizes. This interprets the small, pure part of the language
that such code is written in: no imports, no files, no attributes of real objects, a step budget. What is
outside that part is unknown (`CannotTell`), never guessed.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from rocmfix.aiter.expressions import Expressions
from rocmfix.aiter.interpreted import CannotTell, Class, Function, Instance, Raised, Returned, Scope, Unknown

CHANGEABLE = (list, dict, set, Instance)
"""What a statement that merely mentions a name may change."""


DEFINED = (*CHANGEABLE, Class, Function)
"""What a statement must mention to be part of a list that is built here."""


class _Break(Exception):
    pass


class _Continue(Exception):
    pass


class Evaluator(Expressions):
    """One interpreted file: `given` supplies names the file imports."""

    def __init__(self, source: str, given: Mapping[str, Any]) -> None:
        super().__init__()
        self.scope = Scope(dict(given))
        self.given = frozenset(given)
        self.gap: str | None = None
        """Why the lists of this file are not all there, if so."""
        try:
            body = ast.parse(source).body
        except SyntaxError as error:
            raise CannotTell(f"not Python: {error}") from None
        for statement in body:
            self._top(statement)

    def value(self, name: str) -> Any:
        """What the file-level name `name` holds."""
        return self.scope.find(name)

    def has(self, name: str) -> bool:
        """Whether the file defines `name` in a way that could be interpreted."""
        return name in self.scope.names and not isinstance(self.scope.names[name], Unknown)

    def instances(self) -> Iterator[Instance]:
        """Every object in the file-level dictionaries and lists."""
        for value in self.scope.names.values():
            items = value.values() if isinstance(value, dict) else value if isinstance(value, list | tuple) else ()
            yield from (item for item in items if isinstance(item, Instance))

    def call(self, name: str, *arguments: Any) -> Any:
        """What the function `name` returns."""
        return self._guarded(lambda: self.apply(self.scope.find(name), list(arguments), {}))

    def attribute(self, instance: Instance, name: str) -> Any:
        """A field or property of an interpreted object."""
        return self._guarded(lambda: self.attribute_of(instance, name))

    def _top(self, statement: ast.stmt) -> None:
        """Interpret a file-level statement; what it would have changed is unknown when that fails."""
        try:
            self._guarded(lambda: self._run(statement, self.scope))
        except (CannotTell, Raised) as error:
            if any(isinstance(self.scope.names.get(name.id), DEFINED) for name in _names(statement)):
                self.gap = str(error)
            changeable = {n.id for n in _names(statement) if isinstance(self.scope.names.get(n.id), CHANGEABLE)}
            for name in (_bound(statement) | changeable) - self.given:
                self.scope.names[name] = Unknown(str(error))

    def _guarded(self, work: Callable[[], Any]) -> Any:
        try:
            return work()
        except (CannotTell, Raised):
            raise
        except RecursionError:
            raise CannotTell("nested too deeply") from None
        except Exception as error:  # noqa: BLE001 - the interpreted code's own failure, whatever its type
            raise CannotTell(f"{type(error).__name__}: {error}") from None

    def _run(self, node: ast.stmt, scope: Scope) -> None:
        handler = getattr(self, f"_run_{type(node).__name__.lower()}", None)
        if handler is None:
            raise CannotTell(f"line {node.lineno}: {type(node).__name__}")
        handler(node, scope)

    def block(self, body: Sequence[ast.stmt], scope: Scope) -> None:
        """Run statements in order."""
        for statement in body:
            self._run(statement, scope)

    def _run_expr(self, node: ast.Expr, scope: Scope) -> None:
        self.eval(node.value, scope)

    def _run_pass(self, node: ast.Pass, scope: Scope) -> None:
        pass

    def _run_break(self, _node: ast.Break, _scope: Scope) -> None:
        raise _Break

    def _run_continue(self, _node: ast.Continue, _scope: Scope) -> None:
        raise _Continue

    def _run_raise(self, node: ast.Raise, _scope: Scope) -> None:
        raise Raised(f"line {node.lineno}")

    def _run_assert(self, node: ast.Assert, scope: Scope) -> None:
        if not self.eval(node.test, scope):
            raise Raised(f"line {node.lineno}")

    def _run_return(self, node: ast.Return, scope: Scope) -> None:
        raise Returned(self.eval(node.value, scope) if node.value else None)

    def _run_functiondef(self, node: ast.FunctionDef, scope: Scope) -> None:
        scope.names[node.name] = Function(node, scope)

    def _run_classdef(self, node: ast.ClassDef, scope: Scope) -> None:
        fields = tuple(
            (item.target.id, item.value)
            for item in node.body
            if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name)
        )
        methods = {item.name: item for item in node.body if isinstance(item, ast.FunctionDef)}
        if node.bases or "__init__" in methods:
            raise CannotTell(f"line {node.lineno}: class {node.name} is not a plain dataclass")
        scope.names[node.name] = Class(node.name, fields, methods, scope)

    def _run_importfrom(self, node: ast.ImportFrom, _scope: Scope) -> None:
        missing = [a.name for a in node.names if (a.asname or a.name) not in self.given]
        if missing and node.module != "__future__":
            raise CannotTell(f"line {node.lineno}: imports {missing[0]}")

    def _run_if(self, node: ast.If, scope: Scope) -> None:
        self.block(node.body if self.eval(node.test, scope) else node.orelse, scope)

    def _run_for(self, node: ast.For, scope: Scope) -> None:
        for value in self.eval(node.iter, scope):
            self.bind(node.target, value, scope)
            try:
                self.block(node.body, scope)
            except _Continue:
                continue
            except _Break:
                return
        self.block(node.orelse, scope)

    def _run_assign(self, node: ast.Assign, scope: Scope) -> None:
        value = self.eval(node.value, scope)
        for target in node.targets:
            self.bind(target, value, scope)

    def _run_annassign(self, node: ast.AnnAssign, scope: Scope) -> None:
        if node.value is not None:
            self.bind(node.target, self.eval(node.value, scope), scope)

    def _current(self, target: ast.expr, scope: Scope) -> Any:
        match target:
            case ast.Name(id=name):
                return scope.find(name)
            case ast.Subscript(value=container, slice=index):
                return self.eval(container, scope)[self.eval(index, scope)]
            case _:
                raise CannotTell(f"line {target.lineno}: changes something else")

    def _run_augassign(self, node: ast.AugAssign, scope: Scope) -> None:
        before = self._current(node.target, scope)
        self.bind(node.target, self.binary(node.op, before, self.eval(node.value, scope)), scope)


def _bound(statement: ast.stmt) -> set[str]:
    """The names a statement binds."""
    names = {part.asname or part.name for part in ast.walk(statement) if isinstance(part, ast.alias)}
    if isinstance(statement, ast.FunctionDef | ast.ClassDef):
        return names | {statement.name}
    return names | {node.id for node in _names(statement) if isinstance(node.ctx, ast.Store)}


def _names(statement: ast.stmt) -> Iterator[ast.Name]:
    return (node for node in ast.walk(statement) if isinstance(node, ast.Name))
