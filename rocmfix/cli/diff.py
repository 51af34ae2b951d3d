"""`rocmfix diff`: what `apply` would change."""

from __future__ import annotations

from pathlib import Path

import click

from rocmfix.cli._options import (
    catalogue,
    offline_option,
    open_source,
    patches_option,
    source_help,
    wanted,
    wanted_options,
)


@click.command()
@click.argument("source", required=False)
@click.option("--installed", is_flag=True, help="The sglang that this Python would import.")
@wanted_options
@offline_option
@patches_option
@source_help
def command(
    source: str | None,
    *,
    installed: bool,
    fixes: tuple[str, ...],
    sets: tuple[str, ...],
    gfx: str | None,
    offline: bool,
    patches: Path | None,
) -> None:
    """Print what apply would change in SOURCE, as one diff that git apply takes."""
    from rocmfix.diff import unified
    from rocmfix.engine import patch_tree

    catalog = catalogue(patches)
    tree = open_source(source, installed=installed, offline=offline)
    patched = patch_tree(catalog, tree, wanted(catalog, fixes, sets, gfx))
    text = "".join(unified(patched.before, patched.after, tree))
    click.echo(text.encode("utf-8", "surrogateescape"), nl=False)
    if not text:
        click.echo(f"nothing to apply to {tree.source}: rocmfix check {tree.source} says why", err=True)
