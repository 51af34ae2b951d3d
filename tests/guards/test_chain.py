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


@pytest.mark.parametrize("long", [61, 199, 400])
def test_a_chain_may_be_as_long_as_it_likes(long: int) -> None:
    """Beyond 60 headers nothing was read, and what stood there was told as `no loader call names it`."""
    files = {f"csrc__h{number}": f'#include "h{number + 1}.cuh"\n' for number in range(1, long)}
    found = sources(csrc__a='#include "h1.cuh"\n', **files, **{f"csrc__h{long}": "#include <cuda.h>\n"}, include__x="")
    assert met(found) == [(f"csrc/h{long}.cuh", 1, True)]


@pytest.mark.parametrize(
    "text",
    [
        '#include "a.cuh"\n' * 3,
        '#undef N\n#define N\n#undef N\n#include "a.cuh"\n#include "a.cuh"\n',
        '#ifndef __CUDA_ARCH_LIST__\n#if __HIP_DEVICE_COMPILE__\n#define X\n#include "a.cuh"\n#include "a.cuh"\n#endif\n#endif\n',
    ],
)
def test_a_file_that_reads_itself_over_and_over_comes_to_an_end(text: str) -> None:
    """Each `#include` of itself was followed 60 deep: two of them never ended."""
    assert met(sources(csrc__a=f"#include <cuda.h>\n{text}", include__x=""))[0] == ("csrc/a.cuh", 1, True)


def test_a_file_that_reads_itself_for_other_macros_is_read_for_each() -> None:
    text = "#ifndef A\n#define A\n#elif !defined(B)\n#define B\n#else\n#include <cuda.h>\n#define C\n#endif\n"
    found = sources(csrc__a=f'{text}#ifndef C\n#include "a.cuh"\n#endif\n', include__x="")
    assert (("csrc/a.cuh", 6, True)) in met(found)


def test_a_quoted_name_is_looked_for_beside_the_includer_first() -> None:
    found = sources(csrc__a='#include "b.cuh"\n', csrc__b="#include <cuda.h>\n", include__b="")
    assert met(found) == [("csrc/b.cuh", 1, True)]


def test_a_name_in_angles_is_not_looked_for_beside_the_includer() -> None:
    found = sources(csrc__a="#include <b.cuh>\n", csrc__b="#include <cuda.h>\n", include__b="")
    assert met(found) == []


def test_one_name_in_angles_and_in_quotes_may_be_two_files() -> None:
    found = sources(csrc__a='#include <b.cuh>\n#include "b.cuh"\n', csrc__b="#include <cuda.h>\n", include__b="")
    assert met(found) == [("csrc/b.cuh", 1, True)]


def test_a_folder_that_only_the_loader_knows_is_stood_in_for_by_the_nearest_file() -> None:
    found = sources(
        csrc__moe__a='#include "deep/x.cuh"\n',
        csrc__gemm__third__deep__x="",
        csrc__moe__third__deep__x="#include <cuda.h>\n",
        csrc__z__third__deep__x="",
        include__x="",
    )
    assert met(found, "csrc/moe/a.cuh") == [("csrc/moe/third/deep/x.cuh", 1, True)]


def test_another_subtrees_file_does_not_stand_in() -> None:
    other = "python/sglang/multimodal_gen/third/deep/x.cuh"
    files = {f"{ROOT}/csrc/a.cuh": b'#include "deep/x.cuh"\n', f"{ROOT}/include/y.cuh": b"", other: b""}
    (each,) = inclusions(Sources(MemoryTree(files)), f"{ROOT}/csrc/a.cuh", HIP)
    assert (each.name, each.found) == ("deep/x.cuh", None)


def test_the_loaders_folder_has_sources_and_headers() -> None:
    found = sources(csrc__a="", include__x="", more__csrc__b="", other__include__c="")
    assert found.kernel_roots == (ROOT,)


def test_every_kind_of_cpp_file_is_read() -> None:
    kinds = [".cc", ".cpp", ".cu", ".cuh", ".h", ".hip", ".hpp", ".inl"]
    files = {f"{ROOT}/csrc/a{kind}": b"" for kind in (*kinds, ".py", ".txt", ".c", ".cu.j2")}
    assert Sources(MemoryTree(files)).files == tuple(f"{ROOT}/csrc/a{kind}" for kind in kinds)


