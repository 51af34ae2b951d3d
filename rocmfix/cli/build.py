"""`rocmfix build`: an image with the fixes its base needs, and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from rocmfix.cli._image import BASE_HELP, FLAVOUR_HELP, image_reference, progress, table_option, variables
from rocmfix.cli._options import (
    catalogue,
    dry_run_option,
    json_option,
    offline_option,
    open_source,
    patches_option,
    print_json,
    print_lines,
    wanted,
    wanted_options,
)

if TYPE_CHECKING:
    from rocmfix.image.build import Built, Draft
    from rocmfix.image.lock import Lock
    from rocmfix.image.order import Order
    from rocmfix.image.progress import Progress

F = TypeVar("F", bound=Callable[..., Any])
_SOURCE_HELP = "Build upstream's own docker/rocm.Dockerfile over this tree, patched. Needs docker buildx."


@dataclass(frozen=True)
class Choice:
    """The options as typed."""

    flavour: str | None
    base: str | None
    from_source: str | None
    lock: Path | None
    tags: tuple[str, ...]
    env: tuple[str, ...]
    tables: tuple[str, ...]
    aot: bool
    context: Path | None
    overlay: Path | None
    args: tuple[str, ...]
    secrets: tuple[str, ...]
    attest: tuple[str, ...]
    network: str | None
    fixes: tuple[str, ...]
    sets: tuple[str, ...]
    gfx: str | None
    dry_run: bool
    as_json: bool
    offline: bool
    patches: Path | None


def _folder_option(name: str, text: str) -> Callable[[F], F]:
    return click.option(name, type=click.Path(path_type=Path, file_okay=False), help=text)


@click.command(
    epilog="Exit codes: 0 built, unchanged, or nothing to do; 3 no sglang, 5 conflict, 7 engine, 8 registry."
)
@click.option("--flavour", help=FLAVOUR_HELP)
@click.option("--base", metavar="IMAGE", help=BASE_HELP)
@click.option("--from-source", metavar="SOURCE", help=_SOURCE_HELP)
@click.option("--lock", type=click.Path(path_type=Path, dir_okay=False, exists=True), help="Build what this lock pins.")
@click.option("-t", "--tag", "tags", multiple=True, metavar="NAME", help="Name the image. Repeatable.")
@click.option("--env", multiple=True, metavar="NAME=VALUE", help="Set in the image's ENV. Repeatable.")
@table_option
@click.option(
    "--aot", is_flag=True, help="Compile the FlyDSL kernels of the tables' rows now; runs AITER in the image."
)
@_folder_option("--context", "Write the build context to this new folder and build nothing; needs no engine.")
@_folder_option("--overlay", "Write the patched files and the flags that mount them; build nothing.")
@click.option("--build-arg", "args", multiple=True, metavar="NAME=VALUE", help="For --from-source: one of its ARGs.")
@click.option("--secret", "secrets", multiple=True, metavar="NAME", help="For --from-source: a variable for RUN alone.")
@click.option(
    "--attest", multiple=True, type=click.Choice(["sbom", "provenance"]), help="For --from-source, by buildx."
)
@click.option("--network", help="For --from-source: the network of its RUN steps, such as none or host.")
@wanted_options
@dry_run_option
@json_option
@offline_option
@patches_option
def command(**options: Any) -> None:
    """Build an image: the base by digest, plus one layer of the files that its own tree needs changed."""
    choice = Choice(**options)
    order = _order(choice)
    if choice.from_source:
        _say(_from_source(choice, order), as_json=choice.as_json)
        return
    with progress() as reporting:
        if choice.dry_run or choice.context or choice.overlay:
            _show(_draft(order, reporting), choice)
        else:
            _say(_build(order, reporting), as_json=choice.as_json)


def _order(choice: Choice) -> Order:
    from rocmfix.image import flavour as flavours
    from rocmfix.image.dockerfile import template_digest
    from rocmfix.image.lock import refuse_drift
    from rocmfix.image.order import order_for

    lock = _lock(choice)
    if lock is None and choice.flavour is None:
        raise click.UsageError(f"say which image: --flavour ({', '.join(flavours.names())}) or --lock FILE")
    catalog = catalogue(choice.patches)
    order = order_for(
        lock.flavour if lock else flavours.load(choice.flavour or ""),
        catalog,
        (table.name for table in lock.tables) if lock else choice.tables,
        base=lock.reference if lock else choice.base,
        wanted=wanted(catalog, choice.fixes, choice.sets, choice.gfx),
        env=variables(choice.env),
        tags=tuple(image_reference(tag) for tag in choice.tags),
        aiter=lock.aiter if lock else None,
        compiles=choice.aot,
        offline=choice.offline,
    )
    if lock:
        refuse_drift(lock, order, template_digest())
    return order


def _lock(choice: Choice) -> Lock | None:
    from rocmfix.image.lock import parse_lock

    if choice.lock is None:
        return None
    if choice.flavour or choice.base or choice.tables:
        raise click.UsageError("--lock names flavour, base and tables itself")
    return parse_lock(choice.lock.read_bytes(), str(choice.lock))


def _build(order: Order, reporting: Progress) -> Built:
    from rocmfix.image.build import build
    from rocmfix.system.docker import Engine

    return build(Engine.connect(), order, reporting)


def _draft(order: Order, reporting: Progress) -> Draft:
    """What would be built, from the engine where it has the base, else from the base's registry without a pull."""
    from rocmfix.image.base import peek_base
    from rocmfix.image.build import make_draft
    from rocmfix.image.tables import fetched

    tables = fetched(order, reporting)
    base = peek_base(order.flavour, order.base, reporting, kernels=bool(tables))
    return make_draft(base, order, tables)


