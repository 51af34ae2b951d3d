"""One Python file as who-uses-what: imports, uses, assignments, each with the tests that must hold to get there."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final, TypeAlias

Scope: TypeAlias = "tuple[str, ...]"
"""Names of the enclosing classes and functions, outermost first."""

NVIDIA_PACKAGES: Final = frozenset({"flashinfer", "deep_gemm", "cutlass", "cuda", "nvidia", "cudnn", "tensorrt_llm"})
"""Python packages that exist for CUDA only: importing one on ROCm raises."""


@dataclass(frozen=True, slots=True)
class Test:
    """A condition on the way: `expr` must be true (or false) for the lines after it to run."""

    expr: ast.expr
    holds: bool
    line: int

    @property
    def text(self) -> str:
        """As source, with the polarity written out."""
        expr, holds = self.expr, self.holds
        while isinstance(expr, ast.UnaryOp) and isinstance(expr.op, ast.Not):
            expr, holds = expr.operand, not holds
        text = ast.unparse(expr)
        if holds:
            return text
        return f"not ({text})" if isinstance(expr, (ast.BoolOp, ast.Compare)) else f"not {text}"


@dataclass(frozen=True, slots=True)
class Binding:
    """An import: `name` stands for `symbol` of `module`, or for the module itself when `symbol` is None."""

    name: str
    module: str
    symbol: str | None
    scope: Scope
    tests: tuple[Test, ...]
    line: int


@dataclass(frozen=True, slots=True)
class Use:
    """A name or attribute read."""

    name: str
    base: str
    """What stands before the dot, as far as it is plain names; empty for a bare name, `?` for anything else."""
    scope: Scope
    tests: tuple[Test, ...]
    line: int
    call: ast.Call | None
    """The call, when the name is being called."""


@dataclass(frozen=True, slots=True)
class Assigned:
    """A value given to a name."""

    value: ast.expr
    scope: Scope
    tests: tuple[Test, ...]


@dataclass
class PySource:
    """A parsed file."""

    path: str
    dotted: str
    imports: dict[str, list[Binding]] = field(default_factory=dict)
    """By what they bring in, and by the name they bring it in under."""
    uses: dict[str, list[Use]] = field(default_factory=dict)
    assigned: dict[str, list[Assigned]] = field(default_factory=dict)
    """By name; attributes of self as `self.name`."""
    functions: dict[Scope, ast.FunctionDef | ast.AsyncFunctionDef] = field(default_factory=dict)
    classes: set[Scope] = field(default_factory=set)
    calls: list[Use] = field(default_factory=list)
    """Every call that passes keywords: where loaders are found."""

    def unit(self, scope: Scope) -> Scope:
        """The function or method of the module that `scope` lies in, without the functions nested in it."""
        for end in range(1, len(scope) + 1):
            if scope[:end] not in self.classes:
                return scope[:end]
        return scope


def parse(path: str, text: str) -> PySource:
    """Read one file; a file that is no valid Python has nothing in it."""
    found = PySource(path, dotted(path))
    try:
        module = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return found
    _Reader(found).block(module.body, (), ())
    return found


def dotted(path: str) -> str:
    """`python/sglang/srt/utils/__init__.py` is the module `sglang.srt.utils`."""
    return path.removeprefix("python/").removesuffix(".py").removesuffix("/__init__").replace("/", ".")


_SOME_VALUE: Final = ast.Starred(ast.Constant(None), ast.Load())
"""Stands for a value that cannot be read off the text."""


class _Reader:
    """One pass over the statements, carrying the tests that hold."""

    def __init__(self, found: PySource) -> None:
        self._found = found
        self._trying = 0

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
                return (*tests, Test(node.test, holds=True, line=node.lineno))
            case ast.With() | ast.AsyncWith():
                for item in node.items:
                    self._expression(item.context_expr, scope, tests)
                    self._bound(item.optional_vars, scope, tests)
                return self.block(node.body, scope, tests)
            case ast.Try():
                self._try(node, scope, tests)
            case ast.While():
                self._expression(node.test, scope, tests)
                self.block(node.body, scope, (*tests, Test(node.test, holds=True, line=node.lineno)))
                self.block(node.orelse, scope, tests)
            case ast.For() | ast.AsyncFor():
                self._expression(node.iter, scope, tests)
                self._bound(node.target, scope, tests)
                self.block(node.body, scope, tests)
                self.block(node.orelse, scope, tests)
            case ast.Match():
                self._expression(node.subject, scope, tests)
                for arm in node.cases:
                    self.block(arm.body, scope, tests)
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
        yes, no = (Test(node.test, holds=holds, line=node.lineno) for holds in (True, False))
        self.block(node.body, scope, (*tests, yes))
        self.block(node.orelse, scope, (*tests, no))
        left, right = _leaves(node.body), _leaves(node.orelse)
        if left and not right:
            return (*tests, no)
        return (*tests, yes) if right and not left else tests

    def _function(self, node: ast.FunctionDef | ast.AsyncFunctionDef, scope: Scope, tests: tuple[Test, ...]) -> None:
        self._found.functions.setdefault((*scope, node.name), node)
        for decorator in node.decorator_list:
            self._expression(decorator, scope, tests)
        for default in (*node.args.defaults, *node.args.kw_defaults):
            if default is not None:
                self._expression(default, scope, tests)
        trying, self._trying = self._trying, 0
        self.block(node.body, (*scope, node.name), tests)
        self._trying = trying

    def _class(self, node: ast.ClassDef, scope: Scope, tests: tuple[Test, ...]) -> None:
        self._found.classes.add((*scope, node.name))
        for expr in (*node.bases, *node.decorator_list):
            self._expression(expr, scope, tests)
        self.block(node.body, (*scope, node.name), tests)

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
                bound = Binding(alias.asname or alias.name, module, alias.name, scope, tests, node.lineno)
            else:
                bound = Binding(alias.asname or alias.name.split(".")[0], alias.name, None, scope, tests, node.lineno)
            for key in {bound.name, bound.symbol or bound.module}:
                self._found.imports.setdefault(key, []).append(bound)
            if not self._trying and bound.module.split(".")[0] in NVIDIA_PACKAGES:
                needs = ast.Name(f"import {bound.module}", ast.Load())
                tests = (*tests, Test(needs, holds=True, line=node.lineno))
        return tests

    def _absolute(self, node: ast.ImportFrom) -> str:
        if not node.level:
            return node.module or ""
        parts = self._found.dotted.split(".")
        keep = len(parts) - node.level + (1 if self._found.path.endswith("/__init__.py") else 0)
        return ".".join([*parts[: max(keep, 0)], *([node.module] if node.module else [])])

    def _assign(self, targets: list[ast.expr], value: ast.expr, scope: Scope, tests: tuple[Test, ...]) -> None:
        self._expression(value, scope, tests)
        for target in targets:
            name = _target(target)
            if name:
                self._give(name, value, scope, tests)
            else:
                self._bound(target, scope, tests)

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
                self._use(node.id, "", node.lineno, scope, tests)
            case ast.NamedExpr():
                self._expression(node.value, scope, tests)
                self._bound(node.target, scope, tests)
            case ast.Attribute():
                self._use(node.attr, _base(node.value), node.lineno, scope, tests)
                self._expression(node.value, scope, tests)
            case ast.Constant():
                return
            case ast.Call():
                self._call(node, scope, tests)
            case ast.BoolOp():
                holds = isinstance(node.op, ast.And)
                for value in node.values:
                    self._expression(value, scope, tests)
                    tests = (*tests, Test(value, holds=holds, line=node.lineno))
            case ast.IfExp():
                self._expression(node.test, scope, tests)
                self._expression(node.body, scope, (*tests, Test(node.test, holds=True, line=node.lineno)))
                self._expression(node.orelse, scope, (*tests, Test(node.test, holds=False, line=node.lineno)))
            case _:
                for child in _children(node):
                    self._expression(child, scope, tests)

    def _call(self, node: ast.Call, scope: Scope, tests: tuple[Test, ...]) -> None:
        match node.func:
            case ast.Name(id=name):
                use = self._use(name, "", node.lineno, scope, tests, node)
            case ast.Attribute(attr=name, value=value):
                use = self._use(name, _base(value), node.lineno, scope, tests, node)
                self._expression(value, scope, tests)
            case other:
                use = Use("", "?", scope, tests, node.lineno, node)
                self._expression(other, scope, tests)
        if node.keywords:
            self._found.calls.append(use)
        for argument in (*node.args, *(keyword.value for keyword in node.keywords)):
            self._expression(argument, scope, tests)

    def _use(  # noqa: PLR0913, PLR0917 - one record's fields
        self, name: str, base: str, line: int, scope: Scope, tests: tuple[Test, ...], call: ast.Call | None = None
    ) -> Use:
        use = Use(name, base, scope, tests, line, call)
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


def _leaves(body: list[ast.stmt]) -> bool:
    """Whether control cannot run past the end of `body`."""
    match body[-1:]:
        case [ast.Return() | ast.Raise() | ast.Continue() | ast.Break()]:
            return True
        case [ast.If(body=yes, orelse=no)]:
            return _leaves(yes) and _leaves(no)
        case _:
            return False
