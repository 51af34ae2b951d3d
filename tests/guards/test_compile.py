"""The compile gate: units as the loader makes them, and three honest ends."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from rocmfix.errors import GuardError, ToolMissingError
from rocmfix.guards.compile import Came, Kernels, build
from rocmfix.guards.make import make, patch_text
from rocmfix.guards.toolchain import find_toolchain
from rocmfix.guards.units import NotReadableError, unit_of
from rocmfix.patchfile import parse_patch
from tests.guards.kernels import FILE, LOADER, NAMESPACED, ROOT, UTILS, fake_toolchain, tree

needs_cpp = pytest.mark.skipif(shutil.which("cpp") is None, reason="no C preprocessor here")


def unit(arch: str = "gfx942", **files: str):
    kernels = Kernels(tree("", **files))
    return unit_of(kernels.loaders[0], FILE, kernels.sources, kernels.program, arch)


def test_every_instantiation_that_the_wrapper_can_ask_for_is_made() -> None:
    made = unit()
    assert len(made.kernels) == 6
    assert made.kernels[0] == "Kernel<0, false, bf16_t, false>::run"
    assert made.kernels[-1] == "Kernel<2, true, bf16_t, false>::run"
    assert made.guessed == ("dtype = bf16_t",)
    assert f'#include "{FILE}"\nTVM_FFI_DLL_EXPORT_TYPED_FUNC(kernel_0, ({made.kernels[0]}));\n' in made.text


@pytest.mark.parametrize(("arch", "fp8"), [("gfx942", "-DHIP_FP8_TYPE_FNUZ=1"), ("gfx950", "-DHIP_FP8_TYPE_E4M3=1")])
def test_flags_are_the_loaders_own_for_that_gpu(arch: str, fp8: str) -> None:
    flags = unit(arch).flags
    assert flags == ("-fPIC", "-D__HIP_PLATFORM_AMD__=1", "-fno-gpu-rdc", "-DUSE_ROCM", "-std=c++20", "-O3", fp8, "-DX")


def test_a_flag_that_the_loader_does_not_drop_stays() -> None:
    assert "--use_fast_math" in unit(utils=UTILS.replace('"--use_fast_math",', '"-z",')).flags


def test_the_first_loader_had_no_hip_flags() -> None:
    utils = 'DEFAULT_CUDA_CFLAGS = ["-std=c++20", "-O3"]\ndef load_jit(*args, cuda_files=None): ...'
    assert "-DUSE_ROCM" not in unit(utils=utils).flags


def test_exports_go_into_the_namespace_that_the_loader_uses() -> None:
    assert "namespace sglang {\nTVM_FFI" in unit(utils=UTILS + NAMESPACED).text


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ('f"Kernel<{args}>::run"', "name()", "at run time"),
        ("make_cpp_args(mode,", "make_cpp_args(mode * 2,", "mode * 2"),
        ("cuda_files", "sources", "torch builds it"),
        ("cuda_files", "cpp_files", "host compiler"),
    ],
)
def test_what_cannot_be_read_is_refused_with_the_reason(old: str, new: str, why: str) -> None:
    with pytest.raises(NotReadableError, match=why.replace("*", r"\*")):
        unit(loader=LOADER.replace(old, new))


@needs_cpp
@pytest.mark.parametrize(
    ("kernel", "came", "error", "at"),
    [
        ("int a;\n", Came.COMPILED, None, None),
        ("int a;\n#include <cuda_runtime.h>\n", Came.FAILED, "'cuda_runtime.h' file not found", f"{FILE}:2"),
        (
            "#include <aiter_meta.h>\n",
            Came.NOT_COMPILABLE,
            "aiter_meta.h is not in this tree nor in the toolchain",
            f"{FILE}:1",
        ),
        ("#ifndef USE_ROCM\n#include <cuda.h>\n#endif\n", Came.COMPILED, None, None),
    ],
)
def test_a_file_ends_compiled_failed_or_not_compilable(
    tmp_path: Path, kernel: str, came: Came, error: str, at: str
) -> None:
    report = build(Kernels(tree(kernel)), [FILE], ["gfx942", "gfx950"], fake_toolchain(tmp_path))
    assert [(each.arch, each.came, each.error, each.at) for each in report.built] == [
        ("gfx942", came, error, at),
        ("gfx950", came, error, at),
    ]
    assert report.is_clean is (came is Came.COMPILED)


@needs_cpp
def test_a_failure_that_our_guess_may_have_caused_is_not_the_files(tmp_path: Path) -> None:
    (each,) = build(
        Kernels(tree("ERROR static assertion failed: bad width\n")), [FILE], ["gfx942"], fake_toolchain(tmp_path)
    ).built
    assert each.came is Came.NOT_COMPILABLE
    assert "dtype = bf16_t" in str(each.error)


def test_a_header_means_the_files_that_include_it() -> None:
    kernels = Kernels(tree("#include <sgl_kernel/utils.cuh>\n"))
    assert kernels.named(["sgl_kernel/utils.cuh"]) == (FILE,)
    assert kernels.named(["k.cuh"]) == (FILE,)
    with pytest.raises(GuardError, match="has no C\\+\\+ file nothing"):
        kernels.named(["nothing.cuh"])


def test_no_compiler_is_not_compiled_and_never_ok(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(ToolMissingError, match="not compiled") as caught:
        find_toolchain(tmp_path)
    assert caught.value.exit_code == 6


def test_a_compiler_without_the_types_sglang_needs_is_too_old(tmp_path: Path) -> None:
    fake_toolchain(tmp_path)
    (tmp_path / "tvm-ffi/0.1.11/tvm_ffi/include").mkdir(parents=True)
    script = tmp_path / "old-hipcc"
    script.write_text("#!/bin/sh\necho \"probe.hip:2:1: error: unknown type name 'hipLaunchConfig_t'\" >&2\nexit 1\n")
    script.chmod(0o755)
    with pytest.raises(ToolMissingError, match="toolchain too old") as caught:
        find_toolchain(tmp_path, str(script))
    assert "hipLaunchConfig_t" in " ".join(caught.value.details)


@needs_cpp
def test_the_smallest_guard_is_made(tmp_path: Path) -> None:
    made = make(
        Kernels(tree("#pragma once\n#include <cuda_runtime.h>\n#include <cuda_fp16.h>\nint a;\n")),
        FILE,
        ["gfx942"],
        fake_toolchain(tmp_path),
    )
    assert made.patch
    added = [line for line in made.patch.splitlines() if line.startswith("+") and not line.startswith("+++")]
    assert added == ["+#ifndef USE_ROCM", "+#endif"]
    assert all(each.came is Came.COMPILED for each in made.built)


@needs_cpp
def test_hip_headers_come_in_where_the_file_needs_them(tmp_path: Path) -> None:
    kernel = "#include <cuda_runtime.h>\n#include <sgl_kernel/needs.cuh>\n"
    needs = "#ifdef USE_ROCM\nERROR no HIP_TOKEN\n#endif\n"
    chain = fake_toolchain(tmp_path)
    hip = tmp_path / "include/hip/hip_runtime.h"
    hip.write_text("#undef USE_ROCM\n")
    made = make(Kernels(tree(kernel, **{"include__sgl_kernel__needs.cuh": needs})), FILE, ["gfx942"], chain)
    assert made.patch
    assert "+#ifdef USE_ROCM\n+#include <hip/hip_runtime.h>\n+#else\n" in made.patch


@needs_cpp
@pytest.mark.parametrize(
    ("kernel", "reason"),
    [
        ("#include <cuda.h>\nERROR static assertion failed: The mask must be a 64-bit integer\n", "guess|64 bits"),
        (
            "#include <cuda.h>\nERROR use of undeclared identifier 'cudaFuncSetAttribute'\n",
            "a CUDA call that no header",
        ),
        ("#include <cuda.h>\nERROR unknown type name '__nv_bfloat16'\n", "an NVIDIA type"),
        ('#include <cuda.h>\n#include "other.cuh"\n', "cub/cub.cuh"),
        ("int a;\n", "no CUDA-only include"),
    ],
)
def test_a_guard_that_moves_the_error_is_refused_with_what_stands_in_the_way(
    tmp_path: Path, kernel: str, reason: str
) -> None:
    other = {"csrc__other.cuh": "#include <cub/cub.cuh>\n"}
    made = make(Kernels(tree(kernel, **other)), FILE, ["gfx942"], fake_toolchain(tmp_path))
    assert made.patch is None
    assert any(word in str(made.refusal) for word in reason.split("|"))


@needs_cpp
def test_a_made_patch_is_one_that_the_catalogue_takes(tmp_path: Path) -> None:
    made = make(Kernels(tree("int b;\n#include <cuda.h>\nint a;\n")), FILE, ["gfx942"], fake_toolchain(tmp_path))
    text = patch_text(made, "Ann Author <ann@example.org>", "Mon, 30 Nov 2026 00:00:00 +0000")
    patch = parse_patch(text.encode(), "guard_k.patch")
    assert (patch.author, patch.paths) == ("Ann Author <ann@example.org>", (FILE,))
    assert "gfx942" in patch.body
    assert ROOT in text
