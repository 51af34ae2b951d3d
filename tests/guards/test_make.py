"""Guards that are made: the smallest that the compiler proves, and true refusals."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from click.testing import CliRunner

from rocmfix.cli import main
from rocmfix.guards.compile import Built, Came, Kernels
from rocmfix.guards.make import Made, make, patch_text
from rocmfix.patchfile import parse_patch
from rocmfix.system.files import Copied, write_out
from rocmfix.tree import MemoryTree
from tests.guards.kernels import FILE, LOADER, ROOT, fake_toolchain, needs_cpp, tree


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
            "a CUDA name that no header",
        ),
        ("#include <cuda.h>\nERROR unknown type name '__nv_bfloat16'\n", "an NVIDIA type"),
        ('#include <cuda.h>\n#include "other.cuh"\n', "no CUTLASS here"),
        ("int a;\n", "no CUDA-only include"),
    ],
)
def test_a_guard_that_moves_the_error_is_refused_with_what_stands_in_the_way(
    tmp_path: Path, kernel: str, reason: str
) -> None:
    other = {"csrc__other.cuh": "#include <cutlass/cutlass.h>\nERROR no CUTLASS here\n"}
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


def test_a_patch_names_each_gpu_once_in_order() -> None:
    built = tuple(
        Built(file=FILE, arch=arch, loader="k.py:1", came=Came.COMPILED) for arch in ("gfx950", "gfx942", "gfx950")
    )
    text = patch_text(
        Made(file=FILE, patch="+x", built=built), "A B <a@example.org>", "Mon, 30 Nov 2026 00:00:00 +0000"
    )
    assert "the kernel compiles for gfx942 and gfx950; what" in " ".join(text.split())


@needs_cpp
def test_every_gpu_must_compile_it(tmp_path: Path) -> None:
    kernel = "#include <cuda.h>\n#ifdef HIP_FP8_TYPE_FNUZ\nERROR unknown type name 'x'\n#endif\n"
    made = make(Kernels(tree(kernel)), FILE, ["gfx950", "gfx942"], fake_toolchain(tmp_path))
    assert (made.patch, made.refusal) == (None, "the error moves to k.cuh:9: unknown type name 'x'")
    assert made.built[0].came is Came.COMPILED


GUARDED = "+#ifndef USE_ROCM\n #include <{}>\n+#endif\n"


@needs_cpp
@pytest.mark.parametrize(
    ("kernel", "hunk"),
    [
        (
            "#include <cuda.h>\nint a;\n#include <cuda_fp16.h>\nint b;\n",
            f"{GUARDED.format('cuda.h')} int a;\n{GUARDED.format('cuda_fp16.h')} int b;\n",
        ),
        (
            "#ifndef USE_ROCM\n#include <cuda.h>\n#endif\n#include <cuda_fp16.h>\n",
            f" #ifndef USE_ROCM\n #include <cuda.h>\n #endif\n{GUARDED.format('cuda_fp16.h')}",
        ),
        (
            "#include <cuda.h> /* a\nb */\n#include \\\n <cuda_fp16.h>\nint a;\n",
            "+#ifndef USE_ROCM\n #include <cuda.h> /* a\n b */\n #include \\\n  <cuda_fp16.h>\n+#endif\n int a;\n",
        ),
        ("#include <cuda.h>\r\nint a;\r\n", "+#ifndef USE_ROCM\r\n #include <cuda.h>\r\n+#endif\r\n int a;\r\n"),
    ],
)
def test_guards_stand_around_what_is_open_and_nothing_else(tmp_path: Path, kernel: str, hunk: str) -> None:
    made = make(Kernels(tree(kernel)), FILE, ["gfx942"], fake_toolchain(tmp_path))
    assert made.patch
    assert made.patch.partition(" @@\n")[2] == hunk


@needs_cpp
def test_neighbours_share_a_guard_with_the_hip_headers_of_all(tmp_path: Path) -> None:
    kernel = "#include <cuda_runtime.h>\n#include <cuda_fp16.h>\n#ifdef USE_ROCM\nERROR no HIP_TOKEN\n#endif\n"
    chain = fake_toolchain(tmp_path)
    (tmp_path / "include/hip/hip_fp16.h").write_text("#undef USE_ROCM\n")
    made = make(Kernels(tree(kernel)), FILE, ["gfx942"], chain)
    headers = "+#include <hip/hip_runtime.h>\n+#include <hip/hip_fp16.h>\n"
    assert f"+#ifdef USE_ROCM\n{headers}+#else\n #include <cuda_runtime.h>\n #include <cuda_fp16.h>\n+#endif\n" in str(
        made.patch
    )


def test_a_flag_that_hipcc_does_not_take_is_the_command_lines(tmp_path: Path) -> None:
    chain = fake_toolchain(tmp_path)
    Path(chain.command[0]).write_text("#!/bin/sh\necho \"clang-22: error: unknown argument: '--x'\" >&2\nexit 1\n")
    made = make(Kernels(tree("#include <cuda.h>\n")), FILE, ["gfx942"], chain)
    assert made.refusal == (
        "the error moves to the command line: unknown argument: '--x' "
        "(a flag for nvcc that hipcc does not take; the loader passes it)"
    )


@needs_cpp
def test_a_driver_call_is_a_cuda_name(tmp_path: Path) -> None:
    kernel = "#include <cuda.h>\nERROR use of undeclared identifier 'cuTensorMapEncodeTiled'\n"
    made = make(Kernels(tree(kernel)), FILE, ["gfx942"], fake_toolchain(tmp_path))
    assert str(made.refusal).endswith("(a CUDA name that no header of the tree turns into HIP's)")


HEADER = f"{ROOT}/include/sgl_kernel/runtime.cuh"
READS_IT = "#include <sgl_kernel/runtime.cuh>\nint a;\n"


def made_of(kernels: MemoryTree, file: str, folder: Path) -> Made:
    return make(Kernels(kernels), file, ["gfx942"], fake_toolchain(folder))


def guarded(made: Made) -> list[str]:
    """The files and added lines of a patch."""
    lines = (made.patch or "").splitlines()
    return [line.removeprefix(f"+++ b/{ROOT}/") for line in lines if line.startswith("+")]


@needs_cpp
def test_a_header_is_guarded_itself_and_proved_by_what_reads_it(tmp_path: Path) -> None:
    """For a header, each kernel that reads it was asked for in its place, and had "no CUDA-only include"."""
    made = made_of(tree(READS_IT, **{"include__sgl_kernel__runtime.cuh": "#include <cuda.h>\n"}), HEADER, tmp_path)
    assert guarded(made) == ["include/sgl_kernel/runtime.cuh", "+#ifndef USE_ROCM", "+#endif"]
    assert [(each.file, each.came) for each in made.built] == [(FILE, Came.COMPILED)]


@needs_cpp
def test_a_header_that_stops_the_compiler_next_is_guarded_too(tmp_path: Path) -> None:
    other = {"include__sgl_kernel__runtime.cuh": "#pragma once\n#include <cuda_fp16.h>\n"}
    made = made_of(tree(f"#include <cuda.h>\n{READS_IT}", **other), FILE, tmp_path)
    assert made.with_it == (HEADER,)
    assert guarded(made) == [
        "csrc/k.cuh", "+#ifndef USE_ROCM", "+#endif",
        "include/sgl_kernel/runtime.cuh", "+#ifndef USE_ROCM", "+#endif",
    ]  # fmt: skip
    text = patch_text(made, "Ann Author <ann@example.org>", "Mon, 30 Nov 2026 00:00:00 +0000")
    assert "hipcc stops there, and then in runtime.cuh." in " ".join(text.split())
    assert parse_patch(text.encode(), "guard_k.patch").paths == (FILE, HEADER)


OTHER = {
    "include__sgl_kernel__runtime.cuh": "#include <cuda.h>\n",
    "csrc__other.cuh": "#include <sgl_kernel/runtime.cuh>\nERROR unknown type name 'x'\n",
    "other.py": LOADER.replace("k.cuh", "other.cuh").replace("def module", "def other"),
}


@needs_cpp
def test_a_kernel_that_rocm_does_not_come_to_proves_nothing(tmp_path: Path) -> None:
    made = made_of(tree(READS_IT, **OTHER), HEADER, tmp_path)
    assert [(each.file, each.came) for each in made.built] == [(FILE, Came.COMPILED)]


@needs_cpp
def test_a_header_of_kernels_that_rocm_does_not_come_to_is_proved_by_these(tmp_path: Path) -> None:
    files = dict(tree(READS_IT, **{"include__sgl_kernel__runtime.cuh": "#include <cuda.h>\n"}).files)
    del files["python/sglang/srt/models/m.py"]
    made = made_of(MemoryTree(files), HEADER, tmp_path)
    assert [(each.file, each.came) for each in made.built] == [(FILE, Came.COMPILED)]


@needs_cpp
def test_a_gpu_that_cannot_be_compiled_for_here_hides_no_header_from_the_others(tmp_path: Path) -> None:
    kernel = "#ifdef HIP_FP8_TYPE_FNUZ\n#include <aiter_meta.h>\n#endif\n#include <cuda.h>\n" + READS_IT
    kernels = Kernels(tree(kernel, **{"include__sgl_kernel__runtime.cuh": "#include <cuda_fp16.h>\n"}))
    made = make(kernels, FILE, ["gfx942", "gfx950"], fake_toolchain(tmp_path))
    assert made.refusal == "cannot be proved here: aiter_meta.h is not in this tree nor in the toolchain"
    assert [each.came for each in made.built] == [Came.NOT_COMPILABLE, Came.COMPILED]


@needs_cpp
def test_a_header_that_no_guard_helps_is_named_with_what_comes_after(tmp_path: Path) -> None:
    other = {"include__sgl_kernel__runtime.cuh": "#include <cuda.h>\nERROR unknown type name '__nv_bfloat16'\n"}
    made = made_of(tree(f"#include <cuda.h>\n{READS_IT}", **other), FILE, tmp_path)
    assert made.patch is None
    assert "unknown type name '__nv_bfloat16' (an NVIDIA type" in str(made.refusal)


@needs_cpp
def test_a_file_that_nothing_compiles_cannot_be_proved(tmp_path: Path) -> None:
    made = made_of(tree("int a;\n", **{"csrc__alone.cuh": "#include <cuda.h>\n"}), f"{ROOT}/csrc/alone.cuh", tmp_path)
    assert (made.patch, made.refusal) == (None, "cannot be proved here: no loader call compiles it")


@needs_cpp
def test_cub_comes_in_under_its_own_name(tmp_path: Path) -> None:
    """`use of undeclared identifier 'cub'`: no hipify renames what is compiled when the server runs."""
    chain = fake_toolchain(tmp_path)
    (tmp_path / "include/hipcub").mkdir()
    (tmp_path / "include/hipcub/hipcub.hpp").write_text("#undef USE_ROCM\n")
    needs = "#ifdef USE_ROCM\nERROR use of undeclared identifier 'cub'\n#endif\n"
    other = {"include__sgl_kernel__needs.cuh": needs}
    kernel = "#include <cub/block/block_scan.cuh>\n#include <cub/cub.cuh>\n#include <sgl_kernel/needs.cuh>\n"
    made = make(Kernels(tree(kernel, **other)), FILE, ["gfx942"], chain)
    assert "+#ifdef USE_ROCM\n+#include <hipcub/hipcub.hpp>\n+namespace cub = hipcub;\n+#else\n" in str(made.patch)


@needs_cpp
def test_what_the_toolchain_lacks_is_not_called_the_files_fault(tmp_path: Path) -> None:
    made = made_of(tree("#include <cub/cub.cuh>\nERROR use of undeclared identifier 'cub'\n"), FILE, tmp_path)
    assert made.refusal == "cannot be proved here: hipcub/hipcub.hpp is not in this tree nor in the toolchain"


@needs_cpp
def test_a_wavefront_mask_is_the_files_fault_and_no_guess_of_ours(tmp_path: Path) -> None:
    said = "static assertion failed due to requirement 'sizeof(unsigned int) == 8': The mask must be a 64-bit integer."
    made = made_of(tree(f"#include <cuda.h>\nERROR {said}\n"), FILE, tmp_path)
    assert [each.came for each in made.built] == [Came.FAILED]
    assert "32-bit shuffle masks" in str(made.refusal)


def on_disk(folder: Path, kernels: MemoryTree) -> Path:
    write_out(folder, (Copied(path, data) for path, data in kernels.files.items()))
    return folder


@needs_cpp
def test_without_a_file_every_one_that_rocm_comes_to_is_tried(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = {
        "include__sgl_kernel__runtime.cuh": "#include <cuda.h>\n",
        "csrc__alone.cuh": "#include <cuda.h>\n",
    }
    folder = on_disk(tmp_path / "tree", tree(f"#include <cuda_fp16.h>\n{READS_IT}", **other))
    chain = fake_toolchain(tmp_path)
    (tmp_path / "tvm-ffi/0.1.11/tvm_ffi").mkdir(parents=True)
    (tmp_path / "tvm-ffi/0.1.11/tvm_ffi/include").symlink_to(tmp_path / "include")
    monkeypatch.setenv("CPATH", str(tmp_path / "include"))  # the probe for HIP's own headers
    out = tmp_path / "out"
    argv = ["guards", "make", "--in", str(folder), "--author", "A B <a@example.org>", "--out", str(out), "--json"]
    argv += ["--compiler", chain.command[0], "--toolchain", str(tmp_path), "--arch", "gfx942"]
    done = CliRunner().invoke(main, argv)
    assert done.exit_code == 0, done.output
    told = json.loads(done.stdout)
    assert [(each["file"], bool(each["patch"])) for each in told["files"]] == [(FILE, True), (HEADER, True)]
    assert sorted(path.name for path in out.iterdir()) == ["guard_csrc_k.patch", "guard_sgl_kernel_runtime.patch"]


@needs_cpp
def test_a_mark_at_the_start_of_a_file_stays_there(tmp_path: Path) -> None:
    """A byte order mark hid the include of the first line."""
    made = made_of(tree("\ufeff#include <cuda.h>\nint a;\n"), FILE, tmp_path)
    changed = [line for line in (made.patch or "").splitlines() if line[:1] in "+-" and line[:3] not in {"+++", "---"}]
    assert changed == ["-\ufeff#include <cuda.h>", "+\ufeff#ifndef USE_ROCM", "+#include <cuda.h>", "+#endif"]


@needs_cpp
@pytest.mark.parametrize("where", [FILE, HEADER])
def test_a_file_that_is_not_utf_8_is_left_as_it_is(where: str, tmp_path: Path) -> None:
    """Its bytes came out of the patch as other ones, so that the patch applied to nothing."""
    files = dict(
        tree("#include <cuda.h>\n" + READS_IT, **{"include__sgl_kernel__runtime.cuh": "#include <cuda.h>\n"}).files
    )
    made = made_of(MemoryTree(files | {where: b"// caf\xe9\n" + files[where]}), FILE, tmp_path)
    assert made.patch is None
    assert ("not UTF-8" in str(made.refusal)) is (where == FILE)


@needs_cpp
def test_two_files_of_one_name_make_two_patches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second patch took the place of the first."""
    loader = LOADER.replace('["k.cuh"]', '["k.cuh", "k.cu"]')
    folder = on_disk(tmp_path / "tree", tree("#include <cuda.h>\n", loader, **{"csrc__k.cu": "#include <cuda.h>\n"}))
    chain = fake_toolchain(tmp_path)
    monkeypatch.setattr("rocmfix.guards.toolchain.toolchain_for", lambda *_: chain)
    argv = ["guards", "make", "--in", str(folder), "--author", "A B <a@example.org>", "--out", str(tmp_path / "out")]
    done = CliRunner().invoke(main, argv)
    assert done.exit_code == 0, done.output
    names = {path.name for path in (tmp_path / "out").iterdir()}
    assert names == {"guard_csrc_k.patch", "guard_python_sglang_jit_kernel_csrc_k.cuh.patch"}


