"""What only real trees can show of a catalogue: conflicts, idle variants, fixes that do not fit together."""

from __future__ import annotations

from collections.abc import Iterator

from packaging.version import Version

from rocmfix.catalog import Catalog, Fix, Variant
from rocmfix.errors import ApplyError
from rocmfix.model import Outcome, TreeReport
from rocmfix.plan import carry_out, make_plan
from rocmfix.source import open_releases
from rocmfix.tree import Tree
from rocmfix.verdict import judge_all


def lint_releases(catalog: Catalog, *, offline: bool = False) -> tuple[int, list[str]]:
    """(how many releases were judged, what is wrong on them)."""
    trees = open_releases(offline=offline)
    reports = [judge_all(catalog, tree) for tree in trees]
    faults = [fault for tree, report in zip(trees, reports, strict=True) for fault in _faults(catalog, tree, report)]
    return len(trees), [*faults, *_idle(catalog, reports)]


def _faults(catalog: Catalog, tree: Tree, report: TreeReport) -> Iterator[str]:
    for verdict in report.verdicts:
        if verdict.verdict is Outcome.CONFLICT:
            yield f"{tree.source}: {verdict.fix} is a conflict: {verdict.reason}"
        variant = _variant(catalog, verdict.fix, verdict.variant)
        if verdict.verdict is Outcome.NEEDED and variant and not _in_window(variant, tree.source):
            yield f"{tree.source}: {verdict.fix} needs {variant.file}, whose window says otherwise"
    try:
        carry_out(catalog, make_plan(catalog, report), tree)
    except ApplyError as error:
        yield f"{tree.source}: {error.message}"


def _idle(catalog: Catalog, reports: list[TreeReport]) -> Iterator[str]:
    """Variants and fixes that no known release needs: nothing proves them."""
    used = {verdict.variant for report in reports for verdict in report.verdicts if verdict.verdict is Outcome.NEEDED}
    seen = {v.fix for report in reports for v in report.verdicts if v.verdict in (Outcome.NEEDED, Outcome.UNMENDED)}
    for patches, fix in catalog.fixes():
        yield from (f"{patches.name}: {v.file} is needed by no release" for v in fix.variant if v.file not in used)
        if fix.id not in seen:
            yield f"{patches.name}: {fix.id} is broken in no release"


def _variant(catalog: Catalog, fix_id: str, file: str | None) -> Variant | None:
    fix: Fix = catalog.find(fix_id)[1]
    return next((variant for variant in fix.variant if variant.file == file), None)


def _in_window(variant: Variant, release: str) -> bool:
    version = Version(release)
    return Version(variant.since) <= version and (not variant.until or version < Version(variant.until))
