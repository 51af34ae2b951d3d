"""Failed starts end in their own named cause."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from rocmfix.smoke.diagnosis import diagnose, is_stuck, known_causes
from rocmfix.smoke.logs import read_log, signatures
from rocmfix.smoke.records import Exit

FAILED = sorted((Path(__file__).parent / "data/failed").glob("*.log"))
RECORDED = os.environ.get("ROCMFIX_RECORDED", "")
"""A folder of recorded answers and logs of a real server, where one is at hand."""


@pytest.mark.parametrize("log", FAILED, ids=lambda log: log.stem)
def test_a_failed_start_ends_in_its_own_cause(log):
    cause = diagnose(log.read_text(), Exit(code=-9))
    assert cause is not None
    assert cause.id == log.stem
    assert cause.line
    assert cause.line in log.read_text()
    assert cause.fix


def test_every_known_cause_has_a_log_that_tells_it():
    assert [cause.id for cause in known_causes() if cause.id not in {log.stem for log in FAILED}] == []


def test_the_error_is_quoted_and_not_the_source_that_raises_it():
    log = (Path(__file__).parent / "data/failed/unknown-algorithm.log").read_text()
    cause = diagnose(log)
    assert cause is not None
    assert cause.line == "ValueError: Unknown speculative algorithm name: EAGEL"


def test_a_kill_is_the_kernels_only_when_it_says_so():
    """-9 is how sglang ends itself, after an error and after a clean stop."""
    memory = diagnose("loading", Exit(code=137, out_of_memory=True))
    killed = diagnose("loading", Exit(code=-9))
    assert memory is not None
    assert killed is not None
    assert (memory.id, killed.id) == ("container-memory", "killed")
    assert diagnose("loading", Exit(code=0)) is None
    assert diagnose("all is well") is None


def test_only_a_taken_port_leaves_a_server_that_neither_serves_nor_ends():
    stuck = {log.stem for log in FAILED if is_stuck(log.read_text())}
    assert stuck == {"port-taken"}


# ---- signatures ----------------------------------------------------------------------------------------------------

LINES = {
    "gpu-fault": "Memory access fault by GPU node-6 (Agent handle: 0x55) on address 0x7f.",
    "jit-compile-failed": "Failed to compile JIT fused metadata copy multi kernel (has_real_page_table=False)",
    "fused-copy-fallback": "Warning: Fused metadata copy kernel failed with error: x, falling back to individual copies.",
    "greedy-verify": "Tree speculative sampling kernel unavailable (likely AMD/HIP build). Falling back to greedy verification.",
    "dsa-store-fallback": "Failed to load dsa fused store JIT kernel: x",
    "qk-norm-fallback": "Failed to load JIT QK-Norm kernel: x",
    "dense-decode-with-dp": "[dense-decode] DSA dual-graph enabled: x",
    "moe-triton-runner": "QuarkW8A8FP8MoE runner=triton",
    "flydsl-untuned": "[aiter] [fused_moe] no tuned FlyDSL config for ('gfx950', 256), using heuristic FlyDSL fallback",
    "moe-default": "[aiter] [fused_moe] using 2stage default for (256, 1)",
    "gemm-untuned": "shape is M:1, N:2, K:3, not found tuned config in /tmp/a.csv, will use default config!",
    "tuned-not-shuffled": "[fused_moe] tuned config found for (1) but is_shuffled=False",
    "duplicate-rows": "[fused_moe] duplicate tuned rows (primary)",
    "row-refused": "[aiter WARNING] ck kernel not found: moe_x",
    "jit-at-serve-time": "[aiter] start build [module_moe] under /root/.aiter",
    "nan-logits": "Detected errors during sampling! NaN in the logits.",
    "draft-tokens-corrected": "speculative_num_draft_tokens is adjusted to speculative_num_steps + 1 when topk == 1",
}


@pytest.mark.parametrize("signature", signatures(), ids=lambda signature: signature.id)
def test_each_signature_finds_its_line_and_only_it(signature):
    found = read_log("", f"fine\n{LINES[signature.id]}\n{LINES[signature.id]}\n").findings
    assert [(one.signature, one.count, one.is_steady) for one in found] == [(signature.id, 2, True)]


def test_a_compile_before_the_warm_up_ended_is_no_finding():
    line = LINES["jit-at-serve-time"] + "\n"
    assert read_log(line, "").findings == ()
    assert [found.signature for found in read_log(line, line).findings] == ["jit-at-serve-time"]


def test_decode_lines_and_captures_are_counted():
    facts = read_log(
        "[t] Capture target verify CUDA graph begin. backend=full\n[t] Capture draft extend cuda graph begin. x\n"
        "Capture cuda graph begin. This can take up to several minutes.\n",
        "Decode batch, #running-req: 1, accept len: 5.00, cuda graph: True, gen\n"
        "Decode batch, #running-req: 1, cuda graph: False, gen\nPrefill batch, cuda graph: False\n",
    )
    assert facts.captures == ("target verify", "draft extend", "decode")
    assert (facts.decodes_in_graph, facts.decodes_eager) == (1, 1)


def test_lookups_are_kept_by_key_and_counted_by_rank():
    hit = "[fused_moe] using 2stage (kernelName1='f1', kernelName2='f2') for ('gfx950', 256, 16, True, 'x')"
    facts = read_log(f"[aiter] {hit}\n[aiter] {hit}\n[aiter TP1] [fused_moe] using 2stage default for (256, 1)\n", "")
    assert [(one.key, one.kernels, one.is_tuned, one.times) for one in facts.lookups] == [
        ("gfx950,256,16,1,x", ("f1", "f2"), True, (("", 2),)),
        ("256,1", (), False, (("1", 1),)),
    ]


# ---- recordings ----------------------------------------------------------------------------------------------------

CAUSES = {
    "fail_aiter_backend": "backend-not-built",
    "fail_backend_name": "bad-flag-value",
    "fail_bad_algo": "unknown-algorithm",
    "fail_badarch": "unknown-architecture",
    "fail_badquant": None,  # these two start, and the log holds no error: the headers tell
    "fail_badshape": None,
    "fail_ctx": "context-too-long",
    "fail_hub_name": "hub-unreachable",
    "fail_mem": "no-kv-memory",
    "fail_missing_draft": "missing-model",
    "fail_missing_model": "missing-model",
    "fail_port_in_use": "port-taken",
    "fail_quantflag": "no-quant-config",
    "fail_steps_no_topk": "topk-missing",
    "fail_steps_only_topk": "steps-missing",
    "fail_tp2": "too-few-gpus",
    "fail_unknown_flag": "unknown-flag",
    "fail_unkquant": "unknown-quantization",
    "x_kill_scheduler": "scheduler-died",
    "x_oov_input": "device-assert",
    "x_hang_scheduler": None,
    "mimo_always_d4": None,
    "mimo_partial_d4": None,
    "glm4_always_d4": None,
}


if RECORDED:

    @pytest.mark.parametrize("name", sorted(CAUSES))
    def test_recorded_logs_end_in_their_cause(name):
        cause = diagnose((Path(RECORDED) / "h200" / name / "server.log").read_text(errors="replace"))
        assert (cause and cause.id) == CAUSES[name]

    def test_every_recorded_failure_is_expected():
        assert {path.name for path in (Path(RECORDED) / "h200").glob("fail_*")} <= set(CAUSES)
