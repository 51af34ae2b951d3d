"""Finds a piece of Python by its shape: "does this function contain a call like that", by AST, without running it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import TypeAlias


@dataclass(frozen=True)
class Found:
    """What a search says: does the scope exist, and on which line (1-based) does the pattern first match."""

    scope_line: int | None
    match_line: int | None = None


class PatternError(ValueError):
    """A pattern that is not one Python expression or statement."""


@cache
def compile_pattern(pattern: str) -> ast.AST:
    """The AST of `pattern`: one expression or statement, with wildcards.

    `_` stands for any expression, or any name where a name must stand; `...` as an argument for any further
    arguments; `...` as the only statement of a body for any body (and any `else`). `a and b` also
    matches where more is and-ed, in any order; `from m import a` also where more is imported. Raises PatternError.
    """
    try:
        body = ast.parse(pattern.strip()).body
    except SyntaxError as error:
        raise PatternError(f"not Python: {pattern!r} ({error.msg})") from error
    if len(body) != 1:
        raise PatternError(f"not one expression or statement: {pattern!r}")
    wanted = body[0].value if isinstance(body[0], ast.Expr) else body[0]
    _refuse_lost_ellipsis(wanted, pattern)
    return wanted


def _refuse_lost_ellipsis(wanted: ast.AST, pattern: str) -> None:
    """Where `...` stands for nothing more, it would match only a literal `...`, which nobody means but in `x[...]`."""
    kept = [node for node in ast.walk(wanted) if isinstance(node, (ast.Call, ast.Expr, ast.Subscript))]
    fine = {id(argument) for node in kept for argument in _ellipses_of(node)}
    for node in ast.walk(wanted):
        if _is_ellipsis(node) and id(node) not in fine:
            raise PatternError(f"`...` is for further arguments or a whole body; one expression is `_`: {pattern!r}")


def _ellipses_of(node: ast.Call | ast.Expr | ast.Subscript) -> list[ast.expr]:
    """The places below `node` where `...` has a meaning: last among a call's arguments, a statement, an index."""
    match node:
        case ast.Call(args=args):
            return args[-1:]
        case ast.Expr(value=value):
            return [value]
        case ast.Subscript(slice=ast.Tuple(elts=parts)):
            return parts
        case ast.Subscript(slice=index):
            return [index]


@lru_cache(maxsize=4096)
def search(source: str, scope: str, pattern: str | None = None, under: str | None = None) -> Found:
    """Look for `pattern` in the function or class `scope` ("Class.method", "" for the whole module).

    With `under`, only bodies of `if` statements (and `x if test else y`) whose test is that pattern, or has it as
    one of its and-ed parts, are searched. A scope defined several times (under if/else) is searched everywhere.
    A file that is not Python has no scopes: nothing is found in it.
    """
    blocks = list(_blocks(source, scope))
    if not blocks:
        return Found(None)
    if pattern is None:
        return Found(blocks[0].line)
    wanted = compile_pattern(pattern)
    words = _words(wanted) | (_words(compile_pattern(under)) if under else frozenset())
    pieces = blocks if scope else _statements(source)
    likely = [piece for piece in pieces if piece.is_torn or all(word in piece.text for word in words)]
    for nodes, shift in _nodes(likely, source, scope):
        line = _first_match(nodes, wanted, under)
        if line is not None:
            return Found(blocks[0].line, line + shift)
    return Found(blocks[0].line)


@dataclass(frozen=True)
class _Block:
    """A stretch of source: its text as it stands, and the line it starts on."""

    text: str
    line: int
    is_scope: bool = False
    """Whether it begins with a definition of its own, which is not inside it."""

    @property
    def is_torn(self) -> bool:
        """Whether it was cut inside a long string, so that part of it is missing."""
        return any(self.text.count(quote) % 2 for quote in ('"""', "'''"))


