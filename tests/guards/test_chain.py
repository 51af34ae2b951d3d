"""Includes followed from file to file, as a compiler follows them."""

from __future__ import annotations

import pytest

from rocmfix.guards.chain import Hop, Sources, inclusions, walk
from rocmfix.guards.conditionals import HIP
from rocmfix.guards.constructs import constructs
from rocmfix.guards.headers import FAMILIES, cuda_only
from rocmfix.tree import MemoryTree

ROOT = "python/sglang/jit_kernel"


def sources(**files: str) -> Sources:
    named = {f"{ROOT}/{name.replace('__', '/')}": text for name, text in files.items()}
    return Sources(MemoryTree({f"{path}.cuh": text.encode() for path, text in named.items()}))


def met(found: Sources, root: str = "csrc/a.cuh") -> list[tuple[str, int, bool | None]]:
    return [
        (each.hop.file.removeprefix(f"{ROOT}/"), each.hop.line, each.active)
        for each in inclusions(found, f"{ROOT}/{root}", HIP)
        if cuda_only(each.name)
    ]


def test_a_header_brings_its_cuda_include_with_it() -> None:
    found = sources(csrc__a="#include <sgl_kernel/b.cuh>\n", include__sgl_kernel__b="\n#include <cuda_runtime.h>\n")
    (each,) = [each for each in inclusions(found, f"{ROOT}/csrc/a.cuh", HIP) if cuda_only(each.name)]
    assert each.hop == Hop(f"{ROOT}/include/sgl_kernel/b.cuh", 2)
    assert each.via == (Hop(f"{ROOT}/csrc/a.cuh", 1),)


def test_a_guarded_wrapper_makes_the_inner_include_harmless() -> None:
    found = sources(
        csrc__a='#ifndef USE_ROCM\n#include "b.cuh"\n#endif\n', csrc__b="#include <cuda.h>\n", include__x=""
    )
    assert met(found) == []
    assert met(found, "csrc/b.cuh") == [("csrc/b.cuh", 1, True)]


def test_macros_of_one_header_decide_in_the_next() -> None:
    text = '#include "b.cuh"\n#if PORTED\n#include <hip/hip_runtime.h>\n#else\n#include <cuda.h>\n#endif\n'
    assert met(sources(csrc__a=text, csrc__b="#ifdef USE_ROCM\n#define PORTED 1\n#endif\n", include__x="")) == [
        ("csrc/a.cuh", 5, False)
    ]


@pytest.mark.parametrize("once", ["#pragma once\n", "#ifndef B\n#define B\n"])
def test_a_file_is_read_once_and_a_cycle_ends(once: str) -> None:
    end = "#endif\n" if "ifndef" in once else ""
    found = sources(
        csrc__a='#include "b.cuh"\n#include "b.cuh"\n',
        csrc__b=f'{once}#include "a.cuh"\n#include <cuda.h>\n{end}',
        include__x="",
    )
    assert [line for _, line, active in met(found) if active].count(once.count("\n") + 2) == 1


def test_a_cycle_without_a_guard_ends_too() -> None:
    assert met(sources(csrc__a='#include "a.cuh"\n#include <cuda.h>\n', include__x=""))


def test_a_quoted_name_is_looked_for_beside_the_includer_first() -> None:
    found = sources(csrc__a='#include "b.cuh"\n', csrc__b="#include <cuda.h>\n", include__b="")
    assert met(found) == [("csrc/b.cuh", 1, True)]


def test_an_include_by_macro_is_followed() -> None:
    assert met(sources(csrc__a="#define H <cuda_fp16.h>\n#include H\n", include__x="")) == [("csrc/a.cuh", 2, True)]


@pytest.mark.parametrize(
    ("name", "library"),
    [
        ("cuda_runtime.h", "CUDA runtime"),
        ("cub/block/block_scan.cuh", "CUB"),
        ("cuda/ptx", "libcu++"),
        ("cooperative_groups/reduce.h", "cooperative groups"),
        ("cute/tensor.hpp", "CUTLASS"),
    ],
)
def test_a_cuda_header_belongs_to_a_library(name: str, library: str) -> None:
    family = cuda_only(name)
    assert family
    assert family.library == library


@pytest.mark.parametrize(
    "name", ["hip/hip_runtime.h", "cuda_kernels/config.h", "sgl_kernel/utils.cuh", "vector", "mycuda_fp8.h"]
)
def test_other_headers_are_nobodys(name: str) -> None:
    assert cuda_only(name) is None


def test_every_counterpart_is_a_hip_header() -> None:
    assert all(
        family.counterpart.split("/")[0] in {"hip", "hipcub", "hiprand", "hipblas"}
        for family in FAMILIES
        if family.counterpart
    )


CUDA_CODE = """\
#ifdef USE_ROCM
#define cudaStream_t hipStream_t
#else
asm volatile("ld.global.u32 %0, [%1];");
#endif
cudaStream_t s; // cudaMalloc
cudaFuncSetAttribute(f);
x = __shfl_xor_sync(0xffffffff, x, 1);
__nv_bfloat16 y; cub::BlockScan<int> z;
"""


def test_constructs_are_those_that_hip_compiles() -> None:
    found = sources(csrc__a=CUDA_CODE, include__x="")
    assert [(each.construct.name, each.line) for each in constructs(found, f"{ROOT}/csrc/a.cuh")] == [
        ("32-bit shuffle mask", 8),
        ("__nv_ type", 9),
        ("NVIDIA library", 9),
        ("CUDA call", 7),
    ]


def test_inline_ptx_is_told_from_amds_own_assembly() -> None:
    amd = 'asm volatile("s_waitcnt vmcnt(0)");\n'
    found = sources(csrc__a=amd + 'asm("mov.b32 %0, 1;" : "=r"(x));\n', csrc__b=amd, include__x="")
    assert [(each.construct.name, each.line) for each in constructs(found, f"{ROOT}/csrc/a.cuh")] == [("inline PTX", 2)]
    assert not list(constructs(found, f"{ROOT}/csrc/b.cuh"))


def test_lines_taken_out_are_told() -> None:
    seen = walk(
        sources(csrc__a="#ifdef USE_ROCM\nint a;\n#else\nint b;\n#endif\n", include__x=""), f"{ROOT}/csrc/a.cuh", HIP
    )
    assert seen.skipped == ((3, 5),)