def test_what_one_gpu_may_include_is_followed() -> None:
    text = '#ifdef __gfx942__\n#include "b.cuh"\n#endif\n'
    assert met(sources(csrc__a=text, csrc__b="#include <cuda.h>\n", include__x="")) == [("csrc/b.cuh", 1, None)]


@pytest.mark.parametrize("line", ["#import <b.cuh>", "#include_next <b.cuh>"])
def test_every_way_to_include_is_followed(line: str) -> None:
    assert met(sources(csrc__a=line, include__b="#include <cuda.h>\n")) == [("include/b.cuh", 1, True)]


def test_the_way_to_a_header_is_told_from_the_file_outwards() -> None:
    found = sources(csrc__a="\n#include <b.cuh>\n", include__b="#include <c.cuh>\n", include__c="#include <cuda.h>\n")
    (each,) = [each for each in inclusions(found, f"{ROOT}/csrc/a.cuh", HIP) if cuda_only(each.name)]
    assert each.via == (Hop(f"{ROOT}/csrc/a.cuh", 2), Hop(f"{ROOT}/include/b.cuh", 1))


def test_a_pragma_once_that_is_not_compiled_keeps_nothing_out() -> None:
    twice = '#include "b.cuh"\n#include "b.cuh"\n'
    found = sources(csrc__a=twice, csrc__b="#if 0\n#pragma once\n#endif\n#include <cuda.h>\n", include__x="")
    assert met(found) == [("csrc/b.cuh", 4, True)] * 2


@pytest.mark.parametrize("unbalanced", ["#ifdef NOBODY\n", "#endif\n", "#else\n"])
def test_a_header_that_ends_amid_a_conditional_leaves_its_includers_alone(unbalanced: str) -> None:
    text = '#ifndef USE_ROCM\n#include <cuda.h>\n#else\n#include "b.cuh"\n#include <cuda.h>\n#endif\n'
    assert met(sources(csrc__a=text, csrc__b=unbalanced, include__x="")) == [
        ("csrc/a.cuh", 2, False),
        ("csrc/a.cuh", 5, True),
    ]


def test_an_include_by_macro_is_followed() -> None:
    more = sources(csrc__a="#define H <cuda_fp16.h> x\n#include H\n", include__x="")
    assert not list(inclusions(more, f"{ROOT}/csrc/a.cuh", HIP))
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


@pytest.mark.parametrize(
    ("code", "name", "text", "line"),
    [
        ("cudaMalloc(p);\ncudaFree(p);\n", "CUDA call", "cudaMalloc", 1),
        ("cuTensorMapEncode(p);\n", "CUDA call", "cuTensorMapEncode", 1),
        ('/* a\nb */ int a = 1 + \\\n 2; R"(\n)";\ncudaFree(p);\n', "CUDA call", "cudaFree", 5),
        ("#define A \\\n cudaMalloc /*\n*/\ncudaFree(p);\n", "CUDA call", "cudaFree", 4),
        ("cuda::ptx::mbarrier_init(p);\n", "NVIDIA library", "cuda::ptx::mbarrier_init", 1),
        ("cuda::std::pair<int, int> p;\n", "NVIDIA library", "cuda::std::pair", 1),
        ("void __cluster_dims__(2) f();\n", "__grid_constant__", "__cluster_dims__", 1),
        ("f(__grid_constant__ const int a);\n", "__grid_constant__", "__grid_constant__", 1),
        ("__ballot_sync(0xFFFFFFFFu, x);\n", "32-bit shuffle mask", "__ballot_sync(0xFFFFFFFFu", 1),
        ("__shfl_sync(\n  0xffffffff, x);\n", "32-bit shuffle mask", "__shfl_sync( 0xffffffff", 1),
        ('asm("{ .reg .b32 t; mov.b32 t, 0; }");\n', "inline PTX", 'asm("{ .reg .b32 t; mov.', 1),
    ],
)
def test_a_construct_is_told_once_as_it_stands_first(code: str, name: str, text: str, line: int) -> None:
    (found,) = constructs(sources(csrc__a=code, include__x=""), f"{ROOT}/csrc/a.cuh")
    assert (found.construct.name, found.text, found.line) == (name, text, line)


@pytest.mark.parametrize(
    "code",
    ["__shfl_sync(0xffffffffffffffffull, x);\n", "#define GET cudaMalloc\n", "cudax(); cub(); my_cudaMalloc();\n"],
)
def test_what_hip_takes_is_no_construct(code: str) -> None:
    assert not list(constructs(sources(csrc__a=code, include__x=""), f"{ROOT}/csrc/a.cuh"))


