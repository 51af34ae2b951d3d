"""EAGLE verification of a release, cut out of its real files, with stand-ins for the kernels and the server around."""

import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from tests.fixes.world import World, module

torch = pytest.importorskip("torch")

V1 = ["0.5.8", "0.5.9", "0.5.10.post1", "0.5.11", "0.5.13.post1"]
"""Releases with a synchronous verification beside the overlapped one."""
REQUESTS = 3000
PROBS = torch.tensor([[0.5, 0.3, 0.15, 0.04, 0.01], [0.1, 0.2, 0.4, 0.25, 0.05], [0.2, 0.2, 0.2, 0.2, 0.2]])
"""The target's distribution at each of the three positions: the root and two drafts."""
NODES, VOCAB = PROBS.shape


class Stop(Exception):
    """Verification has got as far as a test wants it to."""


def stop(*_: object) -> None:
    raise Stop


class Ranks:
    """A tensor-parallel group, seen from a rank that is told what rank 0 has."""

    def __init__(self, size: int = 1, rank_0: Any = None) -> None:
        self.world_size = size
        self.rank_0 = rank_0
        self.seen: list[Any] = []

    def broadcast(self, tensor: Any, src: int) -> None:
        assert src == 0
        self.seen.append(tensor)
        if self.rank_0 is not None and tensor.shape == self.rank_0.shape:
            tensor.copy_(self.rank_0)


def accept(predicts, accept_index, accept_token_num, candidates, target_predict, **tree):
    """What the greedy kernel does: walk down the tree while a child is the token that the target chose."""
    index, following, sibling = (tree.pop(next(iter(tree))).tolist() for _ in ("index", "next_token", "next_sibling"))
    drafted, wanted = candidates.tolist(), target_predict.tolist()
    for request, chosen in enumerate(wanted):
        path = [0]
        while (node := following[request][path[-1]]) != -1:
            while node != -1 and drafted[request][node] != chosen[path[-1]]:
                node = sibling[request][node]
            if node == -1:
                break
            path.append(node)
        places = torch.tensor([index[request][node] for node in path])
        predicts[places] = torch.tensor([chosen[node] for node in path], dtype=predicts.dtype)
        accept_index[request, : len(path)] = places
        accept_token_num[request] = len(path) - 1
    return predicts, accept_index, accept_token_num


def sampling(count: int = REQUESTS, **changes: Any) -> Any:
    """The sampling parameters of a batch, temperature 1 and nothing else unless changed."""
    info = {
        "temperatures": torch.ones(count, 1),
        "top_ks": torch.full((count,), 1 << 30),
        "top_ps": torch.ones(count),
        "min_ps": torch.zeros(count),
        "need_min_p_sampling": False,
        "sampling_seed": None,
        "is_all_greedy": False,
        "acc_additive_penalties": None,
        "acc_scaling_penalties": None,
        "logit_bias": None,
        "has_custom_logit_processor": False,
        "penalizer_orchestrator": SimpleNamespace(is_required=False),
        **changes,
    }
    return type("Sampling", (SimpleNamespace,), {"__len__": lambda _: count})(**info)


def files(release: str) -> tuple[str, ...]:
    beside = ("srt/speculative/eagle_info.py",) if release in V1 else ()
    return ("srt/layers/sampler.py", f"srt/speculative/{file(release)}", *beside)


def file(release: str) -> str:
    return "eagle_info_v2.py" if release in V1 else "eagle_utils.py"


def logits(count: int) -> SimpleNamespace:
    return SimpleNamespace(next_token_logits=PROBS.log().repeat(count, 1))


def drafts(count: int) -> SimpleNamespace:
    """One chain for every request: the root, then draft tokens 0 and 2."""
    chain = torch.arange(count * NODES).view(count, NODES)
    following = torch.tensor([1, 2, -1]).repeat(count, 1)
    return SimpleNamespace(
        draft_token=torch.tensor([4, 0, 2]).repeat(count),
        draft_token_num=NODES,
        positions=torch.arange(count * NODES),
        retrieve_index=chain,
        retrieve_next_token=following,
        retrieve_next_sibling=torch.full_like(following, -1),
        retrive_index=chain,  # the same three as they were spelled up to 0.5.10.post1
        retrive_next_token=following,
        retrive_next_sibling=torch.full_like(following, -1),
        topk=1,
        tree_topk=1,
        spec_steps=NODES - 1,
        max_tree_depth=NODES,
        grammar=None,
    )


