"""`rocmfix apply`: the patches a tree needs, and no others."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from rocmfix.cli._options import (
    SOURCE_HELP,
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
    from rocmfix.apply import write
    from rocmfix.engine import patch_tree

    catalog = catalogue(patches)
    tree = open_source(source, installed=installed, offline=offline)
    patched = patch_tree(catalog, tree, wanted(catalog, fixes, sets, gfx), merge=merge)
    where = None if dry_run else write(tree, patched, out)
    if as_json:
        print_json(patched.plan)
    else:
        _say(tree, patched, where)


command.help = f"{command.help}\n\n{SOURCE_HELP}"


def _say(tree: Tree, patched: Patched, where: str | None) -> None:
    from rocmfix.model import Outcome
    from rocmfix.report import plan_lines

    print_lines(plan_lines(patched.plan))
    skips = patched.plan.skip
    count = len(patched.plan.apply)
    done = f"applied to {where}" if where else "would be applied"
    applied = sum(skip.verdict is Outcome.APPLIED for skip in skips)
    unmended = sum(skip.verdict is Outcome.UNMENDED for skip in skips)
    already = f" ({applied} applied before)" if applied else ""
    click.echo(f"{count} of {count + len(skips)} fixes {done}, {len(skips)} skipped with the reason above{already}")
    if unmended:
        click.echo(f"{unmended} known defect(s) of {tree.source} have no patch here: see their advice above", err=True)
