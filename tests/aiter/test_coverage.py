"""The keys a launch asks for, as the facts about each model say."""

from __future__ import annotations

import json

import pytest

from rocmfix.aiter.coverage import cover, share, table_of
from rocmfix.aiter.launch import Launch, keys, read_model, token_counts, untuned
from rocmfix.aiter.reader import TableFile
from rocmfix.aiter.schema import UNTUNED_FMOE
from rocmfix.aiter.tune import jobs
from rocmfix.errors import TableError
from tests.aiter.rows import ladder, table
from tests.aiter.trees import RULES, tree

DEEPSEEK = {
    "model_type": "deepseek_v3",
    "hidden_size": 7168,
    "moe_intermediate_size": 2048,
    "n_routed_experts": 256,
    "num_experts_per_tok": 8,
    "n_shared_experts": 1,
}
GLM = {**DEEPSEEK, "model_type": "glm_moe_dsa", "hidden_size": 6144}
KIMI = {**DEEPSEEK, "model_type": "kimi_k2", "n_routed_experts": 384}
QWEN = {
    "model_type": "qwen3_5_moe",
    "text_config": {
        "hidden_size": 4096,
        "moe_intermediate_size": 1024,
        "num_experts": 512,
        "num_experts_per_tok": 10,
        "shared_expert_intermediate_size": 1024,
    },
}
MINIMAX = {
    "model_type": "minimax_m2",
    "hidden_size": 3072,
    "intermediate_size": 1536,
    "num_local_experts": 256,
    "num_experts_per_tok": 8,
}
GPT_OSS = {
    "model_type": "gpt_oss",
    "hidden_size": 2880,
    "intermediate_size": 2880,
    "num_local_experts": 128,
    "num_experts_per_tok": 4,
}
NEW = RULES["v0.1.20"]


def shapes(config, quant="mxfp4", rules=NEW, **flags):
    found = keys(read_model(json.dumps(config), quant), Launch(quant=quant, **flags), rules)
    return {(k.model_dim, k.inter_dim, k.expert, k.topk) for k in found}


@pytest.mark.parametrize(
    ("config", "flags", "shape"),
    [
        (GLM, {"tp": 4}, (6144, 512, 257, 9)),
        (GLM, {"tp": 4, "shared_fusion": False}, (6144, 512, 256, 8)),
        (GLM, {"tp": 8}, (6144, 256, 257, 9)),
        (GLM, {"tp": 8, "ep": 8}, (6144, 2048, 33, 8)),
        (DEEPSEEK, {"tp": 8}, (7168, 256, 257, 9)),
        (DEEPSEEK, {"tp": 8, "ep": 8, "shared_fusion": False}, (7168, 2048, 32, 7)),
        (KIMI, {"tp": 8}, (7168, 256, 385, 9)),
        (QWEN, {"tp": 4}, (4096, 256, 512, 10)),
        (QWEN, {"tp": 2, "shared_fusion": True}, (4096, 512, 513, 11)),
        (MINIMAX, {"tp": 4}, (3072, 384, 256, 8)),
        (GPT_OSS, {"tp": 2}, (3072, 1536, 128, 4)),
    ],
)
def test_each_model_and_launch_asks_for_its_shape(config, flags, shape):
    assert shapes(config, **flags) == {shape}


def test_kimi_is_fused_only_from_a_quark_mxfp4_checkpoint():
    assert shapes(KIMI, quant="fp8", tp=8) == {(7168, 256, 384, 8)}


def test_readers_before_the_fake_slot_keep_topk_under_expert_parallelism():
    assert shapes(GLM, tp=8, ep=8, rules=RULES["v0.1.13"]) == {(6144, 2048, 33, 9)}


def test_swiglu_keeps_bf16_activations_for_small_calls():
    found = keys(read_model(json.dumps(GPT_OSS), "mxfp4"), Launch(tp=1), NEW)
    assert {k.token for k in found if k.q_dtype_a == "torch.bfloat16"} == {1, 2, 4, 8, 16, 32, 64, 128}
    assert {k.act_type for k in found} == {"ActivationType.Swiglu"}


