"""Trees that are not what their release says: the fix cherry-picked, half of it, or the same in other words."""

from collections.abc import Callable
from dataclasses import dataclass

import pytest

from rocmfix.catalog import load
from rocmfix.model import How, Outcome, Verdict
from rocmfix.tree import MemoryTree, Overlay, Tree
from rocmfix.verdict import judge as one_verdict, judge_all

pytestmark = pytest.mark.upstream

CATALOG = load()

SRT = "python/sglang/srt/"
ATTENTION = SRT + "layers/attention/"
QUANT = SRT + "layers/quantization/"
SPEC = SRT + "speculative/"
POOLS = SRT + "mem_cache/pool_host/"
DP = SRT + "managers/scheduler_components/dp_attn.py"
KPOOL_CUH = "python/sglang/kernels/jit/csrc/dsa/kpool_topk_transform.cuh"
SIGMOID_CUH = "python/sglang/kernels/jit/csrc/moe/moe_topk_sigmoid.cuh"
MOONCAKE = SRT + "disaggregation/mooncake/conn.py"
COMMUNICATOR = SRT + "layers/communicator.py"
W8A8_MOE = QUANT + "quark/schemes/quark_w8a8_fp8_moe.py"
QWEN_MTP = SRT + "models/qwen3_5_mtp.py"
DSA = ATTENTION + "dsa_backend.py"
INDEXER = ATTENTION + "dsa/dsa_indexer.py"
VARIANTS = ATTENTION + "graph_variants.py"
RUNNER = SRT + "model_executor/runner/decode_cuda_graph_runner.py"


@dataclass(frozen=True)
class Take:
    """A file as another release has it."""

    path: str
    release: str


@dataclass(frozen=True)
class Edit:
    """A text that stands once in a file, replaced by another."""

    path: str
    old: str
    new: str


Change = Take | Edit
ReleaseTree = Callable[[str], Tree]


@pytest.fixture
def judged(release_tree: ReleaseTree) -> Callable[..., Verdict]:
    """`judged(fix, release, *changes)`: the verdict on that release with those changes made to it."""

    def judge(fix: str, release: str, *changes: Change) -> Verdict:
        tree = release_tree(release)
        for change in changes:
            tree = Overlay(tree, {change.path: changed(tree, change)})
        return one_verdict(*CATALOG.find(fix), tree.read)

    def changed(tree: Tree, change: Change) -> bytes:
        if isinstance(change, Take):
            data = release_tree(change.release).read(change.path)
            assert data is not None, f"{change.release} has no {change.path}"
            return data
        text = (tree.read(change.path) or b"").decode()
        assert text.count(change.old) == 1, f"{change.path} has {change.old!r} {text.count(change.old)} times"
        return text.replace(change.old, change.new).encode()

    return judge


