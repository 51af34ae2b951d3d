"""What rocmfix itself did to a tree: read from its state file, its commits' trailers, or its image's manifest."""

from __future__ import annotations

from pathlib import Path

from rocmfix.checkout import open_checkout
from rocmfix.errors import ApplyError
from rocmfix.image.tree import ImageTree
from rocmfix.source.folder import DirTree
from rocmfix.state import STATE, State, parse_state
from rocmfix.system import git, journal
from rocmfix.system.files import read_inside
from rocmfix.tree import Tree
from rocmfix.verdict import Record


def read_record(tree: Tree) -> Record:
    """Our own record of `tree`, by fix id; empty for a tree that rocmfix never touched."""
    if isinstance(tree, ImageTree):
        from rocmfix.image.source import record_of

        return record_of(tree)
    if not isinstance(tree, DirTree):
        return {}
    refuse_half_written(tree)
    state = read_state(tree)
    if state:
        return state.record()
    checkout = open_checkout(tree)
    return checkout.record() if checkout else {}


def read_state(tree: DirTree) -> State | None:
    """The state of a plain tree, or None. Raises ApplyError when it is damaged."""
    return parse_state(read_inside(tree.root, STATE), str(tree.root))


def roots_of(tree: DirTree) -> tuple[Path, ...]:
    """Where a run that writes `tree` keeps its journal: in its folder, or at the top of the checkout around it."""
    root = tree.root.resolve()
    return tuple(dict.fromkeys((root, git.toplevel(root) or root)))


def refuse_half_written(tree: DirTree) -> None:
    """Raise ApplyError while a run is writing `tree`, or where one was killed: no verdict on such files means much."""
    for root in roots_of(tree):
        if journal.is_pending(root):
            raise ApplyError(
                f"a run was killed while it wrote {root}, or is at work there",
                hint=f"rocmfix revert {tree.source} puts the files back, and so does apply --in-place",
            )
