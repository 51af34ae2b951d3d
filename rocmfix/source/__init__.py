"""Opens a source tree from what a user types: a release, a folder, a wheel, a git ref."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from rocmfix.errors import SourceError
from rocmfix.source.export import export as export
from rocmfix.tree import Tree

if TYPE_CHECKING:
    from rocmfix.source.folder import DirTree

FORMS = """a release (0.5.14), a folder (checkout, unpacked wheel, site-packages), a .whl file, \
git:REF, git:URL@REF, image:REF"""


def open_tree(spec: str, *, offline: bool = False, project: str = "sglang") -> Tree:
    """The tree that `spec` names. A release goes before a folder of the same name (write ./0.5.14 for that)."""
    from rocmfix.releases import as_version

    if spec.startswith("image:"):
        from rocmfix.image.source import open_image

        return open_image(spec.removeprefix("image:"))
    if spec.startswith("git:"):
        from rocmfix.source.gitref import open_git
        from rocmfix.source.spec import parse_git

        return open_git(parse_git(spec.removeprefix("git:"), project), project=project, offline=offline)
    if as_version(spec) and project == "sglang":  # the one whose releases are known
        return open_release(spec, offline=offline, project=project)
    from rocmfix.source.spec import expanded

    path = expanded(spec)
    if spec and _is_folder(path):
        from rocmfix.source.folder import open_folder

        return open_folder(path.absolute(), source=spec, project=project)
    if path.suffix == ".whl":
        from rocmfix.source.wheel import open_wheel

        return open_wheel(path.absolute(), source=spec, project=project)
    if project != "sglang":
        raise SourceError(f"{spec!r} is no folder or wheel", hint=f"give {FORMS.partition(', ')[2]}")
    raise SourceError(f"{spec!r} is no release, folder or wheel", hint=f"give {FORMS}")


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except OSError:  # too long a name, or a folder on the way that may not be entered
        return False


def open_release(version: str, *, offline: bool = False, project: str = "sglang", cache: Path | None = None) -> Tree:
    """The tree of a release, read from its wheel in the cache."""
    from rocmfix.releases import releases

    known = releases(project)
    return _open_releases((known.find(version).version,), offline=offline, project=project, cache=cache)[0]


def open_installed(project: str = "sglang") -> DirTree:
    """The tree that this Python would import `project` from; nothing is imported."""
    from rocmfix.source.folder import open_folder, root_above
    from rocmfix.system.python import distribution_version, package_folder

    package = package_folder(project)
    if package is None or not package.is_dir():
        raise SourceError(
            f"this Python ({sys.executable}) would find no {project}",
            hint=f"run rocmfix with the Python that serves {project}, or give its folder",
        )
    root = root_above(package.resolve(), project)
    return open_folder(root, source=str(root), project=project, installed=distribution_version(project))


def open_releases(*, offline: bool = False, project: str = "sglang") -> tuple[Tree, ...]:
    """The trees of every known release, oldest first; wheels that are missing are fetched together."""
    from rocmfix.releases import releases

    return _open_releases(releases(project).versions(), offline=offline, project=project)


def _open_releases(
    versions: tuple[str, ...], *, offline: bool, project: str, cache: Path | None = None
) -> tuple[Tree, ...]:
    from rocmfix.releases import releases
    from rocmfix.source.cache import wheels_of
    from rocmfix.source.wheel import open_wheel
    from rocmfix.system.files import cache_home

    wanted = [releases(project).find(version) for version in versions]
    wheels = wheels_of(project, wanted, (cache or cache_home("rocmfix")) / "wheels", offline=offline)
    return tuple(open_wheel(path, source=name, project=project) for name, path in zip(versions, wheels, strict=True))
