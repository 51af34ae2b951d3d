"""`rocmfix lock`: pins every input of a build."""

from __future__ import annotations

from pathlib import Path

import click

from rocmfix.cli._image import BASE_HELP, FLAVOUR_HELP, progress, table_option
from rocmfix.cli._options import catalogue, json_option, patches_option, print_json


@click.command(epilog="Exit codes: 0 written, 3 no sglang in the base, 4 no such flavour, 8 registry.")
@click.option("--flavour", required=True, help=FLAVOUR_HELP)
@click.option("--base", metavar="IMAGE", help=BASE_HELP)
@table_option
@click.option("-o", "--out", type=click.Path(path_type=Path, dir_okay=False), default="rocmfix.lock", help="Where to.")
@json_option
@patches_option
def command(
    flavour: str, *, base: str | None, tables: tuple[str, ...], out: Path, as_json: bool, patches: Path | None
) -> None:
    """Pin base digest, AITER commit, patches, tables and template, so that the same image can be built next month."""
    from rocmfix.image import flavour as flavours
    from rocmfix.image.base import peek_base
    from rocmfix.image.lock import make_lock
    from rocmfix.image.order import order_for
    from rocmfix.system.files import write_atomic

    order = order_for(flavours.load(flavour), catalogue(patches), tables, base=base)
    with progress() as reporting:
        found = peek_base(order.flavour, base, reporting)
    lock = make_lock(order, found.record, found.seen.aiter)
    if as_json:
        print_json(lock)
        return
    write_atomic(out, (lock.model_dump_json(indent=1) + "\n").encode())
    pinned = f"{len(lock.patches)} patches, {len(lock.tables)} tables, AITER {lock.aiter or 'unknown'}"
    click.echo(f"{out}: {lock.reference}, {pinned}")
