"""`quark-glm-nextn`: each module of an MTP draft gets the scheme that its Quark checkpoint has for it."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest

from rocmfix.tree import Tree
from tests.fixes.quark_trees import FP8, ask, checkpoint, files_of

pytestmark = pytest.mark.upstream
FIRST_AND_LAST = ("0.5.11", "0.5.15.post1")

ATTENTION = (
    "self_attn.q_a_proj",
    "self_attn.kv_a_proj_with_mqa",
    "self_attn.q_b_proj",
    "self_attn.kv_b_proj",
    "self_attn.o_proj",
    "self_attn.indexer.wq_b",
    "self_attn.indexer.wk",
    "self_attn.indexer.weights_proj",
)
SHARED = tuple(f"mlp.shared_experts.{proj}" for proj in ("gate_proj", "up_proj", "down_proj"))
ROUTED = tuple(f"mlp.experts.{i}.{proj}" for i in range(256) for proj in ("gate_proj", "up_proj", "down_proj"))
WHOLE = ("eh_proj", "shared_head.head", "mlp.gate", *ATTENTION, *SHARED, *ROUTED)
TARGET = ("lm_head", *(f"model.layers.{i}.{name}" for i in range(78) for name in (*ATTENTION, "mlp.gate")))
"""A target of 78 layers whose attention and gates are bf16, so those of layer 61 too."""


def of_layer(layer: int, *names: str) -> tuple[str, ...]:
    return tuple(f"model.layers.{layer}.{name}" for name in names)


def built(layer: int = 78, *, fused: bool, **schemes: str) -> dict[str, str]:
    """The draft as it should be built: MXFP4 but for the parts named."""
    attention = schemes.get("attention", "QuarkW4A4MXFP4")
    shared = schemes.get("shared", "QuarkW4A4MXFP4")
    names = {
        "eh_proj": schemes.get("eh_proj", "QuarkW4A4MXFP4"),
        **dict.fromkeys(("self_attn.fused_qkv_a_proj_with_mqa", *ATTENTION[2:7]), attention),
        "self_attn.indexer.weights_proj": "bf16",  # built bf16 whatever the checkpoint says
        "mlp.experts": schemes.get("routed", "QuarkW4A4MXFp4MoE"),
        "mlp.experts held": "257" if fused else "256",
        **({} if fused else dict.fromkeys(("mlp.shared_experts.gate_up_proj", "mlp.shared_experts.down_proj"), shared)),
    }
    return {f"model.layers.{layer}.{name}": scheme for name, scheme in names.items()}


ALL_BF16 = built(fused=True, eh_proj="bf16", attention="bf16", routed="bf16")
LEAVES = r"re:model\.layers\.78\.(eh_proj|self_attn\..*|mlp\.shared_experts\..*|mlp\.experts\.\d+\..*)$"
BROKEN: dict[str, tuple[dict[str, Any], dict[str, str]]] = {
    "bf16 draft": (checkpoint(*TARGET, *of_layer(78, *WHOLE)), ALL_BF16),
    "bf16 draft, by one expression": (checkpoint(*TARGET, LEAVES), ALL_BF16),
    "bf16 but for the routed experts": (
        checkpoint(*TARGET, *of_layer(78, "eh_proj", *ATTENTION, *SHARED)),
        built(fused=False, eh_proj="bf16", attention="bf16", shared="bf16"),
    ),
    "bf16 routed experts only": (checkpoint(*TARGET, *of_layer(78, *ROUTED)), built(fused=False, routed="bf16")),
    "bf16 routed experts only, by one name": (
        checkpoint(*TARGET, *of_layer(78, "mlp.experts")),
        built(fused=False, routed="bf16"),
    ),
    "bf16 eh_proj only": (checkpoint(*TARGET, *of_layer(78, "eh_proj")), built(fused=True, eh_proj="bf16")),
    "quantized draft": (checkpoint(*TARGET), built(fused=True)),
    "fp8 attention and shared experts": (
        checkpoint(
            *of_layer(78, "eh_proj"),
            schemes={"model.layers.78.self_attn.*": FP8, "model.layers.78.mlp.shared_experts.*": FP8},
        ),
        built(fused=False, eh_proj="bf16", attention="QuarkW8A8Fp8", shared="QuarkW8A8Fp8"),
    ),
    "DeepSeek, bf16 draft": (
        checkpoint(*of_layer(61, *WHOLE), layers=61),
        built(61, fused=True, eh_proj="bf16", attention="bf16", routed="bf16"),
    ),
    "DeepSeek, bf16 eh_proj and experts": (
        checkpoint(*of_layer(61, "eh_proj", *SHARED, *ROUTED), layers=61),
        built(61, fused=True, eh_proj="bf16", routed="bf16"),
    ),
}
"""Drafts that the releases build wrong, and how they are to be built."""
SOUND: dict[str, dict[str, Any]] = {
    "excluded by its layer's name": checkpoint(*TARGET, "model.layers.78"),
    "excluded by its layer's expression": checkpoint(*TARGET, "re:model.layers.78.*"),
    "DeepSeek, excluded by its layer's expression": checkpoint("re:model.layers.61.*", layers=61),
    "fp8 in layer 61 only": checkpoint(schemes={"model.layers.61.*": FP8}),
    "listed by sglang's own names": checkpoint("model.decoder.self_attn.o_proj"),
    "not Quark's": checkpoint(*TARGET, method="fp8"),
}
"""Drafts that the releases build right, and that must stay as they are."""
TORN = {"torn": checkpoint(*of_layer(78, "mlp.shared_experts.gate_proj"))}


Drafts = Callable[[str, bool], dict[str, Any]]


@pytest.fixture(scope="module")
def drafts(release_tree: Callable[[str], Tree], patched_files: Callable[..., Path]) -> Drafts:
    """`drafts(version, mended)`: how that tree builds the draft of each case."""

    @lru_cache
    def answer(version: str, mended: bool) -> dict[str, Any]:  # noqa: FBT001 - its name is at each call
        root = patched_files(version, files_of(release_tree(version)), "quark-glm-nextn" if mended else None)
        return ask("draft", root, {**{name: case[0] for name, case in BROKEN.items()}, **SOUND, **TORN})

    return answer


def in_layer(draft: dict[str, str]) -> dict[str, str]:
    """The draft with its modules' names shortened to what they are in their layer."""
    return {re.sub(r"^model\.(decoder\.|layers\.\d+\.)?", "", name): scheme for name, scheme in draft.items()}


