"""Evidence: the records that this tool and sglang really write, and nothing that they do not say."""

from __future__ import annotations

import ast
import json
import shutil
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from rocmfix.cli import main
from rocmfix.guards.compile import BuildReport, Built, Came
from rocmfix.guards.emitted import Emission, Emitted
from rocmfix.guards.prove import Proof
from rocmfix.releases import releases
from rocmfix.smoke import fake
from rocmfix.smoke.records import (
    Depth,
    Gpu,
    Gsm8k,
    HostFacts,
    Outcome,
    Rung,
    ServerInfo,
    SmokeReport,
    Start,
    Subject,
    Verdict,
)
from rocmfix.upstream.evidence import _Bench, read_evidence
from tests.upstream.conftest import KERNEL

IMAGE = "reg/sglang:v0.5.14-rocm720-mi35x"


@pytest.fixture
def body(run, clone):
    """The text that `rocmfix pr FIX --evidence ...` makes, and its TODOs."""

    def make(fix, *evidence):
        options = [option for each in evidence for option in ("--evidence", each)]
        result = run("pr", fix, "--onto", clone.root, "--json", "--anyway", *options)
        assert result.exit_code == 0, result.output
        (pack,) = json.loads(result.stdout)["packs"]
        return pack["body"], pack["todo"]

    return make


def section(text, heading):
    return text.partition(f"## {heading}")[2].partition("\n## ")[0]


def verdict(check, measured, outcome=Outcome.PASSED, bound="at least 100"):
    return Verdict(check=check, outcome=outcome, reason="r", measured=measured, bound=bound)


@pytest.fixture
def smoke_report(tmp_path):
    """Writes a report as `rocmfix smoke` would."""

    def write(name, *verdicts, is_ours=True, device="amd", gsm8k=None, gpus=4, image=IMAGE):
        rung = Rung(
            depth=Depth(steps=5, draft_tokens=6),
            command=("sglang", "--tp", "4"),
            start=Start(is_ready=True, seconds=1, limit=2),
            info=ServerInfo(version="0.5.14", model_path="/models/GLM", served_name=None, algorithm="EAGLE",
                            steps=5, topk=1, draft_tokens=6),
            gsm8k=gsm8k,
            verdicts=verdicts,
        )  # fmt: skip
        report = SmokeReport(
            rocmfix="0.1.0",
            started="2026-11-30T00:00:00Z",
            seconds=3,
            subject=Subject(
                image=image, digests=("reg/sglang@sha256:" + "a" * 64,), model="/models/GLM", device=device
            ),
            host=HostFacts(
                kfd="ok",
                dri="ok",
                gpus=tuple(Gpu(gfx="gfx950", compute_units=256) for _ in range(gpus)),
                has_manifest=is_ours,
            ),
            rungs=(rung,),
        )
        (tmp_path / name).write_text(report.model_dump_json(indent=2))
        return tmp_path / name

    return write


FAST = (verdict("speed", "227.4 tok/s"), verdict("gsm8k", "0.951 of 200 questions", bound="0.94"))
SLOW = (verdict("speed", "6.9 tok/s", Outcome.FAILED), verdict("gsm8k", "0.949 of 200 questions", bound="0.94"))


def test_both_sides_are_filled_with_image_gpu_and_flags(body, smoke_report):
    before = smoke_report("before.json", *SLOW, is_ours=False)
    text, todo = body("remember", f"before={before}", smoke_report("after.json", *FAST))
    speed = section(text, "Speed Tests")
    row = "| speed at 5-1-6 | 6.9 tok/s (**failed**, bound at least 100) | 227.4 tok/s (passed, bound at least 100) |"
    assert row in speed
    assert f"image {IMAGE}, digest reg/sglang@sha256:{'a' * 64}, GPU 4x gfx950, sglang 0.5.14, model /models" in speed
    assert section(text, "Accuracy Tests").count("  - `sglang --tp 4`") == 2
    assert "`sglang" not in speed, "one list of commands is enough"
    assert "TODO" not in speed
    assert "| gsm8k at 5-1-6 | 0.949 of 200 questions (passed, bound 0.94) |" in section(text, "Accuracy Tests")
    assert "- [x] Provide accuracy and speed benchmark results." in text
    assert [each for each in todo if "Release Notes" not in each] == []


