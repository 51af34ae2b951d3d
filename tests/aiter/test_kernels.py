"""Kernel names are known, unknown or cannot be told, from the tree's own source."""

from __future__ import annotations

import random
import string

import pytest

from rocmfix.aiter import frame as csv
from rocmfix.aiter.dispatch import functions
from rocmfix.aiter.doctor import examine
from rocmfix.aiter.evaluator import Evaluator
from rocmfix.aiter.findings import Kind
from rocmfix.aiter.interpreted import BUDGET, CannotTell, Raised
from rocmfix.aiter.kernels import Kernels, Knowledge
from rocmfix.aiter.reader import guess_gfx
from tests.aiter.trees import RULES, core, tree

KNOWN, UNKNOWN, CANNOT_TELL = Knowledge.KNOWN, Knowledge.UNKNOWN, Knowledge.CANNOT_TELL


@pytest.fixture(scope="module")
def kernels():
    return Kernels(tree())


@pytest.mark.parametrize(
    ("name", "gfx", "told"),
    [
        ("flydsl_moe1_afp4_wfp4_bf16_t32x64x256_w2", "gfx950", KNOWN),
        ("flydsl_moe1_afp4_wfp4_bf16_t32x64x256_w2_fp4_sbm64", "gfx950", KNOWN),
        ("flydsl_moe1_afp4_wfp4_bf16_t32x64x256_w2_fp4_sbm48", "gfx950", UNKNOWN),
        ("flydsl_moe1_afp4_wfp4_bf16_t48x64x256_w2", "gfx950", UNKNOWN),
        ("flydsl_moe2_layout_afp4_wfp4_bf16_t32x128x256_atomic", "gfx950", UNKNOWN),
        ("flydsl_mxmoe_g1_a4w4_32x256x256", "gfx950", UNKNOWN),
        ("moe_ck2stages_gemm1_256x64x64x128_1x4_TypeCast_v1_Nswizzle0_Quant2_MulRoutedWeight0_silu_F8_F8_B16", "gfx950", KNOWN),
        ("moe_ck2stages_gemm1_256x64x64x128_1x4_TypeCast_v1_Nswizzle0_Quant2_MulRoutedWeight0_silu_F8_F8_B16", "gfx942", UNKNOWN),
        ("moe_ck2stages_gemm2_256x32x64x128_1x4_TypeCast_v1_Nswizzle1_Quant3_MulRoutedWeight1_FP4X2_FP4X2_B16", "gfx950", KNOWN),
        ("moe_ck2stages_gemm2_256x32x64x128_1x4_TypeCast_v1_Nswizzle1_Quant2_MulRoutedWeight1_FP4X2_FP4X2_B16", "gfx950", UNKNOWN),
        ("moe_ck2stages_gemm2_256x32x64x128_1x4_TypeCast_v1_Nswizzle1_Quant2_MulRoutedWeight1_F8_I8_B16", "gfx950", UNKNOWN),
        ("_ZN5aiter4fooE", "gfx950", KNOWN),
        ("_ZN5aiter4barE", "gfx950", UNKNOWN),
        ("_ZN5aiter4fooE", "gfx1250", CANNOT_TELL),
        ("a8w8_blockscale_32x64", "gfx950", KNOWN),
        ("a8w8_blockscale_33x64", "gfx950", UNKNOWN),
        ("a8w8_bpreshuffle_1x1", "gfx950", CANNOT_TELL),
        ("swiglu_mxfp4_bf16_cktile", "gfx950", CANNOT_TELL),
        ("mo_ck2stages_gemm1", "gfx950", UNKNOWN),
    ],
)  # fmt: skip
def test_each_family_is_told_by_its_own_list(kernels, name, gfx, told):
    assert kernels.ask(name, gfx, moe=not name.startswith("a8w8")).knowledge is told


def test_mxmoe_shapes_are_those_compiled_in(kernels):
    assert kernels.has_shape(257, 6144, 9).knowledge is KNOWN
    assert kernels.has_shape(289, 6144, 9).knowledge is UNKNOWN


def test_a_list_that_cannot_be_worked_out_accuses_no_one():
    """Part of the list is built by something outside the interpreted language: what is not found is not unknown."""
    path = "csrc/ck_gemm_a8w8_blockscale/gemm_a8w8_blockscale_instance.py"
    known = tree().text(path)
    assert known is not None
    torn = Kernels(tree(files={path: (known + "kernels_list.update(load(KernelInstance))\n").encode()}))
    assert torn.ask("a8w8_blockscale_99x64", "gfx950", moe=False).knowledge is CANNOT_TELL


@pytest.mark.parametrize(
    "code",
    [
        "open('/etc/passwd')",
        "__import__('os').system('true')",
        "().__class__.__bases__[0].__subclasses__()",
        "'{0.__class__}'.format(1)",
        "'x' * 10**9",
        "2 ** 10**9",
        "1 << 10**9",
        "list(range(10**7))",
        "f()",
        "eval('1')",
        "getattr('', '__class__')",
        "vars(str)",
    ],
)
def test_interpreted_code_reaches_nothing_and_ends(code):
    """No files, imports, real attributes or runaway sizes: the value is unknown, and nothing happened."""
    source = f"def f():\n    return f()\nx = {code}\n"
    with pytest.raises(CannotTell):
        Evaluator(source, {}).value("x")


