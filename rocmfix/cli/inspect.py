"""`rocmfix inspect`: what an image really holds."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from rocmfix.cli._image import look, progress
from rocmfix.cli._options import (
    asks_for_patches,
    catalogue,
    json_option,
    patches_option,
    print_json,
    print_lines,
    show_verdicts,
)

if TYPE_CHECKING:
    from rocmfix.image.inspect import ImageReport


@click.command(epilog="Exit codes: 0 clean, 10 fixes needed, 11 unmended, 12 conflict; 3 no sglang, 8 registry.")
@click.argument("image")
@click.option("--remote", is_flag=True, help="Ask the registry even if the engine has the image; nothing is pulled.")
@json_option
@patches_option
@click.pass_context
def command(ctx: click.Context, image: str, *, remote: bool, as_json: bool, patches: Path | None) -> None:
    """Look into IMAGE: its real sglang and AITER, each fix, the tables, ENV, and labels that are not true.

    In a registry, only the layers that hold the tree are read, and only as far as needed.
    """
    with progress() as reporting:
        _, report = look(image, patches, reporting, remote=remote)
    if as_json:
        print_json(report)
    else:
        _show(report, len(list(catalogue(patches).fixes())))
    ctx.exit(report.report.exit_code)


def _show(report: ImageReport, known: int) -> None:
    from rocmfix.image.text import claims_lines, facts_lines
    from rocmfix.report import summary

    print_lines(facts_lines(report))
    click.echo()
    show_verdicts(report.report)
    print_lines(claims_lines(report))
    if asks_for_patches(report.report):
        click.echo(f"to mend what is needed: rocmfix build --base {report.image} --flavour NAME -t TAG", err=True)
    click.echo(summary(report.report, known))
