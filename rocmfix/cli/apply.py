"""`rocmfix apply`: the patches a tree needs, and no others."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from rocmfix.cli._options import (
    catalogue,
    dry_run_option,
    json_option,
    offline_option,
    open_source,
    patches_option,
    print_json,
    print_lines,
    show_report,
    source_help,
    wanted,
    wanted_options,
)

if TYPE_CHECKING:
    from rocmfix.catalog import Catalog
    from rocmfix.plan import Patched
    from rocmfix.tree import Tree


@click.command(epilog="Exit codes: 0 done or nothing to do, 3 no such source, 5 refused; then nothing was changed.")
@click.argument("source", required=False)
@click.option("--installed", is_flag=True, help="The sglang that this Python would import (with --in-place).")
@click.option("--out", type=click.Path(path_type=Path), help="Write the patched tree to this new folder.")
@click.option("--in-place", is_flag=True, help="Patch SOURCE itself; in a checkout, one commit per fix.")
@click.option("--merge", is_flag=True, help="On a conflict, accept a clean three-way merge, and say so.")
@wanted_options
@dry_run_option
@json_option
@offline_option
@patches_option
@source_help
def command(
    source: str | None,
    *,
    installed: bool,
    out: Path | None,
    in_place: bool,
    merge: bool,
    fixes: tuple[str, ...],
    sets: tuple[str, ...],
    gfx: str | None,
    dry_run: bool,
    as_json: bool,
    offline: bool,
    patches: Path | None,
) -> None:
    """Apply to SOURCE every fix it needs: all of them, or nothing at all."""
    if not dry_run and in_place == (out is not None):
        raise click.UsageError("say where: --out DIR or --in-place (or --dry-run)")
    from rocmfix.apply import recover, write
    from rocmfix.engine import patch_tree

    catalog = catalogue(patches)
    tree = open_source(source, installed=installed, offline=offline)
    restored = recover(tree) if in_place and not dry_run else ()
    if restored:
        click.echo(f"put back {len(restored)} file(s) that a killed run had written", err=True)
    patched = patch_tree(catalog, tree, wanted(catalog, fixes, sets, gfx), merge=merge)
    where = None if dry_run else write(tree, patched, out)
    if as_json:
        print_json(patched.plan)
        return
    _say(patched, where)
    if where:
        _prove(catalog, open_source(str(out)) if out else tree)


def _say(patched: Patched, where: str | None) -> None:
    from rocmfix.model import Outcome
    from rocmfix.report import plan_lines

    skips, count = patched.plan.skip, len(patched.plan.apply)
    print_lines(plan_lines(patched.plan, in_full=where is None))
    applied = sum(skip.verdict is Outcome.APPLIED for skip in skips)
    already = f" ({applied} applied before)" if applied else ""
    done = f"applied to {where}" if where else "would be applied"
    click.echo(f"{count} of {count + len(skips)} fixes {done}, {len(skips)} skipped{already}")


def _prove(catalog: Catalog, tree: Tree) -> None:
    """Judge what was written, read back from the disk."""
    from rocmfix.record import read_record
    from rocmfix.verdict import judge_all

    click.echo()
    show_report(judge_all(catalog, tree, read_record(tree)), catalog, tree)
