"""The reader's generation is told from source."""

from __future__ import annotations

import pytest

from rocmfix.aiter.generation import KNOWN
from rocmfix.aiter.layout import AiterTree
from rocmfix.aiter.probing import EDGES, probe
from rocmfix.errors import TableError
from rocmfix.tree import MemoryTree, Overlay
from tests.aiter.trees import RULES, tree


@pytest.mark.parametrize("version", RULES)
def test_every_known_generation_is_recognised_by_its_code(version):
    found = probe(tree(version))
    assert found == RULES[version]
    assert found is not None
    assert found.name == version


def test_a_new_combination_of_rules_is_cannot_tell():
    """A v0.1.20 lookup over a v0.1.11 merge was never compared with AITER: its name is not made up."""
    old, new = tree("v0.1.11"), tree("v0.1.20")
    mixed = probe(AiterTree(Overlay(old.tree, {"aiter/fused_moe.py": new.read("aiter/fused_moe.py")})))
    assert mixed is not None
    assert (mixed.known, mixed.name) == (False, "cannot tell")


@pytest.mark.parametrize(
    ("path", "old", "new"),
    [
        ("aiter/fused_moe.py", "return nextPow2(M)", "return M"),
        ("aiter/fused_moe.py", "!= 'flydsl_fallback'", "!= 'other'"),
        ("aiter/fused_moe.py", "keys = (cu_num, token, activation)", "keys = make(activation)"),
        ("aiter/jit/core.py", "duplicate shape entries", "something else"),
        ("aiter/jit/core.py", "def update_config_files", "def update_files"),
        ("aiter/jit/core.py", "def ", "def ("),
    ],
)
def test_code_that_answers_a_question_in_a_new_way_is_not_guessed(path, old, new):
    before = tree()
    text = before.text(path)
    assert text is not None
    assert old in text
    assert probe(AiterTree(Overlay(before.tree, {path: text.replace(old, new).encode()}))) is None


def test_buckets_are_the_trees_own_at_every_edge():
    assert [RULES["v0.1.7"].bucket(m) for m in (1, 16, 17, 1000, 5000)] == [16, 16, 32, 1024, 1024]
    assert [RULES["v0.1.11"].bucket(m) for m in (1, 3, 1500, 5000, 20000)] == [1, 4, 1024, 2048, 16384]
    assert [RULES["v0.1.20"].bucket(m) for m in (3, 32767, 40000, 131072)] == [4, 32768, 32768, 131072]
    for rules in KNOWN:
        assert {rules.bucket(m) for m in EDGES} <= {*rules.ladder, 131072}


def test_a_tree_without_aiter_is_refused_by_name():
    with pytest.raises(TableError, match="holds no AITER"):
        AiterTree(MemoryTree({"sglang/__init__.py": b""}, source="somewhere"))


@pytest.mark.upstream
def test_every_real_tree_is_recognised(real_tree):
    rules = probe(real_tree)
    assert rules is not None
    assert rules.known


@pytest.mark.upstream
def test_the_wheel_is_the_oldest_generation_in_either_form(wheel_path, wheel_folder):
    from rocmfix.source import open_tree

    for place in (wheel_path, wheel_folder):
        opened = AiterTree(open_tree(str(place), project="aiter"))
        rules = probe(opened)
        assert rules is not None
        assert (rules.name, opened.meta) == ("v0.1.7", "aiter_meta/")
