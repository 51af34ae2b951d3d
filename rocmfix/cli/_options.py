"""Options and printing that several verbs share."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from rocmfix.catalog import Catalog
    from rocmfix.model import Record, TreeReport
    from rocmfix.plan import Wanted
    from rocmfix.tree import Tree

F = TypeVar("F", bound=Callable[..., Any])

GPUS = ("gfx942", "gfx950")
"""MI300X and MI325X; MI350X and MI355X."""

SOURCE_HELP = """SOURCE is a release (0.5.14), a folder (checkout, unpacked wheel, site-packages), a .whl file,
git:REF of upstream, git:URL@REF, or image:REF (in the engine or its registry; nothing is pulled)."""


def source_help(function: F) -> F:
    """What SOURCE may be, at the end of a verb's help."""
    function.__doc__ = f"{inspect.getdoc(function)}\n\n{SOURCE_HELP}"
    return function


def json_option(function: F) -> F:
    """`--json`: the full record on stdout."""
    return click.option("--json", "as_json", is_flag=True, help="Print the full record as JSON.")(function)


def patches_option(function: F) -> F:
    """`--patches DIR`: another catalogue than the shipped one."""
    return click.option(
        "--patches",
        type=click.Path(path_type=Path, file_okay=False),
        help="Use this folder of patch sets instead of the shipped catalogue.",
    )(function)


def offline_option(function: F) -> F:
    """`--offline`: the network is not used; what is missing is named."""
    return click.option("--offline", is_flag=True, help="Use only what is cached; say what is missing.")(function)


def dry_run_option(function: F) -> F:
    """`--dry-run`: print the plan and stop."""
    return click.option("--dry-run", is_flag=True, help="Print the plan and change nothing.")(function)


def wanted_options(function: F) -> F:
    """`--fix`, `--set`, `--gfx`: apply only some of what is needed."""
    for option in (
        click.option("--gfx", type=click.Choice(GPUS), help="Only sets that are for this GPU."),
        click.option("--set", "sets", multiple=True, metavar="SET", help="Only this set. Repeatable."),
        click.option("--fix", "fixes", multiple=True, metavar="ID", help="Only this fix. Repeatable."),
    ):
        function = option(function)
    return function


def catalogue(patches: Path | None) -> Catalog:
    """The catalogue that `--patches` names."""
    from rocmfix.catalog import load

    return load(patches)


def wanted(catalog: Catalog, fixes: tuple[str, ...], sets: tuple[str, ...], gfx: str | None) -> Wanted:
    """What `--fix`, `--set` and `--gfx` ask for. Raises CatalogError for a name that does not exist."""
    from rocmfix.plan import Wanted

    for fix in fixes:
        catalog.find(fix)
    for name in sets:
        catalog.find_set(name)
    return Wanted(fixes, sets, gfx)


def open_source(source: str | None, *, installed: bool = False, offline: bool = False) -> Tree:
    """The tree that SOURCE or `--installed` names."""
    from rocmfix.source import open_installed, open_tree

    if installed == (source is not None):
        raise click.UsageError("give either SOURCE or --installed")
    return open_installed() if source is None else open_tree(source, offline=offline)


def print_json(record: Record) -> None:
    """A record on stdout as JSON."""
    click.echo(record.model_dump_json(indent=2))


def print_lines(lines: Any, *, err: bool = False) -> None:
    """Lines on stdout, or on stderr with `err`."""
    for line in lines:
        click.echo(line, err=err)


def print_rows(rows: Sequence[tuple[str, ...]]) -> None:
    """Rows under their heading on stdout: one line each in a pipe, the last cell below its row on a terminal."""
    from rocmfix.report import aligned, console, folded

    print_lines(folded(rows, console().width) if on_terminal() else aligned(rows))


_NARROWEST = 60
"""Columns below which the table would cut names: lines that the terminal wraps read better."""


def show_report(report: TreeReport, catalog: Catalog, tree: Tree) -> None:
    """The verdicts of `tree`; how much was judged comes last."""
    from rocmfix.report import summary
    from rocmfix.source.folder import DirTree

    show_verdicts(report)
    if asks_for_patches(report):
        where = "--out DIR, or --in-place" if isinstance(tree, DirTree) else "--out DIR"
        click.echo(f"to mend what is needed: rocmfix apply {report.source} {where}", err=True)
    click.echo(summary(report, len(list(catalog.fixes()))))


def show_verdicts(report: TreeReport) -> None:
    """A table on a terminal, plain lines in a pipe."""
    from rocmfix.report import console, verdict_lines, verdict_table

    if on_terminal() and (terminal := console()).width >= _NARROWEST:
        terminal.print(verdict_table(report))
    else:
        print_lines(verdict_lines(report))


def asks_for_patches(report: TreeReport) -> bool:
    """Whether one of our patches would mend something."""
    from rocmfix.model import Outcome

    return any(verdict.verdict is Outcome.NEEDED for verdict in report.verdicts)


def on_terminal() -> bool:
    """Whether stdout is a terminal: people get tables, pipes get plain text."""
    return sys.stdout is not None and sys.stdout.isatty()  # None: started with stdout closed
