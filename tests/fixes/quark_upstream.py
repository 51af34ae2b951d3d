"""Runs an sglang tree's own loader, MTP draft and Quark code on checkpoints' configurations, without torch.

`python -m tests.fixes.quark_upstream draft|fusion TREE`, a list of configurations as JSON on stdin. Prints for each
which scheme every module of the draft was built with, or why the model does not fuse its shared experts. Tensors,
kernels and parallel state are hollow; names, lists and decisions are the tree's.
"""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from tests.fixes.hollow import Upstream, hollow

FILES = (
    "layers/attention/dsa/dsa_indexer",
    "layers/attention/nsa/nsa_indexer",
    "layers/quantization/base_config",
    "layers/quantization/quark/quark",
    "layers/quantization/quark/utils",
    "model_loader/loader",
    "model_loader/weight_utils",
    "models/deepseek_common/utils",
    "models/deepseek_nextn",
    "models/deepseek_v2",
    "models/glm4_moe",
    "models/utils",
)
"""What is run for real, under sglang/srt. Not every release has all of them."""

built: dict[str, str] = {}
"""The scheme of each module the draft has, by the name it asked Quark with; and how many experts a MoE holds."""


class Module:
    """torch.nn.Module, as far as constructors need it."""

    def __init__(self, *_: Any, **__: Any) -> None:
        pass


class Layer(Module):
    """Any layer that asks its quantization for a method by its name, as sglang's do."""

    def __init__(self, *_: Any, quant_config: Any = None, prefix: str = "", **__: Any) -> None:
        self.quant_method = quant_config.get_quant_method(self, prefix) if quant_config else None
        scheme = vars(self).get("scheme")  # which Quark sets on what it quantizes
        built[prefix] = type(scheme).__name__ if scheme else "bf16"

    def __getattr__(self, name: str) -> Any:
        return hollow(name)


class Linear(Layer):
    pass


class FusedMoE(Layer):
    """The routed experts, and the shared one where it is fused into them."""

    def __init__(self, *, num_experts: int, prefix: str, **kwargs: Any) -> None:
        super().__init__(prefix=prefix, **kwargs)
        built[f"{prefix} held"] = str(num_experts)


class RadixAttention(Module):
    pass


class Arguments:
    """The server's arguments and flags: those that matter here are given."""

    disable_shared_experts_fusion = False
    enforce_shared_experts_fusion = False
    ep_num_redundant_experts = 0

    def __getattr__(self, name: str) -> Any:
        return hollow(name)


arguments = Arguments()


class OtherConfig:
    """A quantization that is not Quark's, and quantizes nothing."""

    def get_name(self) -> str:
        return "fp8"

    def get_min_capability(self) -> int:
        return 0

    def get_supported_act_dtypes(self) -> list[Any]:
        return [importlib.import_module("torch").bfloat16]

    def apply_weight_name_mapper(self, mapper: Any) -> None:
        pass

    def get_quant_method(self, layer: Any, prefix: str) -> None:
        return None


def given() -> dict[str, dict[str, Any]]:
    """What the tree is told about the parts left hollow: a gfx950, one rank, and layers that ask for their scheme."""
    nn, cuda = hollow("nn"), hollow("cuda")
    nn.Module, nn.Linear = Module, type("Linear", (Module,), {})
    cuda.get_device_capability = lambda *_: (9, 5)
    linear = ("ReplicatedLinear", "ColumnParallelLinear", "RowParallelLinear", "MergedColumnParallelLinear")
    schemes = ("QuarkW4A4MXFP4", "QuarkW4A4MXFp4MoE", "QuarkW8A8Fp8", "QuarkW8A8FP8MoE")
    a_scheme = {"get_min_capability": staticmethod(lambda: 70)}
    return {
        "torch": {"nn": nn, "cuda": cuda},
        "sglang.srt.arg_groups.overrides": {
            "declare_load_time_override": lambda _, declared: vars(arguments).update(declared)
        },
        "sglang.srt.configs.model_config": dict.fromkeys(("is_deepseek_dsa", "is_deepseek_nsa"), lambda _: True),
        "sglang.srt.layers.linear": {name: type(name, (Linear,), {}) for name in linear} | {"LinearBase": Linear},
        "sglang.srt.layers.moe.ep_moe.layer": {"get_moe_impl_class": lambda _: FusedMoE},
        "sglang.srt.layers.moe.fused_moe_triton.layer": {"FusedMoE": FusedMoE},
        "sglang.srt.layers.quantization": {"get_quantization_config": quantization},
        "sglang.srt.layers.quantization.quark.schemes": {name: type(name, (Module,), a_scheme) for name in schemes},
        "sglang.srt.layers.radix_attention": {"RadixAttention": RadixAttention},
        "sglang.srt.model_loader.utils": {"get_model_architecture": lambda model: (model_class(model.hf_config), "")},
        "sglang.srt.runtime_context": dict.fromkeys(("get_flags", "get_server_args"), lambda: arguments),
        "sglang.srt.server_args": {"get_global_server_args": lambda: arguments},
        "sglang.srt.utils": {
            "add_prefix": lambda name, prefix: f"{prefix}.{name}" if prefix else name,
            "get_device_capability": lambda: (9, 5),
            "is_hip": lambda: True,
        },
    }


def load(file: str) -> Any:
    """The tree's module in `file`."""
    return importlib.import_module(f"sglang.srt.{file.replace('/', '.')}")


def quantization(name: str) -> Any:
    """The configuration class of a quantization method."""
    quark = load("layers/quantization/quark/quark").QuarkConfig
    return quark if name == "quark" else SimpleNamespace(from_config=lambda _: OtherConfig())


def model_class(config: SimpleNamespace) -> Any:
    """The tree's class of the configuration's architecture."""
    name = config.architectures[0]
    return getattr(load("models/deepseek_nextn"), name, None) or getattr(load("models/glm4_moe"), name)


def ask(question: str, config: dict[str, Any]) -> Any:
    """What the tree makes of a checkpoint with this configuration; an error in its own words."""
    built.clear()
    vars(arguments).clear()
    hf_config = SimpleNamespace(**config)
    method = config["quantization_config"]["quant_method"]
    dtype = importlib.import_module("torch").bfloat16
    model = SimpleNamespace(hf_config=hf_config, quantization=method, dtype=dtype, is_draft_model=False)
    quant_config = load("model_loader/loader")._get_quantization_config(model, hollow("load_config"))
    if question == "fusion":
        return model_class(hf_config).shared_experts_fusion_disable_reason(hf_config, quant_config)
    try:
        model_class(hf_config)(hf_config, quant_config)
    except ValueError as error:
        return str(error)
    return dict(built)


def main() -> None:
    """Answer the command line."""
    question, root = sys.argv[1:]
    real = frozenset(f"sglang.srt.{file.replace('/', '.')}" for file in FILES)
    sys.meta_path.insert(0, Upstream(Path(root), real, given()))
    print(json.dumps([ask(question, config) for config in json.load(sys.stdin)]))  # noqa: T201 - its result


if __name__ == "__main__":
    main()
