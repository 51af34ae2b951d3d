"""What `guards make` says and what its files are called."""

from __future__ import annotations

from rocmfix.guards.compile import Built, Came
from rocmfix.guards.make import Made
from rocmfix.guards.report import made_line, patch_name

FILE = "sglang/jit_kernel/csrc/elementwise/copy.cuh"


def test_a_guard_that_was_made_says_what_proves_it_and_where_it_is():
    built = tuple(
        Built(file=FILE, arch=arch, loader="copy.py:3", came=came)
        for arch in ("gfx942", "gfx950") for came in (Came.COMPILED, Came.NOT_COMPILABLE)
    )  # fmt: skip
    assert made_line(Made(file=FILE, patch="+x", built=built), "out/a.patch") == (
        f"{FILE}: guarded; 2 of 4 units compile for gfx942 and gfx950, CUDA text the same: out/a.patch"
    )


def test_files_of_one_name_have_patches_of_two():
    other = FILE.replace("elementwise", "gemm")
    assert patch_name(Made(file=FILE)) == "guard_elementwise_copy.patch"
    assert patch_name(Made(file=other)) == "guard_gemm_copy.patch"
    assert patch_name(Made(file=other), ["guard_gemm_copy.patch"]) == f"guard_{other.replace('/', '_')}.patch"
