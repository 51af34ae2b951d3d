"""Judges every known release."""

from __future__ import annotations

from rocmfix.catalog import Catalog
from rocmfix.model import Matrix
from rocmfix.source import open_releases
from rocmfix.verdict import judge_all


def judge_releases(catalog: Catalog, *, offline: bool = False) -> Matrix:
    """The verdict of every fix on every release, oldest release first."""
    return Matrix(trees=tuple(judge_all(catalog, tree) for tree in open_releases(offline=offline)))
