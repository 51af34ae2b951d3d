"""`spec-sampling-hip`: the real verification code, patched, draws tokens as the request asks."""

from types import SimpleNamespace
from typing import Any

import pytest

from tests.fixes.world import World

torch = pytest.importorskip("torch")
from tests.fixes.eagle import (  # noqa: E402 - needs torch
    NODES,
    PROBS,
    REQUESTS,
    V1,
    VOCAB,
    Ranks,
    Stop,
    chosen_by_v1,
    complain,
    drafts,
    file,
    files,
    logits,
    sampling,
    stand_ins,
)

FIX = "spec-sampling-hip"
RELEASES = [*V1, "0.5.14", "0.5.15.post1", "0.5.16", "0.5.19", "0.5.20"]

pytestmark = [pytest.mark.upstream, pytest.mark.torch]


@pytest.fixture
def verify(patched_files, monkeypatch):
    """`verify(release, info)`: verify drafts 0, 2 after the root for every request; (tokens, accepted drafts)."""

    def run(release, info, *, hip=True, fix=FIX, ranks=None, synchronous=False, **platform):
        world = World(patched_files(release, files(release), fix))
        scope = stand_ins(world, release, monkeypatch, hip=hip, ranks=ranks or Ranks(), fix=fix) | platform
        if synchronous:
            return chosen_by_v1(world, info, scope)
        name = "sample" if release in V1 else "eagle_sample"
        function = world.function(f"sglang/srt/speculative/{file(release)}", name, scope)
        batch = SimpleNamespace(
            forward_mode=SimpleNamespace(is_idle=lambda: False),
            seq_lens=torch.ones(len(info)),
            input_ids=torch.zeros(1),
            device="cpu",
            sampling_info=info,
        )
        predict, lengths, accept_index = function(drafts(len(info)), batch, logits(len(info)))
        return predict.view(len(info), NODES), lengths - 1, accept_index

    return run


def expected(
    probs: Any, *, temperature: float = 1.0, top_k: int = VOCAB, top_p: float = 1.0, min_p: float = 0.0
) -> Any:
    """The distribution that a request asks for, by the definitions."""
    probs = torch.softmax(probs.log() / temperature, dim=-1)
    order = probs.argsort(descending=True)
    before = probs[order].cumsum(0) - probs[order]
    kept = [
        token
        for rank, token in enumerate(order.tolist())
        if rank < top_k and before[rank] <= top_p and probs[token] >= min_p * probs.max()
    ]
    filtered = torch.zeros_like(probs)
    filtered[kept] = probs[kept]
    return filtered / filtered.sum()


def assert_drawn_from(tokens: Any, probs: Any) -> None:
    """Every frequency is within five standard deviations of `probs`; what has no probability never comes."""
    count = len(tokens)
    seen = torch.bincount(tokens.long(), minlength=VOCAB) / count
    spread = 5 * (probs * (1 - probs) / count).sqrt()
    assert ((seen - probs).abs() <= spread + 1e-9).all(), (seen, probs)


ASKED = {
    "temperature 1": {},
    "temperature 0.5": {"temperature": 0.5},
    "top_p 0.7": {"top_p": 0.7},
    "top_k 2": {"top_k": 2},
    "min_p 0.2": {"min_p": 0.2},
    "all of them": {"temperature": 1.5, "top_p": 0.9, "top_k": 4, "min_p": 0.05},
}


def asked(
    count: int = REQUESTS,
    *,
    temperature: float = 1.0,
    top_k: int = 1 << 30,
    top_p: float = 1.0,
    min_p: float = 0.0,
    **more: Any,
) -> Any:
    return sampling(
        count,
        temperatures=torch.full((count, 1), temperature),
        top_ks=torch.full((count,), top_k),
        top_ps=torch.full((count,), top_p),
        min_ps=torch.full((count,), min_p),
        need_min_p_sampling=min_p > 0,
        **more,
    )


@pytest.mark.parametrize("release", [release for release in RELEASES if release not in ("0.5.8", "0.5.9")])
def test_upstream_takes_the_argmax_whatever_is_asked(verify, release):
    predict, accepted, _ = verify(release, asked(50, temperature=1.5), fix=None)
    assert (predict[:, :2] == torch.tensor([0, 2])).all()
    assert (accepted == 2).all()


