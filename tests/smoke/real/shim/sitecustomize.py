"""Lets upstream sglang's EAGLE worker run without a GPU: put this folder on PYTHONPATH.

Replaced, in CPU mode only (SGLANG_USE_CPU_ENGINE=1), for topk 1: two CUDA calls that have nothing to wait
for, the three custom ops behind drafting and verifying, and the cache-slot lookup that upstream writes for
GPUs only. Everything else is upstream's code; its Triton kernels run in Triton's interpreter. Packages that
sglang and transformers import but never call when serving text are stood in for, so that nobody installs them.

ROCMFIX_SHIM_VERIFY=hip takes upstream's own HIP branch of the verify step, which is greedy at any temperature
up to 0.5.20 (sglang#37134). Without it a torch sampler stands in for the CUDA one.
"""

# ruff: noqa: PLR0917 - the signatures are upstream's
# mypy: ignore-errors
from __future__ import annotations

import importlib.abc
import importlib.machinery
import os
import sys
import types

FULL_MASK, QUERY_ONLY = 0, 1


def cuda(module):
    if not module.is_available():
        module.synchronize = module.empty_cache = lambda *_, **__: None


def eagle(module):
    module.sgl_build_tree_kernel_efficient = build_chain
    module.verify_tree_greedy_func = verify_greedy
    module._is_hip = os.environ.get("ROCMFIX_SHIM_VERIFY") == "hip"
    upstream = module.eagle_sample

    def sample(*arguments, **named):
        sys.modules.setdefault("sgl_kernel", sampling_ops())
        try:
            return upstream(*arguments, **named)
        finally:
            if getattr(sys.modules.get("sgl_kernel"), "is_shim", False):
                del sys.modules["sgl_kernel"]

    module.eagle_sample = sample


def cache_locs(module):
    import torch

    def locations(req_pool_indices, req_to_token, start_offset, end_offset, *_, **__):
        rows = zip(req_pool_indices.tolist(), start_offset.tolist(), end_offset.tolist(), strict=True)
        return torch.cat([req_to_token[row, start:end] for row, start, end in rows]).to(torch.int64)

    module.assign_extend_cache_locs_func = locations


def engine(module):
    """Forked processes have all imports already, a third of the work: without CUDA nothing asks for spawned ones."""
    start = module.mp.set_start_method
    module.mp.set_start_method = lambda _spawn, **force: start("fork", **force)


def build_chain(_parents, _scores, lengths, mask, positions, index, following, sibling, topk, _steps, width, mode):
    """With topk 1 the draft tree is a chain: each token follows the one before and sees all before it."""
    import torch

    if topk != 1:
        raise NotImplementedError("the shim knows topk 1 only")
    own = torch.ones(width, width, dtype=torch.bool).tril()
    places = torch.arange(width)
    at = 0
    for row, length in enumerate(lengths.tolist()):
        seen = length if int(mode) == FULL_MASK else 0
        block = mask[at : at + width * (seen + width)].view(width, seen + width)
        block[:, :seen] = True
        block[:, seen:] = own
        at += block.numel()
        positions[row * width : (row + 1) * width] = length + places
        index[row] = row * width + places
        following[row] = torch.where(places < width - 1, places + 1, -1)
        sibling[row] = -1


def verify_greedy(predicts, accept_index, accept_token_num, candidates, retrieve_index, target_predict, **_):
    """Keep drafts while each equals what the target would have said; then say the target's own next token."""
    for row in range(candidates.shape[0]):
        walk(row, predicts, accept_index, accept_token_num, candidates, retrieve_index,
             lambda step, draft, row=row: (draft == int(target_predict[row, step]), int(target_predict[row, step])))  # fmt: skip
    return predicts, accept_index, accept_token_num


def walk(row, predicts, accept_index, accept_token_num, candidates, retrieve_index, decide):
    """Follow one chain; `decide(step, draft)` says whether the draft stands, and what is said if it does not."""
    kept, width = 0, candidates.shape[1]
    accept_index[row, 0] = retrieve_index[row, 0]
    for step in range(width):
        is_last = step + 1 == min(width, accept_index.shape[1])
        stands, said = decide(step, None if is_last else int(candidates[row, step + 1]))
        predicts[int(retrieve_index[row, step])] = said
        if is_last or not stands:
            break
        kept += 1
        accept_index[row, kept] = retrieve_index[row, step + 1]
    accept_token_num[row] = kept


