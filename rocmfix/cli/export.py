"""`rocmfix export`: a source tree as files."""

from __future__ import annotations

from pathlib import Path

import click

from rocmfix.cli._options import offline_option, open_source, source_help


@click.command()
@click.argument("source")
@click.argument("folder", type=click.Path(path_type=Path))
@offline_option
@source_help
def command(source: str, folder: Path, *, offline: bool) -> None:
    """Write the sources of SOURCE to the new FOLDER in upstream's layout, to edit and commit."""
    from rocmfix.source.export import export_sources

    count = export_sources(open_source(source, offline=offline), folder)
    click.echo(f"wrote {count} files to {folder}")
