"""`rocmfix fixes`: the catalogue."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from rocmfix.cli._options import catalogue, json_option, patches_option, print_json, print_lines, print_rows

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rocmfix.catalog import Fix, PatchSet


@click.group()
def command() -> None:
    """The catalogue of known defects and their fixes."""


@command.command("list")
@json_option
@patches_option
def list_(*, as_json: bool, patches: Path | None) -> None:
    """List every fix: its set, the releases its patches were cut for, and where upstream stands."""
    from rocmfix.catalog import Listing

    catalog = catalogue(patches)
    if as_json:
        print_json(Listing(sets=tuple(each.series for each in catalog.sets)))
        return
    rows = [("FIX", "SET", "PATCHES", "UPSTREAM", "WHY")]
    for each, fix in catalog.fixes():
        stand = fix.upstream
        upstream = (stand.pr or "none").rpartition("/")[2] + (f" in {stand.since}" if stand.since else "")
        rows.append((fix.id, each.folder.name, _patches(fix), upstream, fix.why))
    print_rows(rows)


@command.command()
@click.argument("fix_id", metavar="ID")
@json_option
@patches_option
def show(fix_id: str, *, as_json: bool, patches: Path | None) -> None:
    """Show one fix: why, windows, upstream, what retires it, and each patch."""
    catalog = catalogue(patches)
    patch_set, fix = catalog.find(fix_id)
    if as_json:
        print_json(fix)
    else:
        print_lines(_shown(patch_set, fix))


def _patches(fix: Fix) -> str:
    if not fix.variant:
        return "none"
    return f"{len(fix.variant)} for {_window(fix.variant[0].since, fix.variant[-1].until)}"


def _window(since: str, until: str | None) -> str:
    return f"{since} <= v" + (f" < {until}" if until else "")


def _shown(patch_set: PatchSet, fix: Fix) -> Iterator[str]:
    stand = fix.upstream
    yield fix.id
    yield f"  why          {fix.why}"
    yield f"  set          {patch_set.name}: {patch_set.series.summary}"
    yield f"  gpu          {', '.join(patch_set.series.gfx) or 'every GPU'}"
    yield " ".join(filter(None, ("  upstream    ", stand.status.value, stand.pr, stand.since and f"in {stand.since}")))
    if stand.reason:
        yield f"               {stand.reason}"
    yield f"  retires      {fix.remove_when}"
    for shape in fix.unmended:
        yield f"  no patch     {shape.reason or 'for other shapes'}: {shape.advice}"
    for variant in fix.variant:
        patch = patch_set.patch(variant)
        yield f"  variant      {variant.file}  ({_window(variant.since, variant.until)})  sha256 {patch.digest[:16]}"
        yield f"               {patch.subject}, by {patch.author}"
        yield f"               touches {', '.join(patch.paths)}"
