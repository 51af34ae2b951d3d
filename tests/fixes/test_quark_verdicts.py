"""The verdicts of the Quark fixes, on releases and on trees that are no release."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from rocmfix.catalog import load
from rocmfix.hunks import Applied, apply_changes
from rocmfix.model import How, Outcome, Verdict
from rocmfix.tree import Overlay, Tree
from rocmfix.verdict import judge

pytestmark = pytest.mark.upstream
Release = Callable[[str], Tree]

MODELS = "python/sglang/srt/models"
NEXTN, GLM, DEEPSEEK = f"{MODELS}/deepseek_nextn.py", f"{MODELS}/glm4_moe.py", f"{MODELS}/deepseek_v2.py"
DISPATCH = "python/sglang/srt/configs/model_config.py"
QUARK = "python/sglang/srt/layers/quantization/quark/quark.py"

NO, BAD, HAD, MEND = Outcome.NOT_APPLICABLE, Outcome.UNMENDED, Outcome.UPSTREAM, Outcome.NEEDED
MATRIX = {
    "0.5.8": (NO, NO), "0.5.8.post1": (NO, NO), "0.5.9": (BAD, NO), "0.5.10": (BAD, NO), "0.5.10.post1": (BAD, NO),
    "0.5.11": (MEND, NO), "0.5.12": (MEND, NO), "0.5.12.post1": (MEND, NO), "0.5.13": (MEND, NO),
    "0.5.13.post1": (MEND, NO), "0.5.14": (MEND, NO), "0.5.15": (MEND, NO), "0.5.15.post1": (MEND, NO),
    "0.5.16": (HAD, NO), "0.5.17": (HAD, NO), "0.5.18": (HAD, MEND), "0.5.19": (HAD, HAD), "0.5.20": (HAD, HAD),
    "0.5.21": (HAD, HAD), "0.5.22": (HAD, HAD), "0.5.23": (HAD, HAD),
}  # fmt: skip


def verdict(fix_id: str, tree: Tree) -> Verdict:
    patches, fix = load().find(fix_id)
    return judge(patches, fix, tree.read)


def mended(fix_id: str, tree: Tree) -> Overlay:
    """The tree with the fix's only variant applied."""
    patches, fix = load().find(fix_id)
    (variant,) = fix.variant
    done = apply_changes(patches.patch(variant).changes, tree.read)
    assert isinstance(done, Applied)
    return Overlay(tree, done.files)


def taking(tree: Tree, other: Tree, *paths: str) -> Overlay:
    """`tree` with these files as `other` has them."""
    return Overlay(tree, {path: other.read(path) for path in paths})


def edited(tree: Tree, path: str, old: str, new: str) -> Overlay:
    text = (tree.read(path) or b"").decode()
    assert text.count(old) == 1
    return Overlay(tree, {path: text.replace(old, new).encode()})


@pytest.mark.parametrize("version", MATRIX)
def test_agrees_with_the_facts_on_every_release(release_tree: Release, version: str) -> None:
    tree = release_tree(version)
    verdicts = [verdict(fix, tree) for fix in ("quark-glm-nextn", "quark-shared-expert-gate")]
    assert tuple(each.verdict for each in verdicts) == MATRIX[version]
    assert all(each.reason and each.file for each in verdicts)
    assert all(each.line for each in verdicts if each.verdict is not NO)
    assert all(each.advice for each in verdicts if each.verdict is BAD)


@pytest.mark.parametrize(
    ("base", "donor", "paths", "outcome"),
    [
        ("0.5.15.post1", "0.5.16", (GLM,), MEND),  # the class, which nothing selects
        ("0.5.15.post1", "0.5.16", (DISPATCH,), MEND),  # a dispatch to a class that is not there
        ("0.5.15.post1", "0.5.16", (GLM, DISPATCH), MEND),  # the base class does not ask the resolver
        ("0.5.15.post1", "0.5.16", (GLM, DISPATCH, NEXTN), HAD),  # all of it, cherry-picked
        ("0.5.16", "0.5.15.post1", (DISPATCH,), BAD),
        ("0.5.16", "0.5.15.post1", (GLM,), BAD),
        ("0.5.23", "0.5.15.post1", (DISPATCH,), BAD),
        ("0.5.16", "0.5.8", (GLM,), NO),
    ],
)
def test_half_of_upstreams_mend_is_none(
    release_tree: Release, base: str, donor: str, paths: tuple[str, ...], outcome: Outcome
) -> None:
    found = verdict("quark-glm-nextn", taking(release_tree(base), release_tree(donor), *paths))
    assert found.verdict is outcome
    assert (found.how is How.DIFFERENTLY) == (outcome is HAD)
    if outcome is BAD:
        assert "sglang#30265" in (found.advice or "")


@pytest.mark.parametrize("version", ["0.5.11", "0.5.15.post1"])
def test_a_class_that_nothing_selects_does_not_undo_the_fix(release_tree: Release, version: str) -> None:
    both = taking(mended("quark-glm-nextn", release_tree(version)), release_tree("0.5.16"), GLM)
    found = verdict("quark-glm-nextn", both)
    assert (found.verdict, found.how) == (HAD, How.IDENTICAL)


@pytest.mark.parametrize(
    ("fix", "version", "path", "comment"),
    [
        ("quark-glm-nextn", "0.5.14", NEXTN, "# which no draft is called: not fused"),
        ("quark-shared-expert-gate", "0.5.18", QUARK, "How that layer keeps its shared expert"),
    ],
)
def test_our_change_in_other_words_is_a_mend(
    release_tree: Release, fix: str, version: str, path: str, comment: str
) -> None:
    tree = mended(fix, release_tree(version))
    assert (verdict(fix, tree).verdict, verdict(fix, tree).how) == (HAD, How.IDENTICAL)
    reworded = verdict(fix, edited(tree, path, comment, "# Said otherwise"))
    assert (reworded.verdict, reworded.how) == (HAD, How.DIFFERENTLY)


def test_our_change_by_half_is_a_conflict(release_tree: Release) -> None:
    """Names of the checkpoint, asked of a list that still speaks of layer 61 as the draft."""
    tree = edited(
        mended("quark-glm-nextn", release_tree("0.5.14")),
        NEXTN,
        "config, self._draft_quant_config(), prefix=",
        "config, quant_config, prefix=",
    )
    found = verdict("quark-glm-nextn", tree)
    assert found.verdict is Outcome.CONFLICT
    assert found.advice


def test_the_gate_is_judged_where_it_is_asked(release_tree: Release) -> None:
    fix, tree = "quark-shared-expert-gate", release_tree("0.5.18")
    assert verdict(fix, taking(tree, release_tree("0.5.17"), DEEPSEEK)).verdict is NO
    assert verdict(fix, taking(tree, release_tree("0.5.19"), QUARK)).verdict is HAD


def test_a_gate_with_a_helper_that_it_does_not_ask_is_not_mended(release_tree: Release) -> None:
    unused = "    def _is_draft_layer(self, layer):\n        return True\n\n    def get_scaled_act_names("
    tree = edited(release_tree("0.5.18"), QUARK, "    def get_scaled_act_names(", unused)
    assert verdict("quark-shared-expert-gate", tree).verdict is MEND