def test_each_chip_has_its_own_float8():
    types = {
        gfx: {k.q_dtype_w for k in keys(read_model(json.dumps(GLM), "fp8"), Launch(tp=8, quant="fp8", gfx=gfx), NEW)}
        for gfx in ("gfx942", "gfx950")
    }
    assert types == {"gfx942": {"torch.float8_e4m3fnuz"}, "gfx950": {"torch.float8_e4m3fn"}}


def test_draft_tokens_data_parallelism_and_chunk_move_the_token_counts():
    counts = token_counts(Launch(tp=8, dp=2, batches=(3,), draft_tokens=6, chunk=4096))
    assert {6, 36, 4096} <= set(counts)
    assert max(counts) == 4096, "sglang divides the chunk by the attention ranks"


@pytest.mark.parametrize("flags", [{"tp": 3}, {"tp": 8, "ep": 3}, {"tp": 8, "ep": 16}, {"tp": 8, "dp": 3}])
def test_a_launch_that_does_not_divide_is_refused(flags):
    with pytest.raises(TableError, match="divide"):
        shapes(GLM, **flags)


@pytest.mark.parametrize("text", ["{}", "[]", "no json", '{"hidden_size": 5}', "[" * 99999])
def test_a_config_without_experts_is_refused(text):
    with pytest.raises(TableError, match=r"config\.json"):
        read_model(text, "mxfp4")


def test_hits_holes_and_the_share_of_a_workload():
    rows = [r for r in ladder(tuple(1 << n for n in range(15))) if r["token"] != "512"]
    served = table_of(tree(files={"aiter/configs/tuned_fmoe.csv": table(rows)}))
    glm, launch = read_model(json.dumps(GLM), "mxfp4"), Launch(tp=4)
    found = cover(served, glm, launch)
    assert (found.hit, found.total) == (14, 15)
    assert [key.token for key in found.missing] == [512]
    assert share(served, glm, launch, {64: 100, 500: 10}) == pytest.approx(6400 / 11400)
    assert share(served, glm, Launch(tp=4, chunk=64), {4000: 1}) == 1.0, "a hit, though no prefill step is so large"


@pytest.mark.parametrize(
    ("quantised", "experts", "quant"),
    [
        ({"quant_method": "quark", "exclude": ["lm_head"]}, 257, "mxfp4"),
        ({"quant_method": "quark", "exclude": ["re:.*shared_experts.*"]}, 256, "mxfp4"),
        ({"quant_method": "quark", "exclude": ["model.layers.3.mlp.shared_expert_gate"]}, 257, "mxfp4"),
        ({"quant_method": "fp8", "weight_block_size": [128, 128]}, 257, "fp8"),
        ({"quant_method": "fp8"}, 257, "fp8-token"),
        (None, 257, "mxfp4"),
    ],
)
def test_the_checkpoint_says_how_it_is_quantised_and_what_is_fused(quantised, experts, quant):
    """A shared expert that is left out of the quantisation is not fused: coverage said 15 of 15 where sglang misses."""
    glm = read_model(json.dumps({**GLM, "quantization_config": quantised}))
    found = keys(glm, Launch(tp=4, quant=glm.quant), NEW)
    assert ({key.expert for key in found}, glm.quant) == ({experts}, quant)
    assert read_model(json.dumps({**GLM, "quantization_config": quantised}), "bf16").quant == "bf16"


def test_more_experts_a_token_than_there_are_is_refused():
    with pytest.raises(TableError, match="300 experts a token, of 256"):
        read_model(json.dumps({**GLM, "num_experts_per_tok": 300}))


def test_what_is_missing_is_written_as_the_tuner_takes_it():
    served = table_of(tree(files={"aiter/configs/tuned_fmoe.csv": table(ladder((1,)))}))
    found = cover(served, read_model(json.dumps(GLM), "mxfp4"), Launch(tp=4, chunk=8))
    text = untuned(found.missing, UNTUNED_FMOE)
    assert text.splitlines()[0] == ",".join(UNTUNED_FMOE)
    assert [job.rows for job in jobs(TableFile("u.csv", text.encode()))] == [len(found.missing)]
