"""What AITER computes with, and what tuners measure: cells that are no numbers, and names that are not there."""

from __future__ import annotations

import pytest

from rocmfix.aiter.doctor import examine
from rocmfix.aiter.findings import Kind, Severity
from rocmfix.aiter.reader import TableFile
from rocmfix.aiter.schema import FMOE, GEMMS
from tests.aiter.rows import HEADER, row, table
from tests.aiter.trees import tree

ASM = {"kernelName1": "_ZN5aiter4fooE", "kernelName2": "", "run_1stage": "1", "xbf16": "0", "flat": "1"}
COLUMNS = [*HEADER, "xbf16", "flat"]
TUNER = "csrc/ck_gemm_a8w8_blockscale/gemm_a8w8_blockscale_tune.py"
SETTINGS = {
    Kind.BAD_SETTING,
    Kind.OVERRULED,
    Kind.UNNAMED_KERNEL,
    Kind.ODD_MEASUREMENT,
    Kind.MISSING_COLUMN,
    Kind.WRONG_STAGE,
}


def told(*rows, version="v0.1.20", columns=COLUMNS):
    """What is said of rows that differ in their hidden size, by line."""
    apart = [{"xbf16": "0", "flat": "0", **r, "model_dim": str(6144 + 64 * n)} for n, r in enumerate(rows)]
    findings = examine(tree(version), [TableFile("f.csv", table(apart, columns))]).findings
    return [(f.kind, f.line, f.severity, f.effect) for f in findings if f.kind in SETTINGS]


def kinds(*rows, **how):
    return [(kind, line, severity) for kind, line, severity, _ in told(*rows, **how)]


BAD = (Kind.BAD_SETTING, 3, Severity.BOOT)


@pytest.mark.parametrize("value", ["", "nan", "x", "0", "inf", "-32", "1_0", "32.5"])
@pytest.mark.parametrize("version", ["v0.1.7", "v0.1.13", "v0.1.20"])
def test_a_block_that_is_no_number_of_rows_stops_the_first_request(value, version):
    assert kinds(row(), row(block_m=value), version=version) == [BAD]


@pytest.mark.parametrize("value", ["", "nan", "x", "False", "1", "2", "0x0"])
@pytest.mark.parametrize("version", ["v0.1.7", "v0.1.13", "v0.1.20"])
def test_a_row_of_two_stages_that_is_run_as_one(value, version):
    """`if run_1stage:` in every generation, and NaN and text are true; only text reaches the rows beside it."""
    ((*found, effect),) = told(row(), row(run_1stage=value), version=version)
    assert tuple(found) == BAD
    assert ("all of the column becomes text" in effect) == (value in {"x", "False", "0x0"})


@pytest.mark.parametrize("cells", [{"run_1stage": ""}, {"run_1stage": "2"}, {"flat": "0.0"}, {"ksplit": ""}])
def test_what_does_not_change_how_a_one_stage_row_runs_is_no_bad_setting(cells):
    assert kinds(row(), row(**{**ASM, **cells})) == []


def test_an_mxmoe_row_is_not_asked_how_many_stages_it_has():
    mxmoe = {"kernelName1": "flydsl_mxmoe_g1_a4w4_32x256x256", "kernelName2": "flydsl_mxmoe_g2_a4w4_32x256x256"}
    assert kinds(row(), row(**mxmoe, run_1stage="")) == []


@pytest.mark.parametrize(
    ("version", "found"), [("v0.1.7", []), ("v0.1.8", []), ("v0.1.9", [BAD]), ("v0.1.11", [BAD]), ("v0.1.20", [BAD])]
)
@pytest.mark.parametrize("value", ["", "x"])
def test_a_split_that_is_no_number_fails_where_this_aiter_splits(value, version, found):
    assert kinds(row(), row(ksplit=value), version=version) == found


@pytest.mark.parametrize(
    ("name", "version", "found"),
    [
        ("flat", "v0.1.14", []), ("flat", "v0.1.16", [BAD]), ("flat", "v0.1.20", [BAD]),
        ("xbf16", "v0.1.12", []), ("xbf16", "v0.1.13", [BAD]), ("xbf16", "v0.1.20", [BAD]),
    ],
)  # fmt: skip
@pytest.mark.parametrize("value", ["", "x"])
def test_a_flag_of_assembly_that_is_no_number(name, version, value, found):
    """`int(cfg["flat"]) if run_1stage else 0`: a row of two stages is not asked."""
    assert kinds(row(), row(**{**ASM, name: value}), version=version) == found
    assert kinds(row(), row(**{name: ""}), version=version) == []


SLOW, BOOT = Severity.SLOW, Severity.BOOT
SWIGLU = {"act_type": "ActivationType.Swiglu"}


@pytest.mark.parametrize(
    ("version", "cells", "severity"),
    [
        ("v0.1.7", {"kernelName1": ""}, BOOT),
        ("v0.1.7", {"kernelName1": "", "kernelName2": "", **SWIGLU}, SLOW),
        ("v0.1.13", {"kernelName1": "", "kernelName2": "", **SWIGLU}, BOOT),
        ("v0.1.16", {"kernelName1": "", "kernelName2": ""}, BOOT),
        ("v0.1.20", {"kernelName1": "", "kernelName2": ""}, SLOW),
        ("v0.1.20", {"kernelName1": "", "kernelName2": "", "q_type": "QuantType.per_1x128"}, BOOT),
        ("v0.1.20", {"kernelName1": ""}, BOOT),
        ("v0.1.20", {"kernelName2": ""}, BOOT),
        ("v0.1.20", {**ASM, "kernelName1": ""}, BOOT),
    ],
)
def test_a_name_that_is_not_there(version, cells, severity):
    """Where AITER only asks text how it begins, blocks of 32 go their own way; a name beside it still fails in C++."""
    assert kinds(row(), row(**cells), version=version) == [(Kind.UNNAMED_KERNEL, 3, severity)]


