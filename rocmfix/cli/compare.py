"""`rocmfix compare`: two images side by side."""

from __future__ import annotations

from pathlib import Path

import click

from rocmfix.cli._image import look, progress
from rocmfix.cli._options import json_option, patches_option, print_json, print_lines


@click.command(epilog="Exit codes: 0 compared (whether or not they differ), 3 no sglang, 7 engine, 8 registry.")
@click.argument("one")
@click.argument("other")
@click.option("--remote", is_flag=True, help="Ask the registries even if the engine has the images; nothing is pulled.")
@json_option
@patches_option
def command(one: str, other: str, *, remote: bool, as_json: bool, patches: Path | None) -> None:
    """Compare two images: layers, sizes, changed files, fixes, ENV, tables."""
    from rocmfix.image.compare import compare
    from rocmfix.image.text import compare_lines

    with progress() as reporting:
        comparison = compare(
            look(one, patches, reporting, remote=remote), look(other, patches, reporting, remote=remote)
        )
    if as_json:
        print_json(comparison)
    else:
        print_lines(compare_lines(comparison))
