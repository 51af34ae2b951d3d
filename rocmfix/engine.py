"""From a tree to its patched form in memory: judge, plan, carry out."""

from __future__ import annotations

from rocmfix.catalog import Catalog
from rocmfix.plan import Patched, Wanted, carry_out, make_plan, refuse_conflicts
from rocmfix.record import read_record
from rocmfix.tree import Tree
from rocmfix.verdict import judge_all


def patch_tree(catalog: Catalog, tree: Tree, wanted: Wanted | None = None, *, merge: bool = False) -> Patched:
    """Everything `tree` needs and `wanted` asks for, applied in memory. Raises ApplyError on a conflict.

    With `merge`, a fix that conflicts but merges cleanly in three ways is taken, and its step says so.
    """
    report = judge_all(catalog, tree, read_record(tree))
    plan = make_plan(catalog, report, wanted)
    refuse_conflicts(catalog, plan, tree)
    return carry_out(catalog, plan, tree)
