"""`rocmfix waiver`: the text that benchmark fleets ask for when an image is patched."""

from __future__ import annotations

from pathlib import Path

import click

from rocmfix.cli._options import catalogue, offline_option, open_source, patches_option


@click.command(epilog="Exit codes: 0 written, 4 no such fix, 16 no patch is needed or there is none.")
@click.argument("fix_id", metavar="FIX")
@click.option("--onto", metavar="TREE", help="The release or tree that the image holds: names the one patch it gets.")
@click.option("--image", metavar="IMAGE", help="The image's name, for the text.")
@offline_option
@patches_option
def command(fix_id: str, *, onto: str | None, image: str | None, offline: bool, patches: Path | None) -> None:
    """Print a waiver for FIX as Markdown: what is patched, why, the upstream pull request, and its removal."""
    from rocmfix.upstream.waiver import case_for, text

    patch_set, fix = catalogue(patches).find(fix_id)
    tree = open_source(onto, offline=offline) if onto else None
    click.echo(text(case_for(patch_set, fix, tree, image)), nl=False)
