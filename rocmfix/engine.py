"""From a tree to its patched form in memory: judge, plan, carry out."""

from __future__ import annotations

from rocmfix.catalog import Catalog
from rocmfix.model import Outcome, PatchPlan
from rocmfix.patchfile import Patch
from rocmfix.plan import Patched, Wanted, carry_out, make_plan, refuse_conflicts, with_merged
from rocmfix.record import read_record
from rocmfix.tree import Tree
from rocmfix.verdict import judge_all


def patch_tree(catalog: Catalog, tree: Tree, wanted: Wanted | None = None, *, merge: bool = False) -> Patched:
    """Everything `tree` needs and `wanted` asks for, applied in memory. Raises ApplyError on a conflict.

    With `merge`, a fix that conflicts but merges cleanly in three ways is taken, and its step says so.
    """
    report = judge_all(catalog, tree, read_record(tree))
    plan = make_plan(catalog, report, wanted)
    merged = merge_conflicts(catalog, plan, tree) if merge else {}
    plan = with_merged(catalog, plan, merged)
    refuse_conflicts(catalog, plan, tree)
    return carry_out(catalog, plan, tree, merged)


def merge_conflicts(catalog: Catalog, plan: PatchPlan, tree: Tree) -> dict[str, Patch]:
    """The conflicts of `plan` that merge cleanly in three ways, by fix id, as patches for this very tree."""
    from rocmfix.merge import as_patch, propose

    conflicts = [catalog.find(skip.fix) for skip in plan.skip if skip.verdict is Outcome.CONFLICT and not skip.unasked]
    proposals = {fix.id: propose(patches, fix, tree) for patches, fix in conflicts}
    return {
        fix_id: as_patch(catalog.find(fix_id)[0], proposal, tree)
        for fix_id, proposal in proposals.items()
        if not proposal.conflicts
    }
