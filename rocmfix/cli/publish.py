"""`rocmfix publish`: an image into a registry, under tags that keep their meaning."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from rocmfix.cli._image import image_reference, progress
from rocmfix.cli._options import json_option, print_json, print_lines

if TYPE_CHECKING:
    from rocmfix.system.docker import Engine


@click.command(epilog="Exit codes: 0 published or there already, 7 engine, 8 registry, 9 not as its manifest says.")
@click.argument("image")
@click.option("--to", required=True, metavar="REPOSITORY", help="Where to: registry/name, without a tag.")
@click.option("--tag", "tags", multiple=True, help="A release tag: refused if it stands for another image. Repeatable.")
@click.option("--moving", multiple=True, metavar="TAG", help="A tag that may be moved, such as latest. Repeatable.")
@click.option(
    "--require-smoke",
    type=click.Path(path_type=Path, dir_okay=False, exists=True),
    metavar="REPORT",
    help="Refuse unless this smoke report (report.json) is of this very image, young, and passed.",
)
@click.option("--smoke-days", type=click.FloatRange(0), default=7, show_default=True, help="How old it may be.")
@json_option
def command(
    image: str,
    *,
    to: str,
    tags: tuple[str, ...],
    moving: tuple[str, ...],
    require_smoke: Path | None,
    smoke_days: float,
    as_json: bool,
) -> None:
    """Push IMAGE, checked against its manifest first. Without --tag the tag is made of the image's own content.

    Finished layers are never sent twice: after a cut, run the same command again.
    """
    from rocmfix.image.publish import Target, publish
    from rocmfix.system.docker import Engine
    from rocmfix.system.reference import is_tag
    from rocmfix.system.registry import Registry

    repository = image_reference(to)
    if repository.tag != "latest" or to.endswith(":latest") or repository.digest:
        raise click.BadParameter("--to names a repository; tags are given with --tag and --moving")
    for tag in (*tags, *moving):
        if not is_tag(tag):
            raise click.BadParameter(f"{tag[:140]!r} is no tag")
    engine = Engine.connect()
    if require_smoke:
        _refuse_unproved(engine, image, require_smoke, smoke_days)
    with progress() as reporting:
        published = publish(engine, image, Target(repository, tags, moving), Registry(repository), reporting)
    if as_json:
        print_json(published)
        return
    print_lines(f"{tag}@{published.digest}" for tag in published.tags)
    print_lines(published.moved)
    click.echo("pushed" if published.pushed else "there already: nothing was pushed", err=True)


def _refuse_unproved(engine: Engine, image: str, report: Path, days: float) -> None:
    """Raise VerifyError with every reason why the report does not vouch for the image."""
    import datetime as dt

    from pydantic import ValidationError

    from rocmfix.errors import VerifyError
    from rocmfix.smoke.gate import judge_report
    from rocmfix.smoke.records import SmokeReport
    from rocmfix.system.surroundings import now

    local = engine.image(image)
    try:
        read = SmokeReport.model_validate_json(report.read_bytes())
    except ValidationError as error:
        raise VerifyError(f"{report} is no smoke report: {error.errors()[0]['msg']}") from None
    reasons = judge_report(read, local.id if local else "", now(), dt.timedelta(days=days))
    if reasons:
        raise VerifyError(
            f"{report} does not vouch for {image}; nothing was pushed",
            details=reasons[:20],
            hint=f"rocmfix smoke {image} --model DIR  makes a report of this image",
        )
    for text in read.unproved:
        click.echo(f"note: {report} does not prove: {text}", err=True)
