"""C++ text as the preprocessor's own lines: comments gone, continuations joined, strings left alone."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

_SPLICE, _SOFT = "\x1c", "\x0b"
"""A removed backslash-newline, and a newline in a comment or raw string: kept, so lines can be counted."""

# Each alternative starts with a plain character: only then does `re` skip quickly to the next candidate,
# which makes the scan of a release's five megabytes four times faster.
_LEXEMES = re.compile(
    r"""/(?P<comment>/[^\n]*|\*.*?(?:\*/|\Z))"""
    r"""|"(?:\\.|[^"\\\n])*\""""
    r"""|R(?P<raw>(?:(?<![0-9A-Za-z_]R)|(?<=\b[uUL]R)|(?<=\bu8R))"(?P<tag>[^()\\\s]{0,16})\(.*?\)(?P=tag)")"""
    # An apostrophe after a digit or letter separates digits (1'000), unless it opens a literal such as L'x'.
    r"""|'(?:(?<![0-9A-Za-z_]')|(?<=\b[uUL]')|(?<=\bu8'))(?:\\.|[^'\\\n])*'"""
    r"""|\#[ \t]*(?:include|include_next|import)[ \t]*<[^>\n]*>""",
    re.DOTALL,
)
_DIRECTIVE = re.compile(r"^[ \t\x0b\x0c\x1c]*\#([^\n]*)", re.MULTILINE)
_NAME = re.compile(r"\s*([A-Za-z_]\w*)\s*(.*)", re.DOTALL)
_INCLUDED = re.compile(r"<([^>]+)>|\"([^\"]+)\"")


@dataclass(frozen=True, slots=True)
class Directive:
    """One preprocessor line: `#ifdef A  // why` is name `ifdef`, rest `A`, at the line its `#` stands on."""

    name: str
    rest: str
    line: int
    end: int
    """The last physical line it reaches, by continuations or a comment that spans lines."""

    @property
    def included(self) -> str | None:
        """The header an `#include` names, without its quotes; None for a computed include."""
        found = _INCLUDED.match(self.rest)
        return (found[1] or found[2]) if found else None

    @property
    def quoted(self) -> bool:
        """Whether the name stands in quotes, so that the includer's own folder is searched first."""
        return self.rest.startswith('"')


def directives(text: str) -> tuple[Directive, ...]:
    """Every directive of `text`, in order, active or not."""
    return tuple(_directives(plain(text)))


def plain(text: str) -> str:
    """`text` without comments: one line per logical line, removed newlines kept as marks that count."""
    text = text.removeprefix("\ufeff").replace("\r\n", "\n")
    if "\\\n" in text:
        text = text.replace("\\\n", _SPLICE)
    return _LEXEMES.sub(_blank, text)


def _blank(found: re.Match[str]) -> str:
    lexeme = found[0]
    if found["comment"] is not None:
        return " " + _SOFT * lexeme.count("\n") + _SPLICE * lexeme.count(_SPLICE)
    return lexeme.replace("\n", _SOFT) if found["raw"] is not None else lexeme


def _directives(logical: str) -> Iterator[Directive]:
    line, seen = 1, 0
    for found in _DIRECTIVE.finditer(logical):
        hash_at = found.start(1)
        line += _newlines(logical, seen, hash_at)
        seen = hash_at
        named = _NAME.match(_joined(found[1]))
        if named:
            yield Directive(named[1], named[2].rstrip(), line, line + _newlines(logical, hash_at, found.end()))


def _newlines(text: str, start: int, end: int) -> int:
    return text.count("\n", start, end) + text.count(_SOFT, start, end) + text.count(_SPLICE, start, end)


def _joined(rest: str) -> str:
    return rest.replace(_SPLICE, "").replace(_SOFT, " ")
