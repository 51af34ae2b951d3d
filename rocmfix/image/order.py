"""What a user asks a build for, and one digest for all that decides its result."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rocmfix import __version__
from rocmfix.catalog import Catalog
from rocmfix.image import flavour as flavours
from rocmfix.image.dockerfile import template_digest
from rocmfix.image.flavour import Variable
from rocmfix.image.manifest import BaseImage
from rocmfix.plan import Wanted
from rocmfix.system.reference import Reference

if TYPE_CHECKING:  # most builds bake no table
    from rocmfix.aiter.sources import Asked


@dataclass(frozen=True)
class Order:
    """What the user asked for."""

    flavour: flavours.Flavour
    catalog: Catalog
    base: str | None = None
    """Instead of the flavour's own."""
    wanted: Wanted = field(default_factory=Wanted)
    tables: tuple[Asked, ...] = ()
    compiles: bool = False
    """Compile the FlyDSL kernels of the tables' rows in the image."""
    env: tuple[Variable, ...] = ()
    tags: tuple[Reference, ...] = ()
    aiter: str | None = None
    """The AITER commit that a lock expects in the base."""
    templates: Path | None = None
    offline: bool = False
    """Fetch no table that is not cached."""


def order_for(flavour: flavours.Flavour, catalog: Catalog, tables: Iterable[str] = (), **more: Any) -> Order:
    """An order with the flavour's tables and those named beside it. Raises TableError for a name that is none."""
    names = (*flavour.tables, *tables)
    if not names:
        return Order(flavour, catalog, **more)
    from rocmfix.aiter.sources import ask

    return Order(flavour, catalog, tables=ask(names), **more)


def wanted_by(order: Order) -> Wanted:
    """The user's choice; where there is none, the flavour's."""
    wanted = order.wanted
    sets = wanted.sets or (() if wanted.fixes else order.flavour.sets)
    return Wanted(wanted.fixes, sets, wanted.gfx or order.flavour.gpu.gfx)


def inputs_digest(order: Order, base: BaseImage, image: str) -> str:
    """One digest for all that decides the image. Every stage after it is a pure function of these."""
    decided = {
        "tool": __version__,
        "template": template_digest(order.templates),
        "base": image,
        "name": base.name,
        "flavour": order.flavour.model_dump(mode="json"),
        "features": [feature.model_dump(mode="json") for _, feature in flavours.features(order.flavour)],
        "catalog": [
            (patches.name, fix.model_dump_json(), [patches.patch(variant).digest for variant in fix.variant])
            for patches, fix in order.catalog.fixes()
        ],
        "wanted": [order.wanted.fixes, order.wanted.sets, order.wanted.gfx],
        "tables": [(table.name, table.sha256, table.keep) for table in order.tables],
        "compiles": order.compiles,
        "env": [(v.name, v.value) for v in order.env],
    }
    text = json.dumps(decided, sort_keys=True, separators=(",", ":"))
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"
