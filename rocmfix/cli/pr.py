"""`rocmfix pr`: a pull request for upstream, ready to send."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from rocmfix.cli._options import (
    catalogue,
    dry_run_option,
    json_option,
    offline_option,
    patches_option,
    print_json,
    print_lines,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rocmfix.catalog import Catalog
    from rocmfix.system.repo import Repo
    from rocmfix.upstream.records import HookResult, Pack, Packs


class _PackUnlessStatus(click.Group):
    """`rocmfix pr NAME` is `rocmfix pr pack NAME`: the name of a set or fix stands where a command would."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Put the command in that was left out."""
        if args and args[0] not in (*self.commands, "-h", "--help"):
            args = ["pack", *args]
        return super().parse_args(ctx, args)


@click.group(cls=_PackUnlessStatus)
def command() -> None:
    """Give fixes back: `rocmfix pr SET|FIX --onto CLONE` makes branches and texts for pull requests."""


@command.command(epilog="Exit codes: 0 made, 16 every fix was refused, or it could not be sent.")
@click.argument("name", metavar="SET|FIX")
@click.option(
    "--onto", required=True, type=click.Path(path_type=Path, file_okay=False, exists=True), help="A clone of upstream."
)
@click.option("--base", metavar="REF", help="Stand on this instead of upstream's main as last fetched.")
@click.option(
    "--evidence",
    multiple=True,
    metavar="[before=|after=]FILE",
    help="A smoke report, a record of sglang.bench_serving, or of `guards compile`. Repeatable.",
)
@click.option("--out", type=click.Path(path_type=Path, file_okay=False), help="Write text, patch and record here.")
@click.option(
    "--anyway", is_flag=True, help="Also where upstream has a pull request already: a back-port, or a better one."
)
@click.option("--merge", is_flag=True, help="On a conflict, accept a clean three-way merge.")
@click.option("--push", is_flag=True, help="Push the branches and open the pull requests (GH_TOKEN).")
@click.option("--remote", default="fork", show_default=True, help="The git remote that is your fork, for --push.")
@dry_run_option
@json_option
@patches_option
def pack(
    name: str,
    *,
    onto: Path,
    base: str | None,
    evidence: tuple[str, ...],
    out: Path | None,
    anyway: bool,
    merge: bool,
    push: bool,
    remote: str,
    dry_run: bool,
    as_json: bool,
    patches: Path | None,
) -> None:
    """Make a branch with one signed-off commit, and a text in upstream's template, for each root cause.

    Works offline on the clone given by --onto; nothing in its work tree changes, and nothing is pushed without
    --push. What was not measured is a visible TODO in the text, and such a pull request is opened as a draft.
    """
    from rocmfix.catalog import load
    from rocmfix.system.repo import Blobs
    from rocmfix.system.surroundings import now
    from rocmfix.upstream.evidence import read_evidence
    from rocmfix.upstream.onto import open_clone, open_onto
    from rocmfix.upstream.pack import Order, make_packs

    repo = open_clone(onto)
    with Blobs(repo) as blobs:
        target = open_onto(repo.folder, base, blobs, seconds=int(now().timestamp()))
        catalog = load(patches, target.project)
        records = tuple(record for given in evidence for record in read_evidence(given))
        order = Order(_fixes(catalog, name), records, anyway=anyway, merge=merge, dry_run=dry_run)
        packs = make_packs(catalog, target, order)
    if push and not dry_run:
        packs = _given(packs, repo, remote, out)
    if out and not dry_run:
        _write(packs, out)
    if as_json:
        print_json(packs)
    else:
        print_lines(_shown(packs, with_text=out is None))
        if out and packs.packs:
            # Plain `git am` takes [AMD] out of the subject, as it does [PATCH].
            click.echo(f"written to {out}; by hand: git am --keep-non-patch {out}/FIX.patch")
    _refuse_nothing(packs, name)


