"""The releases of a project that rocmfix knows, with the wheels that carry their source."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from datetime import date
from functools import cache
from pathlib import Path

from packaging.utils import parse_wheel_filename
from packaging.version import InvalidVersion, Version
from pydantic import Field, model_validator

from rocmfix.errors import CatalogError, SourceError
from rocmfix.model import Record
from rocmfix.shipped import shipped

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


class Wheel(Record):
    """What the package index promises about one wheel."""

    size: int = Field(gt=0)
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")


class Release(Record):
    """One release; any of its wheels serves, for the source files are the same in all of them."""

    version: str
    date: date
    wheels: Mapping[str, Wheel] = Field(min_length=1)

    @model_validator(mode="after")
    def _wheels_are_of_this_version(self) -> Release:
        for name in self.wheels:
            if parse_wheel_filename(name)[1] != Version(self.version):
                raise ValueError(f"{name} is no wheel of {self.version}")
        return self


class Releases(Record):
    """Every known release of one project, oldest first."""

    project: str
    release: tuple[Release, ...]

    @model_validator(mode="after")
    def _oldest_first_and_no_other(self) -> Releases:
        versions = [Version(release.version) for release in self.release]
        if versions != sorted(set(versions)):
            raise ValueError("releases are not in order, or one is there twice")
        return self

    def versions(self) -> tuple[str, ...]:
        return tuple(release.version for release in self.release)

    def find(self, version: str) -> Release:
        """The release called `version`; the error for any other names the nearest."""
        wanted = as_version(version)
        for release in self.release:
            if wanted == Version(release.version):
                return release
        raise SourceError(
            f"{self.project} {version} is not a release that rocmfix knows; the nearest is {self._nearest(wanted)}",
            details=(f"known: {', '.join(self.versions())}",),
            hint=f"judge any other by its files: pip download --no-deps {self.project}=={version}, "
            "then give the .whl file, an unpacked folder, or git:REF",
        )

    def _nearest(self, wanted: Version | None) -> str:
        older = [version for version in self.versions() if wanted and Version(version) <= wanted]
        return (older or self.versions()[:1])[-1]


def as_version(text: str) -> Version | None:
    """`text` as a version (`0.5.14`, `v0.5.12.post1`), or None if it is none."""
    try:
        return Version(text)
    except InvalidVersion:
        return None


def load_releases(path: Path) -> Releases:
    """Read a `releases.toml`."""
    try:
        return Releases.model_validate(tomllib.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError) as error:
        raise CatalogError(f"{path} is no list of releases", details=tuple(str(error).splitlines())) from error


@cache
def releases(project: str = "sglang") -> Releases:
    """The releases of `project` that came with rocmfix."""
    return load_releases(shipped("patches") / project / "releases.toml")
