"""Works out the value of a Python expression of the pure kind that kernel lists are written in.

Only the operators, methods and functions `interpreted.py` names exist; anything else raises `CannotTell`.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from rocmfix.aiter.interpreted import (
    BINARY,
    BUDGET,
    COMPARE,
    INSTANT,
    LONGEST,
    METHODS,
    UNARY,
    CannotTell,
    Class,
    Function,
    Instance,
    Returned,
    Scope,
    product,
)


class Expressions:
    """Evaluates expressions; how statements run is the subclass's affair."""

    def __init__(self) -> None:
        self.steps = 0
        self._handlers: dict[type, Callable[[Any, Scope], Any]] = {}

    def block(self, body: Sequence[ast.stmt], scope: Scope) -> None:
        """Run statements, in a subclass."""
        raise NotImplementedError

    def bind(self, target: ast.expr, value: Any, scope: Scope) -> None:
        match target:
            case ast.Name(id=name):
                scope.names[name] = value
            case ast.Tuple(elts=parts) | ast.List(elts=parts):
                for part, item in zip(parts, list(value), strict=True):
                    self.bind(part, item, scope)
            case ast.Subscript(value=container, slice=index):
                self.eval(container, scope)[self.eval(index, scope)] = value
            case ast.Attribute(value=owner, attr=name):
                instance = self.eval(owner, scope)
                if not isinstance(instance, Instance):
                    raise CannotTell(f"line {target.lineno}: sets an attribute of something else")
                instance.values[name] = value
            case _:
                raise CannotTell(f"line {target.lineno}: {type(target).__name__} as a target")

    def eval(self, node: ast.expr, scope: Scope) -> Any:
        """The value of an expression."""
        self.steps += 1
        if self.steps > BUDGET:
            raise CannotTell("takes too many steps")
        kind = type(node)
        if kind is ast.Name:
            return scope.find(node.id)  # type: ignore[attr-defined]
        if kind is ast.Constant:
            return node.value  # type: ignore[attr-defined]
        handler = self._handlers.get(kind)
        if handler is None:
            handler = getattr(self, f"_eval_{kind.__name__.lower()}", None)
            if handler is None:
                raise CannotTell(f"line {node.lineno}: {kind.__name__}")
            self._handlers[kind] = handler
        return handler(node, scope)

    def _eval_joinedstr(self, node: ast.JoinedStr, scope: Scope) -> str:
        return "".join(
            part.value
            if isinstance(part, ast.Constant) and isinstance(part.value, str)
            else self._formatted(part, scope)
            for part in node.values
        )

    def _formatted(self, part: ast.expr, scope: Scope) -> str:
        if not isinstance(part, ast.FormattedValue) or part.conversion != -1:
            raise CannotTell(f"line {part.lineno}: a formatted text with a conversion")
        spec = self._eval_joinedstr(part.format_spec, scope) if isinstance(part.format_spec, ast.JoinedStr) else ""
        if len(spec) > 4:
            raise CannotTell(f"line {part.lineno}: a long format")
        return format(self._instant(self.eval(part.value, scope)), spec)

    def _instant(self, value: Any) -> Any:
        if not isinstance(value, INSTANT):
            raise CannotTell(f"a {type(value).__name__} as text")
        return value

    def _eval_list(self, node: ast.List, scope: Scope) -> list[Any]:
        return list(self._items(node.elts, scope))

    def _eval_tuple(self, node: ast.Tuple, scope: Scope) -> tuple[Any, ...]:
        return tuple(self._items(node.elts, scope))

    def _eval_set(self, node: ast.Set, scope: Scope) -> set[Any]:
        return set(self._items(node.elts, scope))

    def _items(self, nodes: Sequence[ast.expr], scope: Scope) -> Iterator[Any]:
        for node in nodes:
            if isinstance(node, ast.Starred):
                yield from self.eval(node.value, scope)
            else:
                yield self.eval(node, scope)

    def _eval_dict(self, node: ast.Dict, scope: Scope) -> dict[Any, Any]:
        result: dict[Any, Any] = {}
        for key, value in zip(node.keys, node.values, strict=True):
            if key is None:
                result.update(self.eval(value, scope))
            else:
                result[self.eval(key, scope)] = self.eval(value, scope)
        return result

    def _eval_ifexp(self, node: ast.IfExp, scope: Scope) -> Any:
        return self.eval(node.body if self.eval(node.test, scope) else node.orelse, scope)

    def _eval_boolop(self, node: ast.BoolOp, scope: Scope) -> Any:
        decides = isinstance(node.op, ast.Or)
        value: Any = None
        for part in node.values:
            value = self.eval(part, scope)
            if bool(value) is decides:
                break
        return value

    def _eval_unaryop(self, node: ast.UnaryOp, scope: Scope) -> Any:
        return UNARY[type(node.op)](self.eval(node.operand, scope))

    def _eval_binop(self, node: ast.BinOp, scope: Scope) -> Any:
        return self.binary(node.op, self.eval(node.left, scope), self.eval(node.right, scope))

    def binary(self, op: ast.operator, left: Any, right: Any) -> Any:
        for value, other in ((left, right), (right, left)):
            grows = isinstance(op, ast.Mult | ast.LShift | ast.Pow) and isinstance(other, int)
            if grows and abs(other) > 64 and not isinstance(op, ast.Mult):
                raise CannotTell("a large power")
            if grows and isinstance(value, str | list | tuple) and len(value) * other > LONGEST:
                raise CannotTell("a large product")
        if type(op) not in BINARY:
            raise CannotTell(f"the operator {type(op).__name__}")
        return BINARY[type(op)](left, right)

    def _eval_compare(self, node: ast.Compare, scope: Scope) -> bool:
        left = self.eval(node.left, scope)
        for op, part in zip(node.ops, node.comparators, strict=True):
            right = self.eval(part, scope)
            if not COMPARE[type(op)](left, right):
                return False
            left = right
        return True

    def _eval_subscript(self, node: ast.Subscript, scope: Scope) -> Any:
        return self.eval(node.value, scope)[self.eval(node.slice, scope)]

    def _eval_slice(self, node: ast.Slice, scope: Scope) -> slice:
        parts = [self.eval(part, scope) if part else None for part in (node.lower, node.upper, node.step)]
        return slice(*parts)

    def _eval_listcomp(self, node: ast.ListComp, scope: Scope) -> list[Any]:
        return [self.eval(node.elt, inner) for inner in self._generate(node.generators, scope)]

    def _eval_generatorexp(self, node: ast.GeneratorExp, scope: Scope) -> list[Any]:
        return [self.eval(node.elt, inner) for inner in self._generate(node.generators, scope)]

    def _eval_setcomp(self, node: ast.SetComp, scope: Scope) -> set[Any]:
        return {self.eval(node.elt, inner) for inner in self._generate(node.generators, scope)}

    def _eval_dictcomp(self, node: ast.DictComp, scope: Scope) -> dict[Any, Any]:
        inner = self._generate(node.generators, scope)
        return {self.eval(node.key, names): self.eval(node.value, names) for names in inner}

    def _generate(self, parts: Sequence[ast.comprehension], scope: Scope) -> Iterator[Scope]:
        if not parts:
            yield scope
            return
        first, *rest = parts
        for value in self.eval(first.iter, scope):
            inner = Scope(outer=scope)
            self.bind(first.target, value, inner)
            if all(self.eval(test, inner) for test in first.ifs):
                yield from self._generate(rest, inner)

    def _eval_lambda(self, node: ast.Lambda, scope: Scope) -> Function:
        return Function(node, scope)

    def _eval_attribute(self, node: ast.Attribute, scope: Scope) -> Any:
        return self.attribute_of(self.eval(node.value, scope), node.attr)

    def attribute_of(self, owner: Any, name: str) -> Any:
        if isinstance(owner, Instance):
            if name in owner.values:
                return owner.values[name]
            method = owner.cls.methods.get(name)
            if method is not None:
                function = Function(method, owner.cls.scope, owner)
                is_property = any(isinstance(d, ast.Name) and d.id == "property" for d in method.decorator_list)
                return self.apply(function, [], {}) if is_property else function
        for kind, names in METHODS.items():
            if isinstance(owner, kind) and name in names:
                return getattr(owner, name)
        raise CannotTell(f"the attribute {name} of a {type(owner).__name__}")

    def _eval_call(self, node: ast.Call, scope: Scope) -> Any:
        arguments = list(self._items(node.args, scope))
        named = {}
        for keyword in node.keywords:
            if keyword.arg is None:
                named.update(self.eval(keyword.value, scope))
            else:
                named[keyword.arg] = self.eval(keyword.value, scope)
        special = SPECIAL.get(_dotted(node.func))
        if special is not None:
            return special(self, arguments, named)
        return self.apply(self.eval(node.func, scope), arguments, named)

    def apply(self, function: Any, arguments: list[Any], named: dict[str, Any]) -> Any:
        if isinstance(function, Class):
            return self._made(function, arguments, named)
        if isinstance(function, Function):
            return self._called(function, arguments, named)
        if callable(function):
            return function(*arguments, **named)
        raise CannotTell("calls something that is not a function")

    def _made(self, cls: Class, arguments: list[Any], named: dict[str, Any]) -> Instance:
        values = dict(zip((name for name, _ in cls.fields), arguments, strict=False)) | named
        for name, default in cls.fields:
            if name not in values:
                if default is None:
                    raise CannotTell(f"{cls.name} without {name}")
                values[name] = self.eval(default, cls.scope)
        return Instance(cls, values)

    def _called(self, function: Function, arguments: list[Any], named: dict[str, Any]) -> Any:
        scope = Scope(outer=function.scope)
        given = [function.bound, *arguments] if function.bound else arguments
        self._parameters(function, given, named, scope)
        if isinstance(function.node, ast.Lambda):
            return self.eval(function.node.body, scope)
        try:
            self.block(function.node.body, scope)
        except Returned as result:
            return result.value
        return None

    def _parameters(self, function: Function, given: list[Any], named: dict[str, Any], scope: Scope) -> None:
        spec = function.node.args
        if spec.vararg or spec.kwarg or len(given) > len(spec.posonlyargs + spec.args):
            raise CannotTell("a call with a variable number of arguments")
        names = [argument.arg for argument in spec.posonlyargs + spec.args]
        pairs = [*zip(reversed(names), reversed(spec.defaults), strict=False)]
        pairs += [(a.arg, d) for a, d in zip(spec.kwonlyargs, spec.kw_defaults, strict=True) if d is not None]
        scope.names.update({name: self.eval(default, function.scope) for name, default in pairs})
        scope.names.update(zip(names, given, strict=False))
        scope.names.update(named)


