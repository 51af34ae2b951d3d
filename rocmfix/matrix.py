"""Judges every known release."""

from __future__ import annotations

from rocmfix.catalog import Catalog
from rocmfix.model import Matrix, TreeReport
from rocmfix.source import open_releases
from rocmfix.system.workers import spread
from rocmfix.tree import Tree
from rocmfix.verdict import judge_all


def judge_releases(catalog: Catalog, *, offline: bool = False) -> Matrix:
    """The verdict of every fix on every release, oldest release first."""

    def judged(tree: Tree) -> TreeReport:
        return judge_all(catalog, tree)

    return Matrix(trees=spread(judged, open_releases(offline=offline)))
