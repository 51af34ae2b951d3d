"""A lock: every input of a build by digest, so that a colleague makes the same image next month."""

from __future__ import annotations

import hashlib
from typing import Literal

from pydantic import ValidationError

from rocmfix import __version__
from rocmfix.catalog import Catalog
from rocmfix.errors import CatalogError
from rocmfix.image.context import Tables
from rocmfix.image.dockerfile import template_digest
from rocmfix.image.flavour import Env, Flavour, reasons
from rocmfix.image.manifest import BaseImage
from rocmfix.model import Record


class LockedPatch(Record):
    """One patch of the catalogue by sha256."""

    fix: str
    variant: str
    digest: str


class LockedTable(Record):
    """One table by sha256."""

    path: str
    digest: str


class Lock(Record):
    """`rocmfix.lock`."""

    format: Literal[1] = 1
    tool: str
    template: str
    flavour: Flavour
    base: BaseImage
    aiter: str | None
    patches: tuple[LockedPatch, ...]
    tables: tuple[LockedTable, ...]
    env: Env = ()

    @property
    def reference(self) -> str:
        """The base to build on, by digest."""
        name = self.base.name.partition("@")[0]
        return self.base.digest if name.startswith("sha256:") else f"{name}@{self.base.digest}"


def make_lock(flavour: Flavour, catalog: Catalog, base: BaseImage, aiter_commit: str | None, tables: Tables) -> Lock:
    """The lock of these inputs."""
    return Lock(
        tool=__version__,
        template=template_digest(),
        flavour=flavour,
        base=base,
        aiter=aiter_commit,
        patches=_patches(catalog),
        tables=_tables(tables),
        env=tables.env,
    )


def parse_lock(data: bytes, name: str) -> Lock:
    """Read a lock file. Raises CatalogError when it is none."""
    try:
        return Lock.model_validate_json(data)
    except ValidationError as error:
        raise CatalogError(f"{name} is no lock", details=reasons(error)[:5], hint="rocmfix lock writes one") from None


def refuse_drift(lock: Lock, catalog: Catalog, tables: Tables, templates: str) -> None:
    """Raise CatalogError naming whatever here is not as in the lock: the image would not be the same."""
    drift = [
        *(["the Dockerfile template differs"] if lock.template != templates else []),
        *([f"rocmfix is {__version__}, the lock was made by {lock.tool}"] if lock.tool != __version__ else []),
        *_drift("patch", {p.variant: p.digest for p in lock.patches}, {p.variant: p.digest for p in _patches(catalog)}),
        *_drift("table", {t.path: t.digest for t in lock.tables}, {t.path: t.digest for t in _tables(tables)}),
    ]
    if drift:
        raise CatalogError(
            "this rocmfix would not build what the lock describes",
            details=tuple(drift[:20]),
            hint=f"install rocmfix {lock.tool}, or make the lock anew (rocmfix lock)",
        )


def _drift(what: str, locked: dict[str, str], here: dict[str, str]) -> list[str]:
    return [
        f"{what} {name}: {'missing here' if name not in here else 'new here' if name not in locked else 'differs'}"
        for name in sorted(locked.keys() | here.keys())
        if locked.get(name) != here.get(name)
    ]


def _patches(catalog: Catalog) -> tuple[LockedPatch, ...]:
    return tuple(
        LockedPatch(fix=fix.id, variant=variant.file, digest=patches.patch(variant).digest)
        for patches, fix in catalog.fixes()
        for variant in fix.variant
    )


def _tables(tables: Tables) -> tuple[LockedTable, ...]:
    return tuple(LockedTable(path=t.path, digest=hashlib.sha256(t.data).hexdigest()) for t in tables.files)
