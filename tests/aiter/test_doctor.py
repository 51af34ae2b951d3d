"""The doctor names each kind of defect at its line, and says nothing about good rows."""

from __future__ import annotations

import pytest

from rocmfix.aiter.doctor import examine
from rocmfix.aiter.findings import MEANING, SEVERITY, Kind, Severity
from rocmfix.aiter.layout import AiterTree
from rocmfix.aiter.reader import TableFile
from rocmfix.aiter.schema import FMOE, OTHERS
from rocmfix.shipped import shipped
from tests.aiter.rows import HEADER, ladder, table
from tests.aiter.trees import RULES, tree

ALL = tuple(1 << n for n in range(16))
FULL = [
    {**r, "us": f"{10 + i}.5", "tflops": "0"} for i, r in enumerate(ladder(ALL))
]  # fmt: skip
OLD_LADDER = [
    {**r, "us": f"{10 + i}.5", "tflops": "0"} for i, r in enumerate(ladder((16, 32, 64, 128, 256, 512, 1024)))
]


def big(rows):
    """Rows with times that are slow enough for every token count."""
    return [{**r, "us": str(10.5 + int(r["token"]) / 2)} for r in rows]


def found(*files, version="v0.1.20", shipped_files=None):
    named = [TableFile(f"f{number}.csv", data) for number, data in enumerate(files)]
    report = examine(tree(version, shipped_files), named, families=(FMOE,))
    return {(f.kind, f.file, f.line) for f in report.findings}


GOOD = big(FULL)


def test_good_rows_have_no_finding():
    assert found(table(GOOD)) == set()


def test_good_rows_have_no_finding_in_the_oldest_generation():
    assert found(table(big(OLD_LADDER)), version="v0.1.7") == set()


def one(number, **cells):
    """The good table with row `number` (0 is line 2) changed."""
    return table([{**r, **{k: str(v) for k, v in cells.items()}} if i == number else r for i, r in enumerate(GOOD)])


@pytest.mark.parametrize(
    ("kind", "line", "data"),
    [
        (Kind.UNREADABLE, 4, table(GOOD[:2]) + b"1," * 40 + b"\n"),
        (Kind.MISSING_COLUMN, 1, table(GOOD, [n for n in HEADER if n != "topk"])),
        (Kind.UNKNOWN_KERNEL, 4, one(2, kernelName1="flydsl_moe1_afp4_wfp4_bf16_t33x64x256_w2")),
        (Kind.NO_COMPILED_SHAPE, 2, table([{**r, "expert": "289", "kernelName1": "flydsl_mxmoe_g1_a4w4_32x256x256"} for r in GOOD])),
        (Kind.TILE_DOES_NOT_DIVIDE, 3, table([{**r, "inter_dim": "320"} for r in GOOD])),
        (Kind.BLOCK_MISMATCH, 3, one(1, block_m=64)),
        (Kind.BLOCK_MISMATCH, 4, one(2, kernelName2="flydsl_moe2_afp4_wfp4_bf16_t32x128x256_atomic_sbm64")),
        (Kind.FLAT_MISMATCH, 2, table([{**GOOD[0], "kernelName1": "_ZN5aiter4fooE", "kernelName2": "", "run_1stage": "1", "flat": "0"}], [*HEADER, "flat"])),
        (Kind.HIGH_ERROR, 3, one(1, err1="15.4%")),
        (Kind.TABLE_OFF, 4, one(2, topk="x")),
        (Kind.HOLE, None, table(GOOD[:9] + GOOD[10:])),
        (Kind.ACT_SHADOWED, 18, table([*GOOD, {**GOOD[3], "act_type": "ActivationType.Gelu", "us": "99"}])),
        (Kind.NEVER_TIMED, 3, one(1, us=0)),
        (Kind.COPIED_TIME, 4, one(2, us=GOOD[1]["us"])),
        (Kind.IMPOSSIBLE_SPEED, 17, one(15, us=20)),
        (Kind.SPEED_CONTRADICTS_TIME, 5, one(3, tflops=500)),
        (Kind.SHADOWED, 18, table([*GOOD, {**GOOD[3], "us": "99"}])),
        (Kind.UNREACHABLE_TOKEN, 18, table([*GOOD, {**GOOD[3], "token": "40", "us": "77"}])),
        (Kind.UNREACHABLE_KEY, 18, table([*GOOD, {**GOOD[3], "dtype": "bf16", "us": "77"}])),
        (Kind.OTHER_CHIP, 2, table([{**r, "cu_num": "304"} for r in GOOD])),
        (Kind.OTHER_CHIP, 2, table([{**r, "q_dtype_w": "torch.float8_e4m3fnuz"} for r in GOOD])),
        (Kind.DROPPED_TAG, 18, table([*GOOD, {**GOOD[3], "_tag": "flydsl_fallback"}], [*HEADER, "_tag"])),
        (Kind.LEFTOVER_TAG, 2, table([{**GOOD[0], "_tag": "mine"}, *GOOD[1:]], [*HEADER, "_tag"])),
        (Kind.SHIFTED_VALUES, 3, table(GOOD[:1]) + ",".join([v for n, v in {**GOOD[1], "tflops": "8.77"}.items() if n != "err2"]).encode() + b"\n"),
        (Kind.KNOWN_BAD_KERNEL, 2, table([{**GOOD[0], "gfx": "gfx942", "cu_num": "304", "kernelName1": "_ZN5aiter51fmoe_bf16_a16_blockscaleFp8_g1u1_vs_silu_1tg_16x256E"}])),
    ],
)  # fmt: skip
def test_each_defect_is_found_at_its_line(kind, line, data):
    assert (kind, "f0.csv", line) in found(data)


