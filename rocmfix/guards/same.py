"""Proves that a change leaves the CUDA side of a file alone."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from io import StringIO
from typing import Final

from rocmfix.guards.condition import evaluate
from rocmfix.guards.directives import Directive, directives

ROCM = "USE_ROCM"


def same_for_cuda(before: str, after: str) -> bool:
    """Whether the two texts are one once USE_ROCM is taken as not defined.

    What `unifdef -UUSE_ROCM` leaves of both is compared, byte for byte; every other condition stays as it is.
    """
    return without_rocm(before) == without_rocm(after)


def without_rocm(text: str) -> str:
    """`text` as a compiler sees it that does not define USE_ROCM, with every other conditional left in.

    An `#elif` that something else decides becomes an `#if` where all that stood before it goes.
    """
    text = text.removeprefix("\ufeff").replace("\r\n", "\n")
    gone, opening = _gone(directives(text))
    kept = ((number, line) for number, line in enumerate(StringIO(text), 1) if number not in gone)
    return "".join(_ELSE.sub(r"\1", line, count=1) if number in opening else line for number, line in kept)


class _OnlyRocm(Mapping[str, "str | None"]):
    """Every macro may be defined, but USE_ROCM is not."""

    def __getitem__(self, name: str) -> str | None:
        if name == ROCM:
            raise KeyError(name)
        return None

    def __contains__(self, name: object) -> bool:
        return name != ROCM

    def __iter__(self) -> Iterator[str]:
        return iter(())

    def __len__(self) -> int:
        return 0


class _Open:
    """A conditional being read: whether USE_ROCM alone decides it, and whether its branch stays."""

    def __init__(self, line: Directive, outer_gone: bool) -> None:  # noqa: FBT001 - one fact of two
        self.outer_gone = outer_gone
        self.start = line.line
        self.decided = _decided(line)
        self.taken = bool(self.decided)

    @property
    def gone(self) -> bool:
        return self.outer_gone or self.decided is False


def _gone(lines: tuple[Directive, ...]) -> tuple[set[int], set[int]]:
    """The lines that go, branches not taken and what USE_ROCM decides, and each `#elif` that is left first."""
    gone: set[int] = set()
    opening: set[int] = set()
    stack: list[_Open] = []
    cursor = 1
    for line in lines:
        if line.name not in _CONDITIONALS:
            continue
        if stack and stack[-1].gone:
            gone.update(range(cursor, line.line))
        cursor = line.end + 1
        if line.name.startswith("if"):
            stack.append(_Open(line, bool(stack) and stack[-1].gone))
        if not stack:
            continue
        top = stack[-1]
        goes = top.outer_gone or top.decided is not None
        if line.name == "endif":
            stack.pop()
        elif not line.name.startswith("if"):
            _turn(top, line)
        if goes and not top.outer_gone and top.decided is None:
            opening.add(line.line)
        elif goes:
            gone.update(range(line.line, line.end + 1))
    return gone, opening


def _turn(top: _Open, line: Directive) -> None:
    if top.decided is None:
        return
    if top.taken:
        top.decided = False
    else:
        top.decided = True if line.name == "else" else _decided(line)
        top.taken = bool(top.decided)


def _decided(line: Directive) -> bool | None:
    name = line.rest.split(None, 1)[0] if line.rest else ""
    match line.name:
        case "ifdef" | "elifdef":
            return False if name == ROCM else None
        case "ifndef" | "elifndef":
            return True if name == ROCM else None
        case _:
            value = evaluate(line.rest, _OnlyRocm()) if ROCM in line.rest or line.name == "elif" else None
            return None if value is None else bool(value)


_CONDITIONALS: Final = frozenset({"if", "ifdef", "ifndef", "elif", "elifdef", "elifndef", "else", "endif"})
_ELSE: Final = re.compile(r"(#\s*)el(?=if)")
