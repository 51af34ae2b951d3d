"""Kernels that are there, run, and gave wrong answers: no source check can find these, only threads tell."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class KnownBad:
    """A kernel, the rows it is bad in, and who found out."""

    kernel: str
    gfx: str
    where: tuple[tuple[str, str], ...]
    symptom: str
    thread: str
    instead: str


KNOWN_BAD = (
    KnownBad(
        kernel="fmoe_bf16_a16_blockscaleFp8_g1u1_vs_silu_1tg_16x256",
        gfx="gfx942",
        where=(("model_dim", "6144"), ("expert", "257")),
        symptom="GLM-5 FP8 answers garbage: gsm8k 0 against 0.945 without the table",
        thread="ROCm/aiter#4788",
        instead="ROCm/aiter#4811 has the rows that replace it",
    ),
    KnownBad(
        kernel="fmoe_bf16_a16_blockscaleFp8_g1u1_vs_silu_1tg_ps_16x256",
        gfx="gfx942",
        where=(("model_dim", "6144"), ("expert", "257")),
        symptom="GLM-5 FP8 answers garbage: gsm8k 0 against 0.945 without the table",
        thread="ROCm/aiter#4788",
        instead="ROCm/aiter#4811 has the rows that replace it",
    ),
)