def test_a_side_that_was_not_measured_is_a_todo(body, smoke_report):
    text, todo = body("remember", smoke_report("one.json", *FAST))
    assert "| speed at 5-1-6 | not measured | 227.4 tok/s" in text
    assert "**TODO** speed before the change" in text
    assert any(each.startswith("speed before the change") for each in todo)
    assert "- [ ] Provide accuracy and speed benchmark results." in text


def test_only_an_image_of_ours_says_its_side_by_itself(run, clone, smoke_report):
    """A stock image may be patched by hand, and a server at a URL by anything."""
    report = smoke_report("one.json", *SLOW, is_ours=False)
    result = run("pr", "remember", "--onto", clone.root, "--evidence", report)
    assert result.exit_code == 16
    assert "does not say whether it was measured before or after" in result.output


def test_a_gsm8k_run_that_no_check_judged_is_shown(body, smoke_report):
    report = smoke_report("one.json", verdict("speed", "1 tok/s"), gsm8k=Gsm8k(accuracy=0.9512, accept_length=3.1))
    assert "| gsm8k at 5-1-6 | not measured | 0.951 |" in section(body("remember", report)[0], "Accuracy Tests")


def test_acceptance_does_not_stand_for_accuracy(body, smoke_report):
    text, _ = body("remember", smoke_report("one.json", verdict("accept-length", "3.61")))
    accuracy = section(text, "Accuracy Tests")
    assert "| accept-length at 5-1-6 | not measured | 3.61 (passed, bound at least 100) |" in accuracy
    assert "**TODO** accuracy after the change" in accuracy


def test_that_a_server_starts_is_news_only_where_it_did_not(body, smoke_report):
    before = smoke_report(
        "b.json", verdict("starts", "exit 1", Outcome.FAILED), verdict("graphs", "41 of 41"), is_ours=False
    )
    after = smoke_report("a.json", verdict("starts", "31 s"), verdict("graphs", "41 of 41"))
    accuracy = section(body("remember", f"before={before}", f"after={after}")[0], "Accuracy Tests")
    assert "| starts at 5-1-6 | exit 1 (**failed**, bound at least 100) | 31 s (passed" in accuracy
    assert "graphs" not in accuracy


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"device": "cpu"}, "was measured on cpu, not on an AMD GPU"),
        ({"gpus": 0}, "does not say its GPU"),
        ({"image": None}, "does not say its image"),
    ],
)
def test_what_a_reviewer_must_know_of_a_record_is_a_todo(body, smoke_report, options, said):
    assert any(said in each for each in body("remember", smoke_report("one.json", *FAST, **options))[1])


def test_a_check_that_measured_nothing_has_no_row(body, smoke_report):
    nothing = Verdict(check="step-time", outcome=Outcome.NOT_JUDGED, reason="no steps")
    assert "step-time" not in body("remember", smoke_report("one.json", *FAST, nothing))[0]


def test_two_records_of_one_side_are_both_shown(body, smoke_report):
    reports = (
        smoke_report("one.json", verdict("speed", "1 tok/s")),
        smoke_report("two.json", verdict("speed", "2 tok/s")),
    )
    speed = section(body("remember", *reports)[0], "Speed Tests")
    assert "| speed at 5-1-6 | not measured | 1 tok/s" in speed
    assert "| speed at 5-1-6 in two.json | not measured | 2 tok/s" in speed


def test_a_run_without_an_amd_gpu_fills_no_side(body, smoke_report):
    text, _ = body("remember", smoke_report("one.json", *FAST, device="nvidia"))
    assert "**TODO** speed after the change" in text
    assert "**not an AMD GPU: nvidia**" in text


def test_a_record_cannot_write_into_the_text(body, smoke_report):
    text, _ = body("remember", smoke_report("evil.json", verdict("speed", "9 | <img src=x>\n## Owned")))
    assert "| not measured | 9 \\| &lt;img src=x> ## Owned (passed" in text
    assert "<img" not in text
    assert "\n## Owned" not in text


@pytest.mark.parametrize("text", ["{}", "", "[]", "not json", '{"built": 3}', '{"compiled": []}'])
def test_a_file_that_is_no_record_is_refused(run, clone, tmp_path, text):
    (tmp_path / "x.json").write_text(text)
    result = run("pr", "remember", "--onto", clone.root, "--evidence", tmp_path / "x.json")
    assert result.exit_code == 16
    assert "is no evidence" in result.output


