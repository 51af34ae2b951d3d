"""`rocmfix tags`: what a tag stands for."""

from __future__ import annotations

import click

from rocmfix.cli._image import image_reference
from rocmfix.cli._options import json_option, print_json


@click.group()
def command() -> None:
    """Ask registries about tags."""


@command.command(epilog="Exit codes: 0 found, 8 no such tag (the nearest are named) or no answer.")
@click.argument("image")
@json_option
def resolve(image: str, *, as_json: bool) -> None:
    """Print the digest that IMAGE stands for now; of a tag that does not exist, name the nearest."""
    from rocmfix.image import tags
    from rocmfix.system.registry import Registry

    reference = image_reference(image)
    resolved = tags.resolve(reference, Registry(reference))
    if as_json:
        print_json(resolved)
    else:
        click.echo(resolved.pinned)
