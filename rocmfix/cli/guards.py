"""`rocmfix guards`: CUDA-only sources on ROCm: find them, guard them, compile them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import click

from rocmfix.cli._image import progress
from rocmfix.cli._options import (
    SOURCE_HELP,
    catalogue,
    json_option,
    offline_option,
    open_source,
    print_json,
    print_lines,
)

if TYPE_CHECKING:
    from rocmfix.guards.make import Made

_ARCHS = ("gfx942", "gfx950")


def _author(_ctx: click.Context, _option: click.Parameter, text: str) -> str:
    if not re.fullmatch(r"[^<>\x00-\x1f\x7f]*[^<>\s] <[^<>@\s]+@[^<>@\s]+>", text):
        raise click.BadParameter("who signs a patch is 'Name <name@example.org>', on one line")
    return text


@click.group()
def command() -> None:
    """Find sources that hipcc cannot build, guard them, and prove that they compile."""


@command.command(epilog="Exit codes: 0 scanned, 1 --against found something that became dangerous, 3 no such SOURCE.")
@click.argument("source")
@click.option("--against", metavar="SOURCE", help="A newer tree: show what became dangerous in it.")
@click.option("--all", "everything", is_flag=True, help="Guarded and unreachable lines too.")
@json_option
@offline_option
@click.pass_context
def scan(
    ctx: click.Context, source: str, *, against: str | None, everything: bool, as_json: bool, offline: bool
) -> None:
    """Show every CUDA-only include and construct of SOURCE, and which of them ROCm compiles."""
    from rocmfix.guards import report
    from rocmfix.guards.findings import drift
    from rocmfix.guards.scan import scan as scanned

    found = scanned(open_source(source, offline=offline))
    if against is not None:
        changed = drift(found, scanned(open_source(against, offline=offline)))
        if as_json:
            print_json(changed)
        else:
            print_lines(report.drift_lines(changed))
        ctx.exit(1 if changed.added else 0)
    if as_json:
        click.echo(report.findings_json(found))
    else:
        print_lines(report.scan_lines(found, everything=everything))


scan.help = f"{scan.help}\n\n{SOURCE_HELP}"


@command.command(epilog="Exit codes: 0 every file compiles, 1 one does not, 3 no such SOURCE or FILE, 6 no compiler.")
@click.argument("source")
@click.argument("files", nargs=-1, metavar="[FILE]...")
@click.option("--patched", is_flag=True, help="Compile before and after the fixes SOURCE needs, and compare for CUDA.")
@click.option("--arch", "archs", multiple=True, type=click.Choice(_ARCHS), help="Only this GPU. Repeatable.")
@click.option("--compiler", help="This hipcc instead of the one in /opt/rocm or on PATH.")
@click.option(
    "--toolchain", type=click.Path(path_type=Path, file_okay=False), help="Where ci/hip-toolchain put its files."
)
@json_option
@offline_option
@click.pass_context
def compile(  # noqa: A001 - the verb
    ctx: click.Context,
    source: str,
    files: tuple[str, ...],
    *,
    patched: bool,
    archs: tuple[str, ...],
    compiler: str | None,
    toolchain: Path | None,
    as_json: bool,
    offline: bool,
) -> None:
    """Compile SOURCE's kernels as HIP for gfx942 and gfx950, as sglang's own JIT would; no GPU is needed."""
    from rocmfix.errors import GuardError
    from rocmfix.guards import report
    from rocmfix.guards.compile import Kernels, build
    from rocmfix.guards.nvcc import find_nvcc
    from rocmfix.guards.prove import Compilers, prove
    from rocmfix.guards.toolchain import toolchain_for

    kernels = Kernels(open_source(source, offline=offline))
    wanted = kernels.named(files)  # a slip in what was typed is said also where there is no compiler
    found = toolchain_for(source, toolchain, compiler)
    if patched:
        proof = prove(catalogue(None), kernels, files, archs or _ARCHS, Compilers(found, find_nvcc(toolchain)))
        if proof is None:
            changed = " or ".join(files) or "a kernel"
            raise GuardError(f"no fix that {source} needs changes {changed}", hint=f"rocmfix check {source}")
        if as_json:
            print_json(proof)
        else:
            print_lines(report.proof_lines(proof))
        ctx.exit(0 if proof.holds else 1)
    built = build(kernels, wanted or kernels.reachable, archs or _ARCHS, found)
    if not files:
        built = built.leaving(kernels)
    if as_json:
        print_json(built)
    else:
        print_lines(report.build_lines(built))
    ctx.exit(0 if built.is_clean else 1)


@command.command(epilog="Exit codes: 0 every file has its guard, 3 no such SOURCE or FILE, 15 a guard was refused.")
@click.argument("files", nargs=-1, metavar="[FILE]...")
@click.option("--in", "source", required=True, metavar="SOURCE", help="The tree the files are in.")
@click.option("--author", required=True, callback=_author, help="Who signs the patch: 'Name <address>'.")
@click.option("--out", type=click.Path(path_type=Path, file_okay=False), help="Write the patches into this folder.")
@click.option("--arch", "archs", multiple=True, type=click.Choice(_ARCHS), help="Prove for this GPU only. Repeatable.")
@click.option("--compiler", help="This hipcc instead of the one in /opt/rocm or on PATH.")
@click.option(
    "--toolchain", type=click.Path(path_type=Path, file_okay=False), help="Where ci/hip-toolchain put its files."
)
@json_option
@offline_option
def make(
    files: tuple[str, ...],
    source: str,
    *,
    author: str,
    out: Path | None,
    archs: tuple[str, ...],
    compiler: str | None,
    toolchain: Path | None,
    as_json: bool,
    offline: bool,
) -> None:
    """Make the guard that a maintainer would merge for each FILE, proved by the compiler, or say what is in the way.

    FILE is a kernel or a header; without one, every file with a CUDA-only include that ROCm comes to is tried.
    """
    from rocmfix.errors import GuardError
    from rocmfix.guards import report
    from rocmfix.guards.compile import Kernels
    from rocmfix.guards.make import Makings, make as made_for, patch_text
    from rocmfix.guards.toolchain import toolchain_for
    from rocmfix.system.clock import mail_date
    from rocmfix.system.files import make_folder, write_atomic

    kernels = Kernels(open_source(source, offline=offline))
    wanted = [path for name in files for path in kernels.spelled(name)] if files else kernels.guardable()
    if out:
        make_folder(out)
    print_lines(report.unread_lines(kernels.program.unread), err=True)
    if not wanted:
        click.echo(f"nothing to guard: no file of {source} has a CUDA-only include that ROCm comes to", err=True)
        return
    found = toolchain_for(source, toolchain, compiler)
    made: list[Made] = []
    written: list[str] = []
    with progress() as reporting:
        for number, file in enumerate(dict.fromkeys(wanted), 1):
            with reporting.step(f"{number} of {len(wanted)}: {kernels.tree.shown(file)}"):
                each = made_for(kernels, file, archs or _ARCHS, found)
            made.append(each)
            text = patch_text(each, author, mail_date()) if each.patch else ""
            if text and out:
                written.append(report.patch_name(each, written))
                write_atomic(out / written[-1], text.encode())
                click.echo(report.made_line(each, str(out / written[-1])), err=as_json)
            elif text and not as_json:
                click.echo(text)
    if as_json:
        print_json(Makings(files=tuple(made)))
    refused = [each for each in made if each.patch is None]
    if refused:
        details = tuple(line for each in refused for line in report.refusal_lines(each))
        raise GuardError(f"no guard for {len(refused)} of {len(made)} files", details=details)
