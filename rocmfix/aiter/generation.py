"""The rules by which an AITER reads its tables; they changed about every month, and images pin any commit."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import Enum


class Columns(Enum):
    """What happens when merged files have different columns."""

    SAME = "crash"
    SAME_BUT_TAG = "crash unless only _tag differs"
    UNION = "fill with 0"
    UNION_GFX = "fill with 0, gfx from cu_num"


class Duplicates(Enum):
    """What the merge does with two rows of one shape."""

    FASTEST = "keep the lowest us"
    RAISE = "rewrite the files and raise"


class Act(Enum):
    """How act_type takes part in a lookup."""

    EXACT = "exact"
    EXACT_THEN_ANY = "exact, else any"
    ANY = "ignored"


class Tags(Enum):
    """Which rows with a `_tag` are dropped."""

    KEPT = "none"
    ANY_DROPPED = "any tag"
    FALLBACK_DROPPED = "flydsl_fallback"


class Buckets(Enum):
    """How a token count is rounded to the `token` of a row (`get_padded_M`)."""

    TO_1024 = "16, then powers of two to 1024"
    TO_16384_FROM_16 = "16, then powers of two to 1024, 2048, 16384"
    TO_16384 = "powers of two to 1024, 2048, 16384"
    TO_32768 = "powers of two to 32768"
    TIERS = "powers of two to 32768, then 131072 with 32768 behind it"


@dataclass(frozen=True)
class Generation:
    """The rules one AITER reads its tables by."""

    columns: Columns
    duplicates: Duplicates
    dedup_cu: bool
    """The deduplication key has cu_num: without it the rows of one chip delete those of another."""
    dedup_present: bool
    """Key columns that no merged file has are left out of the deduplication key; else KeyError."""
    dedup_gfx: bool
    key_gfx: bool
    first_match: bool
    """Duplicate keys in the file that is read: the first counts, with a warning; else ValueError."""
    act: Act
    tags: Tags
    buckets: Buckets
    ep_slot: bool
    """Under expert parallelism the lookup uses topk - 1."""
    bypass: bool
    """fp8 block-scale keys of at most 128 token-slots skip the table (`use_cfg`)."""
    csv_only: bool
    """Files of model_configs/ must end in .csv; before, `x.csv.bak` was merged too."""
    at_import: bool

    @property
    def name(self) -> str:
        """The first release that read this way, or "cannot tell"."""
        return KNOWN.get(self, UNKNOWN)

    @property
    def known(self) -> bool:
        """Whether this combination was checked against AITER's own code."""
        return self in KNOWN

    def bucket(self, tokens: int) -> int:
        """The `token` a row must have to answer `tokens`."""
        return BUCKET[self.buckets](tokens)

    @property
    def ladder(self) -> tuple[int, ...]:
        """Every bucket, ascending; the last tier, which another answers when it is missing, is not one."""
        return LADDERS[self.buckets]


UNKNOWN = "cannot tell"


def _power(tokens: int) -> int:
    return 1 if tokens <= 1 else 1 << (tokens - 1).bit_length()


def _to_1024(tokens: int) -> int:
    return 16 if 1 <= tokens <= 16 else _power(tokens) if tokens < 1024 else 1024


def _to_16384(tokens: int) -> int:
    if tokens < 1024:
        return _power(tokens)
    return 1024 if tokens < 2048 else 2048 if tokens < 16384 else 16384


def _to_16384_from_16(tokens: int) -> int:
    return 16 if 1 <= tokens <= 16 else _to_16384(tokens)


def _to_32768(tokens: int) -> int:
    return _power(tokens) if tokens < 32768 else 32768


def _tiers(tokens: int) -> int:
    return _to_32768(tokens) if tokens < 131072 else 131072


BUCKET: Mapping[Buckets, Callable[[int], int]] = {
    Buckets.TO_1024: _to_1024,
    Buckets.TO_16384_FROM_16: _to_16384_from_16,
    Buckets.TO_16384: _to_16384,
    Buckets.TO_32768: _to_32768,
    Buckets.TIERS: _tiers,
}
LADDERS: Mapping[Buckets, tuple[int, ...]] = {
    Buckets.TO_1024: tuple(1 << n for n in range(4, 11)),
    Buckets.TO_16384_FROM_16: (*(1 << n for n in range(4, 12)), 16384),
    Buckets.TO_16384: (*(1 << n for n in range(12)), 16384),
    Buckets.TO_32768: tuple(1 << n for n in range(16)),
    Buckets.TIERS: tuple(1 << n for n in range(16)),
}
_OLDEST = Generation(
    columns=Columns.SAME,
    duplicates=Duplicates.FASTEST,
    dedup_cu=False,
    dedup_present=False,
    dedup_gfx=False,
    key_gfx=False,
    first_match=False,
    act=Act.EXACT,
    tags=Tags.KEPT,
    buckets=Buckets.TO_1024,
    ep_slot=False,
    bypass=False,
    csv_only=False,
    at_import=True,
)
_0_1_8 = replace(_OLDEST, dedup_cu=True, buckets=Buckets.TO_16384_FROM_16, at_import=False)
_0_1_9 = replace(_0_1_8, buckets=Buckets.TO_16384, bypass=True)
_0_1_11 = replace(_0_1_9, columns=Columns.SAME_BUT_TAG, tags=Tags.ANY_DROPPED)
_0_1_12 = replace(_0_1_11, duplicates=Duplicates.RAISE, buckets=Buckets.TO_32768)
_0_1_12_2 = replace(_0_1_12, dedup_gfx=True)
_0_1_13 = replace(_0_1_12_2, columns=Columns.UNION, bypass=False, csv_only=True)
_0_1_14 = replace(_0_1_13, first_match=True, act=Act.ANY, buckets=Buckets.TIERS)
_3377 = replace(_0_1_14, ep_slot=True)
_0_1_16 = replace(_3377, columns=Columns.UNION_GFX, key_gfx=True)
_0_1_18 = replace(_0_1_16, act=Act.EXACT_THEN_ANY, tags=Tags.FALLBACK_DROPPED)
_0_1_20 = replace(_0_1_18, act=Act.ANY, dedup_present=True)
KNOWN: dict[Generation, str] = {
    _OLDEST: "v0.1.7",
    _0_1_8: "v0.1.8",
    _0_1_9: "v0.1.9",
    _0_1_11: "v0.1.11",
    _0_1_12: "v0.1.12",
    _0_1_12_2: "v0.1.12.post2",
    _0_1_13: "v0.1.13",
    _0_1_14: "v0.1.14",
    _3377: "v0.1.15+#3377",
    _0_1_16: "v0.1.16",
    _0_1_18: "v0.1.18",
    _0_1_20: "v0.1.20",
}
"""Combinations that were compared with AITER's own code, by the first release that has them. One exists only
between releases (ROCm/aiter#3377): sglang's images of June 2026 pin such commits."""
