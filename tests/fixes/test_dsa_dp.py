"""The fixes of `dsa-dp`: the real code, patched, run on what DP attention hands it."""

import sys
from types import SimpleNamespace
from typing import Any

import pytest

from tests.fixes.world import World, module

torch = pytest.importorskip("torch")

pytestmark = [pytest.mark.upstream, pytest.mark.torch]

PADDED = "dsa-indexer-padded-rows"
INDEXERS = {
    "0.5.9": "srt/layers/attention/nsa/nsa_indexer.py",
    "0.5.11": "srt/layers/attention/nsa/nsa_indexer.py",
    "0.5.12": "srt/layers/attention/nsa/nsa_indexer.py",
    "0.5.14": "srt/layers/attention/dsa/dsa_indexer.py",
    "0.5.15.post1": "srt/layers/attention/dsa/dsa_indexer.py",
    "0.5.16": "srt/layers/attention/dsa/dsa_indexer.py",
    "0.5.23": "srt/layers/attention/dsa/dsa_indexer.py",
}
TOPK, HEADS, DIM, PAGES = 4, 2, 132, 8


def anything(*_: Any, **__: Any) -> Any:
    return None


class Metadata:
    """What attention knows of `real` one-token requests."""

    def __init__(self, real: int) -> None:
        self.lengths = torch.arange(1, real + 1)

    def get_seqlens_int32(self):
        return self.lengths

    get_seqlens_expanded = get_seqlens_int32

    def get_page_table_1(self):
        return torch.zeros(len(self.lengths), PAGES, dtype=torch.int32)

    get_page_table_64 = get_page_table_1

    def get_dsa_extend_len_cpu(self):
        return [1] * len(self.lengths)

    get_nsa_extend_len_cpu = get_dsa_extend_len_cpu

    def topk_transform(self, logits, topk):
        """The check that the real top-k kernel makes, then the best positions of each row."""
        if len(self.lengths) != len(logits):
            raise RuntimeError("Expected lengths.size(0) == B to be true")
        return logits.topk(topk).indices.to(torch.int32)


def scores(q: Any, _: Any, weights: Any, *rest: Any, **__: Any) -> Any:
    """AITER's kernel as far as rows go: one of everything for each, and no batch of none."""
    seqlens, block_tables, max_seq_len = rest[:3]
    assert len(q) == len(weights) == len(seqlens) == len(block_tables)
    assert 256 // len(q) >= 0
    return (q.float().sum((-1, -2)).view(-1, 1) + torch.arange(max_seq_len)).float()


def scores_into(q: Any, cache: Any, weights: Any, logits: Any, *rest: Any, **_: Any) -> None:
    """The same, in the shape it had up to 0.5.14."""
    logits.copy_(scores(q, cache, weights, *rest))


def scores_deepgemm(*arguments: Any, **_: Any) -> Any:
    """CUDA's kernel, which takes a plan before the width."""
    *before, _plan, width = arguments
    return scores(*before, width)


def scores_split(_: Any, q: Any, cache: Any, weights: Any, *rest: Any, q_offset: int) -> Any:
    """CUDA's wrapper from 0.5.15 on, which leaves padded rows out."""
    return scores_deepgemm(q[:q_offset], cache, weights[:q_offset], *rest)


@pytest.fixture
def indexed(patched_files, monkeypatch):
    """`indexed(release, rows=, real=)`: the top-k rows of a step with `real` requests padded to `rows`."""

    def run(release, *, rows, real, fix=PADDED, hip=True):
        monkeypatch.setitem(
            sys.modules, "aiter.ops.triton.pa_mqa_logits", module("pa", deepgemm_fp8_paged_mqa_logits=scores_into)
        )
        page = 1 if hip else 64
        pool = SimpleNamespace(
            page_size=page,
            index_page_size=page,
            get_index_k_with_scale_buffer=lambda layer_id: torch.zeros(PAGES, page * DIM),
        )
        backend = SimpleNamespace(is_aiter=lambda: hip, is_cutedsl=lambda: False)
        indexer = SimpleNamespace(
            index_topk=TOPK,
            sm_count=256,
            n_heads=HEADS,
            paged_mqa_logits_backend=backend,
            _get_index_k_read_buffer=lambda *_: torch.zeros(PAGES, page * DIM),
            _mask_init_and_local_tokens=anything,
        )
        scope = {
            "torch": torch,
            "TYPE_CHECKING": False,
            "_is_hip": hip,
            "_is_cuda": not hip,
            "_is_xpu": False,
            "_use_aiter_preshuffle": False,
            "get_token_to_kv_pool": lambda: pool,
            "aiter_paged_mqa_logits": scores,
            "deepgemm_paged_mqa_logits_split": scores_split,
            "resolve_paged_mqa_logits_metadata_fn": lambda: anything,
            "deep_gemm": SimpleNamespace(
                get_paged_mqa_logits_metadata=anything,
                fp8_paged_mqa_logits=scores_deepgemm,
            ),
        }
        mode = SimpleNamespace(
            is_target_verify=lambda: False, is_draft_extend=lambda **_: False, is_draft_extend_v2=lambda: False
        )
        batch = SimpleNamespace(forward_mode=mode, token_to_kv_pool=pool)
        world = World(patched_files(release, (INDEXERS[release],), fix))
        topk = world.function(f"sglang/{INDEXERS[release]}", "_get_topk_paged", scope)
        return topk(indexer, batch, 0, torch.ones(rows, HEADS, DIM), torch.ones(rows, HEADS, 1), Metadata(real))

    return run


