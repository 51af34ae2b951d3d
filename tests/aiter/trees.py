"""Small AITER trees that the tests write themselves: a reader of a given generation, and kernel lists."""

from __future__ import annotations

from rocmfix.aiter.generation import KNOWN, Act, Buckets, Columns, Duplicates, Generation, Tags
from rocmfix.aiter.layout import AiterTree
from rocmfix.tree import MemoryTree
from tests.aiter.rows import UNTUNED

RULES = {name: rules for rules, name in KNOWN.items()}

COLUMNS = {
    Columns.SAME: "    assert a == b, f'Column mismatch {a}'\n",
    Columns.SAME_BUT_TAG: "    a = [c for c in df if c != '_tag']\n    assert a == b, f'Column mismatch {a}'\n",
    Columns.UNION: "    _FILL_DEFAULTS = {}\n",
    Columns.UNION_GFX: "    _FILL_DEFAULTS = {}\n    df[c] = df['cu_num'].map(gfx_from_cu_num)\n",
}
DUPLICATES = {
    Duplicates.FASTEST: "    merge_df = merge_df.sort_values('us').drop_duplicates(subset=keys)\n",
    Duplicates.RAISE: "    raise RuntimeError('duplicate shape entries')\n",
}
TAGS = {
    Tags.KEPT: "",
    Tags.ANY_DROPPED: "        df = df[df['_tag'].fillna('') == '']\n",
    Tags.FALLBACK_DROPPED: "        df = df[df['_tag'].fillna('') != 'flydsl_fallback']\n",
}
POWER = "def nextPow2(n):\n    return 1 if n <= 1 else 1 << (n - 1).bit_length()\n"
BUCKETS = {
    Buckets.TO_1024: "    if 1 <= M <= 16:\n        return 16\n    return nextPow2(M) if M < 1024 else 1024\n",
    Buckets.TO_16384_FROM_16: "    if 1 <= M <= 16:\n        return 16\n    if M < 1024:\n        return nextPow2(M)\n"
    "    return 1024 if M < 2048 else 2048 if M < 16384 else 16384\n",
    Buckets.TO_16384: "    if M < 1024:\n        return nextPow2(M)\n"
    "    return 1024 if M < 2048 else 2048 if M < 16384 else 16384\n",
    Buckets.TO_32768: "    return nextPow2(M) if M < 32768 else 32768\n",
    Buckets.TIERS: "    if M < _PADDED_M_TIERS[0]:\n        return nextPow2(M)\n"
    "    return _PADDED_M_TIERS[1] if M >= _PADDED_M_TIERS[1] else _PADDED_M_TIERS[0]\n",
}


def core(rules: Generation) -> str:
    """An `aiter/jit/core.py` that merges by `rules`."""
    merge = "def update_config_files(file_path, merge_name):\n" + COLUMNS[rules.columns] + DUPLICATES[rules.duplicates]
    merge += "    keys.append('cu_num')\n" if rules.dedup_cu else ""
    merge += "    if 'gfx' in df and 'gfx' not in keys:\n        keys.append('gfx')\n" if rules.dedup_gfx else ""
    merge += "    keys = [k for k in keys if k in merge_df.columns]\n" if rules.dedup_present else ""
    glob = "*{name}*.csv" if rules.csv_only else "*{name}*"
    pick = f"def get_config_file(env):\n    return folder.glob(f'{glob}')\n"
    names = "VARIABLES = ['AITER_CONFIG_FMOE', 'AITER_CONFIG_GEMM_A8W8_BLOCKSCALE']\n"
    return names + merge + pick + ("" if rules.at_import else "class AITER_CONFIG:\n    pass\n")


def cells_read(rules: Generation) -> str:
    """What the lookup does with a row's cells, as far as it is told apart: each line came with one generation."""
    lines = (
        (rules.buckets not in {Buckets.TO_1024, Buckets.TO_16384_FROM_16}, "stage1(splitk=ksplit)"),
        (rules.duplicates is Duplicates.RAISE, 'kernelName1.startswith("flydsl_")'),
        (rules.columns in {Columns.UNION, Columns.UNION_GFX}, '"xbf16" in cfg'),
        (rules.columns is Columns.UNION_GFX, '"flat" in cfg'),
        (rules.ep_slot, '_force = os.environ.get("AITER_FLYDSL_FORCE", "1") == "1"'),
        (rules.tags is Tags.FALLBACK_DROPPED, "isinstance(kernelName1, str)"),
    )
    return "".join(f"    {line}\n" for is_there, line in lines if is_there)


