"""Applies hunks in memory exactly as `git apply` would: whole context, no fuzz, offsets allowed.

Why not call git: a pod may have no git, one process per variant and release is slow, and git run inside an
ignored folder of another repository skips the patch and exits 0. `tests/spine/test_hunks.py` holds this module
to git's own answers, byte for byte. The search order is that of `find_pos` in git's apply.c.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

Read: TypeAlias = Callable[[str], "bytes | None"]


class Way(Enum):
    """Which way a patch is read."""

    FORWARD = "forward"
    REVERSE = "reverse"


@dataclass(frozen=True)
class Hunk:
    """One `@@` block. Starts are 1-based line numbers (0 for an empty side); lines keep their endings."""

    old_start: int
    old: tuple[bytes, ...]
    new_start: int
    new: tuple[bytes, ...]
    leading: int
    """Context lines before the first change."""
    trailing: int
    """Context lines after the last change."""

    def side(self, way: Way) -> tuple[int, tuple[bytes, ...], int, tuple[bytes, ...]]:
        """(start, expected lines, start afterwards, replacement lines) when read `way`."""
        if way is Way.FORWARD:
            return self.old_start, self.old, self.new_start, self.new
        return self.new_start, self.new, self.old_start, self.old


@dataclass(frozen=True)
class FileChange:
    """What a patch does to one file. An absent side (created, deleted file) is False."""

    path: str
    hunks: tuple[Hunk, ...]
    before: bool = True
    after: bool = True


@dataclass(frozen=True)
class Landed:
    """Where one hunk landed: its first changed line in the file as it was (1-based), and the offset git reports."""

    path: str
    line: int
    offset: int


@dataclass(frozen=True)
class Applied:
    """Every hunk fitted: the files afterwards (None = removed) and where the hunks landed."""

    files: dict[str, bytes | None]
    landed: tuple[Landed, ...]


@dataclass(frozen=True)
class Misfit:
    """The first hunk that does not fit: what it expects, and what the nearest place in the tree has."""

    path: str
    line: int | None
    expects: str
    has: str | None
    fit: int = 0
    """How many bytes of the hunk were found there: the larger, the nearer."""


def may_fit(changes: Sequence[FileChange], read: Read, way: Way = Way.FORWARD) -> bool:
    """A test that costs next to nothing: False means `apply_changes` would end in a Misfit."""
    for change in changes:
        data = read(change.path)
        before = change.before if way is Way.FORWARD else change.after
        if (data is not None) != before:
            return False
        text = (data or b"").replace(b"\r\n", b"\n")
        if not all(b"".join(hunk.side(way)[1]) in text for hunk in change.hunks):
            return False
    return True


def apply_changes(changes: Sequence[FileChange], read: Read, way: Way = Way.FORWARD) -> Applied | Misfit:
    """Apply all of `changes` to the files `read` gives, or none of them."""
    files: dict[str, bytes | None] = {}
    landed: list[Landed] = []
    for change in changes:
        data = files[change.path] if change.path in files else read(change.path)
        result = _apply_file(change, data, way)
        if isinstance(result, Misfit):
            return result
        files[change.path] = result.files[change.path]
        landed.extend(result.landed)
    return Applied(files, tuple(landed))


def _apply_file(change: FileChange, data: bytes | None, way: Way) -> Applied | Misfit:
    before, after = (change.before, change.after) if way is Way.FORWARD else (change.after, change.before)
    if data is None and before:
        return Misfit(change.path, None, "this file", None)
    if data is not None and not before:
        return Misfit(change.path, 1, "no such file yet", _shown(data.split(b"\n")[0]))
    crlf = _is_crlf(data or b"")
    lines = _lines((data or b"").replace(b"\r\n", b"\n") if crlf else data or b"")
    settled: list[bool] = [False] * len(lines)
    landed: list[Landed] = []
    grown = 0
    for hunk in change.hunks:
        at = _place(hunk, lines, settled, way)
        if at is None:
            return _misfit(change.path, hunk, lines, way)
        _, old, new_start, new = hunk.side(way)
        landed.append(Landed(change.path, at - grown + hunk.leading + 1, at + 1 - max(new_start, 1)))
        lines[at : at + len(old)] = new
        settled[at : at + len(old)] = [True] * len(new)
        grown += len(new) - len(old)
    if not after:
        return Applied({change.path: None}, tuple(landed)) if not lines else _leftover(change, lines)
    result = b"".join(lines)
    return Applied({change.path: result.replace(b"\n", b"\r\n") if crlf else result}, tuple(landed))


def _place(hunk: Hunk, lines: list[bytes], settled: list[bool], way: Way) -> int | None:
    start, old, new_start, _ = hunk.side(way)
    at_start = start <= 1  # a hunk cut at the top of a file belongs to the top, wherever else it might fit
    at_end = hunk.trailing == 0
    if at_start:
        first = 0
    elif at_end:
        first = len(lines) - len(old)
    else:
        first = max(new_start, 1) - 1
    for at in _outwards(first if 0 <= first <= len(lines) else len(lines), len(lines)):
        if (at_start and at) or (at_end and at + len(old) != len(lines)):
            continue
        if lines[at : at + len(old)] == list(old) and not any(settled[at : at + len(old)]):
            return at
    return None


def _outwards(first: int, last: int) -> Iterator[int]:
    """`first`, then one after, one before, two after, two before ... within 0..last."""
    yield first
    for step in range(1, max(first, last - first) + 1):
        if first + step <= last:
            yield first + step
        if first - step >= 0:
            yield first - step


def _misfit(path: str, hunk: Hunk, lines: list[bytes], way: Way) -> Misfit:
    _, old, _, _ = hunk.side(way)
    at = max(range(max(len(lines) - len(old), 0) + 1), key=lambda i: _agreement(old, lines, i), default=0)
    for i, expected in enumerate(old):
        found = lines[at + i] if at + i < len(lines) else None
        if found != expected:
            has = None if found is None else _shown(found)
            return Misfit(path, at + i + 1, _shown(expected), has, _agreement(old, lines, at))
    shown = _shown(old[0]) if old else "an empty file"
    return Misfit(path, at + 1, shown, "the same lines, in a place where this hunk may not go")


def _agreement(old: tuple[bytes, ...], lines: list[bytes], at: int) -> int:
    return sum(len(line) for line, found in zip(old, lines[at : at + len(old)], strict=False) if line == found)


def _leftover(change: FileChange, lines: list[bytes]) -> Misfit:
    return Misfit(change.path, 1, "nothing else in a file to be removed", _shown(lines[0]))


def _is_crlf(data: bytes) -> bool:
    return b"\r\n" in data and data.count(b"\r\n") == data.count(b"\n")


def _lines(data: bytes) -> list[bytes]:
    lines = data.split(b"\n")
    ended = [line + b"\n" for line in lines[:-1]]
    return [*ended, lines[-1]] if lines[-1] else ended


def _shown(line: bytes) -> str:
    return line.rstrip(b"\n").decode("utf-8", "backslashreplace")