def test_a_one_stage_row_needs_one_name():
    assert kinds(row(), row(**ASM), row(**{**ASM, "kernelName2": "Null"})) == []


@pytest.mark.parametrize("name", ["block_m", "ksplit", "kernelName1", "kernelName2"])
def test_a_column_that_a_lookup_takes_without_asking_whether_it_is_there(name):
    columns = [column for column in COLUMNS if column != name]
    assert kinds(row(), columns=columns) == [(Kind.MISSING_COLUMN, 1, BOOT)]


@pytest.mark.parametrize("name", ["us1", "us2", "err1", "err2", "tflops"])
@pytest.mark.parametrize("value", ["fast", "inf", "%", "fast%"])
def test_a_measurement_that_is_no_number_is_said(name, value):
    assert kinds(row(), row(**{name: value})) == [(Kind.ODD_MEASUREMENT, 3, Severity.DEAD)]


def test_measurements_that_tuners_write_are_none():
    """Nor is one that is not there: a table of fewer columns, merged with the base's, has gaps in the others."""
    assert kinds(row(), row(us1="", err1="nan", tflops="")) == []
    assert kinds(row(), row(err1="0.0", err2="12%"), row(us2="0", tflops="0", err1="-1")) == []


@pytest.mark.parametrize("family", [FMOE, *GEMMS], ids=lambda family: family.name)
def test_a_family_is_tuned_by_its_own_tuner_or_none_is_named(family):
    """A GEMM row was told to be timed with the tuner of fused MoE."""
    cells = {"gfx": "gfx950", "cu_num": "256", "us": "0", **dict.fromkeys(family.key, "1")}
    data = table([cells], list(cells))
    for commands in (family.tuners, ()):
        files = {command.split()[0]: b"" for command in commands[-1:]}
        report = examine(tree("v0.1.20", files), [TableFile(f"{family.name}.csv", data)])
        hints = {f.hint for f in report.findings if f.kind is Kind.NEVER_TIMED}
        assert hints == {f"time it on the chip with {commands[-1]}" if commands else "time it on the chip"}


def test_only_fused_moe_can_be_run_without_its_tables():
    """`AITER_BYPASS_TUNE_CONFIG` is read by `aiter/fused_moe.py` alone."""
    data = b"gfx,cu_num,M,N,K,us,kernelName,errRatio\n" + b"".join(
        b"gfx950,256,%d,64,64,9,a8w8_blockscale_16x64,%s\n" % (n, b"0.9" if n == 5 else b"0.0") for n in range(1, 9)
    )
    report = examine(tree(), [TableFile("a8w8_blockscale_tuned_gemm.csv", data)])
    assert [f.hint for f in report.findings if f.kind is Kind.HIGH_ERROR] == ["compare accuracy without the row"]


CK = {
    "kernelName1": "moe_ck2stages_gemm1_256x32x64x128_1x4_TypeCast_v1_Nswizzle0_Quant3_MulRoutedWeight0_silu_FP4X2_FP4X2_B16",
    "kernelName2": "moe_ck2stages_gemm2_256x32x64x128_1x4_TypeCast_v1_Nswizzle0_Quant3_MulRoutedWeight1_FP4X2_FP4X2_B16",
}


@pytest.mark.parametrize(("version", "said"), [("v0.1.14", False), ("v0.1.15+#3377", True), ("v0.1.20", True)])
def test_an_fp4_row_of_ck_kernels_is_overruled_by_the_flydsl_heuristic(version, said):
    assert kinds(row(), row(**CK), version=version) == [(Kind.OVERRULED, 3, Severity.SLOW)] * said


@pytest.mark.parametrize(
    "cells",
    [
        {"q_dtype_a": "torch.bfloat16"},
        {"q_dtype_w": "torch.bfloat16"},
        {"q_type": "QuantType.per_1x128"},
        {"act_type": "ActivationType.Swiglu"},
        {"doweight_stage1": "1"},
        {"use_g1u1": "0"},
        {"kernelName2": row()["kernelName2"]},
    ],
)
def test_a_row_that_no_heuristic_comes_before_is_not(cells):
    assert kinds(row(), row(**{**CK, **cells})) == []


@pytest.mark.parametrize(
    ("changes", "lines"),
    [
        ({}, []),
        ({"kernelName2": row()["kernelName1"]}, [2]),
        ({"kernelName1": row()["kernelName2"]}, [2]),
        ({"kernelName1": row()["kernelName2"], "kernelName2": row()["kernelName1"]}, [2, 2]),
    ],
)
def test_a_kernel_stands_for_its_own_stage(changes, lines):
    """AITER asks a name only how it begins, and ran the tile of stage 2 as stage 1."""
    assert kinds(row(**changes)) == [(Kind.WRONG_STAGE, line, Severity.WRONG_OUTPUT) for line in lines]
