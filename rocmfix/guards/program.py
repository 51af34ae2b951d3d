"""The Python side of a tree as a searchable whole: files are parsed only when a question needs them."""

from __future__ import annotations

import contextlib
import gc
import re
from collections.abc import Iterator
from functools import cached_property, lru_cache

from rocmfix.guards.families import Families
from rocmfix.guards.pieces import holds
from rocmfix.guards.pyfacts import Binding, Scope, Use
from rocmfix.guards.pysource import PySource, dotted
from rocmfix.tree import PACKAGE, Tree

_NOT_RUNTIME = re.compile(r"/(?:tests?|benchmarks?|test_utils)/|/(?:test_|bench_|conftest)[^/]*$|/__main__\.py$")
_ENTRY = re.compile(
    r"/srt/(?:models|managers|entrypoints|model_executor|speculative)/|/runtime/(?:models|pipelines\w*)/"
)
"""Models are imported by folder and chosen by the checkpoint; the others are the server itself."""
_IMPORT = re.compile(rb"import\s*(\((?:[^)#]|#[^\n]*)*\)|(?:[^\n\\]|\\\r?\n)+)")
_WORD = re.compile(rb"\w+|\*")
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
        self._near: dict[str, tuple[str, ...]] = {}
        self.broken: dict[str, str] = {}
        """Files that some question had to read and that are no valid Python, with the line and what is wrong there."""
        self.shown = tree.shown

    def source(self, path: str) -> PySource:
        """The file at `path`, parsed."""
        if path not in self._parsed:
            with uncollected():
                self._parsed[path] = PySource(path, self._texts[path].decode("utf-8-sig", "replace"), self.broken)
        return self._parsed[path]

    @property
    def unread(self) -> tuple[str, ...]:
        """The broken files for people, `file:line: why`."""
        return tuple(f"{self.shown(path)}:{why}" for path, why in sorted(self.broken.items()))

    def untold(self, *words: str) -> Iterator[str]:
        """Why it cannot be told who uses what `words` name: a broken file spells one of them."""
        for path, why in self.broken.items():
            if any(holds(self._texts[path], word.encode()) for word in words):
                yield f"{self.shown(path)}:{why}: no valid Python, and it names {' or '.join(words)}"

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

    def holding(self, word: str) -> Iterator[str]:
        """Every file in which the identifier `word` occurs, anywhere, strings and comments too."""
        asked = word.encode()
        return (path for path, text in self._texts.items() if holds(text, asked))

    def heirs(self, name: str) -> Iterator[tuple[PySource, str]]:
        """The classes that inherit from the class `name`, and where each is."""
        for heir in sorted(self.families.heirs(name) - {name}):
            for path in self.families.places([heir]):
                yield self.source(path), heir

    def references(self, module: str, name: str, *, entries: bool) -> Iterator[tuple[PySource, Binding | None, Use]]:
        """Every read of `name` of `module` in entries, or elsewhere in the tree, with the import that brought it in."""
        for path in self._importing(module, name, entries=entries):
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

    def importers(self, module: str, *, entries: bool) -> Iterator[tuple[PySource, Binding]]:
        """Every import of `module` or of something in it, by entries or elsewhere."""
        for path in self._candidates(module, module.rpartition(".")[2], entries=entries):
            source = self.source(path)
            yield from ((source, bound) for bound in self._module_bindings(source, module))
            yield from ((source, bound) for bound in source.imports_from(module))

    def _module_bindings(self, source: PySource, module: str) -> Iterator[Binding]:
        for bound in source.imports(module.rpartition(".")[2]):
            if _names_module(bound, module):
                yield bound
        for bound in source.imports(module):
            yield bound

    def _importing(self, module: str, name: str, *, entries: bool) -> Iterator[str]:
        """Files that may import `name` of `module`, the module, or all that is in it."""
        words = (name, module.rpartition(".")[2], "*")
        some = frozenset().union(*(self._imported.get(word.encode(), ()) for word in words))
        return (path for path in self._around(module) if path in some and (path in self._entries) is entries)

    def _candidates(self, module: str, word: str, *, entries: bool) -> Iterator[str]:
        """Files that spell `module` or a package around it, and `word`."""
        asked = word.encode()
        around = self._around(module)
        return (path for path in around if (path in self._entries) is entries and holds(self._texts[path], asked))

    @cached_property
    def _entries(self) -> frozenset[str]:
        return frozenset(filter(is_entry, self._texts))

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
    def _imported(self) -> dict[bytes, set[str]]:
        """By every word of an import, those who have it."""
        importing: dict[bytes, set[str]] = {}
        for path, text in self._texts.items():
            for word in set(_WORD.findall(b" ".join(_IMPORT.findall(text)))):
                importing.setdefault(word, set()).add(path)
        return importing

    @cached_property
    def families(self) -> Families:
        """Which classes of the tree inherit from which."""
        return Families(self._texts)

    @cached_property
    def _by_dotted(self) -> dict[str, str]:
        return {dotted(path): path for path in self._texts}


def is_entry(path: str) -> bool:
    """Whether what stands in the file at `path` runs on every platform."""
    return _ENTRY.search(path) is not None


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