def test_inline_ptx_is_told_from_amds_own_assembly() -> None:
    amd = 'asm volatile("s_waitcnt vmcnt(0)");\n'
    found = sources(csrc__a=amd + 'asm("mov.b32 %0, 1;" : "=r"(x));\n', csrc__b=amd, include__x="")
    assert [(each.construct.name, each.line) for each in constructs(found, f"{ROOT}/csrc/a.cuh")] == [("inline PTX", 2)]
    assert not list(constructs(found, f"{ROOT}/csrc/b.cuh"))


FOR_HIP = """\
#ifndef USE_ROCM
#include <cuda_runtime.h>
#else
using cudaError_t = hipError_t;
namespace cub = hipcub;
inline int cudaOccupancyMaxBlocks(
    int n) { return n; }
asm("mov.b32 %0, 1;");
#endif
"""


@pytest.mark.parametrize(
    ("code", "met"),
    [
        ("", []),
        ("cudaError_t e; cudaOccupancyMaxBlocks(1); cub::BlockScan b;\n", []),
        ('asm("mov.b32 %0, 1;");\n', [("inline PTX", 10)]),
        ("cudaMemcpy(a);\n", [("CUDA call", 10)]),
        ("#ifdef LATER\ncudaMemcpy(a);\n#endif\n#define LATER\n", []),
    ],
)
def test_what_stands_in_a_branch_for_hip_is_no_construct_and_names_given_there_are_none(
    code: str, met: list[tuple[str, int]]
) -> None:
    """`using cudaError_t = hipError_t` was shown as what stands in the way of ROCm."""
    here = sources(csrc__a=FOR_HIP + code, include__x="")
    assert [(each.construct.name, each.line) for each in constructs(here, f"{ROOT}/csrc/a.cuh")] == met
    header = sources(csrc__a='#include "b.cuh"\n' + "\n" * 8 + code, csrc__b=FOR_HIP, include__x="")
    assert [(each.construct.name, each.line) for each in constructs(header, f"{ROOT}/csrc/a.cuh")] == met


def test_a_header_that_only_rocm_reads_is_for_hip_as_a_whole() -> None:
    text = '#ifdef USE_ROCM\n#include "hip.cuh"\n#endif\ncudaError_t e;\n'
    found = sources(csrc__a=text, csrc__hip="using cudaError_t = hipError_t;\n", include__x="")
    assert not list(constructs(found, f"{ROOT}/csrc/a.cuh"))


@pytest.mark.parametrize(
    ("text", "skipped"),
    [
        ("#ifdef USE_ROCM\nint a;\n#else\nint b;\n#endif\n", ((3, 5),)),
        ("#ifndef A_CUH\n#define A_CUH\nint a;\n#endif\n", ()),
        ("#if !defined(A_CUH)\n#define A_CUH\nint a;\n#endif\n", ()),
        ("#ifndef USE_ROCM\nint a;\n#endif\n", ((1, 3),)),
        ("#ifndef USE_ROCM\n#define A 1\nint a;\n#endif\n", ((1, 4),)),
        ("#ifndef USE_ROCM\n#undef USE_ROCM\nint a;\n#endif\n", ((1, 4),)),
        ("#ifdef A\nint a;\n#endif\n", ((1, 3),)),
        ("#define A\n#ifdef A\nint a;\n#else\nint b;\n#endif\n#undef A\n", ((4, 6),)),
        ("int a;\n#ifndef USE_ROCM\nint b;\n#define B \\\n  1\n", ((2, 5),)),
        ("#ifdef A\nint a;\n#endif\n#define A\n", ((1, 3),)),
        ('#ifdef A\nint a;\n#endif\n#ifndef A\n#define A\n#include "a.cuh"\n#endif\n', ((1, 3),)),
    ],
)
def test_lines_taken_out_are_told(text: str, skipped: tuple[tuple[int, int], ...]) -> None:
    """A file that begins with `#ifndef USE_ROCM` was taken for one that keeps itself from being read twice by it.

    What stood before a #define was judged as if that had come first.
    """
    path = f"{ROOT}/csrc/a.cuh"
    assert walk(sources(csrc__a=text, include__x=""), path, HIP).gaps[path] == list(skipped)
