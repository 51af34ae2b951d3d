"""Which fused-MoE keys a launch will ask for: the model's config, the launch flags, the token counts."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

from rocmfix.aiter.generation import Generation
from rocmfix.aiter.lookup import MoeKey
from rocmfix.errors import TableError
from rocmfix.model import Record

Quant = Literal["mxfp4", "fp8", "fp8-token", "bf16"]
FUSED_EXPERTS = (256, 384)
"""`determine_num_fused_shared_experts` of sglang 0.5.14: 384 (Kimi-K2.5) only from a Quark MXFP4 checkpoint."""
FUSING = ("deepseek", "glm_moe_dsa", "kimi", "glm4_moe")
"""How the `model_type`s begin whose one shared expert sglang fuses."""
SWIGLU, SWIGLU_PAD = "gpt_oss", 256
SWIGLU_BOUND = 256
"""Below it AITER keeps bf16 activations for Swiglu (`GPTOSS_SWIGLU_MXFP4_BF16_BOUND` in `aiter/fused_moe.py`)."""
FP4 = "torch.float4_e2m1fn_x2"
CUS: Mapping[str, int] = {"gfx950": 256, "gfx942": 304}
FP8: Mapping[str, str] = {"gfx950": "torch.float8_e4m3fn", "gfx942": "torch.float8_e4m3fnuz"}


class Model(Record):
    """The MoE of a model, as its config.json describes it."""

    name: str
    hidden: int
    inter: int
    experts: int
    topk: int
    shared: int = 0
    swiglu: bool = False
    fuses: bool = False
    """sglang fuses the shared expert into the MoE kernel unless told otherwise."""
    quant: Quant = "mxfp4"
    pad: int = 1
    """Dimensions are padded to a multiple of this before AITER sees them (gpt-oss: 2880 to 3072)."""


class Launch(Record):
    """The flags that move the key."""

    tp: int
    dp: int = 1
    ep: int = 1
    shared_fusion: bool | None = None
    """None is sglang's own choice for the model."""
    quant: Quant = "mxfp4"
    gfx: str = "gfx950"
    cu_num: int | None = None
    batches: tuple[int, ...] = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)
    """Decode batch sizes of one attention rank."""
    draft_tokens: int = 0
    """Tokens verified per request and step (`--speculative-num-draft-tokens`); 0 is no MTP."""
    chunk: int = 16384
    """`--chunked-prefill-size`: no prefill step is larger."""


def read_model(text: str, quant: Quant | None = None) -> Model:
    """The MoE of a Hugging Face `config.json`, quantised as it says unless `quant` does.

    Raises TableError for a model whose keys are not known.
    """
    try:
        config = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise TableError(f"not a config.json: {error}") from None
    config = config if isinstance(config, dict) else {}
    inner = config.get("text_config")
    config = {**config, **inner} if isinstance(inner, dict) else config
    quantised = config.get("quantization_config")
    quantised = quantised if isinstance(quantised, dict) else {}
    quant = quant or _quant(quantised)
    experts = _first(config, "n_routed_experts", "num_local_experts", "num_experts")
    topk = _first(config, "num_experts_per_tok", "experts_per_token", "moe_top_k")
    hidden, inter = _first(config, "hidden_size"), _first(config, "moe_intermediate_size", "intermediate_size")
    if not (experts and topk and hidden and inter):
        raise TableError(
            "this config.json describes no mixture of experts",
            hint="give --hidden, --inter, --experts and --topk",
        )
    if topk > experts:
        raise TableError(f"this config.json has {topk} experts a token, of {experts}")
    kind = str(config.get("model_type", ""))
    shared = _first(config, "n_shared_experts") or int(_first(config, "shared_expert_intermediate_size") > 0)
    return Model(
        name=kind,
        hidden=hidden,
        inter=inter,
        experts=experts,
        topk=topk,
        shared=shared,
        swiglu=kind == SWIGLU,
        fuses=_fuses(kind, experts, shared, quant) and not _keeps_shared_expert(quantised),
        quant=quant,
        pad=SWIGLU_PAD if kind == SWIGLU else 1,
    )


def _quant(quantised: Mapping[str, Any]) -> Quant:
    """What the checkpoint says of itself; without a word, what the tables of this folder are for."""
    if quantised.get("quant_method") == "fp8":
        return "fp8" if quantised.get("weight_block_size") else "fp8-token"
    return "mxfp4"