def _copied(value: Any, changes: Mapping[str, Any]) -> Any:
    """A copy deep enough for kernel records: an object with its own fields, or a container of copies."""
    if isinstance(value, Instance):
        return Instance(value.cls, {**value.values, **changes})
    if isinstance(value, dict):
        return {key: _copied(item, {}) for key, item in value.items()}
    if isinstance(value, list):
        return [_copied(item, {}) for item in value]
    return value


def _dotted(node: ast.expr) -> str:
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        return f"{node.value.id}.{node.attr}"
    return ""


def _copy(_: Expressions, arguments: list[Any], named: dict[str, Any]) -> Any:
    return _copied(arguments[0], named)


def _compile(_: Expressions, arguments: list[Any], _named: dict[str, Any]) -> Any:
    return re.compile(*arguments)


def _product(_: Expressions, arguments: list[Any], _named: dict[str, Any]) -> Any:
    return product(*(list(part) for part in arguments))


def _map(self: Expressions, arguments: list[Any], _named: dict[str, Any]) -> Any:
    return [self.apply(arguments[0], [item], {}) for item in arguments[1]]


def _vars(_: Expressions, arguments: list[Any], _named: dict[str, Any]) -> Any:
    return dict(arguments[0].values)


def _getattr(self: Expressions, arguments: list[Any], _named: dict[str, Any]) -> Any:
    return self.attribute_of(arguments[0], arguments[1])


SPECIAL: Mapping[str, Callable[[Expressions, list[Any], dict[str, Any]], Any]] = {
    "copy.deepcopy": _copy, "copy.copy": _copy, "copy": _copy, "deepcopy": _copy, "dataclasses.replace": _copy,
    "replace": _copy, "re.compile": _compile, "itertools.product": _product, "map": _map,
    "vars": _vars, "getattr": _getattr,
}  # fmt: skip
"""Functions of the standard library that kernel lists call, whose modules are not there."""