def test_a_second_header_is_one_defect_a_column_and_no_row():
    data = table(GOOD) + (",".join(HEADER) + "\n").encode()
    assert found(data) == {(Kind.TABLE_OFF, "f0.csv", 18), (Kind.UNREACHABLE_KEY, "f0.csv", 18)}


def test_a_duplicate_across_files_is_fatal_and_names_the_row_that_goes():
    slow = table([{**GOOD[3], "us": "99"}])
    assert found(table(GOOD), slow) == {(Kind.DUPLICATE_RAISES, "f1.csv", 2)}


@pytest.mark.parametrize(
    ("kind", "version", "files"),
    [
        (Kind.COLUMN_MISMATCH, "v0.1.7", (table(OLD_LADDER), table(OLD_LADDER, HEADER[::-1]))),
        (Kind.DELETED_BY_MERGE, "v0.1.9", (table(OLD_LADDER), table([{**OLD_LADDER[2], "us": "9999"}]))),
        (Kind.ORDER_DEPENDENT, "v0.1.9", (table(OLD_LADDER), table([{**OLD_LADDER[2], "block_m": "64"}]))),
        (Kind.UNSORTABLE, "v0.1.9", (table(OLD_LADDER), table([{**OLD_LADDER[2], "us": "fast"}]))),
        (Kind.DUPLICATE_RAISES, "v0.1.13", (table([*GOOD, {**GOOD[3], "us": "99"}]),)),
        (Kind.ORDER_DEPENDENT, "v0.1.20", (table([{**GOOD[3], "us": "99"}]), table(GOOD), table([{**GOOD[0], "inter_dim": "1024", "_tag": ""}], [*HEADER, "_tag"]))),
    ],
)  # fmt: skip
def test_each_generation_has_its_own_trouble(kind, version, files):
    if kind is Kind.ORDER_DEPENDENT and version == "v0.1.20":
        # A file without _tag gets 0, one with it "": the merge does not see the duplicate, the lookup takes the first.
        tagged = table([{**GOOD[3], "us": "99", "_tag": ""}], [*HEADER, "_tag"])
        files = (tagged, table(GOOD))
    assert kind in {found_kind for found_kind, _, _ in found(*files, version=version)}


