"""A source tree as a question-and-answer object: ask for a path, get the bytes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

PACKAGE = "python/sglang"
"""Where upstream's repository keeps the package. Catalogue paths are repository paths."""


class Tree(Protocol):
    """An sglang or aiter source tree, wherever it lies: checkout, wheel, site-packages, git ref, image.

    Paths are repository paths (`python/sglang/srt/...`, `aiter/jit/core.py`); a tree with another layout
    translates them. Reading never executes anything.
    """

    @property
    def source(self) -> str:
        """What the user typed, or where it came from: for messages only."""

    @property
    def release(self) -> str | None:
        """The release the tree *claims* to be. A label: no verdict may depend on it."""

    def read(self, path: str) -> bytes | None:
        """The bytes of the file at `path`, or None if the tree has no such regular file."""

    def shown(self, path: str) -> str:
        """`path` as this tree spells it, such as `sglang/srt/...` in a wheel."""

    def paths(self, under: str) -> Iterable[str]:
        """Every regular file below the folder `under`, sorted, as repository paths."""


@dataclass(frozen=True)
class MemoryTree:
    """A tree held in memory: for tests, for patched results, and for overlaying changes on another tree."""

    files: Mapping[str, bytes] = field(default_factory=dict)
    source: str = "memory"
    release: str | None = None

    def read(self, path: str) -> bytes | None:
        return self.files.get(path)

    def shown(self, path: str) -> str:
        return path

    def paths(self, under: str) -> Iterable[str]:
        prefix = under.rstrip("/") + "/" if under else ""
        return sorted(path for path in self.files if path.startswith(prefix))


@dataclass(frozen=True)
class Overlay:
    """A tree with some files changed (bytes) or removed (None); the tree below stays as it is."""

    below: Tree
    changes: Mapping[str, bytes | None]

    @property
    def source(self) -> str:
        return self.below.source

    @property
    def release(self) -> str | None:
        return self.below.release

    def read(self, path: str) -> bytes | None:
        return self.changes[path] if path in self.changes else self.below.read(path)

    def shown(self, path: str) -> str:
        return self.below.shown(path)

    def paths(self, under: str) -> Iterable[str]:
        prefix = under.rstrip("/") + "/" if under else ""
        changed = {path for path, data in self.changes.items() if data is not None and path.startswith(prefix)}
        kept = {path for path in self.below.paths(under) if path not in self.changes}
        return sorted(kept | changed)
