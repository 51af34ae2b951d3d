"""The verbs as a user meets them."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from rocmfix.aiter.launch import FUSED_EXPERTS, FUSING, SWIGLU, SWIGLU_PAD
from rocmfix.cli.aiter import command
from tests.aiter.rows import HEADER, ladder, row, table

DOCS = Path(__file__).parents[2] / "docs/aiter.md"


def run(*arguments):
    return CliRunner().invoke(command, [str(argument) for argument in arguments])


def test_doctor_prints_places_effects_and_counts_and_exits_1_for_what_stops_a_server(place):
    (place / "bad.csv").write_bytes(table([row(kernelName1="flydsl_moe1_x")]))
    result = run("doctor", place / "bad.csv", "--for", place / "tree")
    assert result.exit_code == 1
    assert "boot: unknown-kernel (1)" in result.output
    assert f"{place}/bad.csv:2" in result.output
    assert "1 rows, reader v0.1.20: kernels known 0, unknown 1, cannot be told 0" in result.output


def test_what_a_table_holds_cannot_drive_the_terminal(place):
    (place / "bad.csv").write_bytes(table([row(kernelName1="flydsl_moe1_\x1b[2J\x07")]))
    result = run("doctor", place / "bad.csv", "--for", place / "tree")
    assert "\x1b" not in result.output
    assert "\\x1b[2J" in result.output


def test_doctor_exits_0_for_what_is_only_slow(place):
    result = run("doctor", place / "tree")
    assert result.exit_code == 0, result.output
    assert "boot" not in result.output


def test_doctor_json_has_the_fields_scripts_rely_on(place):
    (place / "hole.csv").write_bytes(table(ladder((1, 2), tflops=0)))
    report = json.loads(run("doctor", place / "hole.csv", "--for", place / "tree", "--json").output)
    assert report["generation"] == "v0.1.20"
    (finding,) = [f for f in report["findings"] if f["kind"] == "hole"]
    assert set(finding) == {"kind", "severity", "file", "line", "key", "effect", "hint"}
    assert finding["line"] is None


@pytest.mark.parametrize("arguments", [["doctor", "x.csv"], ["doctor", "a", "b"], ["doctor", "a", "--for", "b"]])
def test_doctor_needs_exactly_one_aiter(arguments):
    result = run(*arguments)
    assert result.exit_code == 2
    assert "name one AITER" in result.output


def test_coverage_draws_the_grid_and_writes_what_is_missing(place):
    flags = ["--in", place / "tree", "--tp", 4, "--hidden", 6144, "--inter", 2048, "--experts", 256, "--topk", 8]
    result = run("coverage", *flags, "--untuned", place / "u.csv", "--workload", "64=10")
    assert result.exit_code == 1, "nothing hit: that is not ok"
    assert "0 of 15 lookups hit" in result.output
    assert "0.0% of the workload's tokens hit" in result.output
    assert len((place / "u.csv").read_text().splitlines()) == 16
    fused = run("coverage", *flags, "--shared", 1, "--shared-fusion", "--json")
    answer = json.loads(fused.output)
    assert (answer["hit"], answer["total"], answer["generation"]) == (15, 15, "v0.1.20")
    assert fused.exit_code == 0
    assert {*HEADER[:14], "hit", "file", "line"} <= set(answer["keys"][0])


def test_coverage_reads_a_model_folder(place):
    config = {
        "model_type": "glm_moe_dsa",
        "hidden_size": 6144,
        "moe_intermediate_size": 2048,
        "n_routed_experts": 256,
        "num_experts_per_tok": 8,
        "n_shared_experts": 1,
    }
    (place / "config.json").write_text(json.dumps(config))
    result = run("coverage", place, "--in", place / "tree", "--tp", 4)
    assert "15 of 15 lookups hit" in result.output


def test_merge_writes_one_table_and_names_its_variable(place):
    (place / "a_tuned_fmoe.csv").write_bytes(table(ladder()))
    (place / "b_tuned_fmoe.csv").write_bytes(table([row(token=4, us=1)]))
    files = [place / "a_tuned_fmoe.csv", place / "b_tuned_fmoe.csv"]
    dry = run("merge", *files, "--for", place / "tree", "-o", place / "m.csv", "--dry-run")
    assert dry.exit_code == 0
    assert not (place / "m.csv").exists()
    result = run("merge", *files, "--for", place / "tree", "-o", place / "m.csv")
    assert result.exit_code == 0, result.output
    assert "a_tuned_fmoe.csv:4 gave way to" in result.output
    assert f"AITER_CONFIG_FMOE={place}/m.csv" in result.output
    assert len((place / "m.csv").read_text().splitlines()) == 7


def test_merge_neither_writes_over_a_table_it_reads_nor_replaces_what_is_no_file(place):
    """`-o /dev/null` left a regular file there, and `-o a.csv` the merge in the place of a.csv."""
    (place / "a.csv").write_bytes(table(ladder((1,))))
    (place / "pipe").symlink_to("/dev/null")
    (place / "loop").symlink_to("loop")
    refused = run("merge", place / "a.csv", "--for", place / "tree", "-o", place / "a.csv")
    assert refused.exit_code == 13
    assert "is one of the files that are read" in refused.output
    assert (place / "a.csv").read_bytes() == table(ladder((1,)))
    assert run("merge", place / "a.csv", "--for", place / "tree", "-o", place / "pipe").exit_code == 0
    assert (place / "pipe").is_symlink()
    assert Path("/dev/null").is_char_device()
    assert run("merge", place / "a.csv", "--for", place / "tree", "-o", place / "loop").exit_code == 1
    assert (place / "loop").is_symlink()


def test_a_release_number_is_no_aiter(place):
    result = run("doctor", "0.1.20")
    assert result.exit_code == 3
    assert "'0.1.20' is no folder or wheel" in result.output
    assert "give a folder" in result.output


def test_sizes_and_a_config_are_not_both_taken(place):
    (place / "config.json").write_bytes(b"\xff\xfe")
    result = run("coverage", place, "--tp", 4, "--hidden", 7168, "--in", place / "tree")
    assert (result.exit_code, "--hidden and a config.json" in result.output) == (2, True)
    assert "not a config.json" in run("coverage", place, "--tp", 4, "--in", place / "tree").output


@pytest.mark.parametrize("workload", ["x", "64=-1", "0=1", "64=inf", "64=nan"])
def test_a_workload_that_is_none_is_said_before_anything_is_printed(place, workload):
    sizes = ("--hidden", 6144, "--inter", 2048, "--experts", 256, "--topk", 8)
    result = run("coverage", *sizes, "--tp", 4, "--workload", workload, "--in", place / "tree")
    assert result.exit_code == 2
    assert "bucket" not in result.stdout


def test_merge_refuses_tables_of_two_families(place):
    (place / "a_tuned_fmoe.csv").write_bytes(table(ladder()))
    (place / "a8w8_blockscale_tuned_gemm.csv").write_bytes(b"gfx,cu_num,M,N,K,us,kernelName\n")
    result = run(
        "merge",
        place / "a_tuned_fmoe.csv",
        place / "a8w8_blockscale_tuned_gemm.csv",
        "--for",
        place / "tree",
        "-o",
        place / "m.csv",
    )
    assert result.exit_code == 13
    assert "different families" in result.output


def test_explain_reads_a_key_or_a_log(place):
    line = (
        "[aiter] [fused_moe] using 2stage (kernelName1='a', kernelName2='b') for "
        "('gfx950', 256, 4, 6144, 512, 257, 9, <ActivationType.Silu: 0>, 'torch.bfloat16', 'torch.float4_e2m1fn_x2', "
        "'torch.float4_e2m1fn_x2', 'QuantType.per_1x32', True, False) "
    )
    (place / "server.log").write_text(line * 3)
    from_log = run("explain", place / "server.log", "--in", place / "tree")
    assert "aiter/configs/tuned_fmoe.csv:4" in from_log.output
    by_hand = json.loads(run("explain", line, "--in", place / "tree", "--json").output)
    assert [(k["line"], k["hit"]) for k in by_hand["keys"]] == [(4, True)]
    assert run("explain", place / "none.log", "--in", place / "tree").exit_code == 13
    (place / "empty.log").write_text("nothing")
    assert "AITER_LOG_LEVEL" in run("explain", place / "empty.log", "--in", place / "tree").output


@pytest.mark.parametrize(("tokens", "code"), [((1, 2, 512), 0), ((32768,), 1)])
@pytest.mark.parametrize("flags", [[], ["--json"]])
def test_coverage_of_nothing_is_not_ok_and_a_hole_is_as_for_doctor(place, tokens, code, flags):
    (place / "t.csv").write_bytes(table(ladder(tokens, tflops=0)))
    sizes = ("--hidden", 6144, "--inter", 2048, "--experts", 257, "--topk", 9, "--tp", 4)
    assert run("coverage", *sizes, "--in", place / "tree", "--table", place / "t.csv", *flags).exit_code == code


@pytest.mark.parametrize("flags", [[], ["--json"]])
def test_the_key_and_the_log_line_of_the_docs_are_explained_as_they_say(place, flags):
    text = DOCS.read_text()
    (line,) = re.findall(r"^\[aiter\] \[fused_moe\].*$", text, re.MULTILINE)
    ((key, answer),) = re.findall(r'aiter explain "(.*?)" .*\n((?:.*\n)*?)```', text)
    (place / "holed.csv").write_bytes(table(ladder((256, 1024), tflops=0)))
    (place / "server.log").write_text(line)
    told = [run("explain", each, "--in", place / "tree", "--table", place / "holed.csv", *flags)
            for each in (key, line, place / "server.log")]  # fmt: skip
    assert {each.exit_code for each in told} == {1}
    if flags:
        assert {tuple(json.loads(each.output)["keys"][0]["neighbours"]) for each in told} == {(256, 1024)}
    else:
        assert {each.output for each in told} == {answer}


def test_the_docs_name_the_models_of_which_coverage_knows_more():
    text = DOCS.read_text()
    *first, last = (f"`{kind}`" for kind in FUSING)
    experts = " routed experts, or ".join(map(str, FUSED_EXPERTS))
    assert f"begin with {', '.join(first)} or {last}, if it is one beside {experts} in" in text.replace("\n", " ")
    assert f"`{SWIGLU}` has Swiglu and its sizes are padded to {SWIGLU_PAD}" in text


SIZES = ("--hidden", 6144, "--inter", 2048, "--experts", 256, "--topk", 8, "--tp", 4)


def test_a_tree_of_no_name_is_no_folder(place):
    """It was a traceback."""
    assert run("doctor", place / "tree/x.csv", "--for", "").exit_code == 3


def test_doctor_says_what_it_takes_for_an_aiter(place):
    result = run("doctor", "-", "T.CSV", "--for", place / "tree")
    assert result.exit_code == 2
    assert f"- and T.CSV and {place / 'tree'} are taken for one" in result.output.replace("\n", " ")


@pytest.mark.parametrize("name", ["none.csv", "folder.csv", "loop.csv", "dangling.csv"])
def test_a_table_that_cannot_be_read_is_no_finding(place, name):
    """Exit code 1 is that of a table that stops the server."""
    (place / "folder.csv").mkdir()
    (place / "loop.csv").symlink_to("loop.csv")
    (place / "dangling.csv").symlink_to("nowhere")
    result = run("doctor", place / name, "--for", place / "tree")
    assert result.exit_code == 13
    assert f"{name} cannot be read: " in result.output


def test_a_folder_without_a_config_is_no_launch_that_misses(place):
    result = run("coverage", place, "--tp", 4, "--in", place / "tree")
    assert (result.exit_code, "config.json cannot be read" in result.output) == (13, True)


def test_a_table_that_is_named_twice_is_read_once(place):
    (place / "t.csv").write_bytes(table(ladder(tuple(1 << n for n in range(16)), tflops=0)))
    twice = (place / "t.csv", place / "t.csv", "--for", place / "tree")
    assert "0 findings" in run("doctor", *twice).output
    assert "gave way" not in run("merge", *twice, "-o", place / "m.csv").output


@pytest.mark.parametrize("verb", ["coverage", "merge", "tune"])
def test_no_verb_writes_over_what_it_reads(place, verb):
    """`coverage --table t.csv --untuned t.csv` left the tuned table a list of shapes."""
    (place / "t.csv").write_bytes(table(ladder()))
    (place / "link.csv").symlink_to(place / "t.csv")
    before = (place / "t.csv").read_bytes()
    flags = {
        "coverage": (*SIZES, "--in", place / "tree", "--table", place / "t.csv", "--untuned"),
        "merge": (place / "t.csv", "--for", place / "tree", "-o"),
        "tune": ("--shapes", place / "t.csv", "--image", "i", "--for", place / "tree", "-o"),
    }[verb]
    for target in ("t.csv", "link.csv"):
        result = run(verb, *flags, place / target)
        assert (result.exit_code, "is one of the files that are read" in result.output) == (13, True)
    assert (place / "t.csv").read_bytes() == before
    dash = run(verb, *flags, "-")
    assert (dash.exit_code, "is a file: name it" in dash.output) == (2, True)


def test_more_experts_a_token_than_there_are_is_no_launch(place):
    result = run("coverage", *SIZES, "--experts", 4, "--in", place / "tree")
    assert (result.exit_code, "--topk 8, of --experts 4" in result.output) == (2, True)


@pytest.mark.parametrize("workload", ["64=1e308", "1" + "0" * 400 + "=1"])
def test_a_workload_beyond_all_measure_is_none(place, workload):
    assert run("coverage", *SIZES, "--in", place / "tree", "--workload", workload).exit_code == 2


def test_a_log_may_have_a_comma_in_its_name_and_a_key_may_be_a_whole_row(place):
    whole = ",".join(row(token=4).values())
    (place / "a,b.log").write_text(f"[aiter] [fused_moe] using 2stage default for ({','.join(whole.split(',')[:14])})")
    for what in (whole, whole.partition(",")[2], place / "a,b.log"):
        result = run("explain", what, "--in", place / "tree")
        assert (result.exit_code, "aiter/configs/tuned_fmoe.csv:4" in result.output) == (0, True)
    assert run("explain", whole.replace(",4,", ",-5,", 1), "--in", place / "tree").exit_code == 13
    assert "'' is neither a key nor a file" in run("explain", "", "--in", place / "tree").output


def test_a_merge_of_no_rows_is_refused_as_such(place):
    (place / "h.csv").write_bytes(table([]))
    result = run("merge", place / "h.csv", "--for", place / "tree", "-o", place / "m.csv")
    assert (result.exit_code, "no row in " in result.output) == (13, True)
    (place / "r.csv").write_bytes(table([row()]))
    beside = run("merge", place / "r.csv", place / "h.csv", "--for", place / "tree", "-o", place / "m.csv")
    assert (beside.exit_code, f"no row in {place / 'h.csv'}" in beside.output) == (13, True)
    assert not (place / "m.csv").exists()
