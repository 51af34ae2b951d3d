"""Reads Python statements into facts, carrying the tests that hold at each."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from typing import Final

from rocmfix.guards.pyfacts import IMPORTS, NVIDIA_PACKAGES, RETURNS, Assigned, Binding, Facts, Scope, Test, Use

_SOME_VALUE: Final = ast.Starred(ast.Constant(None), ast.Load())
"""Stands for a value that cannot be read off the text."""


_ASKS_ONLY: Final = frozenset({"isinstance", "issubclass"})
"""Their second argument is a class that is neither made nor run."""


class Reader:
    """One pass over statements, carrying the tests that hold."""

    def __init__(self, found: Facts, path: str, dotted: str) -> None:
        self._found = found
        self._path = path
        self._dotted = dotted
        self._trying = 0
        self._kept_as = ""
        self.shift = 0
        """What to add to the lines of the statements read: they were cut out of the file."""

    def block(self, body: Iterable[ast.stmt], scope: Scope, tests: tuple[Test, ...]) -> tuple[Test, ...]:
        for statement in body:
            tests = self._statement(statement, scope, tests)
        return tests

    def _statement(self, node: ast.stmt, scope: Scope, tests: tuple[Test, ...]) -> tuple[Test, ...]:  # noqa: C901, PLR0912 - one arm a statement
        match node:
            case ast.If():
                return self._if(node, scope, tests)
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                self._function(node, scope, tests)
            case ast.ClassDef():
                self._class(node, scope, tests)
            case ast.Import() | ast.ImportFrom():
                return self._import(node, scope, tests)
            case ast.Assert():
                self._expression(node.test, scope, tests)
                return (*tests, Test(node.test, holds=True, line=self._line(node)))
            case ast.With() | ast.AsyncWith():
                for item in node.items:
                    self._expression(item.context_expr, scope, tests)
                    self._bound(item.optional_vars, scope, tests)
                    tests = (*tests, *self._returns(item.context_expr))
                return self.block(node.body, scope, tests)
            case ast.Try():
                self._try(node, scope, tests)
            case ast.While():
                self._expression(node.test, scope, tests)
                self.block(node.body, scope, (*tests, Test(node.test, holds=True, line=self._line(node))))
                self.block(node.orelse, scope, tests)
            case ast.For() | ast.AsyncFor():
                self._expression(node.iter, scope, tests)
                self._bound(node.target, scope, tests)
                self.block(node.body, scope, tests)
                self.block(node.orelse, scope, tests)
            case ast.Match():
                self._expression(node.subject, scope, tests)
                for arm in node.cases:
                    if arm.guard:
                        self._expression(arm.guard, scope, tests)
                    self.block(arm.body, scope, tests)
            case ast.Expr():
                self._kept(node.value, _operator(node.value), scope, tests)
                return (*tests, *self._returns(node.value))
            case ast.Assign():
                self._assign(node.targets, node.value, scope, tests)
            case ast.AnnAssign() if node.value is not None:
                self._assign([node.target], node.value, scope, tests)
            case ast.AugAssign():
                self._expression(node.value, scope, tests)
                self._bound(node.target, scope, tests)
            case ast.Global():
                for name in node.names:
                    self._give(name, _SOME_VALUE, (), tests)
            case _:
                for child in ast.iter_child_nodes(node):
                    if isinstance(child, ast.expr):
                        self._expression(child, scope, tests)
        return tests

    def _if(self, node: ast.If, scope: Scope, tests: tuple[Test, ...]) -> tuple[Test, ...]:
        self._expression(node.test, scope, tests)
        yes, no = (Test(node.test, holds=holds, line=self._line(node)) for holds in (True, False))
        self.block(node.body, scope, (*tests, yes))
        self.block(node.orelse, scope, (*tests, no))
        left, right = _leaves(node.body), _leaves(node.orelse)
        if left and not right:
            return (*tests, no)
        return (*tests, yes) if right and not left else tests

    def _function(self, node: ast.FunctionDef | ast.AsyncFunctionDef, scope: Scope, tests: tuple[Test, ...]) -> None:
        if self._found.functions.setdefault((*scope, node.name), node) is not node:
            self._found.redefined.add((*scope, node.name))
        self._decorators(node, scope, tests)
        for default in (*node.args.defaults, *node.args.kw_defaults):
            if default is not None:
                self._expression(default, scope, tests)
        trying, self._trying = self._trying, 0
        self.block(node.body, (*scope, node.name), tests)
        self._trying = trying

    def _class(self, node: ast.ClassDef, scope: Scope, tests: tuple[Test, ...]) -> None:
        self._found.classes.add((*scope, node.name))
        for expr in node.bases:
            self._expression(expr, (*scope, node.name), tests)
        for keyword in node.keywords:
            self._expression(keyword.value, scope, tests)
        self._decorators(node, scope, tests)
        self.block(node.body, (*scope, node.name), tests)

    def _decorators(
        self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef, scope: Scope, tests: tuple[Test, ...]
    ) -> None:
        """What is handed to a decorator is kept with what that decorates; the decorator itself runs."""
        for decorator in node.decorator_list:
            self._kept(decorator, node.name if isinstance(decorator, ast.Call) else "", scope, tests)

    def _try(self, node: ast.Try, scope: Scope, tests: tuple[Test, ...]) -> None:
        self._trying += 1
        inside = self.block(node.body, scope, tests)
        self._trying -= 1
        self.block(node.orelse, scope, inside)
        for handler in node.handlers:
            self.block(handler.body, scope, tests)
        self.block(node.finalbody, scope, tests)

    def _import(self, node: ast.Import | ast.ImportFrom, scope: Scope, tests: tuple[Test, ...]) -> tuple[Test, ...]:
        module = self._absolute(node) if isinstance(node, ast.ImportFrom) else ""
        for alias in node.names:
            if isinstance(node, ast.ImportFrom):
                bound = Binding(alias.asname or alias.name, module, alias.name, scope, tests, self._line(node))
            else:
                bound = Binding(
                    alias.asname or alias.name.split(".")[0], alias.name, None, scope, tests, self._line(node)
                )
            for key in {bound.name, bound.symbol or bound.module}:
                self._found.imports.setdefault(key, []).append(bound)
            if not self._trying and bound.module.split(".")[0] in NVIDIA_PACKAGES:
                needs = ast.Name(f"{IMPORTS}{bound.module}", ast.Load())
                tests = (*tests, Test(needs, holds=True, line=self._line(node)))
        return tests

    def _absolute(self, node: ast.ImportFrom) -> str:
        if not node.level:
            return node.module or ""
        parts = self._dotted.split(".")
        keep = len(parts) - node.level + (1 if self._path.endswith("/__init__.py") else 0)
        return ".".join([*parts[: max(keep, 0)], *([node.module] if node.module else [])])

    def _assign(self, targets: list[ast.expr], value: ast.expr, scope: Scope, tests: tuple[Test, ...]) -> None:
        self._kept(value, _target(targets[0]), scope, tests)
        for target in targets:
            name = _target(target)
            if name:
                self._give(name, value, scope, tests)
            elif isinstance(target, ast.Tuple) and not any(isinstance(each, ast.Starred) for each in target.elts):
                for at, each in enumerate(target.elts):
                    self._item(each, ast.Subscript(value, ast.Constant(at), ast.Load()), scope, tests)
            else:
                self._bound(target, scope, tests)

    def _item(self, target: ast.expr, value: ast.expr, scope: Scope, tests: tuple[Test, ...]) -> None:
        name = _target(target)
        if name:
            self._give(name, value, scope, tests)
        else:
            self._bound(target, scope, tests)

    def _kept(self, value: ast.expr, name: str, scope: Scope, tests: tuple[Test, ...]) -> None:
        """Read `value`, which a module keeps as `name`."""
        self._kept_as = "" if scope else name
        self._expression(value, scope, tests)
        self._kept_as = ""

    def _returns(self, call: ast.expr) -> Iterator[Test]:
        """What follows a call that is made for its effect runs only if that does not raise."""
        match call:
            case ast.Call(func=ast.Name(id=name)):
                yield Test(ast.Name(f"{RETURNS}{name}", ast.Load()), holds=True, line=self._line(call))
            case _:
                return

    def _bound(self, target: ast.expr | None, scope: Scope, tests: tuple[Test, ...]) -> None:
        """Names that get some value: loop variables, unpacked tuples, `with ... as`."""
        if isinstance(target, (ast.Tuple, ast.List)):
            for each in target.elts:
                self._bound(each, scope, tests)
        elif target is not None and (name := _target(target)):
            self._give(name, _SOME_VALUE, scope, tests)
        elif target is not None:
            self._expression(target, scope, tests)

    def _give(self, name: str, value: ast.expr, scope: Scope, tests: tuple[Test, ...]) -> None:
        self._found.assigned.setdefault(name, []).append(Assigned(value, scope, tests))

    def _expression(self, node: ast.expr, scope: Scope, tests: tuple[Test, ...]) -> None:
        match node:
            case ast.Name():
                self._use(node.id, "", self._line(node), scope, tests)
            case ast.NamedExpr():
                self._expression(node.value, scope, tests)
                self._bound(node.target, scope, tests)
            case ast.Attribute():
                self._use(node.attr, _base(node.value), self._line(node), scope, tests)
                self._expression(node.value, scope, tests)
            case ast.Constant():
                return
            case ast.Call():
                self._call(node, scope, tests)
            case ast.BoolOp():
                holds = isinstance(node.op, ast.And)
                for value in node.values:
                    self._expression(value, scope, tests)
                    tests = (*tests, Test(value, holds=holds, line=self._line(node)))
            case ast.IfExp():
                self._expression(node.test, scope, tests)
                self._expression(node.body, scope, (*tests, Test(node.test, holds=True, line=self._line(node))))
                self._expression(node.orelse, scope, (*tests, Test(node.test, holds=False, line=self._line(node))))
            case _:
                for child in _children(node):
                    self._expression(child, scope, tests)

    def _call(self, node: ast.Call, scope: Scope, tests: tuple[Test, ...]) -> None:
        match node.func:
            case ast.Name(id=name):
                use = self._use(name, "", self._line(node), scope, tests, node)
            case ast.Attribute(attr=name, value=value):
                use = self._use(name, _base(value), self._line(node), scope, tests, node)
                self._expression(value, scope, tests)
            case other:
                use = Use("", "?", scope, tests, self._line(node), node)
                self._expression(other, scope, tests)
        if node.keywords:
            self._found.calls.append(use)
        given = node.args[:1] if use.name in _ASKS_ONLY else node.args
        for argument in (*given, *(keyword.value for keyword in node.keywords)):
            self._expression(argument, scope, tests)

    def _line(self, node: ast.stmt | ast.expr) -> int:
        return node.lineno + self.shift

    def _use(  # noqa: PLR0913, PLR0917 - one record's fields
        self, name: str, base: str, line: int, scope: Scope, tests: tuple[Test, ...], call: ast.Call | None = None
    ) -> Use:
        use = Use(name, base, scope, tests, line, call, self._kept_as)
        self._found.uses.setdefault(name, []).append(use)
        return use


def _children(node: ast.AST) -> Iterator[ast.expr]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.expr):
            yield child
        elif isinstance(child, (ast.comprehension, ast.keyword, ast.Slice, ast.FormattedValue)):
            yield from _children(child)


def _base(node: ast.expr) -> str:
    match node:
        case ast.Name(id=name):
            return name
        case ast.Attribute(value=value, attr=attr):
            return f"{_base(value)}.{attr}"
        case ast.Call(func=ast.Name(id="super")):
            return "super"
        case _:
            return "?"


def _target(node: ast.expr) -> str:
    match node:
        case ast.Name(id=name):
            return name
        case ast.Attribute(value=ast.Name(id="self"), attr=attr):
            return f"self.{attr}"
        case _:
            return ""


def _operator(node: ast.expr) -> str:
    """The operator of torch's that a call makes of a function: `direct_register_custom_op(op_name="f", ...)`."""
    match node:
        case ast.Call(keywords=keywords):
            named = (each.value for each in keywords if each.arg == "op_name")
            return next((str(each.value) for each in named if isinstance(each, ast.Constant)), "")
        case _:
            return ""


def _leaves(body: list[ast.stmt]) -> bool:
    """Whether control cannot run past the end of `body`."""
    match body[-1:]:
        case [ast.Return() | ast.Raise() | ast.Continue() | ast.Break()]:
            return True
        case [ast.If(body=yes, orelse=no)]:
            return _leaves(yes) and _leaves(no)
        case _:
            return False
