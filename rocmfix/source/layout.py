"""The same tree under other names: how a repository path is spelt in a wheel or an installed package."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class Project:
    """Where a project's repository keeps its package, and a folder that only that package has."""

    package: str
    landmark: str

    @property
    def name(self) -> str:
        return self.package.rpartition("/")[2]


PROJECTS: Final = {"sglang": Project("python/sglang", "srt"), "aiter": Project("aiter", "jit")}


@dataclass(frozen=True)
class Layout:
    """Paths that start with `repository` upstream start with `here` in this tree; no others are in it."""

    repository: str = ""
    here: str = ""

    def locate(self, path: str) -> str | None:
        """The repository path `path` as this tree spells it, or None if it cannot be in this tree."""
        if not path.startswith(self.repository):
            return None
        return self.here + path[len(self.repository) :]

    def restore(self, path: str) -> str | None:
        """The repository path of this tree's `path`, or None if it is not of the project."""
        if not path.startswith(self.here):
            return None
        return self.repository + path[len(self.here) :]

    def folder(self, under: str) -> str | None:
        """The folder to list for what lies below `under`; a layout of the package alone has only its part."""
        under = under.rstrip("/") + "/" if under.strip("/") else ""
        if self.repository.startswith(under):
            return self.here.rstrip("/")
        located = self.locate(under)
        return None if located is None else located.rstrip("/")


def layout_of(project: Project, has_folder: Callable[[str], bool]) -> Layout | None:
    """How a tree is laid out, judged by its folders; None if the project is not in it."""
    if has_folder(project.package):
        return Layout()
    if has_folder(project.name):
        return Layout(f"{project.package}/", f"{project.name}/")
    if has_folder(project.landmark):
        return Layout(f"{project.package}/", "")
    return None
