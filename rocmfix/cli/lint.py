"""`rocmfix lint`: is the catalogue sound."""

from __future__ import annotations

from pathlib import Path

import click

from rocmfix.cli._options import catalogue, offline_option, patches_option, print_lines


@click.command(epilog="Exit codes: 0 sound, 4 a fault.")
@click.option("--releases", is_flag=True, help="Also judge every known release: no conflict, no idle probe or variant.")
@offline_option
@patches_option
def command(*, releases: bool, offline: bool, patches: Path | None) -> None:
    """Check everything that loading refuses, and with --releases what only real trees can show."""
    from rocmfix.lint import lint_releases

    catalog = catalogue(patches)
    fixes = len(list(catalog.fixes()))
    variants = sum(len(fix.variant) for _, fix in catalog.fixes())
    said = f"{len(catalog.sets)} sets, {fixes} fixes, {variants} patches in {catalog.folder}: sound"
    if releases:
        trees, faults = lint_releases(catalog, offline=offline)
        print_lines(faults)
        if faults:
            from rocmfix.errors import CatalogError

            raise CatalogError(
                f"{len(faults)} fault(s) on {trees} releases of {catalog.folder}",
                hint="for a conflict, rocmfix refresh SET --onto RELEASE proposes a variant; see patches/README.md",
            )
        said += f", on {trees} releases too"
    click.echo(said)
