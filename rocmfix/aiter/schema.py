"""Which tables AITER has: the variable that selects each, its files, its columns."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Family:
    """One kind of table, as `aiter/jit/core.py` declares it."""

    name: str
    """The stem AITER merges by: files of `model_configs/` whose name contains it belong to the family."""
    variable: str
    key: tuple[str, ...] = ()
    """The columns AITER looks a row up by, for the families whose reader is modelled."""
    tuners: tuple[str, ...] = ()
    """The commands AITER has or had to tune it, by the READMEs of `csrc`; a tree has one of them."""

    @property
    def untuned(self) -> str:
        """The stem of the file whose columns are the deduplication key."""
        return "untuned".join(self.name.rsplit("tuned", 1))


FMOE_KEY = (
    "gfx", "cu_num", "token", "model_dim", "inter_dim", "expert", "topk", "act_type", "dtype", "q_dtype_a",
    "q_dtype_w", "q_type", "use_g1u1", "doweight_stage1",
)  # fmt: skip
"""`_INDEX_COLS` of `aiter/fused_moe.py` since ROCm/aiter#3703; older readers lack `gfx`."""
UNTUNED_FMOE = FMOE_KEY[2:]
"""The header of `aiter/configs/untuned_fmoe.csv`."""
GEMM_KEY = ("gfx", "cu_num", "M", "N", "K")
"""`aiter/ops/gemm_op_a4w4.py` and `gemm_op_a8w8.py`."""
BATCHED_KEY = ("gfx", "cu_num", "B", "M", "N", "K")
BF16_KEY = (*GEMM_KEY, "bias", "dtype", "outdtype", "scaleAB", "bpreshuffle")
"""`aiter/tuned_gemm.py`."""

MOE_TUNER = "csrc/ck_gemm_moe_2stages_codegen/gemm_moe_tune.py"
"""Since v0.1.11 (`aiter/fused_moe.py`); before, `hsa/<gfx>/fmoe_2stages/tune.py`, which is not driven."""
FMOE = Family("tuned_fmoe", "AITER_CONFIG_FMOE", FMOE_KEY, (MOE_TUNER,))
BF16 = Family("bf16_tuned_gemm", "AITER_CONFIG_GEMM_BF16", BF16_KEY, ("csrc/gemm_a16w16/gemm_a16w16_tune.py",))
GEMMS = (
    Family(
        "a4w4_blockscale_tuned_gemm",
        "AITER_CONFIG_GEMM_A4W4",
        GEMM_KEY,
        ("csrc/ck_gemm_a4w4_blockscale/gemm_a4w4_blockscale_tune.py",),
    ),
    Family(
        "a8w8_tuned_gemm", "AITER_CONFIG_GEMM_A8W8", (*GEMM_KEY, "q_dtype_w"), ("csrc/ck_gemm_a8w8/gemm_a8w8_tune.py",)
    ),
    Family(
        "a8w8_bpreshuffle_tuned_gemm",
        "AITER_CONFIG_GEMM_A8W8_BPRESHUFFLE",
        (*GEMM_KEY, "q_dtype_w"),
        ("csrc/ck_gemm_a8w8_bpreshuffle/gemm_a8w8_bpreshuffle_tune.py",),
    ),
    Family(
        "a8w8_blockscale_tuned_gemm",
        "AITER_CONFIG_GEMM_A8W8_BLOCKSCALE",
        GEMM_KEY,
        ("csrc/ck_gemm_a8w8_blockscale/gemm_a8w8_blockscale_tune.py",),
    ),
    Family(
        "a8w8_blockscale_bpreshuffle_tuned_gemm",
        "AITER_CONFIG_GEMM_A8W8_BLOCKSCALE_BPRESHUFFLE",
        GEMM_KEY,
        (
            "csrc/ck_gemm_a8w8_blockscale_bpreshuffle/gemm_a8w8_blockscale_bpreshuffle_tune.py",
            "csrc/ck_gemm_a8w8_blockscale/gemm_a8w8_blockscale_tune.py --preshuffle",
        ),
    ),
    Family(
        "a8w8_tuned_batched_gemm",
        "AITER_CONFIG_A8W8_BATCHED_GEMM",
        BATCHED_KEY,
        ("csrc/ck_batched_gemm_a8w8/batched_gemm_a8w8_tune.py",),
    ),
    Family(
        "bf16_tuned_batched_gemm",
        "AITER_CONFIG_BF16_BATCHED_GEMM",
        BATCHED_KEY,
        ("csrc/ck_batched_gemm_bf16/batched_gemm_bf16_tune.py",),
    ),
    BF16,
    Family(
        "batched_gemm_a8w8_blockscale_mxscale_tuned",
        "AITER_CONFIG_BATCHED_GEMM_A8W8_BLOCKSCALE_MXSCALE",
        ("gfx", "b", "m", "n", "k"),
        ("csrc/opus_gemm/opus_bmm_mxscale_tune.py",),
    ),
)
OTHERS = (
    Family("tuned_fhmoe", "AITER_CONFIG_FHMOE"),
    Family("tuned_grouped_fmoe", "AITER_CONFIG_GROUPED_FMOE"),
    Family("chunk_gdn_h_opt_tuned", "AITER_CONFIG_GDN_K5_OPT"),
)
FAMILIES = (FMOE, *GEMMS, *OTHERS)

CU_GFX = {256: "gfx950", 80: "gfx942", 304: "gfx942"}
"""`_LEGACY_CU_NUM_TO_GFX` of `aiter/jit/utils/chip_info.py`: the chip a row without `gfx` is taken for."""
CHIPS: dict[str, frozenset[int]] = {
    "gfx942": frozenset({304, 80, 228, 64, 20, 38}),
    "gfx950": frozenset({256, 128}),
}
"""Compute units that exist per chip: MI300X and MI325X 304, MI308X 80, MI300A 228, MI355X and MI350X 256,
MI350P 128 (ROCm/aiter#4735); the rest are partitions of an MI300X (CPX 38) and an MI308X (CPX 20)."""


def family_of(file_name: str) -> Family | None:
    """The family AITER puts a file into by its name; the longest stem that is in it."""
    if "untuned" in file_name:
        return None
    found = [family for family in FAMILIES if family.name in file_name]
    return max(found, key=lambda family: len(family.name), default=None)
