"""Every known defect on every release: what the facts say, and that no verdict reads a version."""

from collections.abc import Iterable
from dataclasses import dataclass

import pytest
from packaging.version import Version

from rocmfix.catalog import Fix, load
from rocmfix.model import How, Outcome, TreeReport, Verdict
from rocmfix.releases import releases
from rocmfix.tree import Tree
from rocmfix.verdict import judge_all

pytestmark = pytest.mark.upstream

RELEASES = tuple(release.version for release in releases().release)

FACTS = """
jit-fused-metadata-guard      - - B B B B B B B B B F F F F F F F F F F
jit-negative-cache            B B B B B B B B B B B B B B B B B B B B B
quark-glm-nextn               - - B B B B B B B B B B B F F F F F F F F
quark-shared-expert-gate      - - - - - - - - - - - - - - - B F F F F F
dsa-topk-v2-off               - - - - - - - - - - - B B F F F F F F F F
fp8-bpreshuffle-gfx950-off    - - - - - ? ? ? B B B F F F F F F F F F F
qwen35-mtp-quark              - - B B B B P P P P P P P P P P P P F F F
qwen35-text-moe-shared        - - - - - - - - - - - - - - B B B B F F F
quark-w8a8-moe-aiter          - - B B B B B B B B B B B B B B B B F F F
dsa-draft-extend-graph-hip    - - - - - - - - - - - B B B B B F F F F F
dsa-dual-graph-dp             - - - - - - - - - - - - - - - B B B B B B
dsa-dp-host-sync              - - - - - - - - - - - B B B B B B B B B B
dsa-indexer-padded-rows       - - B B B B B B B B B B B B B B B B B B B
hicache-hip-host-pointer      B B B B B B B B B B B B B B B B B m m m m
hicache-writeback-gate        - - - - - - - - - - - - - B i i i i i i i
kpool-rocm                    - - - - - - - - - - - - - - - - - B F F F
topk-sigmoid-jit-hip          - - - - - - - - - - - - - c c c c c c c c
draft-graph-dp-vote           - - - - - - - - - - - B B B B B B B F F F
mooncake-early-send-event     - - - - - - - - - - - B B B B B B B B F F
spec-sampling-hip             B B B B B B B B B B B B B B B B B B F F F
"""
"""One letter a release: B broken, F fixed, - not there, P partly fixed, c conditional, m mitigated,
i inconsistent but perhaps tolerated, ? suspect.

Where the reports only suspected `mooncake-early-send-event`, the sources decide: `maybe_send_cached_prefix_chunk` came
with 0.5.15, where nothing waits for the forward; before, chunks are sent once their results are there.
"""

HEDGES = {"P": "partly mended", "c": "conditional", "i": "inconsistent", "?": "suspect"}
"""What a reason begins with where the facts are not certain."""

CATALOG = load()
FIXES = {fix.id: fix for _, fix in CATALOG.fixes()}
ROWS = {row[0]: dict(zip(RELEASES, row[1:], strict=True)) for row in map(str.split, FACTS.strip().splitlines())}


@dataclass(frozen=True)
class Unlabelled:
    """A tree that cannot say which release it is: no version file, and no version string in any other."""

    tree: Tree
    version: bytes
    source: str = "unlabelled"
    release: None = None

    def read(self, path: str) -> bytes | None:
        if path.endswith(("/version.py", "/_version.py", "/METADATA")):
            return None
        data = self.tree.read(path)
        return None if data is None else data.replace(self.version, b"?" * len(self.version))

    def shown(self, path: str) -> str:
        return self.tree.shown(path)

    def paths(self, under: str) -> Iterable[str]:
        return self.tree.paths(under)


@pytest.fixture(scope="module", params=RELEASES)
def report(request, release_tree) -> TreeReport:
    return judge_all(CATALOG, release_tree(request.param))


def cut_for(fix: Fix, release: str) -> bool:
    version = Version(release)
    return any(Version(v.since) <= version < Version(v.until or "9999") for v in fix.variant)


def agrees(verdict: Verdict, letter: str, release: str) -> bool:
    match letter:
        case "-":
            return verdict.verdict is Outcome.NOT_APPLICABLE
        case "F":
            return verdict.verdict is Outcome.UPSTREAM
        case "m":
            return verdict.how is How.DIFFERENTLY and "mitigated" in verdict.reason
        case "B" if cut_for(FIXES[verdict.fix], release):
            return verdict.verdict is Outcome.NEEDED
        case "B":
            return verdict.verdict is Outcome.UNMENDED and not verdict.reason.startswith(tuple(HEDGES.values()))
        case _:
            return verdict.verdict is Outcome.UNMENDED and verdict.reason.startswith(HEDGES[letter])


def test_the_facts_name_every_fix_once():
    assert set(ROWS) == set(FIXES)


def test_every_verdict_agrees_with_the_facts(report):
    assert report.release is not None
    wrong = {
        verdict.fix: f"facts: {ROWS[verdict.fix][report.release]}, verdict: {verdict.verdict.value}: {verdict.reason}"
        for verdict in report.verdicts
        if not agrees(verdict, ROWS[verdict.fix][report.release], report.release)
    }
    assert not wrong


def test_every_verdict_says_why_and_where(report):
    """What is not in a tree has no line there; everything else has. What no patch mends has advice."""
    for verdict in report.verdicts:
        assert verdict.reason, verdict
        if verdict.verdict is not Outcome.NOT_APPLICABLE:
            assert verdict.file, verdict
            assert verdict.line, verdict
        assert bool(verdict.advice) == (verdict.verdict is Outcome.UNMENDED), verdict


def test_no_verdict_changes_when_no_file_tells_the_release(report, release_tree):
    assert report.release is not None
    tree = release_tree(report.release)
    unlabelled = judge_all(CATALOG, Unlabelled(tree, report.release.encode()))
    assert unlabelled.verdicts == report.verdicts