def _blocks(source: str, scope: str) -> Iterator[_Block]:
    """The definitions called `scope`, cut out of `source` by indentation: parsing whole files is 50 times slower."""
    blocks = [_Block(source, 1)]
    for name in scope.split(".") if scope else ():
        blocks = [inner for block in blocks for inner in _definitions(block, name)]
    yield from blocks


def _definitions(block: _Block, name: str) -> Iterator[_Block]:
    text = block.text
    for found in re.finditer(rf"{re.escape(name)}\b", text):  # a literal start lets `re` skip through the file
        start = text.rfind("\n", 0, found.start()) + 1
        head = _HEAD.fullmatch(text, start, found.start())
        if head is None or (start == 0 and block.is_scope):
            continue
        end = _end(len(head[1])).search(text, found.end())
        cut = text[start : end.start() if end else len(text)]
        yield _Block(cut, block.line + text.count("\n", 0, start), is_scope=True)


_HEAD = re.compile(r"([ \t]*)(?:async\s+def|def|class)\s+")


@lru_cache(maxsize=32)
def _end(indent: int) -> re.Pattern[str]:
    """The start of the next statement indented by no more than `indent`.

    A closing bracket or a comment does not end a block. A dedented line inside a string would: such a block is torn,
    and is looked for in the whole file.
    """
    return re.compile(rf"^[ \t]{{0,{indent}}}[^\s)\]}}#]", re.MULTILINE)


def _statements(source: str) -> list[_Block]:
    """The statements at the top of a module, each with its body and its `else`."""
    starts = [match.start() for match in _TOP.finditer(source)]
    pieces = zip([0, *starts], [*starts, len(source)], strict=True)
    blocks: list[_Block] = []
    line = 1
    for start, end in pieces:
        blocks.append(_Block(source[start:end], line))
        line += source.count("\n", start, end)
    return blocks


_TOP = re.compile(r"^(?!(?:else|elif|except|finally)\b)[^\s)\]}#]", re.MULTILINE)


def _nodes(blocks: list[_Block], source: str, scope: str) -> Iterator[tuple[_Nodes, int]]:
    """The nodes of each block, and what to add to their lines; from the whole file where cutting went wrong."""
    for block in blocks:
        nodes, shift = _parse(block.text)
        if nodes is None:
            whole, _ = _parse(source)
            tree = whole[ast.Module][0] if whole else None
            yield from ((_grouped(node), 0) for node in _named(tree, scope.split(".") if scope else []))
            return
        yield nodes, block.line - 1 - shift


def _named(tree: ast.AST | None, names: list[str]) -> Iterator[ast.AST]:
    if tree is None or not names:
        yield from () if tree is None else (tree,)
        return
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)) and node.name == names[0]:
            yield from _named(node, names[1:])


_Nodes: TypeAlias = "dict[type, list[ast.AST]]"
"""The nodes of a tree by their type: most patterns ask for one type only."""


def _first_match(nodes: _Nodes, wanted: ast.AST, under: str | None) -> int | None:
    groups = [nodes] if under is None else [_grouped(body) for body in _under(nodes, compile_pattern(under))]
    kinds = (ast.expr, ast.stmt) if _is_wildcard(wanted) else (type(wanted),)
    lines = [
        node.lineno
        for group in groups
        for kind, found in group.items()
        if issubclass(kind, kinds)
        for node in found
        if isinstance(node, (ast.expr, ast.stmt)) and _matches(wanted, node)
    ]
    return min(lines, default=None)


def _grouped(tree: ast.AST) -> _Nodes:
    nodes: _Nodes = {}
    waiting = [tree]
    while waiting:  # `ast.walk` asks each node for its fields by name, and takes three times as long
        node = waiting.pop()
        nodes.setdefault(type(node), []).append(node)
        for value in vars(node).values():
            if isinstance(value, ast.AST):
                waiting.append(value)
            elif isinstance(value, list):
                waiting.extend(each for each in value if isinstance(each, ast.AST))
    return nodes


