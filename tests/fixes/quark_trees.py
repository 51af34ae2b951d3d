"""Makes up Quark checkpoints, and asks what a release makes of them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from rocmfix.tree import PACKAGE, Tree
from tests.fixes.quark_upstream import FILES

PROJECT = Path(__file__).resolve().parents[2]
MXFP4 = {
    "weight": {"dtype": "fp4", "qscheme": "per_group", "group_size": 32, "scale_format": "e8m0", "is_dynamic": False},
    "input_tensors": {
        "dtype": "fp4", "qscheme": "per_group", "group_size": 32, "scale_format": "e8m0", "is_dynamic": True,
    },
}  # fmt: skip
FP8 = {
    "weight": {"dtype": "fp8_e4m3", "qscheme": "per_channel", "is_dynamic": False},
    "input_tensors": {"dtype": "fp8_e4m3", "qscheme": "per_channel", "is_dynamic": True},
}


def checkpoint(
    *exclude: str,
    architecture: str = "DeepseekV3ForCausalLMNextN",
    layers: int = 78,
    schemes: dict[str, Any] | None = None,
    method: str = "quark",
) -> dict[str, Any]:
    """The configuration of a GLM-5.2-style MXFP4 checkpoint: 78 layers and an MTP draft behind them."""
    quantization = {
        "quant_method": method,
        "exclude": list(exclude),
        "global_quant_config": MXFP4,
        "layer_quant_config": schemes or {},
        "layer_type_quant_config": {},
        "export": {"kv_cache_group": [], "pack_method": "reorder"},
    }
    sizes = {
        "hidden_size": 6144, "intermediate_size": 12288, "moe_intermediate_size": 2048, "vocab_size": 154880,
        "n_routed_experts": 256, "n_shared_experts": 1, "num_experts_per_tok": 8, "n_group": 1, "topk_group": 1,
        "num_attention_heads": 64, "qk_nope_head_dim": 192, "qk_rope_head_dim": 64, "v_head_dim": 256,
        "q_lora_rank": 2048, "kv_lora_rank": 512, "max_position_embeddings": 202752, "first_k_dense_replace": 3,
        "moe_layer_freq": 1,
    }  # fmt: skip
    rest = {
        "hidden_act": "silu", "norm_topk_prob": True, "rms_norm_eps": 1e-5, "rope_scaling": None, "rope_theta": 1e6,
        "routed_scaling_factor": 2.5, "scoring_func": "sigmoid", "topk_method": "noaux_tc",
    }  # fmt: skip
    named = {"architectures": [architecture], "num_hidden_layers": layers, "quantization_config": quantization}
    return {**sizes, **rest, **named}


def files_of(tree: Tree) -> tuple[str, ...]:
    """Those of the files to run that this release has, below the package."""
    names = (f"srt/{file}.py" for file in FILES)
    return tuple(name for name in names if tree.read(f"{PACKAGE}/{name}") is not None)


def ask(question: str, root: Path, checkpoints: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """What the package in `root` answers for each checkpoint."""
    done = subprocess.run(
        [sys.executable, "-B", "-m", "tests.fixes.quark_upstream", question, root],
        input=json.dumps(list(checkpoints.values())), cwd=PROJECT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert not done.returncode, done.stderr
    return dict(zip(checkpoints, json.loads(done.stdout), strict=True))