def stand_ins(
    world: World, release: str, monkeypatch: pytest.MonkeyPatch, *, hip: bool, ranks: Ranks, fix: str | None
) -> dict[str, Any]:
    """Names the code uses, among them the release's own sampler and the patched file's own helper."""
    monkeypatch.setattr(torch, "compile", lambda *_, **__: lambda function: function)
    sampler = "sglang/srt/layers/sampler.py"
    scope: dict[str, Any] = {"torch": torch, "murmur_hash32": murmur, "is_npu": lambda: False, "_is_npu": False}
    scope["multinomial_with_seed"] = world.function(sampler, "multinomial_with_seed", scope)
    plain = world.function(sampler, "top_k_top_p_min_p_sampling_from_probs_torch", scope)
    groups = {
        "get_tp_group": lambda: ranks,
        "get_attention_tp_group": lambda: ranks,
        "is_dp_attention_enabled": lambda: False,
    }
    silent = {"SIMULATE_ACC_LEN": 0, "SIMULATE_ACC_TOKEN_MODE": "", "generate_simulated_accept_index": None}
    quiet = {"maybe_detect_nan": lambda *_: None, "sanitize_nan_logits": lambda *_: None}
    for name, content in {
        "sglang.srt.distributed": groups,
        "sglang.srt.layers.dp_attention": groups,
        "sglang.srt.layers.sampler": {"top_k_top_p_min_p_sampling_from_probs_torch": plain},
        "sglang.srt.sampling.penaltylib.repetition_penalty": {"apply_scaling_penalties": None},
        "sglang.srt.server_args": {"get_global_server_args": None},
        "sglang.srt.runtime_context": {"get_server_args": None},
        "sglang.srt.speculative.spec_utils": silent,
        "sglang.srt.utils.async_probe": quiet,
    }.items():
        monkeypatch.setitem(sys.modules, name, module(name, **content))
    monkeypatch.setitem(sys.modules, "sgl_kernel", cuda_kernels())
    platforms = {f"_is_{name}": False for name in ("cuda", "cpu", "npu", "xpu", "musa")}
    scope |= groups | silent | quiet | platforms
    scope |= {
        "_is_hip": hip,
        "F": torch.nn.functional,
        "verify_tree_greedy_func": accept,
        "get_parallel": lambda: SimpleNamespace(attn_tp_group=ranks),
        "_can_use_sparse_uno_tree_target_sampling": lambda *_: False,
        "get_global_server_args": None,
        "apply_scaling_penalties": None,
        "TREE_SPEC_KERNEL_AVAILABLE": False,
        "top_k_renorm_prob": stop,
        "logger": SimpleNamespace(warning=complain),
    }
    if fix:
        path = f"sglang/srt/speculative/{file(release)}"
        scope["sample_target_tokens"] = world.function(path, "sample_target_tokens", scope)
    return scope


def cuda_kernels() -> ModuleType:
    """sgl_kernel, where reaching for the CUDA kernels ends the run."""

    class Kernels(ModuleType):
        def __getattr__(self, name: str) -> Any:
            raise Stop(name)

    return Kernels("sgl_kernel")


def murmur(seed, positions, columns):
    """Any hash will do that depends on all three."""
    mixed = seed.to(torch.int64)[:, None] * 7919 + positions[:, None] * 104_729 + columns[None, :] * 1_299_709
    return (mixed * 2_654_435_761) % (1 << 32)


def complain(*words: object) -> None:
    raise AssertionError(words)


def chosen_by_v1(world: World, info: Any, scope: dict[str, Any]) -> Any:
    """What the synchronous verification compares the drafts with."""
    caught: list[Any] = []

    def compare(**arguments: Any) -> None:
        caught.append(arguments["target_predict"])
        raise Stop

    batch = SimpleNamespace(
        forward_mode=SimpleNamespace(is_idle=lambda: False), sampling_info=info, device="cpu", seq_lens=torch.ones(1)
    )
    function = world.function(
        "sglang/srt/speculative/eagle_info.py", "verify", {**scope, "verify_tree_greedy_func": compare}
    )
    with pytest.raises(Stop):
        function(drafts(len(info)), batch, logits(len(info)), None, 1, None)
    return caught[0]
