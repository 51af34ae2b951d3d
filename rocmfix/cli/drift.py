"""`rocmfix drift`: what changed upstream since the last look."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from rocmfix.cli._options import catalogue, json_option, offline_option, patches_option, print_json, print_lines

if TYPE_CHECKING:
    from rocmfix.catalog import Catalog
    from rocmfix.upstream.gather import Source
    from rocmfix.upstream.looks import Looks
    from rocmfix.upstream.propose import Proposal
    from rocmfix.upstream.watch import Gap, Watch


@click.command(epilog="Exit codes: 0 looked, 12 a source is in conflict; what was not reached is named.")
@click.argument("sources", nargs=-1, metavar="[SOURCE]...")
@click.option(
    "--state",
    type=click.Path(path_type=Path, dir_okay=False),
    default=Path("drift.json"),
    show_default=True,
    help="The record of the last run; read, and written anew.",
)
@click.option(
    "--out", type=click.Path(path_type=Path, file_okay=False), help="Write index.html, drift.md, badge.svg here."
)
@click.option("--oldest", metavar="RELEASE", help="The oldest release you still build for; by default as last time.")
@click.option("--issue", metavar="OWNER/REPO", help="Keep one issue there up to date with it (GH_TOKEN).")
@click.option("--dry-run", is_flag=True, help="Look and print; write neither state nor issue.")
@json_option
@offline_option
@patches_option
@click.pass_context
def command(
    ctx: click.Context,
    sources: tuple[str, ...],
    *,
    state: Path,
    out: Path | None,
    oldest: str | None,
    issue: str | None,
    dry_run: bool,
    as_json: bool,
    offline: bool,
    patches: Path | None,
) -> None:
    """Judge every fix on every release and on each SOURCE, and say what changed since the last run.

    SOURCE is git:REF of upstream, image:REF, or a folder; without any, upstream's main (git:main). Told are fixes
    that became needed, mended or useless, CUDA-only code that ROCm now comes to, and tuned tables that the AITER
    pinned by docker/rocm.Dockerfile cannot run. A source that cannot be reached is named as such and keeps its last
    verdicts, marked as old.
    """
    from rocmfix.upstream.propose import proposals

    catalog = catalogue(patches)
    now = _watch(catalog, sources or ("git:main",), state, oldest, offline=offline)
    found = proposals(catalog, now)
    if not dry_run:
        _write(catalog, now, found, state, out)
        if issue:
            _keep_issue(catalog, now, found, issue)
    if as_json:
        print_json(now)
    else:
        from rocmfix.upstream.page import lines

        print_lines(lines(now, found))
    ctx.exit(now.exit_code)


def _watch(catalog: Catalog, specs: tuple[str, ...], state: Path, oldest: str | None, *, offline: bool) -> Watch:
    from rocmfix.releases import releases
    from rocmfix.system.surroundings import now
    from rocmfix.upstream.gather import Setting, other_source, release_sources, watch
    from rocmfix.upstream.watch import parse_watch

    project = catalog.project
    last = parse_watch(state.read_bytes() if state.is_file() else None, str(state))
    known = releases(project)
    first = known.find(oldest).version if oldest else last.oldest if last else known.versions()[0]
    new, gaps = _unlisted(project, offline=offline)
    sources = (
        *release_sources(project, offline=offline),
        *new,
        *(other_source(spec, project, offline=offline) for spec in specs),
    )
    setting = Setting(day=f"{now():%Y-%m-%d}", oldest=first, looks=_looks(project, offline=offline))
    return watch(catalog, sources, last, setting, gaps)


def _looks(project: str, *, offline: bool) -> Looks | None:
    """CUDA-only code and AITER tables are questions to an sglang."""
    from rocmfix import __version__
    from rocmfix.aiter.sources import read_index
    from rocmfix.shipped import shipped
    from rocmfix.upstream.looks import looks

    if project != "sglang":
        return None
    return looks(__version__, read_index(shipped("dockerfiles") / "aiter/index.toml"), offline=offline)


def _unlisted(project: str, *, offline: bool) -> tuple[tuple[Source, ...], tuple[Gap, ...]]:
    """Releases newer than the catalogue's, as the user's package index lists them."""
    from rocmfix.errors import RocmfixError
    from rocmfix.system.pip_index import index_versions
    from rocmfix.upstream.gather import unlisted
    from rocmfix.upstream.watch import Gap

    if offline:
        return (), (Gap(what="package index", why="--offline"),)
    try:
        return tuple(unlisted(project, index_versions(project))), ()
    except RocmfixError as error:
        return (), (Gap(what="package index", why=error.message),)


def _write(catalog: Catalog, now: Watch, found: tuple[Proposal, ...], state: Path, out: Path | None) -> None:
    from rocmfix.system.files import write_atomic
    from rocmfix.system.surroundings import add_to_step_summary
    from rocmfix.upstream import page, webpage

    diffs = _diffs(catalog, found)
    write_atomic(state.absolute(), f"{now.model_dump_json(indent=1)}\n".encode())
    text = page.markdown(now, found, diffs)
    add_to_step_summary(text)
    if out:
        write_atomic(out / "index.html", webpage.html(catalog, now, found, diffs).encode())
        write_atomic(out / "drift.md", text.encode())
        write_atomic(out / "badge.svg", page.badge(now).encode())


def _keep_issue(catalog: Catalog, now: Watch, found: tuple[Proposal, ...], repository: str) -> None:
    from rocmfix.system.github import GitHub
    from rocmfix.upstream.issue import keep
    from rocmfix.upstream.page import markdown

    url = keep(GitHub.from_environment(), repository, now, markdown(now, found, _diffs(catalog, found)))
    click.echo(f"issue: {url}" if url else "no issue: nothing new, and none is open", err=True)


def _diffs(catalog: Catalog, found: tuple[Proposal, ...]) -> tuple[str, ...]:
    from rocmfix.upstream.propose import as_diff

    return tuple(
        as_diff(each, (each.folder / "series.toml").read_text(encoding="utf-8"), found) for each in catalog.sets
    )