def sampling_ops():
    """A torch stand-in for sgl_kernel's three sampling ops, shaped as `eagle_sample` calls them."""
    import torch

    def top_k(probs, top_ks):
        floor = probs.sort(dim=-1, descending=True).values.gather(
            -1, (top_ks.clamp(max=probs.shape[-1]).long() - 1).view(-1, 1)
        )
        kept = torch.where(probs < floor, 0, probs)
        return kept / kept.sum(-1, keepdim=True)

    def top_p(probs, top_ps):
        ordered, places = probs.sort(dim=-1, descending=True)
        ordered[ordered.cumsum(-1) - ordered > top_ps.view(-1, 1)] = 0
        kept = torch.zeros_like(probs).scatter(-1, places, ordered)
        return kept / kept.sum(-1, keepdim=True)

    def sample(predicts, accept_index, accept_token_num, candidates, retrive_index, uniform_samples,
               uniform_samples_for_final_sampling, target_probs, **_):  # fmt: skip
        def decide(row, step, draft):
            probs = target_probs[row, step].clone()
            if draft is not None:
                if float(uniform_samples[row, step]) < float(probs[draft]):
                    return True, draft
                probs[draft] = 0
            coin = float(uniform_samples_for_final_sampling[row]) * float(probs.sum())
            said = torch.searchsorted(probs.cumsum(0), coin, right=True)
            return False, min(int(said), probs.numel() - 1)

        for row in range(candidates.shape[0]):
            walk(row, predicts, accept_index, accept_token_num, candidates, retrive_index,
                 lambda step, draft, row=row: decide(row, step, draft))  # fmt: skip

    ops = types.ModuleType("sgl_kernel")
    ops.is_shim = True
    ops.top_k_renorm_prob, ops.top_p_renorm_prob = top_k, top_p
    ops.tree_speculative_sampling_target_only = sample
    return ops


PATCHES = {
    "torch.cuda": cuda,
    "sglang.srt.entrypoints.engine": engine,
    "sglang.srt.speculative.eagle_utils": eagle,
    "sglang.srt.speculative.triton_ops.cache_locs": cache_locs,
}


class Patching(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Loads a module as ever, then changes it."""

    def __init__(self):
        self.loaders = {}

    def find_spec(self, name, path=None, target=None):
        spec = importlib.machinery.PathFinder.find_spec(name, path) if name in PATCHES else None
        if spec is not None:
            self.loaders[name], spec.loader = spec.loader, self
        return spec

    def create_module(self, spec):
        return self.loaders[spec.name].create_module(spec)

    def exec_module(self, module):
        self.loaders[module.__name__].exec_module(module)
        PATCHES[module.__name__](module)


UNUSED = {
    "IPython", "compressed_tensors", "datasets", "einops", "gguf", "interegular", "jsonschema", "kernels", "loguru",
    "pandas", "pyarrow", "pynvml", "scipy", "sentencepiece", "soundfile", "tiktoken", "timm", "torch_memory_saver",
    "torchvision", "tvm_ffi", "watchfiles", "xxhash",
}  # fmt: skip


class Nothing(type):
    """A class whose attributes are classes too and whose call gives itself: imports, bases and decorators go through."""

    def __call__(cls, *_, **__):
        return cls

    def __getattr__(cls, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return Nothing(name, (), {})


class StandIn(types.ModuleType):
    __version__ = "0.0.0"
    __path__ = ()

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return Nothing(name, (), {})


class StandingIn(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """The last finder to be asked: makes a stand-in for a package that is not installed and not used."""

    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in UNUSED:
            return importlib.machinery.ModuleSpec(name, self, is_package=True)
        return None

    def create_module(self, spec):
        return StandIn(spec.name)

    def exec_module(self, module):
        """Nothing to run."""


if os.environ.get("SGLANG_USE_CPU_ENGINE") == "1":
    sys.meta_path.insert(0, Patching())
    sys.meta_path.append(StandingIn())
