"""The fake's log: what sglang says as it loads, fails and dies, and AITER's lines."""

# ruff: noqa: T201 - AITER prints
from __future__ import annotations

import argparse
import os
import signal
import sys
import time


def say(text: str) -> None:
    print(f"[2026-11-30 00:00:00 TP0] {text}", file=sys.stderr, flush=True)


def die(text: str) -> None:
    say(text)
    os.kill(os.getpid(), signal.SIGKILL)


FAILURES = {
    "fail-shape": '  File "parameter.py", line 59, in load_merged_column_weight\n'
    "AssertionError: param.shape=torch.Size([6144, 6144]), loaded_weight.shape=torch.Size([6144, 12288])",
    "fail-header": "fused_metadata_copy.cuh:38:10: fatal error: 'cuda_runtime.h' file not found",
    "fail-oom": "torch.OutOfMemoryError: HIP out of memory. Tried to allocate 20.00 GiB.",
    "fail-silent": "Load weight begin. avail mem=250.00 GB",
}


def load(options: argparse.Namespace, plays: frozenset[str]) -> None:
    """What a start prints, and where it ends when it is broken."""
    told = {name: getattr(options, name) for name in ("model_path", "tp_size", "api_key")}
    say(f"server_args=ServerArgs({', '.join(f'{name}={value!r}' for name, value in told.items())})")
    for play, text in FAILURES.items():
        if play in plays:
            if play == "fail-silent":
                die(text)
            say(f"Scheduler hit an exception: Traceback (most recent call last):\n{text}")
            die("Received sigquit from a child process. It usually means the child failed.")
    if "slow-start" in plays:
        time.sleep(60)
    if "fail-port" in plays:
        say(f"ERROR:    [Errno 98] error while attempting to bind on address ('0.0.0.0', {options.port})")
        say("INFO:     Waiting for application shutdown.")
        time.sleep(3600)
    if not options.disable_cuda_graph:
        say("Capture target verify CUDA graph begin. backend=full" if options.speculative_num_steps
            else "Capture cuda graph begin. This can take up to several minutes.")  # fmt: skip
        if options.speculative_num_steps and "no-draft-extend" not in plays:
            say("Capture draft extend CUDA graph begin. backend=full")


def moe_lookups(options: argparse.Namespace, plays: frozenset[str]) -> None:
    """AITER's lines, from every rank; it writes no rank names."""
    for rank in range(options.tp_size):
        for tokens in (1, 16):
            key = f"'gfx950', 256, {tokens}, 6144, 512, 257, 9, 'ActivationType.Silu'"
            if "untuned" in plays:
                line = f"no tuned FlyDSL config for ({key}), using heuristic FlyDSL fallback (kn1='a', kn2='b')"
            elif "uneven-ranks" in plays and rank:
                continue
            else:
                line = f"using 2stage (kernelName1='flydsl_moe1_t32', kernelName2='flydsl_moe2_t32') for ({key})"
            print(f"[aiter] [fused_moe] {line}", file=sys.stderr, flush=True)