@pytest.mark.parametrize("version", FIRST_AND_LAST)
@pytest.mark.parametrize("case", BROKEN)
def test_each_module_has_the_scheme_of_the_checkpoint(drafts: Drafts, version: str, case: str) -> None:
    assert drafts(version, True)[case] == BROKEN[case][1]


@pytest.mark.parametrize("version", FIRST_AND_LAST)
@pytest.mark.parametrize("case", BROKEN)
def test_and_has_not_without_the_fix(drafts: Drafts, version: str, case: str) -> None:
    assert in_layer(drafts(version, False)[case]) != in_layer(BROKEN[case][1])


@pytest.mark.parametrize("version", FIRST_AND_LAST)
@pytest.mark.parametrize("case", SOUND)
def test_what_was_built_right_is_built_as_before(drafts: Drafts, version: str, case: str) -> None:
    before, after = drafts(version, False)[case], drafts(version, True)[case]
    assert in_layer(after) == in_layer(before)
    assert len(after) > 5


@pytest.mark.parametrize("version", FIRST_AND_LAST)
def test_layer_61_of_glm_says_nothing_about_its_draft(drafts: Drafts, version: str) -> None:
    o_proj = "self_attn.o_proj"
    before, after = (in_layer(drafts(version, mended)["quantized draft"]) for mended in (False, True))
    assert (before[o_proj], after[o_proj]) == ("bf16", "QuarkW4A4MXFP4")


@pytest.mark.parametrize("version", FIRST_AND_LAST)
def test_a_draft_without_quark_keeps_its_names(drafts: Drafts, version: str) -> None:
    assert drafts(version, True)["not Quark's"] == drafts(version, False)["not Quark's"]


@pytest.mark.parametrize("version", FIRST_AND_LAST)
def test_a_module_whose_shards_differ_is_an_error_in_quarks_words(drafts: Drafts, version: str) -> None:
    assert "different quantization schemes" in drafts(version, True)["torn"]


def test_builds_what_upstreams_own_mend_builds(
    drafts: Drafts, release_tree: Callable[[str], Tree], patched_files: Callable[..., Path]
) -> None:
    """0.5.16, by a class for GLM alone: it does not fuse the shared expert, and knows no expressions."""
    plain = {
        name: {**case[0], "architectures": ["GlmMoeDsaForCausalLMNextN"]}
        for name, case in BROKEN.items()
        if not name.startswith(("DeepSeek", "bf16 draft, by one expression"))
    }
    upstream = ask("draft", patched_files("0.5.16", files_of(release_tree("0.5.16")), None), plain)
    ours = drafts("0.5.15.post1", True)
    for name in plain:
        theirs, here = in_layer(upstream[name]), in_layer(ours[name])
        both = {each for each in theirs.keys() & here.keys() if not each.endswith(" held")}
        assert len(both) >= 9
        assert {each: theirs[each] for each in both} == {each: here[each] for each in both}, name


def test_0510_is_unmended_because_it_knows_no_fused_gate_up_proj(
    release_tree: Callable[[str], Tree], patched_files: Callable[..., Path]
) -> None:
    """Not even under sglang's own names: the target of such a release is built wrong too."""
    shared = tuple(f"model.decoder.{name}" for name in SHARED)
    unfused = {**checkpoint(*shared), "n_routed_experts": 128}
    root = patched_files("0.5.10.post1", files_of(release_tree("0.5.10.post1")), None)
    draft = ask("draft", root, {"unfused": unfused})["unfused"]
    assert draft["model.decoder.mlp.shared_experts.down_proj"] == "bf16"
    assert draft["model.decoder.mlp.shared_experts.gate_up_proj"] == "QuarkW4A4MXFP4"