def _from_source(choice: Choice, order: Order) -> Built:
    from rocmfix.image.source_build import SourceOrder, build_from_source
    from rocmfix.system.docker import Engine
    from rocmfix.system.redact import from_environment

    try:
        secrets = from_environment(choice.secrets)
    except KeyError as error:
        raise click.UsageError(f"--secret {error.args[0]}: no such variable is set") from None
    source = SourceOrder(
        tree=open_source(choice.from_source, offline=choice.offline),
        args={name: value for name, _, value in (each.partition("=") for each in choice.args)},
        secrets=secrets,
        attest=choice.attest,
        network=choice.network,
    )
    with progress(secrets.values()) as reporting:
        return build_from_source(Engine.connect(), order, source, reporting)


def _show(draft: Draft, choice: Choice) -> None:
    from rocmfix.image.overlay import write_overlay
    from rocmfix.report import plan_lines
    from rocmfix.system.files import Copied, new_folder, write_out

    if choice.overlay:
        flags = write_overlay(draft.context, choice.overlay)
        print_lines(flags)
        click.echo(f"{len(flags)} flags for docker run; Kubernetes: {choice.overlay}/kubernetes.json", err=True)
    elif choice.context:
        with new_folder(choice.context) as work:
            plan = ("plan.json", (draft.plan.model_dump_json(indent=2) + "\n").encode())
            write_out(work, (Copied(name, data) for name, data in (*draft.context.members(), plan)))
        click.echo(f"docker build {choice.context}")
    elif choice.as_json:
        print_json(draft.context.manifest)
    else:
        print_lines(plan_lines(draft.plan))
        click.echo(draft.context.dockerfile)
        print_lines(f"{record.kind:8}  {record.path}" for record in draft.context.manifest.files)
        print_lines(f"{table.path}: {table.source}" for table in draft.context.manifest.tables)
        print_lines(draft.notes)


def _say(built: Built, *, as_json: bool) -> None:
    from rocmfix.image.progress import size
    from rocmfix.report import plan_lines

    if as_json:
        print_json(built)
        return
    print_lines(plan_lines(built.plan))
    if built.image is None:
        click.echo(f"{built.base} needs none of the fixes, and lacks no table that was asked for: nothing was built")
        return
    count = len(built.plan.apply)
    what = f"{count} fixes applied, {size(built.layer_bytes)} on top of" if built.is_new else "unchanged, on"
    click.echo(f"{built.image}  {what} {built.base}")
    print_lines(built.tags)
