"""A lock: every input of a build by digest, so that a colleague makes the same image next month."""

from __future__ import annotations

from typing import Literal

from pydantic import ValidationError

from rocmfix import __version__
from rocmfix.catalog import Catalog
from rocmfix.errors import CatalogError
from rocmfix.image.dockerfile import template_digest
from rocmfix.image.flavour import Flavour, reasons
from rocmfix.image.manifest import BaseImage
from rocmfix.image.order import Order
from rocmfix.model import Record


class LockedPatch(Record):
    """One patch of the catalogue by sha256."""

    fix: str
    variant: str
    digest: str


class LockedTable(Record):
    """One table that was asked for, by sha256."""

    name: str
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

    @property
    def reference(self) -> str:
        """The base to build on, by digest."""
        name = self.base.name.partition("@")[0]
        return self.base.digest if name.startswith("sha256:") else f"{name}@{self.base.digest}"


def make_lock(order: Order, base: BaseImage, aiter_commit: str | None) -> Lock:
    """The lock of an order on this base."""
    return Lock(
        tool=__version__,
        template=template_digest(),
        flavour=order.flavour,
        base=base,
        aiter=aiter_commit,
        patches=_patches(order.catalog),
        tables=_tables(order),
    )


def parse_lock(data: bytes, name: str) -> Lock:
    """Read a lock file. Raises CatalogError when it is none."""
    try:
        return Lock.model_validate_json(data)
    except ValidationError as error:
        raise CatalogError(f"{name} is no lock", details=reasons(error)[:5], hint="rocmfix lock writes one") from None


def refuse_drift(lock: Lock, order: Order, templates: str) -> None:
    """Raise CatalogError naming whatever here is not as in the lock: the image would not be the same."""
    drift = [
        *(["the Dockerfile template differs"] if lock.template != templates else []),
        *([f"rocmfix is {__version__}, the lock was made by {lock.tool}"] if lock.tool != __version__ else []),
        *_drift(
            "patch", {p.variant: p.digest for p in lock.patches}, {p.variant: p.digest for p in _patches(order.catalog)}
        ),
        *_drift("table", {t.name: t.digest for t in lock.tables}, {t.name: t.digest for t in _tables(order)}),
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


def _tables(order: Order) -> tuple[LockedTable, ...]:
    return tuple(LockedTable(name=table.name, digest=table.sha256) for table in order.tables)
