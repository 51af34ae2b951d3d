"""What the image verbs share: references from the command line, progress on stderr, X-rays."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from rocmfix.image.flavour import Variable
    from rocmfix.image.inspect import ImageReport, Seen
    from rocmfix.image.progress import Progress
    from rocmfix.system.reference import Reference

F = TypeVar("F", bound=Callable[..., Any])

BASE_HELP = "Build on this image instead of the flavour's own; it is pulled when the engine lacks it."
FLAVOUR_HELP = "Which image: a file of dockerfiles/flavours, such as mi35x-rocm720."


TABLE_HELP = "Bake this AITER table: a name of dockerfiles/aiter/index.toml, or a .csv file. Repeatable."


def table_option(function: F) -> F:
    """`--table`: tables to bake beside those of the flavour."""
    return click.option("--table", "tables", multiple=True, metavar="NAME|CSV", help=TABLE_HELP)(function)


@contextmanager
def progress(secrets: Iterable[str] = ()) -> Iterator[Progress]:
    """Progress on stderr, with SIGTERM ending the work as Ctrl-C does."""
    from rocmfix.image.progress import Progress
    from rocmfix.system.signals import interruptible

    with interruptible():
        yield Progress(sys.stderr, tuple(secrets))


def image_reference(text: str) -> Reference:
    """A reference typed by the user."""
    from rocmfix.system.reference import parse_reference

    try:
        return parse_reference(text)
    except ValueError as error:
        raise click.BadParameter(f"{text[:200]!r} names no image: {error}") from None


def variables(pairs: tuple[str, ...]) -> tuple[Variable, ...]:
    """`--env NAME=VALUE` as records; what reads like a secret is refused."""
    from pydantic import ValidationError

    from rocmfix.errors import CatalogError
    from rocmfix.image.flavour import Variable, reasons

    found = []
    for pair in pairs:
        name, sign, value = pair.partition("=")
        if not sign:
            raise click.BadParameter(f"{name[:60]}: --env takes NAME=VALUE")
        try:
            found.append(Variable(name=name, value=value))
        except ValidationError as error:
            raise CatalogError(
                f"--env {name[:60]} was refused: it would be baked into the image",
                details=reasons(error),
                hint=f"give it to the container instead (docker run --env {name[:60]}), or to the build (--secret)",
            ) from None
    return tuple(found)


def look(name: str, patches: Path | None, reporting: Progress, *, remote: bool) -> tuple[Seen, ImageReport]:
    """X-ray an image: in the engine if it is there, else in its registry without a pull."""
    from rocmfix.cli._options import catalogue
    from rocmfix.image.inspect import xray
    from rocmfix.image.source import see

    catalog = catalogue(patches)
    seen = see(name, reporting, ask_registry=remote)
    return seen, xray(catalog, seen)
