"""A tree in a folder: a checkout, an unpacked wheel, site-packages, or the package itself."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from rocmfix.errors import SourceError
from rocmfix.source.layout import PROJECTS, Layout, Project, layout_of
from rocmfix.system import files


@dataclass(frozen=True)
class DirTree:
    """A tree on disk. `locate` gives the path to write to, relative to `root`."""

    root: Path
    layout: Layout
    project: Project
    source: str
    installed: str | None = None
    """The version in the metadata of an installed distribution that lies elsewhere (an editable install)."""

    @cached_property
    def release(self) -> str | None:
        """What the metadata beside the package says, else the package itself, else the checkout's tags."""
        return self._of_metadata() or self.installed or self._of_package() or self._of_tags()

    def locate(self, path: str) -> str | None:
        """The repository path `path` relative to `root`, or None if this tree cannot hold it."""
        located = self.layout.locate(path)
        return located if located is not None and files.is_inside(located) else None

    def shown(self, path: str) -> str:
        return self.locate(path) or path

    def read(self, path: str) -> bytes | None:
        located = self.locate(path)
        if located is None:
            return None
        try:
            return files.read_inside(self.root, located)
        except OSError as error:
            raise SourceError(
                f"cannot read {self.root / located}: {error.strerror or error}",
                hint="give the folder where the files really lie"
                if error.strerror is None
                else "make it readable, or give a copy that is",
            ) from error

    def paths(self, under: str) -> tuple[str, ...]:
        folder = self.layout.folder(under)
        found = files.walk(self.root, folder) if folder is not None else ()
        return tuple(sorted(path for path in map(self.layout.restore, found) if path is not None))

    def copies(self) -> Iterator[files.Copied]:
        """The project's files with the metadata beside them; no bytecode, no `.git`, nobody else's packages."""
        for folder in ("",) if not self.layout.here else (self.project.name, ".rocmfix", *self._metadata()):
            found = files.walk(self.root, folder, links=True)
            yield from files.read_all(self.root, sorted(path for path in found if "/__pycache__/" not in f"/{path}"))

    def _metadata(self) -> tuple[str, ...]:
        return tuple(sorted(path.name for path in self.root.glob(f"{self.project.name}-*.dist-info")))

    def _of_metadata(self) -> str | None:
        if self.layout.here != f"{self.project.name}/":
            return None
        for folder in self._metadata():
            if text := files.read_inside(self.root, f"{folder}/METADATA"):
                return version_of_metadata(text)
        return None

    def _of_package(self) -> str | None:
        for name in ("_version.py", "version.py"):
            if text := self.read(f"{self.project.package}/{name}"):
                return version_of_module(text)
        return None

    def _of_tags(self) -> str | None:
        if not (self.root / ".git").exists():
            return None
        from rocmfix.system import git  # only a checkout needs git, and then only for this label

        return git.describe(self.root)


def root_above(package: Path, project: str) -> Path:
    """The folder to open for a package folder: its checkout if it lies in one, else the folder that holds it."""
    parts = PROJECTS[project].package.split("/")
    checkout = package.parents[len(parts) - 1]
    is_checkout = package.parts[-len(parts) :] == tuple(parts) and (checkout / ".git").exists()
    return checkout if is_checkout else package.parent


def open_folder(root: Path, *, source: str, project: str = "sglang", installed: str | None = None) -> DirTree:
    """The tree in the folder `root`, however it is laid out."""
    wanted = PROJECTS[project]
    layout = layout_of(wanted, lambda folder: (root / folder).is_dir())
    if layout is None:
        raise SourceError(
            f"{root} holds no {project}",
            details=tuple(f"not there: {root / folder}" for folder in _landmarks(wanted)),
            hint="give a checkout, an unpacked wheel, site-packages, or the package folder itself",
        )
    return DirTree(root, layout, wanted, source, installed)


def _landmarks(project: Project) -> Iterator[str]:
    yield from dict.fromkeys((f"{project.package}/", f"{project.name}/", f"{project.landmark}/"))


def version_of_metadata(text: bytes) -> str | None:
    """The `Version:` of a dist-info METADATA file."""
    found = re.search(rb"^Version: *([^\s]{1,64})$", text.partition(b"\n\n")[0], re.MULTILINE)
    return found[1].decode(errors="replace") if found else None


def version_of_module(text: bytes) -> str | None:
    """The version that a `_version.py` written by setuptools-scm, or a plain `version.py`, assigns."""
    found = re.search(rb"^__version__ *=(?: *version *=)? *['\"]([^'\"]{1,64})['\"]", text, re.MULTILINE)
    return found[1].decode(errors="replace") if found else None
