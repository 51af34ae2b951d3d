"""`rocmfix ci`: what the workflows in ci/ call."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from rocmfix.cli._image import image_reference
from rocmfix.cli._options import catalogue, json_option, patches_option, print_json, print_lines

if TYPE_CHECKING:
    from rocmfix.system.reference import Reference
    from rocmfix.upstream.attest import Attested
    from rocmfix.upstream.builds import CiPlan

_TO = click.option("--to", required=True, metavar="REPOSITORY", help="Where images are published: registry/name.")
_FLAVOUR = click.option("--flavour", "flavours", multiple=True, help="Only this flavour. Repeatable.")
_BASE = click.option("--base", metavar="IMAGE", help="Build on this instead, such as a nightly; with one --flavour.")
_DAY = click.option("--day", metavar="YYYYMMDD", help="The day in the dated tags; by default today (UTC).")


@click.group()
def command() -> None:
    """What CI asks: which images to build, a bake file for them, and what to attach to them."""


@command.command(epilog="Exit codes: 0 planned (also when nothing is to be built), 8 registry.")
@_TO
@_FLAVOUR
@_BASE
@_DAY
@click.option("--github-output", metavar="NAME", help="Also set this step output to the JSON, in GitHub Actions.")
@json_option
@patches_option
def plan(
    *,
    to: str,
    flavours: tuple[str, ...],
    base: str | None,
    day: str | None,
    github_output: str | None,
    as_json: bool,
    patches: Path | None,
) -> None:
    """Print the images that REPOSITORY lacks: those whose inputs (base, patches, tables, flavour, tool) changed.

    The JSON is what `strategy.matrix` takes: one entry an image, with its tags and runners.
    """
    found = _planned(_repository(to), flavours, base, day, patches)
    if github_output:
        from rocmfix.system.surroundings import set_step_output

        set_step_output(github_output, found.model_dump_json(include={"include"}))
    if as_json:
        print_json(found)
        return
    print_lines(f"build  {job.flavour}  {job.tag}  {job.why}" for job in found.include)
    print_lines(f"keep   {kept.flavour}  {kept.why}" for kept in found.kept)


@command.command(epilog="Exit codes: 0 written, 8 registry.")
@_TO
@_FLAVOUR
@_BASE
@_DAY
@click.option(
    "-o", "--out", type=click.Path(path_type=Path, dir_okay=False), help="Write it here instead of printing it."
)
@patches_option
def bake(
    *,
    to: str,
    flavours: tuple[str, ...],
    base: str | None,
    day: str | None,
    out: Path | None,
    patches: Path | None,
) -> None:
    """Print a `docker buildx bake` file for the images that REPOSITORY lacks, for remote BuildKit workers.

    Its contexts are folders that `rocmfix build --flavour NAME --context contexts/NAME` writes.
    """
    from rocmfix.system.files import write_atomic
    from rocmfix.upstream.bake import render

    target = _repository(to)
    text = render(_planned(target, flavours, base, day, patches), target)
    if out:
        write_atomic(out.absolute(), text.encode())
    else:
        click.echo(text, nl=False)


@command.command(epilog="Exit codes: 0 attached or there already, 8 registry, 9 not an image of rocmfix.")
@click.argument("image")
@click.option("--builder", default="rocmfix", show_default=True, help="Who ran the build, as a URI.")
@json_option
@patches_option
def attest(image: str, *, builder: str, as_json: bool, patches: Path | None) -> None:
    """Attach to the published IMAGE a CycloneDX SBOM of what rocmfix added, and SLSA provenance.

    Both are OCI artifacts that refer to the image's digest: nothing about the image itself changes.
    """
    from rocmfix.system.registry import Registry
    from rocmfix.system.surroundings import now
    from rocmfix.upstream.attest import attest as attach

    reference = image_reference(image)
    when = f"{now():%Y-%m-%dT%H:%M:%SZ}"
    _say(attach(reference, Registry(reference), catalogue(patches), when=when, builder=builder), as_json=as_json)


@command.command(epilog="Exit codes: 0 read, 8 registry.")
@click.argument("image")
@json_option
def attestations(image: str, *, as_json: bool) -> None:
    """Print what is attached to the published IMAGE, by digest; with --json the documents themselves too."""
    from rocmfix.system.registry import Registry
    from rocmfix.upstream.attest import read

    reference = image_reference(image)
    _say(read(reference, Registry(reference)), as_json=as_json)


def _planned(
    target: Reference, names: tuple[str, ...], base: str | None, day: str | None, patches: Path | None
) -> CiPlan:
    from rocmfix.image import flavour
    from rocmfix.system.surroundings import now
    from rocmfix.upstream.builds import plan_builds

    if base and len(names) != 1:
        raise click.UsageError("--base is for one --flavour")
    chosen = tuple(flavour.load(name) for name in names or flavour.names())
    given = image_reference(base) if base else None
    try:
        return plan_builds(catalogue(patches), chosen, target, day or f"{now():%Y%m%d}", given)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--day") from None


def _repository(text: str) -> Reference:
    reference = image_reference(text)
    if reference.digest or reference.tag != "latest" or text.endswith(":latest"):
        raise click.BadParameter("--to names a repository, without a tag")
    return reference


def _say(found: Attested, *, as_json: bool) -> None:
    if as_json:
        print_json(found)
        return
    click.echo(found.image)
    print_lines(f"{document.digest}  {document.media_type}" for document in found.documents)
