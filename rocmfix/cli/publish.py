"""`rocmfix publish`: an image into a registry, under tags that keep their meaning."""

from __future__ import annotations

import click

from rocmfix.cli._image import image_reference, progress
from rocmfix.cli._options import json_option, print_json, print_lines


@click.command(epilog="Exit codes: 0 published or there already, 7 engine, 8 registry, 9 not as its manifest says.")
@click.argument("image")
@click.option("--to", required=True, metavar="REPOSITORY", help="Where to: registry/name, without a tag.")
@click.option("--tag", "tags", multiple=True, help="A release tag: refused if it stands for another image. Repeatable.")
@click.option("--moving", multiple=True, metavar="TAG", help="A tag that may be moved, such as latest. Repeatable.")
@json_option
def command(image: str, *, to: str, tags: tuple[str, ...], moving: tuple[str, ...], as_json: bool) -> None:
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
    with progress() as reporting:
        published = publish(Engine.connect(), image, Target(repository, tags, moving), Registry(repository), reporting)
    if as_json:
        print_json(published)
        return
    print_lines(f"{tag}@{published.digest}" for tag in published.tags)
    print_lines(published.moved)
    click.echo("pushed" if published.pushed else "there already: nothing was pushed", err=True)
