"""A small sglang with one JIT kernel, and a compiler that only preprocesses: what the gate's tests share."""

from __future__ import annotations

import shutil
import textwrap
from pathlib import Path

import pytest

from rocmfix.guards.toolchain import Toolchain
from rocmfix.tree import MemoryTree

needs_cpp = pytest.mark.skipif(shutil.which("cpp") is None, reason="no C preprocessor here")
ROOT = "python/sglang/jit_kernel"
FILE = f"{ROOT}/csrc/k.cuh"

LOADER = """
    import torch
    from sglang.jit_kernel.utils import load_jit, make_cpp_args

    def module(mode: int, has_table: bool, dtype: torch.dtype):
        \"\"\"Compile.

            mode: 0=DECODE, 1=VERIFY, 2=EXTEND
        \"\"\"
        args = make_cpp_args(mode, has_table, dtype, is_arch_support_pdl())
        return load_jit("k", cuda_files=["k.cuh"], cuda_wrappers=[("k", f"Kernel<{args}>::run")], extra_cuda_cflags=["--use_fast_math", "-DX"])
"""
UTILS = """
    def load_jit(*args, cuda_files=None, extra_cuda_cflags=None):
        if is_hip_runtime():
            extra_cuda_cflags = [flag for flag in extra_cuda_cflags if flag not in ("--use_fast_math",)]

    def _get_default_target_flags():
        if is_hip_runtime():
            flags = ["-DUSE_ROCM", "-std=c++20", "-O3"]
            try:
                gcn_arch = props().gcnArchName
                if "gfx942" in gcn_arch:
                    flags.append("-DHIP_FP8_TYPE_FNUZ=1")
                else:
                    flags.append("-DHIP_FP8_TYPE_E4M3=1")
            except Exception:
                flags.append("-DHIP_FP8_TYPE_E4M3=1")
            return flags
        return ["-std=c++20", "--expt-relaxed-constexpr"]
"""
NAMESPACED = """
    def _wrapper_source(files, wrappers):
        lines = [f"#include {file}" for file in files]
        lines.append("namespace sglang {")
        return lines
"""
CALLER = """
    from sglang.jit_kernel.k import module
    class M:
        def forward(self):
            return module(0, True, None)
    EntryClass = M
"""

# Preprocesses as the unit asks, and says what clang says of a missing header; a line `ERROR text` is an error.
FAKE = r"""#!/bin/sh
for each; do
    case $each in
    -I* | -D*) kept="$kept $each" ;;
    *.hip) source=$each ;;
    esac
done
if ! cpp -x c++ -undef -nostdinc $kept "$source" >"$source.i" 2>"$source.err"; then
    sed -n -E "s/fatal error: ([^:]+): No such file.*/fatal error: '\1' file not found/p" "$source.err" >&2
    exit 1
fi
if grep -q '^ERROR' "$source.i"; then
    sed -n -E 's/^ERROR (.*)/k.cuh:9:1: error: \1/p' "$source.i" >&2
    exit 1
fi
"""


def tree(kernel: str, loader: str = LOADER, utils: str = UTILS, **more: str) -> MemoryTree:
    """A tree whose kernel file is `kernel`."""
    files = {
        f"{ROOT}/k.py": loader,
        f"{ROOT}/utils.py": utils,
        "python/sglang/srt/models/m.py": CALLER,
        FILE: kernel,
        f"{ROOT}/include/sgl_kernel/utils.cuh": "",
    } | {f"{ROOT}/{name.replace('__', '/')}": text for name, text in more.items()}
    return MemoryTree({path: textwrap.dedent(text).encode() for path, text in files.items()}, source="small")


def fake_toolchain(folder: Path) -> Toolchain:
    """The preprocessor as a compiler, with tvm-ffi and HIP headers that are empty."""
    headers = folder / "include"
    places = ("container/tensor.h", "dtype.h", "error.h", "extra/c_env_api.h", "function.h")
    for name in (*(f"tvm/ffi/{place}" for place in places), "hip/hip_runtime.h", "hip/hip_fp16.h"):
        path = headers / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("HIP_TOKEN\n" if name.startswith("hip/") else "")
    script = folder / "fake-hipcc"
    script.write_text(FAKE)
    script.chmod(0o755)
    return Toolchain("fake", (str(script),), (headers,))
