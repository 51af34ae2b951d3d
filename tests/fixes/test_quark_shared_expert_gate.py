"""`quark-shared-expert-gate`: the target fuses its shared experts whatever the MTP draft behind it keeps bf16."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rocmfix.tree import Tree
from tests.fixes.quark_trees import ask, checkpoint, files_of

pytestmark = pytest.mark.upstream

FIX = "quark-shared-expert-gate"
GLM = "GlmMoeDsaForCausalLM"
SHARED = tuple(f"mlp.shared_experts.{proj}" for proj in ("gate_proj", "up_proj", "down_proj"))


def shared_of(layer: int) -> tuple[str, ...]:
    return tuple(f"model.layers.{layer}.{name}" for name in SHARED)


OPENED: dict[str, dict[str, Any]] = {
    "GLM": checkpoint(*shared_of(78), architecture=GLM),
    "GLM, by an expression": checkpoint(r"re:model\.layers\.78\.mlp\.shared_experts\..*", architecture=GLM),
    "GLM, by a careless expression": checkpoint("re:model.layers.78.*shared_experts.*", architecture=GLM),
    "DeepSeek": checkpoint(*shared_of(61), architecture="DeepseekV3ForCausalLM", layers=61),
}
"""Only the draft keeps its shared expert bf16: the target may fuse, and 0.5.18 does not."""
CLOSED: dict[str, dict[str, Any]] = {
    "every layer": checkpoint("re:.*shared_experts.*", architecture=GLM),
    "one layer of the target": checkpoint(*shared_of(77), *shared_of(78), architecture=GLM),
    "GLM's layer 61": checkpoint(*shared_of(61), architecture=GLM),
    "layers 70 to 79": checkpoint(r"re:model\.layers\.7\d\.mlp\.shared_experts.*", architecture=GLM),
    "the draft itself": checkpoint(*shared_of(78), architecture="GlmMoeDsaForCausalLMNextN"),
    "DeepSeek's draft itself": checkpoint(*shared_of(61), layers=61),
}
"""A shared expert of the model that is built is bf16, its routed experts are MXFP4: fusing would be wrong."""


@pytest.fixture(scope="module")
def reasons(release_tree: Callable[[str], Tree], patched_files: Callable[..., Path]) -> dict[bool, dict[str, Any]]:
    """By whether 0.5.18 is mended: why each checkpoint's shared experts are not fused, or None."""
    files = files_of(release_tree("0.5.18"))
    roots = {mended: patched_files("0.5.18", files, FIX if mended else None) for mended in (False, True)}
    cases = {**OPENED, **CLOSED, "none": checkpoint(architecture=GLM)}
    return {mended: ask("fusion", root, cases) for mended, root in roots.items()}


@pytest.mark.parametrize("case", OPENED)
def test_the_target_is_fused_whatever_its_draft_keeps(reasons: dict[bool, dict[str, Any]], case: str) -> None:
    assert "higher precision" in reasons[False][case]
    assert reasons[True][case] is None


@pytest.mark.parametrize("case", CLOSED)
def test_a_model_with_bf16_shared_experts_of_its_own_is_not(reasons: dict[bool, dict[str, Any]], case: str) -> None:
    assert "higher precision" in reasons[True][case]
    assert reasons[True][case] == reasons[False][case]


def test_a_checkpoint_without_such_entries_is_fused_as_before(reasons: dict[bool, dict[str, Any]]) -> None:
    assert reasons[True]["none"] is reasons[False]["none"] is None
