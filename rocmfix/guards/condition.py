"""Evaluates `#if` expressions with a third answer, "cannot tell", for what only a real compiler knows."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Final, TypeAlias

Value: TypeAlias = "int | None"
"""What an expression is worth; None is "cannot tell"."""

_TOKENS = re.compile(
    r"""\s*(?:
      (?P<has> __has_\w+ \s* \( \s* [^()]* \) )
    | (?P<number> (?:0[xX][0-9a-fA-F']+ | 0[bB][01']+ | [0-9][0-9']*) [uUlLzZ]* )
    | (?P<name> [A-Za-z_]\w* )
    | (?P<op> && | \|\| | == | != | <= | >= | << | >> | [-+*/%<>!~&|^?:()] )
    )""",
    re.VERBOSE,
)
_BINARY: Final[Mapping[str, int]] = {
    "||": 1, "&&": 2, "|": 3, "^": 4, "&": 5, "==": 6, "!=": 6,
    "<": 7, ">": 7, "<=": 7, ">=": 7, "<<": 8, ">>": 8, "+": 9, "-": 9, "*": 10, "/": 10, "%": 10,
}  # fmt: skip
_DEEPEST = 40
"""Nesting beyond this is not an expression anyone wrote; it ends as "cannot tell" instead of a crash."""
_BUDGET = 4096
"""Steps of one evaluation: macros that double on every expansion would otherwise never end."""
_LEAST, _MOST = -(1 << 63), (1 << 63) - 1
"""What fits into the 64 bits of a preprocessor's number; beyond that it hangs on which have a sign."""

Node: TypeAlias = "tuple[str, tuple[Node, ...], str]"
"""Kind, operands, text."""


class _MalformedError(Exception):
    pass


def evaluate(text: str, macros: Mapping[str, str | None], has: Callable[[str, str], Value] | None = None) -> Value:
    """The value of the `#if` expression `text` where `macros` are defined.

    A macro that maps to None may or may not be defined. `has` answers `__has_include(x)` and its kin by
    operator name and argument. What C++ calls an error is "cannot tell" here.
    """
    try:
        return _Evaluation(macros, has).of(_parsed(text), frozenset())
    except (_MalformedError, RecursionError):
        return None


@lru_cache(maxsize=16384)
def _parsed(text: str) -> Node | None:
    try:
        return _Parser(text).whole()
    except _MalformedError:
        return None


class _Parser:
    """Precedence climbing over one expression."""

    def __init__(self, text: str) -> None:
        self._tokens = _tokens(text)
        self._at = 0
        self._depth = 0

    def whole(self) -> Node:
        node = self._ternary()
        if self._at != len(self._tokens):
            raise _MalformedError
        return node

    def _next(self) -> tuple[str, str]:
        if self._at >= len(self._tokens):
            raise _MalformedError
        self._at += 1
        return self._tokens[self._at - 1]

    def _peek(self) -> str:
        return self._tokens[self._at][1] if self._at < len(self._tokens) else ""

    def _expect(self, text: str) -> None:
        if self._next()[1] != text:
            raise _MalformedError

    def _ternary(self) -> Node:
        self._depth += 1
        if self._depth > _DEEPEST:
            raise _MalformedError
        node = self._binary(1)
        if self._peek() == "?":
            self._next()
            yes = self._ternary()
            self._expect(":")
            node = ("?", (node, yes, self._ternary()), "")
        self._depth -= 1
        return node

    def _binary(self, loosest: int) -> Node:
        left = self._unary()
        while _BINARY.get(self._peek(), 0) >= loosest:
            op = self._next()[1]
            left = ("binary", (left, self._binary(_BINARY[op] + 1)), op)
        return left

    def _unary(self) -> Node:
        ops: list[str] = []
        while self._peek() in {"!", "-", "+", "~"}:
            ops.append(self._next()[1])
        node = self._primary()
        if len(ops) > _DEEPEST:
            raise _MalformedError
        for op in reversed(ops):
            node = ("unary", (node,), op)
        return node

    def _primary(self) -> Node:
        kind, text = self._next()
        if text == "(":
            node = self._ternary()
            self._expect(")")
            return node
        if kind == "name" and text == "defined":
            return ("defined", (), self._defined())
        if kind == "name" and self._peek() == "(":
            return self._call()
        if kind in {"name", "number", "has"}:
            return (kind, (), text)
        raise _MalformedError

    def _defined(self) -> str:
        kind, text = self._next()
        if text == "(":
            kind, text = self._next()
            self._expect(")")
        if kind != "name":
            raise _MalformedError
        return text

    def _call(self) -> Node:
        """A function-like macro: its arguments are passed over, its value cannot be told."""
        depth = 0
        while True:
            text = self._next()[1]
            depth += {"(": 1, ")": -1}.get(text, 0)
            if depth == 0:
                return ("call", (), "")


def _tokens(text: str) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    at, text = 0, text.rstrip()
    while at < len(text):
        token = _TOKENS.match(text, at)
        if token is None or token.lastgroup is None:
            raise _MalformedError
        found.append((token.lastgroup, token[token.lastgroup]))
        at = token.end()
    return found


class _Evaluation:
    def __init__(self, macros: Mapping[str, str | None], has: Callable[[str, str], Value] | None) -> None:
        self._macros = macros
        self._has = has
        self._left = _BUDGET

    def of(self, node: Node | None, expanding: frozenset[str]) -> Value:
        self._left -= 1
        if node is None:
            return None
        if self._left < 0:
            raise _MalformedError
        kind, operands, text = node
        match kind:
            case "number":
                return _number(text)
            case "name":
                return self._name(text, expanding)
            case "defined":
                return self._defined(text)
            case "has":
                return self._feature(text)
            case "unary":
                return _unary(text, self.of(operands[0], expanding))
            case "binary":
                return _binary(text, self.of(operands[0], expanding), self.of(operands[1], expanding))
            case "?":
                return self._choice(operands, expanding)
            case _:
                return None

    def _name(self, name: str, expanding: frozenset[str]) -> Value:
        if name == "true":
            return 1
        if name not in self._macros or name in expanding:
            return 0
        body = self._macros[name]
        if body is None or len(expanding) > _DEEPEST:
            return None
        return self.of(_parsed(body), expanding | {name})

    def _defined(self, name: str) -> Value:
        if name.startswith("__has_"):
            return 1
        if name not in self._macros:
            return 0
        return None if self._macros[name] is None else 1

    def _feature(self, text: str) -> Value:
        operator, _, argument = text.partition("(")
        return self._has(operator.strip(), argument.rstrip(")").strip()) if self._has else None

    def _choice(self, operands: tuple[Node, ...], expanding: frozenset[str]) -> Value:
        chosen = self.of(operands[0], expanding)
        yes, no = (self.of(node, expanding) for node in operands[1:])
        if chosen is None:
            return yes if yes == no else None
        return yes if chosen else no


def _number(text: str) -> Value:
    if len(text) > _DEEPEST:
        return None
    digits = text.rstrip("uUlLzZ").replace("'", "").lower()
    octal = digits.startswith("0") and digits.isdecimal()
    try:
        return int(digits, 8 if octal else 0)
    except ValueError:  # 089, or no digit after 0x
        return None


def _unary(op: str, value: Value) -> Value:
    if value is None:
        return None
    return {"!": int(not value), "-": -value, "+": value, "~": ~value}[op]


def _binary(op: str, left: Value, right: Value) -> Value:
    if op == "&&":
        return _both(left, right)
    if op == "||":
        return _negated(_both(_negated(left), _negated(right)))
    if left is None or right is None:
        return None
    if op in {"/", "%"}:
        return _divided(op, left, right)
    if op in {"<<", ">>"}:
        return _shifted(op, left, right)
    return _fitting(int(_ARITHMETIC[op](left, right)))


_ARITHMETIC: Final[Mapping[str, Callable[[int, int], int]]] = {
    "|": int.__or__, "^": int.__xor__, "&": int.__and__, "+": int.__add__, "-": int.__sub__, "*": int.__mul__,
    "==": int.__eq__, "!=": int.__ne__, "<": int.__lt__, ">": int.__gt__, "<=": int.__le__, ">=": int.__ge__,
}  # fmt: skip


def _both(left: Value, right: Value) -> Value:
    if (left is not None and not left) or (right is not None and not right):
        return 0
    return None if left is None or right is None else 1


def _negated(value: Value) -> Value:
    return None if value is None else int(not value)


def _divided(op: str, left: int, right: int) -> Value:
    if right == 0:
        return None
    quotient = abs(left) // abs(right) * (1 if (left < 0) == (right < 0) else -1)
    return quotient if op == "/" else left - quotient * right


def _shifted(op: str, left: int, right: int) -> Value:
    if not 0 <= right < 64:
        return None
    return _fitting(left << right) if op == "<<" else left >> right


def _fitting(value: int) -> Value:
    return value if _LEAST <= value <= _MOST else None
