"""Proves, file by file, that what CUDA runs is the same before and after a change, or says that it is not proved."""

from __future__ import annotations

import ast
import difflib
from collections.abc import Iterator, Mapping
from typing import Literal

from rocmfix.guards.conditionals import CUDA, Conditionals
from rocmfix.guards.directives import Directive, directives
from rocmfix.upstream.records import FileProof, Proof

_C_LIKE = (".cuh", ".cu", ".h", ".hpp", ".hip", ".c", ".cc", ".cpp")
_HIP_NAMES = frozenset({"_is_hip", "is_hip", "_IS_HIP", "IS_HIP", "is_hip_runtime"})


def prove(before: Mapping[str, bytes | None], after: Mapping[str, bytes | None]) -> tuple[FileProof, ...]:
    """One proof for each file that differs."""
    return tuple(_file(path, before[path], after[path]) for path in sorted(after) if before[path] != after[path])


def _file(path: str, old: bytes | None, new: bytes | None) -> FileProof:
    one, other = ((data or b"").decode("utf-8", "replace") for data in (old, new))
    changes = [line[0] for line in difflib.ndiff(one.splitlines(), other.splitlines())]
    proof, why = _compared(path, one, other)
    return FileProof(path=path, added=changes.count("+"), removed=changes.count("-"), cuda=proof, why=why)


def _compared(path: str, one: str, other: str) -> tuple[Proof, str]:
    if path.endswith(_C_LIKE):
        if list(_seen_by_cuda(one)) == list(_seen_by_cuda(other)):
            return Proof.SAME, "where USE_ROCM is not defined, the preprocessor leaves the same lines as before"
        return Proof.CHANGED, "a CUDA build sees other lines than before"
    if path.endswith(".py"):
        return _compared_python(one, other)
    return Proof.UNKNOWN, "neither C++ nor Python"


def _seen_by_cuda(text: str) -> Iterator[tuple[str, str]]:
    """The lines that a CUDA build may compile, each with the conditions that only its compiler can decide."""
    found = {line.line: line for line in directives(text)}
    ends = {number for line in found.values() for number in range(line.line + 1, line.end + 1)}
    every = tuple(
        found.get(number) or Directive("text", words.rstrip(), number, number)
        for number, words in enumerate(text.split("\n"), 1)
        if number not in ends
    )
    for step in Conditionals(CUDA).steps(every):
        if step.active is not False:
            undecided = step.condition if step.active is None else ""
            yield f"{step.directive.name} {step.directive.rest}", undecided


def _compared_python(one: str, other: str) -> tuple[Proof, str]:
    try:
        old, new = (_WithoutHip().visit(ast.parse(text)) for text in (one, other))
    except SyntaxError as error:
        return Proof.UNKNOWN, f"not parsed: {error.msg}"
    unreached = _drop_unreached(new, {name for node in old.body if (name := _defined(node))})
    if ast.dump(old) != ast.dump(new):
        return Proof.UNKNOWN, "not seen to be behind is_hip(): please review it as a change for every platform"
    but = f", but for {', '.join(unreached)}, which it never reaches" if unreached else ""
    return Proof.SAME, f"with is_hip() False, the module is the same program as before{but}"


def _drop_unreached(module: ast.Module, known: set[str]) -> tuple[str, ...]:
    """Take out of `module` the new definitions that nothing left in it names; return what they are called."""
    dropped: list[str] = []
    while True:
        new = [node for node in module.body if (name := _defined(node)) and name not in known]
        idle = next((node for node in new if not _named(module, node)), None)
        if idle is None:
            return tuple(sorted(dropped))
        dropped.append(_defined(idle) or "")
        module.body.remove(idle)


