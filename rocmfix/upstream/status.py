"""Says where each fix stands with upstream, and what to do about it next."""

from __future__ import annotations

from packaging.version import Version

from rocmfix.catalog import Catalog, Fix
from rocmfix.errors import GiveBackError
from rocmfix.matrix import judge_releases
from rocmfix.model import Outcome, Record, Status, TreeReport
from rocmfix.releases import releases
from rocmfix.system.github import GitHub


class Standing(Record):
    """One fix: its pull request, what that is now, the releases that need the fix, and what to do next."""

    fix: str
    pr: str | None
    state: str
    needed: str
    next: str


class Standings(Record):
    """Every fix of the catalogue."""

    newest: str
    oldest: str
    fixes: tuple[Standing, ...]


def supported(catalog: Catalog, oldest: str | None, *, offline: bool) -> tuple[TreeReport, ...]:
    """The verdicts on every release from `oldest` on, oldest first."""
    known = releases(catalog.project)
    first = known.find(oldest).version if oldest else known.versions()[0]
    every = judge_releases(catalog, offline=offline).trees
    return tuple(tree for tree in every if Version(tree.source) >= Version(first))


def standing(catalog: Catalog, trees: tuple[TreeReport, ...], github: GitHub | None) -> Standings:
    """Where every fix stands, given the supported releases; pull requests are asked of `github` unless None."""
    fixes = tuple(_standing(fix, trees, _state(fix, github)) for _, fix in catalog.fixes())
    return Standings(newest=trees[-1].source, oldest=trees[0].source, fixes=fixes)


def _standing(fix: Fix, trees: tuple[TreeReport, ...], state: str) -> Standing:
    broken = [tree.source for tree in trees if _outcome(tree, fix.id) in _BROKEN]
    needed = f"{broken[0]} to {broken[-1]}" if len(broken) > 1 else "".join(broken) or "none"
    return Standing(fix=fix.id, pr=fix.upstream.pr, state=state, needed=needed, next=_next(fix, trees, broken, state))


_BROKEN = (Outcome.NEEDED, Outcome.UNMENDED, Outcome.CONFLICT)


def _next(fix: Fix, trees: tuple[TreeReport, ...], broken: list[str], state: str) -> str:
    newest = trees[-1]
    outcome = _outcome(newest, fix.id)
    if not broken:
        return f"drop it: no release from {trees[0].source} on needs it"
    if outcome is Outcome.UPSTREAM and fix.upstream.status is not Status.MERGED:
        return f"superseded: {newest.source} has it; set status merged, with the pull request that did it"
    if outcome is Outcome.CONFLICT:
        return f"rocmfix refresh: it no longer applies to {newest.source}"
    if state == "merged" and fix.upstream.status is not Status.MERGED:
        return "set status merged in series.toml; since = the next release"
    if state == "closed" and fix.upstream.status is Status.SUBMITTED:
        return "closed without a merge: set status rejected, or send it anew"
    return _wait(fix, outcome, broken)


def _wait(fix: Fix, outcome: Outcome, broken: list[str]) -> str:
    if outcome is Outcome.UNMENDED:
        return "no patch of ours mends the newest release"
    if outcome is not Outcome.NEEDED:
        return f"keep until {broken[-1]} is no longer supported ({fix.remove_when})"
    if fix.upstream.status is Status.SUBMITTED:
        return f"help {fix.upstream.pr} along: its review wants evidence"
    return f"send it: rocmfix pr {fix.id} --onto CLONE"


def _outcome(tree: TreeReport, fix_id: str) -> Outcome:
    return next(verdict.verdict for verdict in tree.verdicts if verdict.fix == fix_id)


def _state(fix: Fix, github: GitHub | None) -> str:
    """What the pull request is now; what could not be asked is said, not guessed."""
    if fix.upstream.pr is None:
        return "none"
    if github is None:
        return f"not asked (series.toml: {fix.upstream.status.value})"
    repository, _, number = fix.upstream.pr.partition("#")
    try:
        said = github.get(f"/repos/{repository}/pulls/{number}")
    except GiveBackError as error:
        return f"not reached: {error.message}"
    return "merged" if said.get("merged") else str(said.get("state", "unknown"))
