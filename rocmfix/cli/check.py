"""`rocmfix check`: which known defects a tree has."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from rocmfix.cli._options import (
    catalogue,
    json_option,
    offline_option,
    open_source,
    patches_option,
    print_json,
    print_lines,
    show_report,
    source_help,
)

if TYPE_CHECKING:
    from rocmfix.tree import Tree


@click.command(epilog="Exit codes: 0 clean, 10 needed, 11 unmended, 12 conflict; the highest holds.")
@click.argument("source", required=False)
@click.option("--installed", is_flag=True, help="The sglang that this Python would import; nothing is imported.")
@click.option(
    "--all-releases", is_flag=True, help="Every release of the catalogue; exit code 12 on a conflict, else 0."
)
@click.option("--compile", "compiled", is_flag=True, help="Also compile the kernels that the fixes change, as HIP.")
@json_option
@offline_option
@patches_option
@source_help
@click.pass_context
def command(
    ctx: click.Context,
    source: str | None,
    *,
    installed: bool,
    all_releases: bool,
    compiled: bool,
    as_json: bool,
    offline: bool,
    patches: Path | None,
) -> None:
    """Say which known ROCm defects SOURCE has, and why, from its content alone."""
    if compiled and (all_releases or as_json):
        raise click.UsageError("--compile takes one SOURCE and has no JSON; `rocmfix guards compile` has")
    if all_releases:
        if source or installed:
            raise click.UsageError("--all-releases takes no SOURCE")
        ctx.exit(_matrix(patches, as_json=as_json, offline=offline))
    if compiled:
        _compile(open_source(source, installed=installed, offline=offline), patches)
    ctx.exit(_one(source, patches, installed=installed, as_json=as_json, offline=offline))


def _one(source: str | None, patches: Path | None, *, installed: bool, as_json: bool, offline: bool) -> int:
    from rocmfix.record import read_record
    from rocmfix.verdict import judge_all

    catalog = catalogue(patches)
    tree = open_source(source, installed=installed, offline=offline)
    report = judge_all(catalog, tree, read_record(tree))
    if as_json:
        print_json(report)
        return report.exit_code
    show_report(report, catalog, tree)
    return report.exit_code


def _compile(tree: Tree, patches: Path | None) -> None:
    """Before, after and the CUDA side of every fix that changes a kernel; a fix that does not build is an error."""
    from rocmfix.errors import GuardError
    from rocmfix.guards.compile import Kernels
    from rocmfix.guards.nvcc import find_nvcc
    from rocmfix.guards.prove import Compilers, prove
    from rocmfix.guards.report import proof_lines
    from rocmfix.guards.toolchain import ARCHITECTURES, toolchain_for

    compilers = Compilers(toolchain_for(tree.source), find_nvcc())
    proof = prove(catalogue(patches), Kernels(tree), (), ARCHITECTURES, compilers)
    if proof is None:
        click.echo(f"compiled nothing: no fix that {tree.source} needs changes a kernel")
        return
    print_lines(proof_lines(proof))
    if not proof.holds:
        raise GuardError(f"{', '.join(proof.fixes)} on {tree.source}: applies, but is not proved by the compiler")


def _matrix(patches: Path | None, *, as_json: bool, offline: bool) -> int:
    from rocmfix.matrix import judge_releases
    from rocmfix.report import matrix_lines

    catalog = catalogue(patches)
    matrix = judge_releases(catalog, offline=offline)
    if as_json:
        print_json(matrix)
        return matrix.exit_code
    print_lines(matrix_lines(matrix))
    fixes = len(list(catalog.fixes()))
    click.echo(f"{fixes} known defects judged on {len(matrix.trees)} releases; rocmfix check RELEASE gives the reasons")
    return matrix.exit_code
