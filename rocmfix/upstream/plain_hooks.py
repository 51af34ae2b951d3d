"""The checks of https://github.com/pre-commit/pre-commit-hooks that need no program: what each says of one file. Pure.

A check is given the file before too (None: it is new), for what is wrong with new files only.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator

Check = Callable[[str, "bytes | None", bytes], Iterator[str]]

_LARGE = 500 << 10
_DEBUGGERS = frozenset({"bpdb", "ipdb", "pdb", "pdbr", "pudb", "pydevd_pycharm", "q", "rdb", "rpdb", "wdb"})
_KEY = re.compile(rb"-----BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY-----|PuTTY-User-Key-File-2")


def trailing_whitespace(path: str, _: bytes | None, data: bytes) -> Iterator[str]:
    """Blanks at the end of a line."""
    for number, line in enumerate(data.decode("utf-8", "replace").split("\n"), 1):
        if line != line.rstrip():
            yield f"{path}:{number}: blanks at the end of {line.strip()!r}"


def end_of_file(path: str, _: bytes | None, data: bytes) -> Iterator[str]:
    """A file ends with one newline, or is empty."""
    if data and (not data.endswith(b"\n") or data.endswith(b"\n\n")):
        yield f"{path}: does not end with one newline"


def parses(path: str, _: bytes | None, data: bytes) -> Iterator[str]:
    """It is Python."""
    try:
        ast.parse(data)
    except (SyntaxError, ValueError) as error:
        yield f"{path}: {error}"


def merge_conflict(path: str, _: bytes | None, data: bytes) -> Iterator[str]:
    """What git writes into a file that it could not merge."""
    for number, line in enumerate(data.split(b"\n"), 1):
        if line.startswith((b"<<<<<<< ", b">>>>>>> ")):
            yield f"{path}:{number}: a conflict mark"


def debug_statements(path: str, _: bytes | None, data: bytes) -> Iterator[str]:
    """An import of a debugger, or a breakpoint; a file that does not parse is another check's."""
    try:
        nodes = list(ast.walk(ast.parse(data)))
    except (SyntaxError, ValueError):
        return
    for node in nodes:
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        called = node.func.id if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) else ""
        if called == "breakpoint" or {name.partition(".")[0] for name in names} & _DEBUGGERS:
            yield f"{path}:{getattr(node, 'lineno', 0)}: {ast.unparse(node)}"


def private_key(path: str, _: bytes | None, data: bytes) -> Iterator[str]:
    """A private key."""
    if _KEY.search(data):
        yield f"{path}: a private key"


def large_file(path: str, before: bytes | None, data: bytes) -> Iterator[str]:
    """A new file of more than 500 KB."""
    if before is None and len(data) > _LARGE:
        yield f"{path}: {len(data) >> 10} KB"


def shebang(path: str, before: bytes | None, data: bytes) -> Iterator[str]:
    """A new script: patches make new files that are not executable."""
    if before is None and data.startswith(b"#!"):
        yield f"{path}: a script that is not executable"


def protected_branch(_: str, __: bytes | None, ___: bytes) -> Iterator[str]:
    """Never wrong: the branches made here are called amd/FIX."""
    yield from ()


CHECKS: dict[str, Check] = {
    "trailing-whitespace": trailing_whitespace,
    "end-of-file-fixer": end_of_file,
    "check-ast": parses,
    "check-merge-conflict": merge_conflict,
    "debug-statements": debug_statements,
    "detect-private-key": private_key,
    "check-added-large-files": large_file,
    "check-shebang-scripts-are-executable": shebang,
    "no-commit-to-branch": protected_branch,
}
"""By pre-commit's id."""

LINKS = frozenset({"check-symlinks", "destroyed-symlinks"})
"""About symbolic links, which no patch of ours touches."""


def news(check: Check, path: str, before: bytes | None, after: bytes) -> Iterator[str]:
    """What a check says of the file now and did not say before the change."""
    old = {line.partition(": ")[2] for line in check(path, before, before)} if before is not None else set()
    yield from (line for line in check(path, before, after) if line.partition(": ")[2] not in old)