def fused_moe(rules: Generation) -> str:
    """An `aiter/fused_moe.py` that looks up by `rules`."""
    key = "gfx" if rules.key_gfx else "cu_num"
    first = "        mask = df.duplicated(keep='first')\n" if rules.first_match else ""
    keep = "" if rules.act is Act.EXACT else "    keys_disabled = (cu_num, token)\n"
    act = "activation" if rules.act is Act.ANY else "str(activation)"
    return (
        f"_PADDED_M_TIERS = [32768, 131072]\n{POWER}def get_padded_M(M):\n{BUCKETS[rules.buckets]}"
        "def get_2stage_cfgs(token, topk, activation):\n"
        f"    _INDEX_COLS = ['{key}', 'token', 'doweight_stage1']\n"
        f"    def get_cfg_2stages(file):\n        df = read(file)\n{TAGS[rules.tags]}{first}        return df\n"
        + ("    topk -= int(is_ep)\n" if rules.ep_slot else "")
        + ("    def use_cfg():\n        return True\n" if rules.bypass else "")
        + f"    keys = (cu_num, token, {act})\n{keep}{cells_read(rules)}"
    )


KERNELS = """
import re
_KERNEL_PARAMS = {}
_SUFFIX = re.compile(r"(?P<fp4>_fp4)?(?:_sbm(?P<sbm>\\\\d+))?$")

def get_flydsl_kernel_params(name):
    params = _KERNEL_PARAMS.get(name)
    if params is None:
        m = _SUFFIX.search(name)
        params = _KERNEL_PARAMS.get(name[: m.start()])
        if params is not None and m.group("sbm"):
            params = {**params, "sort_block_m": int(m.group("sbm"))}
    return params

def register():
    for m in (16, 32, 64):
        for n in (64, 128):
            _KERNEL_PARAMS[f"flydsl_moe1_afp4_wfp4_bf16_t{m}x{n}x256_w2"] = {"tile_m": m}
            for k in (128, 256):
                _KERNEL_PARAMS[f"flydsl_moe2_afp4_wfp4_bf16_t{m}x{n}x{k}_atomic"] = {"tile_m": m}

register()
""".replace("\\\\", "\\")
CK_LIST = """
from dataclasses import dataclass
import copy

@dataclass
class Kernel:
    M: int
    stage: int
    Nswizzle: bool = False
    Quant: int = 0
    Weight: bool = False
    A: str = ""
    B: str = ""
    C: str = ""
    act: str = ""

    @property
    def name(self):
        act = [self.act] if self.stage == 1 else []
        return "_".join([f"moe_ck2stages_gemm{self.stage}", f"256x{self.M}x64x128", "1x4", "TypeCast", "v1",
            "Nswizzle" + str(int(self.Nswizzle)), "Quant" + str(self.Quant), "MulRoutedWeight" + str(int(self.Weight)),
            *act, self.A, self.B, self.C])

def made(stage, A, B, C, swizzle, quant, weight, act=""):
    if A != B:
        raise ValueError(A)
    tiles = [32, 64] if get_gfx() == "gfx950" else [32]
    base = {i: Kernel(m, stage) for i, m in enumerate(tiles)}
    kernels = {k: copy.deepcopy(v) for k, v in base.items()}
    for kernel in kernels.values():
        kernel.A, kernel.B, kernel.C = A, B, C
        kernel.Nswizzle, kernel.Quant, kernel.Weight, kernel.act = swizzle, quant, weight, act
    return "tag", kernels

def get_gemm1_kernels_list(A, B, C, swizzle, quant, act, weight, preshuffle=False):
    return made(1, A, B, C, swizzle, quant, weight, act)

def get_gemm2_kernels_list(A, B, C, swizzle, quant, weight, preshuffle=False):
    return made(2, A, B, C, swizzle, quant, weight)
"""
GEMM_LIST = """
from dataclasses import dataclass

@dataclass
class KernelInstance:
    M: int
    N: int

    @property
    def name(self) -> str:
        return "a8w8_blockscale_" + "x".join(str(x) for x in [self.M, self.N])

kernels_list = {0: KernelInstance(16, 64), 1: KernelInstance(32, 64)}
"""


def tree(version: str = "v0.1.20", files: dict[str, bytes] | None = None) -> AiterTree:
    """An AITER tree of the generation `version` with small kernel lists and `files` on top."""
    rules = RULES[version]
    texts = {
        "aiter/jit/core.py": core(rules),
        "aiter/fused_moe.py": fused_moe(rules),
        "aiter/ops/flydsl/moe_kernels.py": KERNELS,
        "csrc/ck_gemm_moe_2stages_codegen/gemm_moe_ck2stages_common.py": CK_LIST,
        "csrc/ck_gemm_a8w8_blockscale/gemm_a8w8_blockscale_instance.py": GEMM_LIST,
        "csrc/kernels/mxfp4_moe/moe_aux/codegen/gen_instances.py": "SHAPES = [(257, 6144, 512, 9)]\n",
        "hsa/gfx950/fmoe/fmoe.csv": "knl_name,co_name,flat\n_ZN5aiter4fooE,foo.co,1\n",
    }
    shipped = {"aiter/configs/untuned_fmoe.csv": UNTUNED, "aiter/configs/a8w8_blockscale_untuned_gemm.csv": b"M,N,K\n"}
    return AiterTree(MemoryTree({**{p: t.encode() for p, t in texts.items()}, **shipped, **(files or {})}))