@pytest.mark.parametrize("want", ASKED.values(), ids=ASKED)
@pytest.mark.parametrize("release", RELEASES)
def test_every_token_comes_from_the_distribution_that_was_asked_for(verify, release, want):
    """The first token from the root's; the second, which needs draft 0 accepted, from that of the draft's node."""
    torch.manual_seed(0)
    predict, accepted, accept_index = verify(release, asked(**want))

    first = predict[:, 0]
    assert_drawn_from(first, expected(PROBS[0], **want))
    went_on = first == 0
    assert ((accepted > 0) == went_on).all(), "a draft is accepted exactly when it is the token drawn"
    assert ((accept_index[:, 1] >= 0) == went_on).all()
    assert_drawn_from(predict[went_on, 1], expected(PROBS[1], **want))


@pytest.mark.parametrize("release", RELEASES)
def test_greedy_requests_stay_greedy_beside_others(verify, release):
    """A request at temperature 0 comes with top_k 1."""
    info = asked()
    info.top_ks[::2] = 1
    predict, accepted, _ = verify(release, info)
    assert (predict[::2, :2] == torch.tensor([0, 2])).all()
    assert (accepted[::2] == 2).all()
    assert_drawn_from(predict[1::2, 0], PROBS[0])


@pytest.mark.parametrize("release", RELEASES)
def test_a_batch_of_greedy_requests_draws_nothing(verify, release, monkeypatch):
    monkeypatch.setattr(torch, "multinomial", complain)
    predict, _, _ = verify(release, asked(5, is_all_greedy=True))
    assert (predict[:, :2] == torch.tensor([0, 2])).all()


@pytest.mark.parametrize("release", RELEASES)
def test_rank_0_decides(verify, release):
    told = torch.tensor([[3, 1, 1]]).repeat(4, 1)
    ranks = Ranks(2, rank_0=told)
    predict, accepted, _ = verify(release, asked(4), ranks=ranks)
    assert ranks.seen[0].dtype == torch.int64
    assert (predict[:, 0] == 3).all()
    assert (accepted == 0).all()


@pytest.mark.parametrize("release", RELEASES)
def test_seeded_requests_draw_the_same_again(verify, release):
    info = asked(200, sampling_seed=torch.arange(200))
    one, two = verify(release, info)[0], verify(release, info)[0]
    assert (one[:, 0] == two[:, 0]).all()
    assert len(one[:, 0].unique()) > 1, "different seeds draw differently"


@pytest.mark.parametrize("release", RELEASES)
def test_cuda_takes_the_path_it_took(verify, release, monkeypatch):
    monkeypatch.setattr(torch, "multinomial", complain)
    for fix in (None, FIX):
        with pytest.raises((Stop, ImportError)):
            verify(release, asked(5), hip=False, fix=fix)


@pytest.mark.parametrize("release", RELEASES)
def test_other_platforms_keep_the_argmax(verify, release, monkeypatch):
    monkeypatch.setattr(torch, "multinomial", complain)
    predict, _, _ = verify(release, asked(5), hip=False, _is_npu=True, _is_cpu=True, _is_xpu=True)
    assert (predict[:, :2] == torch.tensor([0, 2])).all()


@pytest.mark.parametrize("release", V1)
def test_upstreams_synchronous_verification_is_greedy_and_says_so(verify, release):
    with pytest.raises(AssertionError, match="Falling back to greedy verification"):
        verify(release, asked(5), synchronous=True, fix=None)


@pytest.mark.parametrize("release", V1)
def test_synchronous_verification_samples_too_and_no_longer_warns(verify, release):
    torch.manual_seed(0)
    chosen = verify(release, asked(temperature=0.5), synchronous=True)
    for node in range(NODES):
        assert_drawn_from(chosen[:, node], expected(PROBS[node], temperature=0.5))
    assert (verify(release, asked(5, is_all_greedy=True), synchronous=True) == torch.tensor([0, 2, 0])).all()