def test_a_folder_that_is_there_and_cannot_be_written_is_said_before_anything_is_compiled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was said after the first patch had been proved."""
    monkeypatch.setattr("rocmfix.guards.toolchain.toolchain_for", lambda *_: None)  # would fail if it were used
    monkeypatch.setattr("os.access", lambda _, mode: not mode & os.W_OK)  # root may write anywhere
    argv = ["guards", "make", "k.cuh", "--in", str(on_disk(tmp_path / "tree", tree("#include <cuda.h>\n")))]
    done = CliRunner().invoke(main, [*argv, "--author", "A <a@b.c>", "--out", str(tmp_path)])
    assert done.exit_code == 1
    assert f"cannot use {tmp_path}: Permission denied" in done.output


@pytest.mark.parametrize("author", ["NoAddress", "", "A\nB <a@b.c>", "A <a>", "<a@b.c>", "A <a@b.c> B"])
def test_who_signs_a_patch_has_a_name_and_an_address(author: str) -> None:
    done = CliRunner().invoke(main, ["guards", "make", "k.cuh", "--in", "0.5.14", "--author", author])
    assert done.exit_code == 2
    assert "who signs a patch" in done.output


def test_a_folder_that_cannot_be_written_is_said_before_anything_is_compiled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rocmfix.guards.toolchain.toolchain_for", lambda *_: None)  # would fail if it were used
    argv = ["guards", "make", "k.cuh", "--in", str(on_disk(tmp_path / "tree", tree("#include <cuda.h>\n")))]
    done = CliRunner().invoke(main, [*argv, "--author", "A <a@b.c>", "--out", "/proc/nope"])
    assert done.exit_code == 1
    assert "/proc/nope" in done.output