def _defined(node: ast.stmt) -> str | None:
    """The name that a top-level function or class binds, where defining it runs nothing of ours."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) and not node.decorator_list:
        return node.name
    return None


def _named(module: ast.Module, node: ast.stmt) -> bool:
    """Whether anything in `module` but `node` itself says its name, be it in a string."""
    name = _defined(node)
    others = (each for part in module.body if part is not node for each in ast.walk(part))
    return any(
        (isinstance(each, ast.Name) and each.id == name)
        or (isinstance(each, ast.Attribute) and each.attr == name)
        or (isinstance(each, ast.Constant) and each.value == name)
        for each in others
    )


class _Folded(ast.Constant):
    """A constant that stands for what is known once HIP is absent. Constants of the program itself are not folded."""


class _WithoutHip(ast.NodeTransformer):
    """Folds what is decided once HIP is known to be absent; what remains is what CUDA runs."""

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return _folded(False) if node.id in _HIP_NAMES and isinstance(node.ctx, ast.Load) else node

    def visit_Call(self, node: ast.Call) -> ast.expr:
        if isinstance(node.func, ast.Name) and node.func.id in _HIP_NAMES and not (node.args or node.keywords):
            return _folded(False)
        return self._inside(node)

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        """`torch.version.hip` is None on CUDA, and `get_platform().is_hip` is False."""
        if isinstance(node.ctx, ast.Load) and node.attr == "hip" and ast.unparse(node.value) == "torch.version":
            return _folded(None)
        if isinstance(node.ctx, ast.Load) and node.attr == "is_hip" and isinstance(node.value, ast.Call):
            return _folded(False)
        return self._inside(node)

    def visit_Compare(self, node: ast.Compare) -> ast.expr:
        self.generic_visit(node)
        against = node.comparators[0]
        is_none = isinstance(against, ast.Constant) and against.value is None
        if (
            isinstance(node.left, _Folded)
            and len(node.ops) == 1
            and is_none
            and isinstance(node.ops[0], ast.Is | ast.IsNot)
        ):
            return _folded((node.left.value is None) is isinstance(node.ops[0], ast.Is))
        return node

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.expr:
        self.generic_visit(node)
        known = _known(node.operand)
        return _folded(not known) if isinstance(node.op, ast.Not) and known is not None else node

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.expr:
        self.generic_visit(node)
        return _bool(node, is_test=False)

    def visit_If(self, node: ast.If) -> ast.AST | list[ast.stmt]:
        self.generic_visit(node)
        node.test = _test(node.test)
        known = _known(node.test)
        return node if known is None else node.body if known else node.orelse

    def visit_Try(self, node: ast.Try) -> ast.AST | list[ast.stmt]:
        """A last handler that only raises again what it caught is as good as none."""
        self.generic_visit(node)
        while node.handlers and not node.orelse and _only_raises(node.handlers[-1]):
            node.handlers.pop()
        return node if node.handlers or node.finalbody else node.body

    def visit_While(self, node: ast.While) -> ast.AST:
        self.generic_visit(node)
        node.test = _test(node.test)
        return node

    def visit_IfExp(self, node: ast.IfExp) -> ast.expr:
        self.generic_visit(node)
        node.test = _test(node.test)
        known = _known(node.test)
        return node if known is None else node.body if known else node.orelse

    def _inside(self, node: ast.expr) -> ast.expr:
        self.generic_visit(node)
        return node


def _test(node: ast.expr) -> ast.expr:
    """A condition, of which only the truth counts: there `x and True` is `x`."""
    if isinstance(node, ast.BoolOp):
        return _bool(ast.BoolOp(node.op, [_test(value) for value in node.values]), is_test=True)
    return node


def _bool(node: ast.BoolOp, *, is_test: bool) -> ast.expr:
    neutral = isinstance(node.op, ast.And)
    values: list[ast.expr] = []
    for position, value in enumerate(node.values):
        known = _known(value)
        # The last operand is the expression's value: it may go only where nobody looks at more than the truth.
        if known is neutral and (is_test or position < len(node.values) - 1):
            continue
        values.append(value)
        if known is not None and known is not neutral:
            break  # what stands behind it is never asked
    if is_test and values and _known(values[-1]) is not None and not any(_calls(value) for value in values):
        return values[-1]
    if not values:
        return _folded(neutral)
    return values[0] if len(values) == 1 else ast.BoolOp(node.op, values)


def _only_raises(handler: ast.ExceptHandler) -> bool:
    """Whether it catches some class by its name, and raises it as it came."""
    is_plain = handler.type is None or isinstance(handler.type, ast.Name)
    (first, *more) = handler.body or [ast.Pass()]
    return is_plain and not more and isinstance(first, ast.Raise) and first.exc is None


def _calls(node: ast.expr) -> bool:
    """Whether evaluating it may do something."""
    return any(isinstance(each, ast.Call | ast.Await | ast.NamedExpr) for each in ast.walk(node))


def _folded(value: Literal[True, False] | None) -> _Folded:
    return _Folded(value=value)


def _known(node: ast.expr) -> bool | None:
    return bool(node.value) if isinstance(node, _Folded) else None
