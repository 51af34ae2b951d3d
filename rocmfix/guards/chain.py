"""Follows `#include` from file to file of one tree, with the macros each file leaves to the next."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from rocmfix.guards.conditionals import Conditionals, Macros, Maybe, Step
from rocmfix.guards.directives import Directive, directives
from rocmfix.tree import PACKAGE, Tree

SUFFIXES = (".cuh", ".cu", ".h", ".hpp", ".hip", ".cpp", ".cc", ".inl")
_DEEPEST = 60
"""Deeper include chains are a cycle without a guard."""


@dataclass(frozen=True, slots=True)
class Hop:
    """One `#include` line that was followed."""

    file: str
    line: int


@dataclass(frozen=True, slots=True)
class Inclusion:
    """One `#include` met while compiling a file, directly or through its headers."""

    hop: Hop
    name: str
    found: str | None
    """The file of the tree it names; None when it is not the tree's."""
    active: Maybe
    condition: str
    via: tuple[Hop, ...]
    """The lines that lead from the compiled file to this one; empty for its own lines."""


class Sources:
    """The C++ files of a tree, read once, and the search for headers among them."""

    def __init__(self, tree: Tree, under: str = PACKAGE) -> None:
        self._tree = tree
        self._under = under
        self._lines: dict[str, tuple[Directive, ...]] = {}
        self._texts: dict[str, str] = {}
        self._found: dict[tuple[str, str, bool], str | None] = {}

    @cached_property
    def files(self) -> tuple[str, ...]:
        """Every C++ file, sorted."""
        return tuple(path for path in self._tree.paths(self._under) if path.endswith(SUFFIXES))

    @cached_property
    def kernel_roots(self) -> tuple[str, ...]:
        """Folders with both `csrc` and `include`: where upstream's own loader looks for its sources.

        jit_kernel/utils.py `_resolve_kernel_path`, kernels/jit/utils/compile/paths.py from 0.5.17.
        """
        csrc, include = (
            {path[: path.index(part)] for path in self.files if part in path} for part in ("/csrc/", "/include/")
        )
        return tuple(sorted(csrc & include))

    def shown(self, path: str) -> str:
        """`path` as the tree spells it."""
        return self._tree.shown(path)

    def text(self, path: str) -> str:
        """The file's text; empty when the tree has no such file."""
        if path not in self._texts:
            self._texts[path] = (self._tree.read(path) or b"").decode("utf-8", "replace")
        return self._texts[path]

    def directives(self, path: str) -> tuple[Directive, ...]:
        """The file's preprocessor lines."""
        if path not in self._lines:
            self._lines[path] = directives(self.text(path))
        return self._lines[path]

    def resolve(self, name: str, includer: str, *, quoted: bool) -> str | None:
        """The file of the tree that `#include name` in `includer` means.

        As a compiler searches: beside the includer when quoted, then the kernels' include folders. A loader may add
        folders of its own (`extra_include_paths`); they are stood in for by the nearest file that ends in `name`.
        """
        key = (name, posixpath.dirname(includer), quoted)
        if key not in self._found:
            self._found[key] = self._search(*key)
        return self._found[key]

    def _search(self, name: str, folder: str, quoted: bool) -> str | None:  # noqa: FBT001 - one search key
        folders = ((folder,) if quoted else ()) + tuple(f"{root}/include" for root in self.kernel_roots)
        for candidate in (posixpath.normpath(posixpath.join(where, name)) for where in folders):
            if candidate in self.known:
                return candidate
        ending = "/" + name
        others = [path for path in self._by_name.get(posixpath.basename(name), ()) if path.endswith(ending)]
        near = [path for path in others if path.startswith(_top(folder))]
        return max(near, key=lambda path: len(posixpath.commonpath((path, folder))), default=None)

    @cached_property
    def known(self) -> frozenset[str]:
        """The same as a set."""
        return frozenset(self.files)

    @cached_property
    def _by_name(self) -> dict[str, list[str]]:
        names: dict[str, list[str]] = {}
        for path in self.files:
            names.setdefault(posixpath.basename(path), []).append(path)
        return names


def _top(folder: str) -> str:
    """The folder below the package, such as `python/sglang/jit_kernel`: vendored trees do not mix."""
    return "/".join(folder.split("/")[:3])


def inclusions(sources: Sources, root: str, macros: Macros) -> Iterator[Inclusion]:
    """Every `#include` line met when `root` is compiled where `macros` hold, inactive ones too."""
    yield from _Walk(sources, macros).file(root, ())


@dataclass(frozen=True, slots=True)
class Seen:
    """What compiling one file comes to."""

    macros: dict[str, str | None]
    """The macros defined when it has been read."""
    skipped: tuple[tuple[int, int], ...]
    """Its own lines that conditionals take out, first and last."""


def walk(sources: Sources, root: str, macros: Macros) -> Seen:
    """Read `root` and its headers where `macros` hold."""
    reading = _Walk(sources, macros)
    for _ in reading.file(root, ()):
        pass
    return Seen(reading.state.macros, skipped(sources, root, reading.state.macros))


def skipped(sources: Sources, path: str, macros: Macros) -> tuple[tuple[int, int], ...]:
    """The lines of `path` that conditionals take out, given what its headers have defined."""
    guard = _own_guard(sources.directives(path))
    reading = Conditionals({name: body for name, body in macros.items() if name != guard})
    return tuple(reading.gaps(sources.directives(path)))


def _own_guard(lines: tuple[Directive, ...]) -> str | None:
    """The macro that keeps the file from being read twice: asked for in the first line, defined in the second."""
    if len(lines) < 2 or lines[1].name != "define":
        return None
    asked = _NOT_DEFINED.fullmatch(f"{lines[0].name} {lines[0].rest}")
    defined = lines[1].rest.split(None, 1)[:1]
    return asked[1] if asked and [asked[1]] == defined else None


_NOT_DEFINED: Final = re.compile(r"(?:ifndef|if\s*!\s*defined\s*\(?)\s*(\w+)\s*\)?")


class _Walk:
    def __init__(self, sources: Sources, macros: Macros) -> None:
        self.state = Conditionals(macros)
        self._sources = sources
        self._once: set[str] = set()

    def file(self, path: str, via: tuple[Hop, ...]) -> Iterator[Inclusion]:
        if path in self._once or len(via) > _DEEPEST:
            return
        for step in self.state.steps(self._sources.directives(path)):
            if step.directive.name == "pragma" and step.directive.rest.startswith("once") and step.active:
                self._once.add(path)
            elif step.directive.name in {"include", "include_next", "import"}:
                yield from self._include(step, path, via)

    def _include(self, step: Step, path: str, via: tuple[Hop, ...]) -> Iterator[Inclusion]:
        name = step.directive.included or self._computed(step.directive.rest)
        if name is None:
            return
        hop = Hop(path, step.directive.line)
        found = self._sources.resolve(name, path, quoted=step.directive.quoted)
        yield Inclusion(hop, name, found, step.active, step.condition, via)
        if found is not None and step.active is not False:
            yield from self.file(found, (*via, hop))

    def _computed(self, rest: str) -> str | None:
        """The name in `#include MACRO`, when the macro is a plain header name."""
        body = self.state.macros.get(rest.strip())
        return body[1:-1] if body and body[:1] in '<"' and body[-1:] in '>"' else None