MENDED = [
    ("fp8-bpreshuffle-gfx950-off", "0.5.14", [Take(QUANT + "fp8_utils.py", "0.5.15"), Take(COMMUNICATOR, "0.5.15")]),
    ("qwen35-mtp-quark", "0.5.20", [Take(QWEN_MTP, "0.5.21")]),
    ("qwen35-text-moe-shared", "0.5.18", [Take(SRT + "models/qwen3_5.py", "0.5.21")]),
    ("quark-w8a8-moe-aiter", "0.5.12", [Take(W8A8_MOE, "0.5.21")]),
    ("dsa-draft-extend-graph-hip", "0.5.16", [Take(SPEC + "eagle_worker_v2.py", "0.5.19")]),
    ("hicache-hip-host-pointer", "0.5.19", [Take(POOLS + f"{name}.py", "0.5.20") for name in ("common", "mla", "mha")]),
    ("kpool-rocm", "0.5.20", [Take(ATTENTION + "dsa/dsa_indexer_kpool.py", "0.5.21"), Take(KPOOL_CUH, "0.5.21")]),
    ("draft-graph-dp-vote", "0.5.20", [Take(DP, "0.5.21"), Take(SPEC + "eagle_draft_cuda_graph_runner.py", "0.5.21")]),
    ("mooncake-early-send-event", "0.5.21", [Take(MOONCAKE, "0.5.22")]),
    (
        "spec-sampling-hip",
        "0.5.20",
        [Take(SPEC + "eagle_utils.py", "0.5.21"), Take(SRT + "arg_groups/speculative_hook.py", "0.5.21")],
    ),
    (
        "hicache-writeback-gate",
        "0.5.23",
        [Edit(POOLS + "dsa.py", "jit = _is_cuda and can", "jit = (_is_hip or _is_cuda) and can")],
    ),
    ("topk-sigmoid-jit-hip", "0.5.18", [Edit(SIGMOID_CUH, "#include <cub/cub.cuh>", "#ifndef USE_ROCM\n#include <cub/cub.cuh>\n#endif")]),
    (
        "topk-sigmoid-jit-hip",
        "0.5.23",
        [Edit(SIGMOID_CUH, "#include <cub/cub.cuh>\n", ""), Edit(SIGMOID_CUH, "#include <cub/util_type.cuh>\n", "")],
    ),
    (
        "dsa-dual-graph-dp",
        "0.5.23",
        [Edit(VARIANTS, "    if is_hip() and is_deepseek_dsa(hf_config):\n", "    if is_dp_attention_enabled():\n        return None\n    if is_hip() and is_deepseek_dsa(hf_config):\n")],
    ),
    (
        "dsa-dual-graph-dp",
        "0.5.19",
        [Edit(RUNNER, "if is_hip() and is_deepseek_dsa(hf_config):", "if is_deepseek_dsa(hf_config) and is_hip() and not model_runner.server_args.enable_dp_attention:")],
    ),
    (
        "dsa-dp-host-sync",
        "0.5.16",
        [
            Edit(DSA, "int(forward_batch.seq_lens.max().item()) + draft_token_num", "self.req_to_token.shape[1]"),
            Edit(DSA, "forward_batch.seq_lens_cpu = forward_batch.seq_lens.cpu()", "pass"),
        ],
    ),
    (
        "dsa-indexer-padded-rows",
        "0.5.20",
        [
            Edit(INDEXER, "aiter_paged_mqa_logits(\n                q_fp8,\n                kv_cache_fp8,\n                weights,", "aiter_paged_mqa_logits(q_fp8[:q_offset], kv_cache_fp8, weights[:q_offset],"),
            Edit(INDEXER, "if not _is_hip and q_offset < q_fp8.shape[0]:", "if q_offset < q_fp8.shape[0]:"),
        ],
    ),
]  # fmt: skip
"""(fix, release, changes): upstream's fix in an older tree, or the same in other words."""


@pytest.mark.parametrize(("fix", "release", "changes"), MENDED)
def test_a_fix_that_is_there_is_seen_whatever_the_release_and_the_words(judged, fix, release, changes):
    before, after = judged(fix, release), judged(fix, release, *changes)
    assert before.verdict in (Outcome.NEEDED, Outcome.UNMENDED), before
    assert (after.verdict, after.how) == (Outcome.UPSTREAM, How.DIFFERENTLY), after


