"""A tree at a ref of a git repository, read object by object without a checkout."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from rocmfix.errors import SourceError
from rocmfix.source.layout import PROJECTS, Layout, layout_of
from rocmfix.source.remote import Remote
from rocmfix.source.spec import GitSpec
from rocmfix.system.files import Copied
from rocmfix.system.git import GitError
from rocmfix.system.repo import EXECUTABLE, LINK, Blobs, Entry

_SOURCES = (".py", ".cuh", ".cu", ".h", ".hpp", ".hip", ".cpp", ".cc", ".inc", ".csv")
"""Text, some ten megabytes of a project; what is left out (compiled kernels, pictures) is a hundred times that."""


@dataclass(frozen=True)
class GitTree:
    """The project at one commit. The first source file that is read brings all others of its top folder with it."""

    remote: Remote
    commit: str
    entries: Mapping[str, Entry]
    layout: Layout
    source: str
    release: str | None
    blobs: Blobs

    def read(self, path: str) -> bytes | None:
        located = self.layout.locate(path)
        return None if located is None else self._follow(located, links=8)

    def _follow(self, path: str, *, links: int) -> bytes | None:
        entry = self.entries.get(path)
        if entry is None:
            return None
        if entry.blob not in self.remote.present:
            self.remote.need(self._together(path))
        data = self.blobs.read(entry.blob)
        if entry.mode != LINK or data is None:
            return data
        target = posixpath.normpath(posixpath.join(posixpath.dirname(path), data.decode("utf-8", "surrogateescape")))
        return self._follow(target, links=links - 1) if links else None

    def shown(self, path: str) -> str:
        return self.layout.locate(path) or path

    def paths(self, under: str) -> tuple[str, ...]:
        folder = self.layout.folder(under)
        if folder is None:
            return ()
        prefix = f"{folder}/" if folder else ""
        found = (name for name, entry in self.entries.items() if name.startswith(prefix) and entry.mode != LINK)
        return tuple(sorted(path for path in map(self.layout.restore, found) if path is not None))

    def _together(self, path: str) -> Iterator[str]:
        """What to fetch for `path`: file by file, each waits for a round trip, and a scan reads thousands."""
        top, below, _ = path.partition("/")
        if not below or not path.endswith(_SOURCES):
            yield self.entries[path].blob
            return
        for name, entry in self.entries.items():
            if name.startswith(f"{top}/") and name.endswith(_SOURCES):
                yield entry.blob

    def copies(self) -> Iterator[Copied]:
        """Everything at the commit, links as links."""
        self.remote.need([entry.blob for entry in self.entries.values()])
        for path, entry in self.entries.items():
            mode = 0o755 if entry.mode == EXECUTABLE else 0o644
            yield Copied(path, self.blobs.read(entry.blob) or b"", mode, is_link=entry.mode == LINK)


def open_git(spec: GitSpec, *, project: str = "sglang", offline: bool = False) -> GitTree:
    """The tree that a git spec names; a ref that is cached and cannot move needs no network."""
    remote = Remote.at(spec, offline=offline)
    try:
        commit = remote.commit(spec.ref)
        entries = remote.repo.entries(commit)
    except GitError as error:
        raise SourceError(f"cannot read {spec.source}: {error.message}", details=error.details) from error
    layout = layout_of(PROJECTS[project], _folders(entries).__contains__)
    if layout is None:
        raise SourceError(f"{spec.source} ({commit[:12]}) holds no {project}")
    return GitTree(remote, commit, entries, layout, spec.source, remote.release(commit, spec.ref), Blobs(remote.repo))


def _folders(paths: Iterable[str]) -> frozenset[str]:
    parts = (path.split("/") for path in paths)
    return frozenset("/".join(words[:depth]) for words in parts for depth in range(1, min(len(words), 3)))
