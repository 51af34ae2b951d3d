"""Rows and tables that the tests write themselves."""

from __future__ import annotations

FP4 = "torch.float4_e2m1fn_x2"
PLAIN = {
    "gfx": "gfx950", "cu_num": "256", "token": "1", "model_dim": "6144", "inter_dim": "512", "expert": "257",
    "topk": "9", "act_type": "ActivationType.Silu", "dtype": "torch.bfloat16", "q_dtype_a": FP4,
    "q_dtype_w": FP4, "q_type": "QuantType.per_1x32", "use_g1u1": "1", "doweight_stage1": "0",
    "block_m": "32", "ksplit": "0",
    "us1": "11.5", "kernelName1": "flydsl_moe1_afp4_wfp4_bf16_t32x64x256_w2", "err1": "1.0%", "us2": "7.5",
    "kernelName2": "flydsl_moe2_afp4_wfp4_bf16_t32x128x256_atomic", "err2": "1.3%", "us": "19.0",
    "run_1stage": "0", "tflops": "8.77", "bw": "125258.21",
}  # fmt: skip
HEADER = list(PLAIN)
UNTUNED = (",".join(HEADER[2:14]) + "\n").encode()


def row(**cells):
    """A plain GLM-5 row with some cells changed."""
    return {**PLAIN, **{name: str(value) for name, value in cells.items()}}


def table(rows, columns=HEADER):
    """The bytes of a CSV with these rows; a column a row lacks is left empty."""
    lines = [",".join(columns), *(",".join(r.get(name, "") for name in columns) for r in rows)]
    return ("\n".join(lines) + "\n").encode()


def ladder(tokens=(1, 2, 4, 8, 16, 32), **cells):
    """Rows for several buckets, the us of each its own."""
    return [row(**{"token": t, "us": 10 + t / 4, "us1": 6 + t / 8, "us2": 4 + t / 8, **cells}) for t in tokens]