def test_an_endless_loop_ends_by_budget(monkeypatch):
    monkeypatch.setattr("rocmfix.aiter.expressions.BUDGET", 10_000)
    assert BUDGET > 10_000
    with pytest.raises(CannotTell):
        Evaluator("x = [1]\nfor i in x:\n    x.append(i)\n    y = i + 1\n", {}).value("x")


def test_a_raise_of_the_code_is_an_answer_of_its_own():
    with pytest.raises(Raised):
        Evaluator("def f(a):\n    if a:\n        raise ValueError(a)\n    return 1\n", {}).call("f", True)


TUNED_GEMM = """
def torch_gemm(inp, config=None):
    return inp

def asm_gemm(inp, config=None):
    return run(inp, config.get("kernelName"))

def run(inp, config):
    if config["libtype"] == "flydsl":
        return flydsl(config)
    return solMap[config["libtype"]](inp)

solMap = {"torch": torch_gemm, "asm": asm_gemm}
"""


@pytest.mark.parametrize(
    ("libtype", "name", "rows"),
    [
        ("torch", "native", (1, 0, 0)),
        ("asm", "_ZN5aiter4fooE", (1, 0, 0)),
        ("asm", "_ZN5aiter4barE", (0, 1, 0)),
        ("opus", "opus_gemm", (0, 1, 0)),
        ("opus", "", (0, 1, 0)),
        ("flydsl", "flydsl_gemm2", (0, 0, 1)),
        ("", "opus_gemm", (0, 0, 1)),
    ],
)
def test_a_bf16_row_is_known_by_the_function_it_goes_to(libtype, name, rows):
    """Three rows in ten of the pin's bf16 table name no kernel that anything looks up: `auto`, `native`, `sol2`."""
    header = "gfx,cu_num,M,N,K,bias,dtype,outdtype,scaleAB,bpreshuffle,libtype,solidx,splitK,us,kernelName"
    row = f"gfx950,256,64,256,5120,False,torch.bfloat16,torch.bfloat16,False,False,{libtype},0,0,7.9,{name}"
    reader = core(RULES["v0.1.20"]).replace("AITER_CONFIG_FMOE", "AITER_CONFIG_GEMM_BF16")
    files = {"aiter/tuned_gemm.py": TUNED_GEMM.encode(), "aiter/jit/core.py": reader.encode()}
    files["aiter/configs/bf16_tuned_gemm.csv"] = f"{header}\n{row}\n".encode()
    files["aiter/configs/bf16_untuned_gemm.csv"] = b"M,N,K,bias,dtype,outdtype,scaleAB,bpreshuffle\n"
    report = examine(tree("v0.1.20", files))
    unknown = [each for each in report.findings if each.kind is Kind.UNKNOWN_KERNEL]
    assert (report.known, len(unknown), report.untold) == rows
    if libtype == "opus":
        assert "libtype opus is not in solMap of aiter/tuned_gemm.py: KeyError" in unknown[0].effect


def test_without_a_map_of_functions_nothing_is_said_by_libtype():
    """v0.1.7 has a list there."""
    assert functions('solMap = ["torch", "asm"]\n') == {}
    assert Kernels(tree()).dispatch("torch") is None


def names_of(real):
    """Every kernel of the fused-MoE tables a tree ships, with its chip, by row."""
    for path in real.paths("aiter/configs", ".csv"):
        name = path.rsplit("/", 1)[-1]
        if "tuned_fmoe" in name and "untuned" not in name:
            frame = csv.read(real.read(path), path)
            for index in range(len(frame)):
                cells = frame.row(index)
                gfx = str(cells.get("gfx") or guess_gfx(cells.get("cu_num"), "gfx942"))
                yield [
                    (str(cells[c]), gfx) for c in ("kernelName1", "kernelName2") if cells.get(c) not in {None, "Null"}
                ]


@pytest.mark.upstream
def test_no_false_alarm_and_no_hiding_on_what_a_real_aiter_ships(real_tree):
    """No unknown name in AITER's own tables, and nine rows in ten resolve as known."""
    real = Kernels(real_tree)
    rows = [[real.ask(name, gfx).knowledge for name, gfx in row] for row in names_of(real_tree)]
    assert not [row for row in rows if UNKNOWN in row]
    assert sum(set(row) <= {KNOWN} for row in rows) >= 0.93 * len(rows)


@pytest.mark.upstream
def test_one_wrong_character_is_flagged(real_tree):
    """Of the known names, each changed in one random place, 99 in 100 are unknown."""
    real, rng = Kernels(real_tree), random.Random(4)
    known = sorted({pair for row in names_of(real_tree) for pair in row if real.ask(*pair).knowledge is KNOWN})
    flagged = 0
    for number in range(2000):
        name, gfx = known[number % len(known)]
        at = rng.randrange(len(name))
        other = rng.choice([c for c in string.ascii_letters + string.digits + "_" if c != name[at]])
        told = real.ask(name[:at] + other + name[at + 1 :], gfx).knowledge
        flagged += told is UNKNOWN
    assert flagged >= 0.99 * 2000
