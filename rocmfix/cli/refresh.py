"""`rocmfix refresh`: patch files from commits, or a new variant by merging."""

from __future__ import annotations

from pathlib import Path

import click

from rocmfix.cli._options import (
    catalogue,
    dry_run_option,
    offline_option,
    open_source,
    patches_option,
    source_help,
)


@click.command(epilog="Exit codes: 0 done or in step, 1 not in step (--check), 5 the merge conflicts.")
@click.argument("set_name", metavar="SET")
@click.option(
    "--onto", required=True, metavar="SOURCE", help="A checkout with our commits, or the tree that conflicts."
)
@click.option("--check", is_flag=True, help="Write nothing; fail if a patch file would change by a byte.")
@dry_run_option
@offline_option
@patches_option
@source_help
@click.pass_context
def command(
    ctx: click.Context,
    set_name: str,
    *,
    onto: str,
    check: bool,
    dry_run: bool,
    offline: bool,
    patches: Path | None,
) -> None:
    """Export the commits that rocmfix made in the checkout SOURCE back to the patch files of SET.

    Edit them first as you like (git rebase -i). On a tree without such commits, each fix of SET that is a
    conflict there gets a new variant by a three-way merge, and the lines for series.toml are printed.
    """
    from rocmfix.refresh import exports, write

    patch_set = catalogue(patches).find_set(set_name)
    tree = open_source(onto, offline=offline)
    found = exports(patch_set, tree, offline=offline)
    changed = [export for export in found if export.is_changed]
    for export in found:
        click.echo(f"{'changed' if export.is_changed else 'in step'}  {patch_set.name}/{export.file}")
        if export.entry:
            click.echo(f"\nadd to {patch_set.folder / 'series.toml'}, below its fix:\n\n{export.entry}\n")
    if not found:
        click.echo(f"nothing of {patch_set.name} to refresh on {tree.source}: no commit of ours, and no conflict")
    if not (check or dry_run):
        write(patch_set, found)
    if check and changed:
        ctx.exit(1)