def test_a_file_that_is_not_there_is_an_error(run, clone, tmp_path):
    result = run("pr", "remember", "--onto", clone.root, "--evidence", tmp_path / "x.json")
    assert result.exit_code == 16
    assert "cannot read the evidence" in result.output


def built(came, file=KERNEL, **more):
    return Built(file=file.removeprefix("python/"), arch="gfx950", loader="sglang/loader.py:3", came=came, **more)


FAILED = built(Came.FAILED, error="'cuda_runtime.h' file not found", at="sglang/csrc/kernel.cuh:3", kernels=12)
COMPILED = built(Came.COMPILED, kernels=12)


def proof(tmp_path, **changes):
    record = Proof(source="0.5.14", toolchain="clang-22", fixes=("guard",), files=(KERNEL.removeprefix("python/"),),
                   before=(FAILED,), after=(COMPILED,), cuda_changed=()).model_copy(update=changes)  # fmt: skip
    (tmp_path / "proof.json").write_text(record.model_dump_json(indent=2))
    return tmp_path / "proof.json"


def test_the_compile_gates_proof_is_shown(body, tmp_path):
    changes = section(body("guard", proof(tmp_path))[0], "Modifications")
    assert "Compiled as HIP, without a GPU (clang-22, on sglang 0.5.14):" in changes
    row = "does not build: 'cuda_runtime.h' file not found at line 3 | builds |"
    assert f"| sglang/csrc/kernel.cuh for gfx950, 12 instantiations | {row}" in changes


@pytest.mark.parametrize(
    ("came", "why", "said"),
    [
        (Emission.SAME, None, "**the same PTX** as before"),
        (Emission.SAME, "but for line numbers", "**the same PTX** as before: but for line numbers"),
        (Emission.DIFFERS, "`a`\nbecame `b`", "**other PTX** than before: `a` became `b`"),
        (Emission.FAILED, "no cub", "**does not compile** any more: no cub"),
        (Emission.NOT_COMPARED, "no headers", "PTX not compared: no headers"),
    ],
)
def test_what_nvcc_makes_of_it_stands_under_what_cuda_runs(came, why, said, body, tmp_path):
    each = Emitted(file=KERNEL.removeprefix("python/"), came=came, why=why, loader="sglang/loader.py:3")
    told = {"nvcc": "nvcc 13.0.88", "emitted": (each, each)}
    changes = section(body("guard", proof(tmp_path, **told))[0], "Modifications")
    assert changes.count(f"- `sglang/csrc/kernel.cuh`: {said} (nvcc 13.0.88, sm_90)\n") == 1
    assert "PTX" not in section(body("guard", proof(tmp_path, **told | {"nvcc": None}))[0], "Modifications")
    assert "PTX" not in body("remember", proof(tmp_path, **told))[0]


def test_what_two_records_say_alike_is_shown_once(body, tmp_path):
    report = BuildReport(source="0.5.14", toolchain="clang-22", built=(FAILED,))
    (tmp_path / "build.json").write_text(report.model_dump_json())
    changes = section(body("guard", f"before={tmp_path / 'build.json'}", proof(tmp_path))[0], "Modifications")
    assert changes.count("| sglang/csrc/kernel.cuh for gfx950") == 1


def test_a_proof_of_other_files_is_not_shown(body, tmp_path):
    assert "Compiled as HIP" not in body("remember", proof(tmp_path))[0]


def test_of_a_whole_trees_build_only_the_changed_files_are_shown(body, tmp_path):
    report = BuildReport(source="0.5.14", toolchain="hipcc", built=(COMPILED, built(Came.FAILED, "sglang/other.cuh")))
    (tmp_path / "build.json").write_text(report.model_dump_json())
    changes = section(body("guard", f"after={tmp_path / 'build.json'}")[0], "Modifications")
    assert "| sglang/csrc/kernel.cuh for gfx950, 12 instantiations | not measured | builds |" in changes
    assert "other.cuh" not in changes


def test_a_headers_proof_is_shown_by_what_includes_it(body, tmp_path):
    root = {
        "before": (built(Came.FAILED, "sglang/root.cuh", error="no cub"),),
        "after": (built(Came.COMPILED, "sglang/root.cuh"),),
    }
    changes = section(body("guard", proof(tmp_path, **root))[0], "Modifications")
    assert "| sglang/root.cuh for gfx950 | does not build: no cub | builds |" in changes


def test_compiling_is_no_measurement(body, tmp_path):
    assert "**TODO** accuracy before the change" in body("guard", proof(tmp_path))[0]


