"""The Python side of a tree as a searchable whole: files are parsed only when a question needs them."""

from __future__ import annotations

import bisect
import contextlib
import gc
import re
from collections.abc import Iterator
from functools import cached_property, lru_cache

from rocmfix.guards.pyfacts import Binding, Scope, Use
from rocmfix.guards.pysource import PySource, dotted
from rocmfix.tree import PACKAGE, Tree

_NOT_RUNTIME = re.compile(r"/(?:tests?|benchmarks?|test_utils)/|/(?:test_|bench_|conftest)[^/]*$|/__main__\.py$")
_MODULE = re.compile(rb"sglang(?:\.\w+)+")


@contextlib.contextmanager
def uncollected() -> Iterator[None]:
    """No garbage collection in here: syntax trees are all live objects, and walking them again and again only costs."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.freeze()  # to and fro: all that was made counts as old, or the first collection would walk it
            gc.unfreeze()
            gc.enable()


class Program:
    """Every `.py` file that a server runs; tests and benchmarks are left out."""

    def __init__(self, tree: Tree, under: str = PACKAGE) -> None:
        self._texts = {
            path: data
            for path in tree.paths(under)
            if path.endswith(".py") and not _NOT_RUNTIME.search(path) and (data := tree.read(path)) is not None
        }
        self._parsed: dict[str, PySource] = {}
        self._holding: dict[str, tuple[str, ...]] = {}
        self._near: dict[str, tuple[str, ...]] = {}
        self.shown = tree.shown

    def source(self, path: str) -> PySource:
        """The file at `path`, parsed."""
        if path not in self._parsed:
            with uncollected():
                self._parsed[path] = PySource(path, self._texts[path].decode("utf-8", "replace"))
        return self._parsed[path]

    def below(self, folder: str) -> tuple[str, ...]:
        """The files in `folder`."""
        return tuple(path for path in self._texts if path.startswith(folder + "/"))

    def spells(self, path: str, pattern: re.Pattern[bytes]) -> bool:
        """Whether the text at `path` has `pattern`: cheaper than parsing it."""
        return pattern.search(self._texts[path]) is not None

    def module(self, name: str) -> PySource | None:
        """The module `name`, if the tree has it."""
        path = self._by_dotted.get(name)
        return self.source(path) if path else None

    def holding(self, word: str) -> tuple[str, ...]:
        """Every file in which the identifier `word` occurs, anywhere, strings and comments too."""
        if word not in self._holding:
            self._holding[word] = tuple(dict.fromkeys(self._occurrences(word.encode())))
        return self._holding[word]

    def references(self, module: str, name: str) -> Iterator[tuple[PySource, Binding | None, Use]]:
        """Every read of `name` of `module` elsewhere in the tree, with the import that brought it in."""
        for path in self._candidates(module, name.encode()):
            source = self.source(path)
            for bound in source.imports(name):
                if bound.symbol == name and related(bound.module, module):
                    yield from ((source, bound, use) for use in _uses(source, bound))
            for bound in self._module_bindings(source, module):
                yield from (
                    (source, bound, use)
                    for use in source.uses(name)
                    if use.base.split(".")[0] == bound.name and within(use.scope, bound.scope)
                )

    def importers(self, module: str) -> Iterator[tuple[PySource, Binding]]:
        """Every import of `module` or of something in it."""
        for path in self._candidates(module, module.rpartition(".")[2].encode()):
            source = self.source(path)
            yield from ((source, bound) for bound in self._module_bindings(source, module))
            yield from ((source, bound) for bound in source.imports_from(module))

    def _module_bindings(self, source: PySource, module: str) -> Iterator[Binding]:
        for bound in source.imports(module.rpartition(".")[2]):
            if _names_module(bound, module):
                yield bound
        for bound in source.imports(module):
            yield bound

    def _candidates(self, module: str, word: bytes) -> tuple[str, ...]:
        """Files that spell `module` or a package around it, and `word`; those parsed already come first."""
        whole = re.compile(rb"\b%s\b" % re.escape(word))
        found = [path for path in self._around(module) if word in self._texts[path] and self.spells(path, whole)]
        return tuple(sorted(found, key=lambda path: path not in self._parsed))

    def _around(self, module: str) -> tuple[str, ...]:
        if module not in self._near:
            names = [module.rsplit(".", n)[0] for n in range(module.count("."))]
            spelled = {path for name in names for path in self._spelling.get(name, ())}
            spelled.update(path for path in self._spelling.get(".", ()) if related(_package(path), module))
            spelled.discard(self._by_dotted.get(module, ""))
            self._near[module] = tuple(sorted(spelled))
        return self._near[module]

    @cached_property
    def _spelling(self) -> dict[str, list[str]]:
        """By module name, the files that spell it; `.` for relative imports."""
        spelling: dict[str, list[str]] = {}
        for path, data in self._texts.items():
            for word in set(_MODULE.findall(data)):
                spelling.setdefault(word.decode(), []).append(path)
            if b"from ." in data:
                spelling.setdefault(".", []).append(path)
        return spelling

    @cached_property
    def _by_dotted(self) -> dict[str, str]:
        return {dotted(path): path for path in self._texts}

    @cached_property
    def _blob(self) -> tuple[bytes, list[int], list[str]]:
        starts, paths, at = [], [], 0
        for path, data in self._texts.items():
            starts.append(at)
            paths.append(path)
            at += len(data) + 1
        return b"\0".join(self._texts.values()), starts, paths

    def _occurrences(self, word: bytes) -> Iterator[str]:
        """One search through everything at once: thousands of small searches cost more than the text."""
        blob, starts, paths = self._blob
        at = blob.find(word)
        while at >= 0:
            index = bisect.bisect_right(starts, at) - 1
            after = starts[index + 1] if index + 1 < len(starts) else len(blob)
            if re.search(rb"\b%s\b" % re.escape(word), self._texts[paths[index]]):
                yield paths[index]
            at = blob.find(word, after)


def related(imported: str, module: str) -> bool:
    """Whether `imported` is `module` or a package around it, which may pass its names on."""
    return module.startswith(imported) and (module + ".").startswith(imported + ".")


def within(scope: Scope, outer: Scope) -> bool:
    """Whether a name bound in `outer` is visible in `scope`."""
    return scope[: len(outer)] == outer


@lru_cache(maxsize=8192)
def _package(path: str) -> str:
    """Three folders around a file: as far as relative imports are followed."""
    return ".".join(path.removeprefix("python/").split("/")[:3])


def _uses(source: PySource, bound: Binding) -> Iterator[Use]:
    for use in source.uses(bound.name):
        if not use.base and within(use.scope, bound.scope) and not source.is_parameter(bound.name, use.scope):
            yield use


def _names_module(bound: Binding, module: str) -> bool:
    return bound.module == module if bound.symbol is None else f"{bound.module}.{bound.symbol}" == module
