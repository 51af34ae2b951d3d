"""Bakes the tables of an order into what an image's own AITER reads."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING

from rocmfix.image.context import BakedTable, Tables
from rocmfix.image.flavour import Variable
from rocmfix.image.inspect import Seen
from rocmfix.image.manifest import TableRecord, table_record
from rocmfix.image.order import Order
from rocmfix.image.progress import Progress

if TYPE_CHECKING:  # most builds bake no table, and need none of this
    from rocmfix.aiter.aot import Compiled
    from rocmfix.aiter.bake import Baked
    from rocmfix.aiter.sources import Wanted


def fetched(order: Order, progress: Progress) -> tuple[Wanted, ...]:
    """The files of the tables asked for; pinned ones from the cache, or the network."""
    if not order.tables:
        return ()
    from rocmfix.aiter.sources import obtain
    from rocmfix.errors import SourceError
    from rocmfix.system import fetch
    from rocmfix.system.files import cache_home

    def get(url: str) -> bytes:
        if order.offline:
            raise SourceError(f"{url} was not asked for: --offline")
        return fetch.get(url)

    with progress.step(f"fetch {', '.join(table.name for table in order.tables)}"):
        return obtain(order.tables, cache_home("rocmfix"), get)


def lay_out(order: Order, wanted: Sequence[Wanted], seen: Seen, past: Sequence[TableRecord]) -> Tables:
    """One complete table a family, with the wanted rows in it, checked against the kernels of the image's AITER.

    A table that the image has already, byte for byte, is not laid into it again. Raises TableError for rows that
    this AITER cannot run.
    """
    from rocmfix.aiter.aot import compiling
    from rocmfix.aiter.bake import bake
    from rocmfix.image.aiter import aiter_in

    tree = aiter_in(seen)
    gfx = order.flavour.gpu.gfx
    baked = bake(tree, wanted, gfx, {record.path: record.sources for record in past})
    new = tuple(table for table in baked if not _is_there(table, seen))
    compiled = compiling(tree, seen.tree.layout.aiter or "", new, gfx) if order.compiles else None
    return Tables(
        files=(*(_laid(table) for table in new), *(_compiled(compiled) if compiled else ())),
        env=tuple(Variable(name=table.family.variable, value=table.path) for table in new),
        run=_run(compiled) if compiled else "",
        notes=tuple(_note(table, is_new=table in new) for table in baked),
    )


def _is_there(table: Baked, seen: Seen) -> bool:
    held = seen.tree.files.get(table.path)
    return held is not None and held.data == table.data and dict(seen.env).get(table.family.variable) == table.path


def _laid(table: Baked) -> BakedTable:
    return BakedTable(table_record(table.path, table.data, table.sources), table.data)


def _compiled(compiled: Compiled) -> tuple[BakedTable, ...]:
    from rocmfix.aiter.aot import PATH

    return (BakedTable(table_record(PATH, compiled.data, compiled.sources), compiled.data),)


def _run(compiled: Compiled) -> str:
    env = [f"{name}={shlex.quote(value)}" for name, value in compiled.env]
    return " && ".join(" ".join([*env, shlex.join(command)]) for command in compiled.commands)


def _note(table: Baked, *, is_new: bool) -> str:
    asked, rows = len(table.asked), table.rows
    what = f"{table.family.variable}: {rows} rows, {asked} of them asked for, {len(table.replaced)} in place of others"
    return what if is_new else f"{what}; the base has this very table"