def test_a_file_is_judged_once_by_the_reader_it_is_for():
    """The same rows: fine for v0.1.20, a crash of the whole table for v0.1.13."""
    twice = table([*GOOD, {**GOOD[3], "us": "99"}])
    kinds = {version: {kind for kind, _, _ in found(twice, version=version)} for version in ("v0.1.13", "v0.1.20")}
    assert kinds == {"v0.1.13": {Kind.DUPLICATE_RAISES}, "v0.1.20": {Kind.SHADOWED}}


def test_holes_are_seen_over_activation_types_together():
    """gpt-oss has bf16 rows below 256 tokens and fp4 rows from there: that is no hole."""
    split = [{**r, "q_dtype_a": "torch.bfloat16"} if int(r["token"]) < 256 else r for r in GOOD]
    assert found(table(split)) == set()


@pytest.mark.parametrize("cells", [{"err1": "9.9%"}, {"err2": "0.1"}, {"err1": "0.0"}])
def test_an_error_that_the_tuner_accepts_is_no_finding(cells):
    assert found(one(3, **cells)) == set()


def test_an_error_that_every_such_row_has_is_no_finding_and_one_that_stands_out_is():
    """Every row upstream ships for fp8 block-scale on 80 compute units is above the tuner's limit."""
    usual = [{**r, "err2": "15.8%"} for r in GOOD]
    assert found(table(usual)) == set()
    assert found(table([*usual[:5], {**usual[5], "err2": "40%"}, *usual[6:]])) == {(Kind.HIGH_ERROR, "f0.csv", 7)}
    other = [{**usual[5], "inter_dim": "1024", "q_dtype_a": "torch.bfloat16", "err2": "1%"}] * 40
    kinds = {kind for kind, _, _ in found(table([*usual, *other]))}
    assert Kind.HIGH_ERROR not in kinds, "rows of other data types are no measure"


def test_a_time_copied_into_another_file_is_seen_and_its_place_named():
    """Baked into one table the two rows stand in one file: what is said of them may not depend on that."""
    copied = table([{**GOOD[2], "us": GOOD[1]["us"]}])
    report = examine(tree(), [TableFile("a.csv", table([*GOOD[:2], *GOOD[3:]])), TableFile("b.csv", copied)])
    (finding,) = report.findings
    assert (finding.kind, finding.file, finding.line) == (Kind.COPIED_TIME, "b.csv", 2)
    assert "(a.csv:3)" in finding.effect


def test_a_key_names_the_chip_also_where_the_row_does_not():
    """Baked, the row has it: a finding is the same before and after."""
    bare = table([{**GOOD[0], "us": "0"}], [name for name in HEADER if name != "gfx"])
    (key,) = {f.key for f in examine(tree(), [TableFile("a.csv", bare)]).findings if f.kind is Kind.NEVER_TIMED}
    assert key.startswith("gfx=gfx950 cu_num=256 token=1 ")


def in_image(version="v0.1.20", variable="/t/a.csv", **held):
    """An AITER whose environment names tables."""
    files = {"aiter/configs/tuned_fmoe.csv": table(GOOD), **held}
    return AiterTree(tree(version, files).tree, env={"AITER_CONFIG_FMOE": variable})


def test_what_a_variable_names_is_read_instead_of_what_is_shipped():
    other = table([{**r, "inter_dim": "1024"} for r in GOOD])
    report = examine(in_image(**{"/t/a.csv": other}))
    (finding,) = report.findings
    assert (finding.kind, finding.file) == (Kind.REPLACED_TABLE, "/t/a.csv")
    assert "16 of 16 lookups miss now" in finding.effect
    assert examine(in_image(**{"/t/a.csv": table(GOOD)})).findings == ()


