"""Finds the Python calls that have a C++ file compiled when the server runs, and which files they name."""

from __future__ import annotations

import ast
import posixpath
import re
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import translate
from functools import lru_cache
from typing import Final

from rocmfix.guards.chain import SUFFIXES, Sources
from rocmfix.guards.program import Program, within
from rocmfix.guards.pyfacts import Use
from rocmfix.guards.pysource import PySource

_KEYWORDS: Final = ("cuda_files", "cpp_files", "sources")
"""What sglang's load_jit and torch's cpp_extension.load call the list of files."""


_FILE_NAME = re.compile(rb"\.(?:cuh?|hip|cpp|cc)[\"']")


@dataclass(frozen=True, slots=True)
class Loader:
    """One call that compiles files."""

    source: PySource
    use: Use
    files: tuple[str, ...]
    """Files of the tree; more than one where the name is put together at run time."""


def loaders(program: Program, sources: Sources) -> Iterator[Loader]:
    """Every loader call of the tree that names a file of the tree."""
    paths = dict.fromkeys(path for word in _KEYWORDS for path in program.holding(word))
    for path in paths:
        if not program.spells(path, _FILE_NAME):
            continue
        source = program.source(path)
        for use in source.calls(_KEYWORDS):
            files = tuple(sorted(_files(use, source, sources)))
            if files:
                yield Loader(source, use, files)


def keyword(call: ast.Call, name: str) -> ast.expr | None:
    """The value passed as `name`."""
    return next((given.value for given in call.keywords if given.arg == name), None)


def _files(use: Use, source: PySource, sources: Sources) -> set[str]:
    if use.call is None:
        return set()
    named = [value for name in _KEYWORDS if (value := keyword(use.call, name)) is not None]
    patterns = {text for value in named for text in _names(value, source, use, 4)}
    return {file for pattern in patterns for file in _matching(pattern, source.path, sources)}


def _names(node: ast.expr, source: PySource, use: Use, hops: int) -> Iterator[str]:
    """Every file name or pattern that `node` can stand for."""
    match node:
        case ast.Constant(value=str(text)):
            if text.endswith(SUFFIXES):
                yield text
        case ast.JoinedStr():
            text = "".join(str(part.value) if isinstance(part, ast.Constant) else "*" for part in node.values)
            if text.endswith(SUFFIXES):
                yield text
        case ast.Name(id=name):
            for one in source.assigned(name, use.scope) if hops else ():
                if within(use.scope, one.scope):
                    yield from _names(one.value, source, use, hops - 1)
        case _:
            for child in ast.iter_child_nodes(node):
                if isinstance(child, ast.expr):
                    yield from _names(child, source, use, hops)


def _matching(pattern: str, loader: str, sources: Sources) -> Iterator[str]:
    beside = posixpath.normpath(posixpath.join(posixpath.dirname(loader), pattern.lstrip("*/")))
    exact = (beside, *(f"{root}/csrc/{pattern}" for root in sources.kernel_roots))
    direct = [path for path in exact if path in sources.known]
    if direct:
        yield direct[0]
        return
    ending = _ending(pattern.lstrip("./"))
    yield from (path for path in sources.files if ending.search(path))


@lru_cache(maxsize=1024)
def _ending(pattern: str) -> re.Pattern[str]:
    """Matches paths that end in the pattern; a `*` stands for part of one name."""
    return re.compile("(?:^|/)" + translate(pattern).replace(".*", "[^/]*"))
