"""Cuts Python text into statements by its indentation: parsing all that a question touches takes five times as long."""

from __future__ import annotations

import ast
import re
from functools import lru_cache
from typing import AnyStr, Final, NamedTuple

from rocmfix.guards.pyfacts import NVIDIA_PACKAGES


class Piece(NamedTuple):
    """One statement with its decorators and all that is indented below it."""

    text: str
    line: int
    """Where it starts in the file, counted from 1."""
    indent: int

    @property
    def is_class(self) -> bool:
        """Whether it is a class, whose members can be cut out in turn."""
        return self._opening is not None and self._opening["kind"] == "class"

    @property
    def opens(self) -> str:
        """The name of the class or function that it is; empty for any other statement."""
        return self._opening["name"] if self._opening else ""

    @property
    def _opening(self) -> re.Match[str] | None:
        return _OPENING.match(self.text)

    @property
    def decides(self) -> bool:
        """Whether the statements after it may run only when something in it holds."""
        return _DECIDES.match(self.text) is not None

    def holds(self, word: str) -> bool:
        """Whether `word`, a name or a dotted one, stands in it."""
        return holds(self.text, word)

    def statements(self) -> tuple[list[ast.stmt], int]:
        """Its syntax, and what to add to the lines there. Raises SyntaxError when it was cut in the wrong place."""
        if not self.indent:
            return ast.parse(self.text).body, self.line - 1
        wrapper = ast.parse("if 1:\n" + self.text).body[0]
        return (wrapper.body if isinstance(wrapper, ast.If) else []), self.line - 2


_UNDERSCORE: Final = ("_", b"_")
_OPENING: Final = re.compile(r"(?:[ \t]*@[^\n]*\n)*[ \t]*(?:async\s+)?(?P<kind>def|class)\s+(?P<name>\w+)")
_HEAD: Final = re.compile(r"class\b.*?:[ \t]*(?:#[^\n]*)?\n", re.DOTALL)
_FIRST: Final = re.compile(r"^([ \t]*)[^\s#]", re.MULTILINE)
_DECIDES: Final = re.compile(
    rf"\s*(?:(?:if|assert|with|async\s+with)\b|(?:import|from)\b[^\n]*\b(?:{'|'.join(sorted(NVIDIA_PACKAGES))})\b)"
)


def holds(text: AnyStr, word: AnyStr) -> bool:
    """Whether `word` stands in `text` as a whole."""
    at = text.find(word) if word else -1
    while at >= 0:  # a pattern for each word would cost more to compile than this does
        end = at + len(word)
        if not (_is_part(text[at - 1 : at]) or _is_part(text[end : end + 1])):
            return True
        at = text.find(word, end)
    return False


def _is_part(character: AnyStr) -> bool:
    return character.isalnum() or character in _UNDERSCORE


def pieces(text: str) -> list[Piece]:
    """The statements of a file. Raises SyntaxError when it does not begin with one."""
    return _cut(text, 1, 0)


def members(piece: Piece) -> list[Piece]:
    """A class as its head with an empty body, then each statement of its body."""
    head = _HEAD.search(piece.text)
    first = _FIRST.search(piece.text, head.end()) if head else None
    if head is None or first is None:
        return []
    indent = len(first[1])
    top = f"{piece.text[: head.end()]}{first[1]}pass\n"
    rest = _cut(piece.text[head.end() :], piece.line + piece.text.count("\n", 0, head.end()), indent)
    return [Piece(top, piece.line, piece.indent), *rest]


def _cut(text: str, line: int, indent: int) -> list[Piece]:
    masked = _hidden(_hidden(text, '"' * 3), "'" * 3)
    starts = [found.start() for found in _start(indent).finditer(masked)]
    if _FIRST.search(masked, 0, starts[0] if starts else len(masked)):
        raise SyntaxError("unexpected indent", ("", line, None, None))
    # a decorator begins the statement that the next start goes on with
    firsts = [at for index, at in enumerate(starts) if not index or text[starts[index - 1] + indent] != "@"]
    cut: list[Piece] = []
    seen = 0
    for start, end in zip(firsts, [*firsts[1:], len(text)], strict=True):
        line += text.count("\n", seen, start)
        seen = start
        cut.append(Piece(text[start:end], line, indent))
    return cut


def _hidden(text: str, quotes: str) -> str:
    """`text` without the line ends that stand between `quotes`."""
    if quotes not in text:
        return text
    parts = text.split(quotes)
    parts[1::2] = (part.replace("\n", "\0") for part in parts[1::2])
    return quotes.join(parts)


@lru_cache(maxsize=16)
def _start(indent: int) -> re.Pattern[str]:
    """The start of a statement: no closing bracket, no comment, and no branch of the statement before."""
    return re.compile(rf"^[ \t]{{{indent}}}(?!(?:else|elif|except|finally)\b)[^\s)\]}}#]", re.MULTILINE)