@pytest.mark.parametrize(
    ("variable", "severity"), [("/t/none.csv", Severity.BOOT), ("/t/none.csv:/t/a.csv", Severity.SLOW)]
)
def test_a_variable_that_names_no_file(variable, severity):
    """One of several paths is passed over; the only one fails at the first request."""
    report = examine(in_image(variable=variable, **{"/t/a.csv": table(GOOD)}))
    (finding,) = report.findings
    assert (finding.kind, finding.severity, finding.file) == (Kind.MISSING_FILE, severity, "/t/none.csv")


def test_an_unknown_reader_is_said_and_rows_are_still_judged():
    files = {"aiter/fused_moe.py": b"def get_2stage_cfgs():\n    pass\n", "aiter/configs/tuned_fmoe.csv": one(1, us=0)}
    report = examine(tree("v0.1.20", files))
    assert report.generation == "cannot tell"
    assert {f.kind for f in report.findings} == {Kind.UNKNOWN_READER, Kind.NEVER_TIMED}


def test_shipped_tables_are_all_read_and_counted():
    bad = b"gfx,cu_num,M,N,K,us,kernelName\ngfx950,256,1,2,3,5.0,a8w8_blockscale_7x7\n"
    files = {
        "aiter/configs/tuned_fmoe.csv": table(GOOD),
        "aiter/configs/model_configs/x_tuned_fmoe.csv": table([{**r, "inter_dim": "1024"} for r in GOOD]),
        "aiter/configs/model_configs/x_untuned_fmoe.csv": b"token\n1\n",
        "aiter/configs/a8w8_blockscale_tuned_gemm.csv": bad,
    }
    report = examine(tree("v0.1.20", files))
    assert (report.rows, report.known, report.untold) == (33, 32, 0)
    assert [(f.kind, f.file, f.line, f.severity) for f in report.findings] == [
        (Kind.UNKNOWN_KERNEL, "aiter/configs/a8w8_blockscale_tuned_gemm.csv", 2, Severity.BOOT)
    ]


def test_a_gemm_key_twice_raises_at_the_first_gemm():
    twice = b"gfx,cu_num,M,N,K,us,kernelName\ngfx950,256,1,2,3,5.0,a8w8_blockscale_16x64\ngfx950,256,1,2,3,6.0,a8w8_blockscale_16x64\n"
    report = examine(tree("v0.1.20", {"aiter/configs/a8w8_blockscale_tuned_gemm.csv": twice}))
    assert [(f.kind, f.line) for f in report.findings] == [(Kind.DUPLICATE_RAISES, 3)]


def test_an_unknown_ck_kernel_is_slow_and_an_unknown_flydsl_kernel_stops_the_server():
    ck = "moe_ck2stages_gemm1_256x99x64x128_1x4_TypeCast_v1_Nswizzle0_Quant3_MulRoutedWeight0_silu_FP4X2_FP4X2_B16"
    for name, severity in ((ck, Severity.SLOW), ("flydsl_moe1_x", Severity.BOOT)):
        report = examine(tree(), [TableFile("f.csv", one(0, kernelName1=name))])
        assert [f.severity for f in report.findings if f.kind is Kind.UNKNOWN_KERNEL] == [severity]


def test_every_kind_is_documented_with_its_severity():
    text = (shipped("dockerfiles") / "aiter/README.md").read_text()
    for kind in Kind:
        assert f"| `{kind.value}` | {SEVERITY[kind].value} | {MEANING[kind]} |" in text


@pytest.mark.parametrize("name", ["cu_num", "inter_dim", "model_dim", "expert", "topk", "block_m", "us", "tflops"])
@pytest.mark.parametrize("kernel", [GOOD[0]["kernelName1"], "flydsl_mxmoe_g1_a4w4_32x256x256"])
@pytest.mark.parametrize("value", ["inf", "-inf", "1e400"])
def test_an_infinite_cell_is_no_number_and_stops_no_examination(name, kernel, value):
    """pandas reads all three as floats; the row that has one is said to answer nothing, where it is part of the key."""
    kinds = {kind for kind, _, line in found(one(1, **{name: value, "kernelName1": kernel})) if line == 3}
    assert (Kind.UNREACHABLE_KEY in kinds) == (name in {"cu_num", "inter_dim", "model_dim", "expert", "topk"})


