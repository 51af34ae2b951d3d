"""`rocmfix revert`: back to the byte."""

from __future__ import annotations

import click

from rocmfix.cli._options import dry_run_option, open_source, print_lines


@click.command(epilog="Exit codes: 0 done, 5 refused: files were edited since, or rocmfix did nothing here.")
@click.argument("source", required=False)
@click.option("--installed", is_flag=True, help="The sglang that this Python would import.")
@dry_run_option
def command(source: str | None, *, installed: bool, dry_run: bool) -> None:
    """Take back what apply did to the folder SOURCE.

    A plain tree is restored to the byte from `.rocmfix`. In a checkout, our commits at HEAD are dropped; where
    others stand on top of them, reverting commits are added instead.
    """
    from rocmfix.apply import revert

    done = revert(open_source(source, installed=installed), dry_run=dry_run)
    print_lines(done.lines)
    click.echo(f"{'would revert' if dry_run else 'reverted'} {done.summary}")
