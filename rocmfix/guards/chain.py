"""Follows `#include` from file to file of one tree, with the macros each file leaves to the next."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from rocmfix.guards.conditionals import Conditionals, Macros, Maybe, Step
from rocmfix.guards.directives import Directive, directives
from rocmfix.tree import PACKAGE, Tree

SUFFIXES = (".cuh", ".cu", ".h", ".hpp", ".hip", ".cpp", ".cc", ".inl")
_MOST_WITHIN_ITSELF = 200
"""A compiler's own limit for includes within includes: a file that is read inside itself that often never ends."""


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
    return _Walk(sources, root, macros).inclusions()


@dataclass(frozen=True, slots=True)
class Seen:
    """What compiling one file comes to."""

    macros: dict[str, str | None]
    """The macros defined when it has been read."""
    gaps: dict[str, list[tuple[int, int]]]
    """By file that is read, itself and its headers: the lines that conditionals take out, first and last."""


def walk(sources: Sources, root: str, macros: Macros) -> Seen:
    """Read `root` and its headers where `macros` hold."""
    reading = _Walk(sources, root, macros)
    for _ in reading.inclusions():
        pass
    return Seen(reading.state.macros, reading.gaps)


@dataclass(slots=True)
class _Reading:
    """A file that has been begun, from its first line to its last."""

    path: str
    via: tuple[Hop, ...]
    steps: Iterator[Step]
    changes: int
    """How often macros had changed when it was begun."""


class _Walk:
    def __init__(self, sources: Sources, root: str, macros: Macros) -> None:
        self.state = Conditionals(macros)
        self.gaps: dict[str, list[tuple[int, int]]] = {}
        self._sources = sources
        self._once: set[str] = set()
        self._open: list[_Reading] = []
        self._begin(root, ())

    def inclusions(self) -> Iterator[Inclusion]:
        """Headers within headers are kept on a list: a chain may be longer than calls can be nested."""
        while self._open:
            reading = self._open[-1]
            step = next(reading.steps, None)
            if step is None:
                self._open.pop()
            elif step.directive.name == "pragma" and step.directive.rest.startswith("once") and step.active:
                self._once.add(reading.path)
            elif step.directive.name in {"include", "include_next", "import"} and (met := self._met(step, reading)):
                yield met
                if met.found is not None and met.active is not False:
                    self._begin(met.found, (*met.via, met.hop))

    def _begin(self, path: str, via: tuple[Hop, ...]) -> None:
        within = [each for each in self._open if each.path == path]
        if len(within) > _MOST_WITHIN_ITSELF:
            self._open.clear()
        elif path not in self._once and not (within and within[-1].changes == self.state.changes):
            again = path in self.gaps  # what a first reading takes out is what a guard against a second one leaves
            steps = self.state.steps(self._sources.directives(path), None if again else self.gaps.setdefault(path, []))
            self._open.append(_Reading(path, via, steps, self.state.changes))

    def _met(self, step: Step, reading: _Reading) -> Inclusion | None:
        name = step.directive.included or self._computed(step.directive.rest)
        if name is None:
            return None
        hop = Hop(reading.path, step.directive.line)
        found = self._sources.resolve(name, reading.path, quoted=step.directive.quoted)
        return Inclusion(hop, name, found, step.active, step.condition, reading.via)

    def _computed(self, rest: str) -> str | None:
        """The name in `#include MACRO`, when the macro is a plain header name."""
        body = self.state.macros.get(rest.strip())
        return body[1:-1] if body and body[:1] in '<"' and body[-1:] in '>"' else None