def test_a_kernel_name_with_a_tile_of_0_is_unknown():
    bad = one(1, kernelName2="flydsl_moe2_afp4_wfp4_bf16_t32x128x0_atomic")
    assert found(bad) == {(Kind.UNKNOWN_KERNEL, "f0.csv", 3)}


@pytest.mark.parametrize("version", RULES)
def test_every_generation_is_examined_without_failing(version):
    """Damage of every class, for every reader: an answer, never an exception."""
    import random

    from tests.aiter.mutations import CLASSES

    for damage in CLASSES:
        files = [TableFile(f"{n}.csv", data) for n, data in enumerate(damage(random.Random(damage.__name__)))]
        report = examine(tree(version), files)
        assert report.generation == version


@pytest.mark.upstream
def test_real_trees_have_defects_and_no_unknown_kernels(real_tree):
    report = examine(real_tree, families=(FMOE,))
    kinds = {finding.kind for finding in report.findings}
    assert Kind.UNKNOWN_KERNEL not in kinds
    assert kinds


@pytest.mark.parametrize(("gfx", "line"), [(("0",), 2), (("",), 2), (("0", ""), 3)])  # beside a gap, 0 is 0.0: no gap
@pytest.mark.parametrize(("version", "said"), [("v0.1.14", False), ("v0.1.16", True), ("v0.1.20", True)])
def test_a_gfx_column_without_text_stops_a_reader_that_guesses_it_under_pandas_3(gfx, line, version, said):
    data = table([{**r, "gfx": gfx[i % len(gfx)]} for i, r in enumerate(GOOD)])
    stops = [(Kind.NUMERIC_GFX, "f0.csv", line)] if said else []
    assert [each for each in found(data, version=version) if each[0] is Kind.NUMERIC_GFX] == stops
    assert Kind.UNSORTABLE not in {kind for kind, _, _ in found(data, version=version)}
    one_told = table([{**r, "gfx": "gfx950" if i == 3 else gfx[0]} for i, r in enumerate(GOOD)])
    assert Kind.NUMERIC_GFX not in {kind for kind, _, _ in found(one_told, version=version)}


def test_tables_of_which_none_has_a_row_are_no_duplicates():
    """v0.1.11 raises "No objects to concatenate": the doctor called it a key that is there twice."""
    header = table(GOOD).splitlines(keepends=True)[0]
    files = {"aiter/configs/tuned_fmoe.csv": header, "aiter/configs/model_configs/a_tuned_fmoe.csv": header}
    (found,) = [each for each in examine(tree("v0.1.11", files)).findings if "concatenate" in each.effect]
    assert (found.kind, found.hint) == (Kind.UNREADABLE, "give one of the files a row")


def test_a_table_without_a_row_is_not_passed_over():
    assert found(table([])) == {(Kind.NO_ROWS, "f0.csv", None)}


def test_one_file_without_its_columns_is_not_told_to_be_as_the_others_are():
    (finding,) = examine(tree(), [TableFile("f.csv", table(GOOD).replace(b",", b";"))], families=(FMOE,)).findings
    assert (finding.kind, finding.hint) == (Kind.MISSING_COLUMN, "add the column; between cells is a comma")


@pytest.mark.parametrize("family", OTHERS, ids=lambda family: family.name)
def test_rows_of_a_family_whose_reader_is_not_modelled_are_read_and_not_judged_as_fused_moe(family):
    """They were taken for a second header; and two of them are no neighbours, as their key is not known."""
    rows = [{**GOOD[n], "us": "99", "inter_dim": str(512 << n), "kernelName2": ""} for n in range(3)]
    report = examine(tree(), [TableFile(f"{family.name}.csv", table([*rows, {**rows[0], "us": "0"}]))])
    assert report.rows == 4
    assert [(f.kind, f.line) for f in report.findings] == [(Kind.NEVER_TIMED, 5)]