def _keeps_shared_expert(quantised: Mapping[str, Any]) -> bool:
    """Whether the shared expert is left out of the quantisation: then sglang does not fuse it.

    `can_fuse_shared_expert` in srt/layers/quantization/quark/quark.py and modelopt_quant.py, 0.5.23.
    """
    lists = (quantised.get(name) for name in ("exclude", "exclude_modules"))
    names = (str(name) for each in lists if isinstance(each, list) for name in each)
    return any("shared_expert" in name and "shared_expert_gate" not in name for name in names)


def _first(config: Mapping[str, Any], *names: str) -> int:
    """The first of `names` that holds a positive whole number, or 0."""
    values = (config.get(name) for name in names)
    return next((value for value in values if isinstance(value, int) and value > 0), 0)


def _fuses(kind: str, experts: int, shared: int, quant: Quant) -> bool:
    return kind.startswith(FUSING) and shared == 1 and experts in FUSED_EXPERTS and (experts != 384 or quant == "mxfp4")


def keys(model: Model, launch: Launch, rules: Generation) -> tuple[MoeKey, ...]:
    """Every distinct lookup of the launch, by bucket."""
    found = dict.fromkeys(key_of(model, launch, tokens, rules) for tokens in token_counts(launch))
    return tuple(found)


def token_counts(launch: Launch) -> tuple[int, ...]:
    """Tokens one MoE call sees: decode, draft and verify steps over all attention ranks, then every prefill size."""
    decode = {batch * launch.dp for batch in launch.batches}
    verify = {count * launch.draft_tokens for count in decode} if launch.draft_tokens else set()
    # sglang divides --chunked-prefill-size by the attention ranks: together they prefill no more than without (0.5.14
    # server_args.py, 0.5.23 arg_groups/parallel_hook.py).
    prefill = {1 << n for n in range(launch.chunk.bit_length())}
    return tuple(sorted(decode | verify | prefill | {launch.chunk}))


def key_of(model: Model, launch: Launch, tokens: int, rules: Generation) -> MoeKey:
    """The lookup of one call with so many tokens."""
    _divided(launch.tp, launch.dp, "--dp does not divide --tp")
    fused = model.shared == 1 and (model.fuses if launch.shared_fusion is None else launch.shared_fusion)
    extra = 1 if fused else 0
    slots = _divided(launch.tp, launch.ep, "--ep does not divide --tp")
    inter = _divided(_padded(model.inter, model.pad), slots, f"{slots} shards do not divide the MoE's inner size")
    # Under EP sglang passes the expert mask but no fake slot, and AITER subtracts one (ROCm/aiter#3739).
    topk = model.topk + extra - (1 if launch.ep > 1 and rules.ep_slot else 0)
    activation, weight, q_type = _types(model, launch, tokens)
    return MoeKey(
        gfx=launch.gfx,
        cu_num=launch.cu_num or CUS[launch.gfx],
        token=rules.bucket(tokens),
        model_dim=_padded(model.hidden, model.pad),
        inter_dim=inter,
        expert=_divided(model.experts, launch.ep, "--ep does not divide the experts") + extra,
        topk=topk,
        act_type="ActivationType.Swiglu" if model.swiglu else "ActivationType.Silu",
        dtype="torch.bfloat16",
        q_dtype_a=activation,
        q_dtype_w=weight,
        q_type=q_type,
        use_g1u1=1,
        doweight_stage1=0,
    )


def _padded(size: int, to: int) -> int:
    return -(-size // to) * to


def _divided(whole: int, parts: int, problem: str) -> int:
    if parts < 1 or whole % parts:
        raise TableError(f"{problem} ({whole} by {parts})")
    return whole // parts


def _types(model: Model, launch: Launch, tokens: int) -> tuple[str, str, str]:
    """Activation type, weight type, quantisation: `_fused_moe_impl` of `aiter/fused_moe.py`."""
    fp8 = FP8[launch.gfx]
    match launch.quant:
        case "mxfp4":
            keeps = model.swiglu and tokens < SWIGLU_BOUND
            return ("torch.bfloat16" if keeps else FP4, FP4, "QuantType.per_1x32")
        case "fp8":
            return (fp8, fp8, "QuantType.per_1x128")
        case "fp8-token":
            return (fp8, fp8, "QuantType.per_Token")
        case "bf16":
            return ("torch.bfloat16", "torch.bfloat16", "QuantType.No")


def untuned(missing: Iterable[MoeKey], columns: Sequence[str]) -> str:
    """The CSV that asks AITER's tuner for these shapes."""
    lines = [",".join(columns)]
    lines += dict.fromkeys(",".join(str(getattr(key, name)) for name in columns) for key in missing)
    return "\n".join(lines) + "\n"
