"""What rocmfix itself did to a tree: read from its state file, its commits' trailers, or its image's manifest."""

from __future__ import annotations

from rocmfix.checkout import open_checkout
from rocmfix.image.tree import ImageTree
from rocmfix.source.folder import DirTree
from rocmfix.state import STATE, State, parse_state
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
    state = read_state(tree)
    if state:
        return state.record()
    checkout = open_checkout(tree)
    return checkout.record() if checkout else {}


def read_state(tree: DirTree) -> State | None:
    """The state of a plain tree, or None. Raises ApplyError when it is damaged."""
    return parse_state(read_inside(tree.root, STATE), str(tree.root))
