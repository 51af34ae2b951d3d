"""One image to build: GPU family, ROCm line, base, AITER commit, tables and ENV, as one TOML file says."""

from __future__ import annotations

import difflib
import re
import sys
from collections.abc import Mapping
from enum import Enum
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field, ValidationError, field_validator

from rocmfix.errors import CatalogError
from rocmfix.model import Record
from rocmfix.shipped import shipped
from rocmfix.system.redact import has_credentials, names_secret
from rocmfix.system.reference import Reference, is_digest, is_tag, parse_reference

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class Gpu(str, Enum):
    """A GPU family, by the name that upstream's tags give it."""

    MI30X = "mi30x"
    MI35X = "mi35x"

    @property
    def gfx(self) -> str:
        """The compiler's name for it. mi30x is MI300X and MI325X, mi35x is MI350X and MI355X."""
        return {"mi30x": "gfx942", "mi35x": "gfx950"}[self.value]


class Variable(Record):
    """One environment variable of an image."""

    name: str
    value: str

    @field_validator("name")
    @classmethod
    def _named(cls, name: str) -> str:
        if not _NAME.fullmatch(name):
            raise ValueError(f"not a variable name: {name[:60]!r}")
        if names_secret(name):
            raise ValueError(f"{name} reads like a secret, and everyone who pulls an image can read its ENV")
        return name

    @field_validator("value")
    @classmethod
    def _plain(cls, value: str) -> str:
        if any(ord(char) < 32 or ord(char) == 127 for char in value):
            raise ValueError("a value is one line of printable text")
        if has_credentials(value):
            raise ValueError("the value holds a URL with a password, and everyone who pulls an image can read its ENV")
        return value


def _from_table(table: Any) -> Any:
    if isinstance(table, Mapping):
        return tuple({"name": name, "value": value} for name, value in sorted(table.items()))
    return table


Env = Annotated[tuple[Variable, ...], BeforeValidator(_from_table)]


def _tag(text: str) -> str:
    if not is_tag(text):
        raise ValueError(f"not a tag: {text[:140]!r}")
    return text


def _digest(text: str) -> str:
    if not is_digest(text):
        raise ValueError(f"not a digest (sha256: and 64 hex digits): {text[:80]!r}")
    return text


Digest = Annotated[str, AfterValidator(_digest)]


class Base(Record):
    """The image to build on, when the user names no other: by digest when it is pinned."""

    image: str
    tag: Annotated[str, AfterValidator(_tag)]
    digest: Digest | None = None

    @field_validator("image")
    @classmethod
    def _parses(cls, image: str) -> str:
        if parse_reference(image).tag != "latest":
            raise ValueError("name the repository alone; the tag has its own key")
        return image

    @property
    def reference(self) -> Reference:
        """Where to get it."""
        name = parse_reference(self.image)
        return Reference(name.registry, name.repository, self.tag, self.digest)


class Feature(Record):
    """A named switch of an image: the ENV it sets, and why one would want that."""

    why: Annotated[str, Field(min_length=10)]
    env: Env


class Flavour(Record):
    """One file of `dockerfiles/flavours/`."""

    name: str
    summary: Annotated[str, Field(min_length=10)]
    gpu: Gpu
    rocm: Annotated[str, Field(pattern=r"^\d+\.\d+\.\d+$")]
    stage: Annotated[str, Field(pattern=r"^gfx[0-9a-f]+(-rocm\d+)?$")]
    """What docker/rocm.Dockerfile calls it (`GPU_ARCH`): for --from-source."""
    base: Base
    aiter: Annotated[str, Field(pattern=r"^[0-9a-f]{40}$")] | None = None
    """The AITER commit that the base is expected to carry, and that --from-source builds."""
    sets: tuple[str, ...] = ()
    """Patch sets to apply; empty = all."""
    tables: tuple[str, ...] = ()
    features: tuple[str, ...] = ()
    env: Env = ()

    @property
    def line(self) -> str:
        """The ROCm line as tags spell it: `rocm720`."""
        return "rocm" + self.rocm.replace(".", "")


def default_folder() -> Path:
    """Where the templates and flavours lie."""
    return shipped("dockerfiles")


def names(folder: Path | None = None) -> tuple[str, ...]:
    """Every flavour there is."""
    return tuple(sorted(path.stem for path in ((folder or default_folder()) / "flavours").glob("*.toml")))


def load(name: str, folder: Path | None = None) -> Flavour:
    """The flavour called `name`. Raises CatalogError when there is none or its file is wrong."""
    if name not in (known := names(folder)):
        near = difflib.get_close_matches(name, known) or known
        raise CatalogError(f"no flavour is called {name[:80]!r}", hint=f"there are: {', '.join(near)}")
    path = (folder or default_folder()) / "flavours" / f"{name}.toml"
    flavour: Flavour = _read(path, lambda table: Flavour(name=name, **table))
    features(flavour, folder)
    return flavour


def features(flavour: Flavour, folder: Path | None = None) -> tuple[tuple[str, Feature], ...]:
    """The features that `flavour` switches on, in its order."""
    path = (folder or default_folder()) / "features.toml"
    known = _read(path, lambda table: {name: Feature(**feature) for name, feature in table.items()})
    for name in flavour.features:
        if name not in known:
            raise CatalogError(f"{flavour.name}: no feature is called {name}", hint=f"there are: {', '.join(known)}")
    return tuple((name, known[name]) for name in flavour.features)


def _read(path: Path, make: Any) -> Any:
    try:
        return make(tomllib.loads(path.read_text("utf-8")))
    except (ValidationError, TypeError, ValueError) as error:
        raise CatalogError(
            f"{path.name} is wrong", details=reasons(error), hint="dockerfiles/README.md says what a flavour holds"
        ) from None


def reasons(error: Exception) -> tuple[str, ...]:
    """Why a record was refused, one line a field."""
    if isinstance(error, ValidationError):
        return tuple(
            f"{'.'.join(str(p) for p in e['loc'])}: {e['msg'].removeprefix('Value error, ')}" for e in error.errors()
        )
    return (str(error),)