@pytest.mark.parametrize("release", INDEXERS)
def test_upstream_scores_padded_rows(indexed, release):
    with pytest.raises((AssertionError, RuntimeError)):
        indexed(release, rows=5, real=3, fix=None)


@pytest.mark.parametrize("release", INDEXERS)
def test_padded_rows_are_left_out_and_put_back(indexed, release):
    result = indexed(release, rows=5, real=3)
    assert result.shape == (5, TOPK)
    assert (result[:3] == indexed(release, rows=3, real=3, fix=None)).all()
    assert (result[3:] == -1).all()


@pytest.mark.parametrize("release", INDEXERS)
def test_without_padding_nothing_changes(indexed, release):
    assert (indexed(release, rows=3, real=3) == indexed(release, rows=3, real=3, fix=None)).all()


@pytest.mark.parametrize("release", INDEXERS)
def test_a_rank_of_padding_only_scores_nothing(indexed, release):
    result = indexed(release, rows=4, real=0)
    assert result.dtype == torch.int32
    assert result.shape == (4, TOPK)
    assert (result == -1).all()


@pytest.mark.parametrize("release", ["0.5.11", "0.5.14", "0.5.23"])
def test_on_cuda_padded_rows_were_right_and_stay_so(indexed, release):
    before, after = (indexed(release, rows=5, real=3, fix=fix, hip=False) for fix in (None, PADDED))
    assert (before == after).all()
    assert (after[3:] == -1).all()


DUAL = "dsa-dual-graph-dp"
VARIANTS = "srt/layers/attention/graph_variants.py"
RUNNER = "srt/model_executor/runner/decode_cuda_graph_runner.py"


def stand_ins(*, hip: bool, dp: bool, dsa: bool) -> dict[str, Any]:
    config = {
        "get_dsa_index_topk": lambda _: 2048,
        "get_dsa_index_kpool": lambda _: 1,
        "is_deepseek_dsa": lambda _: dsa,
    }
    return {
        "sglang.srt.configs.model_config": module("model_config", **config),
        "sglang.srt.utils": module("utils", is_hip=lambda: hip),
        "sglang.srt.layers.dp_attention": module("dp_attention", is_dp_attention_enabled=lambda: dp),
    }


@pytest.fixture
def captured(patched_files, monkeypatch):
    """`captured(release, hip=, dp=, dsa=)`: which decode graphs are captured for a model."""

    def run(release, *, hip=True, dp=True, dsa=True, fix=DUAL):
        for name, content in stand_ins(hip=hip, dp=dp, dsa=dsa).items():
            monkeypatch.setitem(sys.modules, name, content)
        scope = {"logger": SimpleNamespace(info=anything), "DsaGraphVariants": lambda topk: ("dense", "sparse", topk)}
        world = World(patched_files(release, (VARIANTS,), fix))
        return world.function(f"sglang/{VARIANTS}", "create_attention_graph_variants", scope)(SimpleNamespace())

    return run


@pytest.mark.parametrize("release", ["0.5.20", "0.5.21", "0.5.22", "0.5.23"])
def test_with_dp_attention_one_graph_is_captured(captured, release):
    assert captured(release, fix=None) == ("dense", "sparse", 2048), "the defect is no longer there to mend"
    assert captured(release) is None
    assert captured(release, dp=False) == ("dense", "sparse", 2048)
    assert captured(release, hip=False) is None
    assert captured(release, dp=False, dsa=False) is None


@pytest.mark.parametrize("release", ["0.5.18", "0.5.19"])
@pytest.mark.parametrize(("dp", "dual"), [(True, False), (False, True)])
def test_the_runner_of_0518_captures_one_graph_with_dp_attention(patched_files, release, dp, dual):
    """Its constructor needs a whole server: only the statements about the dual graph are run."""
    source = (patched_files(release, (RUNNER,), DUAL) / "sglang" / RUNNER).read_text()
    start, end = source.index("        self.dsa_dual_graph = False"), source.index("        self.attn_tp_size = ")
    assert "    is_dp_attention_enabled,\n" in source[:start], "the name is imported"
    runner = SimpleNamespace()
    model = SimpleNamespace(model_config=SimpleNamespace(hf_config=None))
    names = {
        "self": runner,
        "model_runner": model,
        "is_hip": lambda: True,
        "is_dp_attention_enabled": lambda: dp,
        "Optional": {int: None},
        "logger": SimpleNamespace(info=anything),
    }
    with pytest.MonkeyPatch.context() as patch:
        for name, content in stand_ins(hip=True, dp=dp, dsa=True).items():
            patch.setitem(sys.modules, name, content)
        exec("if True:\n" + source[start:end], names)
    assert runner.dsa_dual_graph is dual
    assert (runner.dsa_index_topk is None) is not dual