HALVES = [
    ("fp8-bpreshuffle-gfx950-off", "0.5.14", [Take(QUANT + "fp8_utils.py", "0.5.15")]),
    (
        "fp8-bpreshuffle-gfx950-off",
        "0.5.13",
        [Edit(QUANT + "fp8_utils.py", "_use_aiter_bpreshuffle_gfx95 = _use_aiter_gfx95 and get_hip_version() >= (7, 2, 0)", "_use_aiter_bpreshuffle_gfx95 = False")],
    ),
    ("qwen35-mtp-quark", "0.5.21", [Edit(QWEN_MTP, "    packed_modules_mapping = Qwen3_5ForCausalLM.packed_modules_mapping\n", "")]),
    ("qwen35-mtp-quark", "0.5.21", [Edit(QWEN_MTP, 'any("mlp.experts" in layer for layer in mtp_excludes)', "True")]),
    ("quark-w8a8-moe-aiter", "0.5.20", [Edit(W8A8_MOE, "            and moe_runner_config.apply_router_weight_on_input\n", "")]),
    ("quark-w8a8-moe-aiter", "0.5.20", [Edit(W8A8_MOE, "            and self.moe_runner_config.apply_router_weight_on_input\n", "")]),
    ("kpool-rocm", "0.5.20", [Take(ATTENTION + "dsa/dsa_indexer_kpool.py", "0.5.21")]),
    ("kpool-rocm", "0.5.20", [Take(KPOOL_CUH, "0.5.21")]),
    ("draft-graph-dp-vote", "0.5.20", [Take(DP, "0.5.21")]),
    ("hicache-hip-host-pointer", "0.5.19", [Take(POOLS + "common.py", "0.5.20")]),
    ("mooncake-early-send-event", "0.5.22", [Edit(MOONCAKE, 'getattr(self, "_early_send_wait_event", None)', "None")]),
    ("mooncake-early-send-event", "0.5.23", [Edit(MOONCAKE, "kv_chunk.wait_event.synchronize()", "pass")]),
    ("spec-sampling-hip", "0.5.20", [Take(SPEC + "eagle_utils.py", "0.5.21")]),
    ("spec-sampling-hip", "0.5.20", [Take(SRT + "arg_groups/speculative_hook.py", "0.5.21")]),
    (
        "dsa-draft-extend-graph-hip",
        "0.5.18",
        [Edit(SPEC + "eagle_worker_v2.py", "        if _is_cuda or _is_musa:\n            # DSA", "        if _is_cuda or _is_musa or _is_hip:\n            # DSA")],
    ),
    ("dsa-dual-graph-dp", "0.5.20", [Edit(VARIANTS, "        index_topk = get_dsa_index_topk(hf_config)\n", "        logger.info(is_dp_attention_enabled())\n        index_topk = get_dsa_index_topk(hf_config)\n")]),
    ("dsa-dp-host-sync", "0.5.23", [Edit(DSA, "int(forward_batch.seq_lens.max().item()) + draft_token_num", "self.req_to_token.shape[1]")]),
    ("dsa-indexer-padded-rows", "0.5.17", [Edit(INDEXER, "if not _is_hip and q_offset < q_fp8.shape[0]:", "if q_offset < q_fp8.shape[0]:")]),
    ("topk-sigmoid-jit-hip", "0.5.20", [Edit(SIGMOID_CUH, "#include <cub/cub.cuh>", "#ifdef USE_ROCM\n#include <cub/cub.cuh>\n#endif")]),
]  # fmt: skip
"""(fix, release, changes): one half of a fix that needs two, or what only looks like it."""


@pytest.mark.parametrize(("fix", "release", "changes"), HALVES)
def test_half_a_fix_is_none(judged, fix, release, changes):
    verdict = judged(fix, release, *changes)
    assert verdict.verdict in (Outcome.NEEDED, Outcome.UNMENDED, Outcome.CONFLICT), verdict
    assert verdict.verdict is Outcome.NEEDED or verdict.advice, verdict


def test_a_comment_that_quotes_the_fix_mends_nothing(judged):
    text = "# _verify_uses_greedy(is_hip and not use_rejection_sampling)\n"
    edit = Edit(SPEC + "eagle_utils.py", "def eagle_sample(\n", text + "def eagle_sample(\n")
    assert judged("spec-sampling-hip", "0.5.20", edit).verdict is Outcome.NEEDED


def test_a_tree_without_the_files_needs_nothing():
    verdicts = judge_all(CATALOG, MemoryTree()).verdicts
    assert {verdict.verdict for verdict in verdicts} == {Outcome.NOT_APPLICABLE}
