"""What interpreted code is made of: its values and scopes, and the functions and operators it may use."""

from __future__ import annotations

import ast
import itertools
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

BUDGET = 20_000_000
"""Steps one file may take; the largest list of AITER (FlyDSL, 4905 names) takes under a million."""
LONGEST = 1_000_000
"""The longest text, list or range that may be built."""


class CannotTell(Exception):
    """The code uses something outside the part that is interpreted."""


class Raised(Exception):
    """The interpreted code itself raises an exception here."""


class Returned(Exception):
    """A `return` on its way out."""

    def __init__(self, value: Any) -> None:
        super().__init__()
        self.value = value


@dataclass
class Instance:
    """An object of an interpreted class."""

    cls: Class
    values: dict[str, Any]


@dataclass(frozen=True)
class Class:
    """An interpreted dataclass: its fields with their defaults, its methods and properties."""

    name: str
    fields: tuple[tuple[str, ast.expr | None], ...]
    methods: Mapping[str, ast.FunctionDef]
    scope: Scope


@dataclass(frozen=True)
class Function:
    """An interpreted function with the scope it was defined in."""

    node: ast.FunctionDef | ast.Lambda
    scope: Scope
    bound: Instance | None = None


@dataclass
class Scope:
    """Names, and the scope around them."""

    names: dict[str, Any] = field(default_factory=dict)
    outer: Scope | None = None

    def find(self, name: str) -> Any:
        scope: Scope | None = self
        while scope is not None:
            if name in scope.names:
                value = scope.names[name]
                if isinstance(value, Unknown):
                    raise CannotTell(value.why)
                return value
            scope = scope.outer
        if name in BUILTINS:
            return BUILTINS[name]
        raise CannotTell(f"{name} is not defined here")


@dataclass(frozen=True)
class Unknown:
    """The value of a name whose definition could not be interpreted."""

    why: str


def _range(*bounds: int) -> range:
    result = range(*bounds)
    if len(result) > LONGEST:
        raise CannotTell("a long range")
    return result


def product(*parts: Sequence[Any]) -> list[tuple[Any, ...]]:
    """`itertools.product`, as a list."""
    return list(itertools.product(*parts))


BUILTINS: Mapping[str, Any] = {
    "range": _range, "len": len, "min": min, "max": max, "int": int, "str": str, "bool": bool, "float": float,
    "sorted": sorted, "zip": zip, "enumerate": enumerate, "list": list, "tuple": tuple, "set": set,
    "sum": sum, "any": any, "all": all, "abs": abs, "frozenset": frozenset, "True": True, "False": False,
    "reversed": reversed, "repr": repr, "dict": dict, "iter": iter, "next": next,
}  # fmt: skip
METHODS: Mapping[type, frozenset[str]] = {
    str: frozenset({"join", "upper", "lower", "replace", "split", "strip", "startswith", "endswith"}),
    dict: frozenset({"items", "keys", "values", "get", "update", "copy", "setdefault", "pop"}),
    list: frozenset({"append", "extend", "copy", "index", "insert"}),
    set: frozenset({"add", "update", "union"}),
    tuple: frozenset({"index"}),
    int: frozenset({"bit_length"}),
    re.Pattern: frozenset({"match", "search", "fullmatch"}),
    re.Match: frozenset({"group", "groups", "start", "end"}),
}
BINARY: Mapping[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.FloorDiv: operator.floordiv,
    ast.Div: operator.truediv, ast.Mod: operator.mod, ast.BitOr: operator.or_, ast.BitAnd: operator.and_,
    ast.LShift: operator.lshift, ast.RShift: operator.rshift, ast.Pow: operator.pow, ast.BitXor: operator.xor,
}  # fmt: skip
COMPARE: Mapping[type, Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.Lt: operator.lt, ast.LtE: operator.le,
    ast.Gt: operator.gt, ast.GtE: operator.ge, ast.Is: operator.is_, ast.IsNot: operator.is_not,
    ast.In: lambda a, b: a in b, ast.NotIn: lambda a, b: a not in b,
}  # fmt: skip
UNARY: Mapping[type, Callable[[Any], Any]] = {
    ast.Not: operator.not_, ast.USub: operator.neg, ast.UAdd: operator.pos, ast.Invert: operator.invert,
}  # fmt: skip
INSTANT = (str, int, float, bool, type(None), list, tuple, dict, set, frozenset, range, Instance)
