"""Builds the MTP draft of a Quark checkpoint from a tree's own files, and prints the scheme of each of its modules.

Run by path, as a process of its own: `build_draft.py TREE JSON`. The loader, the draft, its decoder layer and Quark's
matching are the tree's; tensors, kernels and parallel state are hollow.
"""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from upstream_stub import Upstream, hollow

REAL = frozenset(
    f"sglang.srt.{name}"
    for name in (
        "models.deepseek_nextn",
        "models.deepseek_common.utils",
        "models.deepseek_v2",
        "models.glm4_moe",
        "models.utils",
        "layers.attention.nsa.nsa_indexer",
        "layers.attention.dsa.dsa_indexer",
        "layers.quantization.base_config",
        "layers.quantization.quark.quark",
        "layers.quantization.quark.utils",
        "model_loader.loader",
        "model_loader.weight_utils",
    )
)
built: dict[str, str] = {}


class Module:
    """torch.nn.Module, as far as constructors need it."""

    def __init__(self, *_: Any, **__: Any) -> None:
        pass


class Layer(Module):
    """Any layer that asks its quantization for a method, as sglang's do."""

    def __init__(self, *_: Any, quant_config: Any = None, prefix: str = "", **__: Any) -> None:
        self.scheme: Any = None
        method = quant_config.get_quant_method(self, prefix) if quant_config is not None else None
        built[prefix] = "bf16" if self.scheme is None else type(self.scheme).__name__
        self.quant_method = method

    def __getattr__(self, name: str) -> Any:
        return hollow(name)


class LinearBase(Layer):
    pass


class RadixAttention(Module):
    pass


class FusedMoE(Layer):
    """The routed experts, and the shared one where it is fused into them."""

    def __init__(self, *, num_experts: int, prefix: str, **kwargs: Any) -> None:
        super().__init__(prefix=prefix, **kwargs)
        built[f"{prefix} held"] = str(num_experts)
        self.should_fuse_routed_scaling_factor_in_topk = False


class Args:
    """The server's arguments and flags: two are given, the rest are hollow."""

    disable_shared_experts_fusion = False
    enforce_shared_experts_fusion = False
    ep_num_redundant_experts = 0

    def __getattr__(self, name: str) -> Any:
        return hollow(name)


def given() -> dict[str, dict[str, Any]]:
    """What is known about the parts left hollow."""
    args = Args()
    nn = hollow("nn")
    nn.Module, nn.Linear = Module, type("Linear", (Module,), {})
    cuda = hollow("cuda")
    cuda.get_device_capability = lambda _: (9, 5)
    linear = ("ReplicatedLinear", "ColumnParallelLinear", "RowParallelLinear", "MergedColumnParallelLinear")
    schemes = ("QuarkW4A4MXFP4", "QuarkW4A4MXFp4MoE", "QuarkW8A8Fp8", "QuarkW8A8FP8MoE")
    plain = {"get_min_capability": staticmethod(lambda: 70)}
    return {
        "torch": {"nn": nn, "cuda": cuda},
        "sglang.srt.arg_groups.overrides": {
            "declare_load_time_override": lambda _, declared: vars(args).update(declared)
        },
        "sglang.srt.configs.model_config": {
            "is_deepseek_dsa": lambda _: True,
            "is_deepseek_nsa": lambda _: True,
        },
        "sglang.srt.layers.linear": {
            "LinearBase": LinearBase,
            **{name: type(name, (LinearBase,), {}) for name in linear},
        },
        "sglang.srt.layers.moe.ep_moe.layer": {"get_moe_impl_class": lambda _: FusedMoE},
        "sglang.srt.layers.moe.fused_moe_triton.layer": {"FusedMoE": FusedMoE},
        "sglang.srt.layers.quantization": {
            "get_quantization_config": lambda _: _load("layers.quantization.quark.quark").QuarkConfig
        },
        "sglang.srt.layers.quantization.quark.schemes": {name: type(name, (Module,), plain) for name in schemes},
        "sglang.srt.layers.radix_attention": {"RadixAttention": RadixAttention},
        "sglang.srt.model_loader.utils": {
            "get_model_architecture": lambda model: (_load("models.deepseek_nextn").DeepseekV3ForCausalLMNextN, "")
        },
        "sglang.srt.runtime_context": {"get_flags": lambda: args},
        "sglang.srt.server_args": {"get_global_server_args": lambda: args},
        "sglang.srt.utils": {
            "add_prefix": lambda name, prefix: f"{prefix}.{name}" if prefix else name,
            "get_device_capability": lambda: (9, 5),
            "is_hip": lambda: True,
        },
    }


def _load(name: str) -> Any:
    return importlib.import_module(f"sglang.srt.{name}")


def build(root: Path, hf_config: dict[str, Any]) -> dict[str, str]:
    """Build the draft that `root` makes of `hf_config`; the scheme of each module by its name in the checkpoint."""
    sys.meta_path.insert(0, Upstream(root, REAL, given()))
    torch = importlib.import_module("torch")
    config = SimpleNamespace(**hf_config)
    model = SimpleNamespace(hf_config=config, quantization="quark", dtype=torch.bfloat16)
    quant_config = _load("model_loader.loader")._get_quantization_config(model, hollow("load_config"))
    _load("models.deepseek_nextn").DeepseekV3ForCausalLMNextN(config, quant_config)
    return built


if __name__ == "__main__":
    print(json.dumps(build(Path(sys.argv[1]), json.loads(sys.argv[2]))))