@command.command(epilog="Exit codes: 0 said, 3 no wheel of a release (--offline).")
@click.option(
    "--oldest", metavar="RELEASE", help="The oldest release you still build for; by default the oldest known."
)
@json_option
@offline_option
@patches_option
def status(*, oldest: str | None, as_json: bool, offline: bool, patches: Path | None) -> None:
    """Say of each fix whether it is merged, superseded, or ready to drop, and what to do next."""
    from rocmfix.report import aligned
    from rocmfix.system.github import GitHub
    from rocmfix.upstream.status import standing, supported

    catalog = catalogue(patches)
    trees = supported(catalog, oldest, offline=offline)
    stand = standing(catalog, trees, None if offline else GitHub.from_environment())
    if as_json:
        print_json(stand)
        return
    rows = [("FIX", "PULL REQUEST", "STATE", "NEEDED IN", "NEXT")]
    rows += [(each.fix, each.pr or "none", each.state, each.needed, each.next) for each in stand.fixes]
    print_lines(aligned(rows))


def _fixes(catalog: Catalog, name: str) -> tuple[str, ...]:
    """The fixes that a set's or fix's name stands for."""
    from rocmfix.errors import CatalogError

    if any(fix.id == name for _, fix in catalog.fixes()):
        return (name,)
    try:
        return tuple(fix.id for fix in catalog.find_set(name).series.fix)
    except CatalogError as error:
        raise CatalogError(f"no set or fix is called {name[:80]}", hint=error.hint) from None


def _given(packs: Packs, repo: Repo, remote: str, out: Path | None) -> Packs:
    """Every pack pushed and opened. Where one fails, what was opened before it is told, and all texts are written."""
    from rocmfix.errors import GiveBackError
    from rocmfix.system.github import GitHub
    from rocmfix.upstream.give import give

    github, done = GitHub.from_environment(), []
    for number, each in enumerate(packs.packs):
        try:
            done.append(give(each, repo, remote, github))
        except GiveBackError as error:  # noqa: PERF203 - a few requests
            if out:
                _write(packs.model_copy(update={"packs": (*done, *packs.packs[number:])}), out)
            opened = (f"opened {pack.url}" for pack in done)
            raise GiveBackError(error.message, details=(*opened, *error.details), hint=error.hint) from None
    return packs.model_copy(update={"packs": tuple(done)})


def _write(packs: Packs, out: Path) -> None:
    from rocmfix.system.files import write_atomic

    for each in packs.packs:
        write_atomic(out / f"{each.fix}.md", f"{each.title}\n\n{each.body}".encode())
        write_atomic(out / f"{each.fix}.patch", each.patch.encode())
        write_atomic(out / f"{each.fix}.json", f"{each.model_dump_json(indent=2)}\n".encode())


def _shown(packs: Packs, *, with_text: bool) -> Iterator[str]:
    for each in packs.packs:
        yield from _lines(each)
        if with_text:
            yield f"\n{each.body}"
    for refusal in packs.refused:
        yield f"refused  {refusal.fix}  {refusal.verdict.value}: {refusal.reason}"
        yield f"         {refusal.hint}"


def _lines(each: Pack) -> Iterator[str]:
    there = "" if each.is_new else " (there already)"
    yield f"made     {each.fix}  branch {each.branch}{there}, for {each.repository} {each.base}"
    yield f"         {each.title}"
    yield from (f"         {f.path} +{f.added} -{f.removed}; CUDA {f.cuda.value}: {f.why}" for f in each.files)
    yield from _hook_lines(each.hooks)
    yield from (f"         TODO {todo}" for todo in each.todo)
    if each.url:
        yield f"         {each.url}"


def _hook_lines(hooks: tuple[HookResult, ...]) -> Iterator[str]:
    """Upstream's hooks: the clean ones by name, each other one with its reason or what it would change."""
    from rocmfix.upstream.records import HookState

    clean = [hook.hook for hook in hooks if hook.state is HookState.CLEAN]
    if clean:
        yield f"         pre-commit clean: {', '.join(clean)}"
    for hook in hooks:
        if hook.state not in (HookState.CLEAN, HookState.NO_FILES):
            yield f"         pre-commit {hook.hook} {hook.pin}: {hook.state.value}; {hook.why}".rstrip("; ")
            yield from (f"           {line}" for line in hook.said[:5])


def _refuse_nothing(packs: Packs, name: str) -> None:
    from rocmfix.errors import GiveBackError

    if not packs.packs:
        raise GiveBackError(f"nothing of {name} to send", hint="; ".join(dict.fromkeys(r.hint for r in packs.refused)))