@lru_cache(maxsize=24)
def _parse(text: str) -> tuple[_Nodes | None, int]:
    """The nodes of an indented block, and how many lines were put before it to make it parse."""
    indented = text[:1] in (" ", "\t")
    try:
        tree = ast.parse("if 1:\n" + text if indented else text)
    except (SyntaxError, ValueError, RecursionError):
        return None, 0
    wrapper = tree.body[0] if indented else None
    return _grouped(ast.Module(wrapper.body, []) if isinstance(wrapper, ast.If) else tree), int(indented)


def _words(pattern: ast.AST) -> frozenset[str]:
    """Names that must stand in any text the pattern matches: a cheap test before parsing."""
    words = set[str]()
    for node in ast.walk(pattern):
        match node:
            case ast.Name(id=name) if name != "_":
                words.add(name)
            case ast.Attribute(attr=name) if name != "_":
                words.add(name)
            case ast.ImportFrom(module=str(name)) | ast.alias(name=name):
                words.add(name)
            case ast.keyword(arg=str(name)):
                words.add(name)
            case _:
                pass
    return frozenset(words)


def _under(nodes: _Nodes, test: ast.AST) -> Iterator[ast.AST]:
    for node in (*nodes.get(ast.If, ()), *nodes.get(ast.IfExp, ())):
        if not isinstance(node, (ast.If, ast.IfExp)):
            continue
        parts = node.test.values if isinstance(node.test, ast.BoolOp) and isinstance(node.test.op, ast.And) else []
        if any(_matches(test, part) for part in (node.test, *parts)):
            yield from node.body if isinstance(node, ast.If) else (node.body,)


def _matches(pattern: object, node: object) -> bool:
    match pattern, node:
        case ast.Name(id="_"), ast.expr():
            return True
        case ast.Attribute(attr="_"), ast.Attribute():
            return _matches(pattern.value, node.value)
        case ast.BoolOp(), ast.BoolOp():
            same = type(pattern.op) is type(node.op)
            return same and all(any(_matches(part, value) for value in node.values) for part in pattern.values)
        case ast.Call(), ast.Call():
            return _matches(pattern.func, node.func) and _arguments_match(pattern, node)
        case ast.ImportFrom(), ast.ImportFrom():
            names = {alias.name for alias in node.names}
            same = (pattern.module, pattern.level) == (node.module, node.level)
            return same and {alias.name for alias in pattern.names} <= names
        case ast.AST(), ast.AST():
            return type(pattern) is type(node) and all(
                _matches(getattr(pattern, name, None), getattr(node, name, None))
                for name in pattern._fields
                if name not in ("ctx", "type_comment", "kind")
                and not (name == "orelse" and _is_any_body(getattr(pattern, "body", [])))
            )
        case list(), list():
            return _is_any_body(pattern) or (
                len(pattern) == len(node) and all(_matches(p, n) for p, n in zip(pattern, node, strict=True))
            )
        case _:
            return pattern in ("_", node)


def _arguments_match(pattern: ast.Call, node: ast.Call) -> bool:
    free = any(_is_ellipsis(argument) for argument in pattern.args)
    wanted = [argument for argument in pattern.args if not _is_ellipsis(argument)]
    if len(wanted) > len(node.args) or (not free and len(wanted) != len(node.args)):
        return False
    if not all(_matches(p, n) for p, n in zip(wanted, node.args, strict=False)):
        return False
    if not free and len(pattern.keywords) != len(node.keywords):
        return False
    return all(any(_matches(p, n) for n in node.keywords) for p in pattern.keywords)


def _is_wildcard(node: ast.AST) -> bool:
    return isinstance(node, ast.Name) and node.id == "_"


def _is_ellipsis(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and node.value is ...


def _is_any_body(body: object) -> bool:
    return isinstance(body, list) and len(body) == 1 and isinstance(body[0], ast.Expr) and _is_ellipsis(body[0].value)
