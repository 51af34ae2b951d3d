"""Makes one branch and one text per root cause, ready to be a pull request."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from rocmfix.catalog import Catalog, Fix, PatchSet
from rocmfix.checkout import author_of
from rocmfix.engine import merge_conflicts
from rocmfix.errors import GiveBackError
from rocmfix.model import Outcome, PatchPlan, Skip, Status, TreeReport, Verdict
from rocmfix.patchfile import Patch
from rocmfix.plan import Patched, Wanted, carry_out, make_plan, with_merged
from rocmfix.system.git import ABSENT
from rocmfix.system.repo import FILE, Commit, Entry, Signature
from rocmfix.upstream.body import Facts, message_of, write
from rocmfix.upstream.cuda_path import prove
from rocmfix.upstream.hooks import CONFIG, run_hooks
from rocmfix.upstream.onto import Onto
from rocmfix.upstream.records import Evidence, Pack, Packs, Refusal
from rocmfix.upstream.template import PATHS
from rocmfix.verdict import judge_all


@dataclass(frozen=True)
class Order:
    """What is asked for: which fixes, and how freely."""

    fixes: tuple[str, ...]
    evidence: tuple[Evidence, ...] = ()
    anyway: bool = False
    """Also where upstream has a pull request for the defect already: a back-port, or a better one."""
    merge: bool = False
    dry_run: bool = False


def make_packs(catalog: Catalog, onto: Onto, order: Order) -> Packs:
    """A pack for each fix that the base needs, a refusal for each other one."""
    report = judge_all(catalog, onto.tree)
    packs, refused = [], []
    for fix_id in order.fixes:
        patches, fix = catalog.find(fix_id)
        verdict = next(each for each in report.verdicts if each.fix == fix_id)
        refusal = refuse(fix, verdict, order, f"{patches.name} --onto {onto.repo.folder}")
        if refusal:
            refused.append(refusal)
        else:
            packs.append(_make(catalog, onto, order, report, (patches, fix, verdict)))
    return Packs(packs=tuple(packs), refused=tuple(refused))


def refuse(fix: Fix, verdict: Verdict, order: Order, refresh: str) -> Refusal | None:
    """Why `fix` gets no pull request on a tree with this verdict, or None when it does."""
    where = f" ({verdict.file}:{verdict.line or 1})" if verdict.file else ""
    stand = fix.upstream
    match verdict.verdict:
        case Outcome.UPSTREAM | Outcome.APPLIED:
            # A pull request that is still open, or was closed, did not do it.
            by = f"{stand.pr} did it" if stand.status is Status.MERGED else "it is mended there"
            since = f", first in {stand.since}" if stand.since else ""
            return _refusal(verdict, f"{by}{since}: {verdict.reason}{where}", "nothing to send; rocmfix pr status")
        case Outcome.NOT_APPLICABLE:
            return _refusal(verdict, verdict.reason, "this branch does not have the code in question")
        case Outcome.UNMENDED:
            return _refusal(verdict, f"no patch of ours mends this shape{where}", verdict.advice or "write one")
        case Outcome.CONFLICT if not order.merge:
            return _refusal(verdict, f"{verdict.reason}{where}", f"--merge, or rocmfix refresh {refresh}")
        case Outcome.NEEDED | Outcome.CONFLICT:
            if stand.status in (Status.MERGED, Status.SUBMITTED) and not order.anyway:
                return _duplicate(verdict, stand.status, stand.pr or "", stand.since)
    return None


def _duplicate(verdict: Verdict, status: Status, pr: str, since: str | None) -> Refusal:
    if status is Status.MERGED:
        reason = f"{pr} mended it in {since}, and this base is older"
        return _refusal(verdict, reason, "git fetch upstream first; or --anyway, for a back-port to this branch")
    return _refusal(
        verdict, f"{pr} is open for the same defect", "help that one along; or --anyway, if yours is better"
    )


def _refusal(verdict: Verdict, reason: str, hint: str) -> Refusal:
    return Refusal(fix=verdict.fix, verdict=verdict.verdict, reason=reason, hint=hint)


_Judged = tuple[PatchSet, Fix, Verdict]


def _make(catalog: Catalog, onto: Onto, order: Order, report: TreeReport, judged: _Judged) -> Pack:
    patches, fix, verdict = judged
    patched = _alone(catalog, onto, report, fix, merge=order.merge)
    change = patched.changes[-1]
    hooks = run_hooks(onto.read(CONFIG), patched.before, patched.after, onto.tree)
    proofs = prove(patched.before, patched.after)
    evidence = order.evidence
    facts = Facts(onto.project, onto.base, fix, change.patch, verdict, proofs, hooks, evidence)
    text = write(facts, next(filter(None, map(onto.read, PATHS)), None))
    commit, is_new = _commit(onto, change.patch, patched.after, fix.id, dry_run=order.dry_run)
    return Pack(
        fix=fix.id,
        set=patches.name,
        project=onto.project,
        repository=onto.repository,
        base=onto.base,
        base_commit=onto.commit.id,
        branch=branch_of(fix.id),
        commit=commit,
        is_new=is_new,
        title=text.title,
        body=text.body,
        patch=onto.repo.format_patch(commit).decode(),
        files=proofs,
        hooks=hooks,
        todo=text.todo,
    )


def branch_of(fix_id: str) -> str:
    """The branch that carries a fix: fix ids are slugs, so that this is always a good ref name."""
    return f"amd/{fix_id}"


def _alone(catalog: Catalog, onto: Onto, report: TreeReport, fix: Fix, *, merge: bool) -> Patched:
    """The fix on the base and nothing else: one root cause a branch."""
    plan = make_plan(catalog, report, Wanted(fixes=(fix.id,)))
    merged: Mapping[str, Patch] = merge_conflicts(catalog, plan, onto.tree) if merge else {}
    plan = with_merged(catalog, plan, merged)
    for skip in _conflicts(plan):
        raise GiveBackError(
            f"{fix.id} does not merge into {onto.tree.source} by itself: {skip.reason}",
            hint=f"rocmfix refresh {catalog.find(fix.id)[0].name} --onto {onto.repo.folder} shows the conflict",
        )
    return carry_out(catalog, plan, onto.tree, merged)


def _conflicts(plan: PatchPlan) -> Iterator[Skip]:
    yield from (skip for skip in plan.skip if skip.verdict is Outcome.CONFLICT and not skip.unasked)


def _commit(
    onto: Onto, patch: Patch, after: Mapping[str, bytes | None], fix_id: str, *, dry_run: bool
) -> tuple[str, bool]:
    """Write the commit and point its branch to it; work tree and index are not touched."""
    repo, ref = onto.repo, f"refs/heads/{branch_of(fix_id)}"
    tree = repo.write_tree(onto.commit.id, _entries(onto, after))
    message = message_of(onto.project, patch, f"{onto.committer.name} <{onto.committer.email}>")
    author = author_of(patch)
    there = repo.log(f"{ref}^{{commit}}", limit=1)[0] if repo.resolve(ref) else None
    if there and _is_same(there, tree, onto.commit.id, message, author):
        return there.id, False
    if there and not dry_run:
        raise GiveBackError(
            f"{onto.repo.folder} has a branch {branch_of(fix_id)} with something else on it",
            details=(f"{there.id[:12]} {there.subject}",),
            hint=f"rename or delete it: git branch -m {branch_of(fix_id)} NAME",
        )
    commit = repo.write_commit(tree, [onto.commit.id], message, author=author, committer=onto.committer)
    if not dry_run:
        repo.move(ref, commit, old=ABSENT, why=f"rocmfix pr {fix_id}")
    return commit, True


def _is_same(there: Commit, tree: str, parent: str, message: str, author: Signature) -> bool:
    said = (there.tree, there.parents, there.message.rstrip("\n"), there.author)
    return said == (tree, (parent,), message.rstrip("\n"), author)


def _entries(onto: Onto, after: Mapping[str, bytes | None]) -> dict[str, Entry | None]:
    there = onto.repo.entries(onto.commit.id, *after)
    return {
        path: None if data is None else Entry(there[path].mode if path in there else FILE, onto.repo.write_blob(data))
        for path, data in after.items()
    }