def test_a_build_of_one_tree_is_one_side(body, run, clone, tmp_path):
    report = BuildReport(
        source="0.5.14", toolchain="hipcc", built=(FAILED, COMPILED.model_copy(update={"arch": "gfx942"}))
    )
    (tmp_path / "build.json").write_text(report.model_dump_json())
    text = body("guard", f"before={tmp_path / 'build.json'}")[0]
    assert "| does not build: 'cuda_runtime.h' file not found at line 3 | not measured |" in text
    assert "before or after" in run("pr", "guard", "--onto", clone.root, "--evidence", tmp_path / "build.json").output


BENCH = {
    "backend": "sglang", "dataset_name": "random", "request_rate": float("inf"), "max_concurrency": 16,
    "completed": 160, "output_throughput": 1234.5678, "median_ttft_ms": 210.04, "median_itl_ms": 7.25,
    "p99_itl_ms": 31.5, "accept_length": 3.61, "duration": 1.0,
    "server_info": {"version": "0.5.14", "model_path": "/models/GLM", "tp_size": 4, "speculative_num_steps": 5,
                    "speculative_eagle_topk": 1, "speculative_num_draft_tokens": 6, "internal_states": [{}]},
}  # fmt: skip


def test_sglangs_own_bench_records_are_read_line_by_line(body, tmp_path):
    lines = [BENCH, {**BENCH, "max_concurrency": 32, "accept_length": None}]
    (tmp_path / "bench.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    text, todo = body("remember", f"after={tmp_path / 'bench.jsonl'}")
    speed = section(text, "Speed Tests")
    assert "| output throughput (random, 160 requests at 16 streams) | not measured | 1234.57 tok/s |" in speed
    assert "| median ITL (random, 160 requests at 32 streams) | not measured | 7.25 ms |" in speed
    assert speed.count("| accept length") == 1
    assert "sglang 0.5.14, model /models/GLM, tp 4, depth 5-1-6, image and GPU not recorded" in speed
    assert "bench.jsonl (after) does not say its image and GPU" in todo


def test_a_routers_answer_has_the_server_under_decode(tmp_path):
    line = {**BENCH, "server_info": {"prefill": [{}], "decode": [BENCH["server_info"]]}}
    (tmp_path / "bench.jsonl").write_text(json.dumps(line))
    (record,) = read_evidence(f"before={tmp_path / 'bench.jsonl'}")
    assert (record.release, record.setup) == ("0.5.14", "tp 4, depth 5-1-6")


@pytest.mark.upstream
@pytest.mark.parametrize("version", releases().versions())
def test_every_release_writes_the_fields_that_are_read(release_tree, version):
    paths = ("python/sglang/benchmark/serving.py", "python/sglang/bench_serving.py")
    text = next(data for path in paths if (data := release_tree(version).read(path)))
    written = [
        {key.value for key in node.keys if isinstance(key, ast.Constant)}
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Dict)
    ]
    assert any(set(_Bench.model_fields) <= keys for keys in written)


def test_a_real_report_of_the_smoke_verb_is_read(body, tmp_path, monkeypatch):
    """End to end: the verb itself against the shipped fake server, then the text."""
    package = tmp_path / "site/sglang"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    shutil.copytree(Path(fake.__file__).parent, package / "launch_server")
    (package / "test").mkdir()
    (package / "test/few_shot_gsm8k.py").write_text('print("Accuracy: 0.940\\nInvalid: 0.000")\n')
    (tmp_path / "model").mkdir()
    monkeypatch.setenv("PYTHONPATH", str(package.parent))
    options = ("--runtime", "process", "--device", "nvidia", "--depth", "3", "--concurrency", "", "--gsm8k", "20")
    places = ("--model", tmp_path / "model", "--out", tmp_path / "out", "--python", sys.executable, "--gsm8k-data", "x")
    result = CliRunner().invoke(main, [str(each) for each in ("smoke", *options, *places)])
    assert result.exit_code == 0, result.output
    text, todo = body("remember", f"after={tmp_path / 'out/report.json'}")
    assert "| gsm8k at 3-1-4 | not measured | 0.940 of 20 questions (not judged) |" in section(text, "Accuracy Tests")
    assert "| worth-it at 3-1-4 | not measured |" in section(text, "Speed Tests")
    assert "report.json (after) was measured on nvidia, not on an AMD GPU" in todo
