"""The compile gate: units as the loader makes them, and three honest ends."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from rocmfix.errors import SourceError, ToolMissingError
from rocmfix.guards.compile import BuildReport, Built, Came, Kernels, build
from rocmfix.guards.report import build_lines
from rocmfix.guards.toolchain import Toolchain, find_toolchain
from rocmfix.guards.units import NotReadableError, unit_of
from rocmfix.system.compiler import compile_file
from rocmfix.tree import MemoryTree
from tests.guards.kernels import FILE, LOADER, NAMESPACED, ROOT, UTILS, fake_toolchain, needs_cpp, tree


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


@pytest.mark.parametrize(
    ("old", "new", "kernels"),
    [
        (
            "make_cpp_args(mode, has_table, dtype, is_arch_support_pdl())",
            "'true' if mode else 'false'",
            ("true", "false"),
        ),
        ("make_cpp_args(mode, has_table, dtype, is_arch_support_pdl())", "f'{bool(mode)}, 7'", ("false, 7", "true, 7")),
    ],
)
def test_an_argument_of_readable_parts_is_read(old: str, new: str, kernels: tuple[str, ...]) -> None:
    """`'true' if deterministic else 'false'` of 0.5.23's sampling.cuh was "computed at run time"."""
    assert unit(loader=LOADER.replace(old, new)).kernels == tuple(f"Kernel<{each}>::run" for each in kernels)


@pytest.mark.parametrize(("arch", "fp8"), [("gfx942", "-DHIP_FP8_TYPE_FNUZ=1"), ("gfx950", "-DHIP_FP8_TYPE_E4M3=1")])
def test_flags_are_the_loaders_own_for_that_gpu(arch: str, fp8: str) -> None:
    flags = unit(arch).flags
    assert flags == ("-fPIC", "-D__HIP_PLATFORM_AMD__=1", "-fno-gpu-rdc", "-DUSE_ROCM", "-std=c++20", "-O3", fp8, "-DX")


def test_a_flag_that_the_loader_does_not_drop_stays() -> None:
    assert "--use_fast_math" in unit(utils=UTILS.replace('"--use_fast_math",', '"-z",')).flags


def test_a_flag_that_is_put_together_is_whole() -> None:
    """`-DSGL_TOPK=` was passed without its number."""
    made = unit(
        loader=LOADER.replace(
            '"-DX"', 'f"-DMODE={mode}", f"-DTABLE={1 if has_table else 0}", f"-DTOPK={topk}"'
        ).replace("mode: int,", "mode: int, topk: int,")
    )
    assert made.flags[-3:] == ("-DMODE=0", "-DTABLE=1", "-DTOPK=8")
    assert "topk = 8" in made.guessed
    with pytest.raises(NotReadableError, match="computed at run time"):
        unit(loader=LOADER.replace('"-DX"', 'f"-DX={ask()}"'))


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


def saying(folder: Path, *lines: str) -> Toolchain:
    """A compiler that fails with these words."""
    chain = fake_toolchain(folder)
    told = "\n".join(lines)
    Path(chain.command[0]).write_text(f"#!/bin/sh\ncat >&2 <<'EOF'\n{told}\nEOF\nexit 1\n")
    return chain


def built_of(kernels: MemoryTree, chain: Toolchain) -> Built:
    (each,) = build(Kernels(kernels), [FILE], ["gfx942"], chain).built
    return each


UNGUESSED = LOADER.replace("has_table, dtype, is_arch_support_pdl()", "has_table")


@pytest.mark.parametrize(
    ("loader", "said", "came", "error"),
    [
        (LOADER, "unit_0.hip:3:1: error: no match", Came.NOT_COMPILABLE, "no match (with our guess: dtype = bf16_t)"),
        (LOADER, "k.cuh:3:1: error: no match", Came.FAILED, "no match"),
        (UNGUESSED, "unit_0.hip:3:1: error: no match", Came.FAILED, "no match"),
        (UNGUESSED, "k.cuh:3:1: error: static assertion failed", Came.FAILED, "static assertion failed"),
        (LOADER, "clang-22: error: no such flag", Came.FAILED, "no such flag"),
        (LOADER, "a word\nkilled\n", Came.FAILED, "killed"),
        (LOADER, "", Came.FAILED, "the compiler ended with 1, without a word"),
        (LOADER, "a.h:1:2: warning: w\nb.h:3:4: fatal error: first\nc.h:5:6: error: second", Came.FAILED, "first"),
    ],
)
def test_the_first_error_says_whose_fault_it_is(tmp_path: Path, loader: str, said: str, came: Came, error: str) -> None:
    each = built_of(tree("int a;\n", loader), saying(tmp_path, said))
    assert (each.came, each.error) == (came, error)


def test_kernels_written_against_an_older_tvm_ffi_are_compiled_with_it(tmp_path: Path) -> None:
    chain = fake_toolchain(tmp_path)
    calls = tmp_path / "calls"
    failing = 'echo "/new/tvm/ffi/x.h:1:1: error: bad" >&2'
    script = f'#!/bin/sh\necho run >>{calls}\ncase "$*" in *newer*) {failing}; exit 1 ;; esac\n'
    Path(chain.command[0]).write_text(script)
    both = Toolchain("fake", chain.command, (tmp_path / "newer", *chain.tvm_ffi))
    assert built_of(tree("int a;\n"), both).came is Came.COMPILED
    assert calls.read_text() == "run\nrun\n"


def test_a_failure_that_is_not_tvm_ffis_is_not_tried_again(tmp_path: Path) -> None:
    chain = saying(tmp_path, "k.cuh:3:1: error: no match")
    script, calls = Path(chain.command[0]), tmp_path / "calls"
    script.write_text(script.read_text().replace("#!/bin/sh\n", f"#!/bin/sh\necho run >>{calls}\n"))
    both = Toolchain("fake", chain.command, (tmp_path / "newer", *chain.tvm_ffi))
    assert built_of(tree("int a;\n"), both).came is Came.FAILED
    assert calls.read_text() == "run\n"


@pytest.mark.parametrize(
    ("came", "clean"),
    [
        ((Came.COMPILED, Came.NOT_COMPILABLE), True),
        ((Came.COMPILED, Came.FAILED), False),
        ((Came.NOT_COMPILABLE,), False),
        ((), False),
    ],
)
def test_a_report_is_clean_when_something_compiled_and_nothing_failed(*, came: tuple[Came, ...], clean: bool) -> None:
    built = tuple(Built(file=FILE, arch="gfx942", loader="k.py:1", came=each) for each in came)
    assert BuildReport(source="small", toolchain="fake", built=built).is_clean is clean


def test_a_file_for_one_gpu_is_not_compiled_for_another(tmp_path: Path) -> None:
    name = "k_gfx950.cuh"
    kernels = Kernels(tree("", LOADER.replace('"k.cuh"', f'"{name}"'), **{f"csrc__{name}": "int a;\n"}))
    jobs = kernels.jobs([f"{ROOT}/csrc/{name}"], ["gfx942", "gfx950"])
    assert [(job.arch, job.refusal) for job in jobs] == [
        ("gfx942", "its own name says gfx950 only"),
        ("gfx950", ""),
    ]


def test_a_file_is_compiled_for_the_calls_that_name_it() -> None:
    other = LOADER.replace("k.cuh", "other.cuh")
    kernels = Kernels(tree("", **{"other.py": other, "csrc__other.cuh": ""}))
    assert [job.loader and job.loader.source.path for job in kernels.jobs([FILE], ["gfx942"])] == [f"{ROOT}/k.py"]


def test_what_cannot_be_told_counts_as_reachable() -> None:
    files = dict(tree("#include <cuda.h>\n").files)
    files["python/sglang/srt/models/m.py"] = b"LAZY = {'module': 'sglang.jit_kernel.k'}\n"
    assert Kernels(MemoryTree(files)).reachable == (FILE,)
    files["python/sglang/srt/models/m.py"] = b""
    assert Kernels(MemoryTree(files)).reachable == ()


def test_what_a_guard_can_mend_is_what_rocm_comes_to() -> None:
    header = {"include__sgl_kernel__utils.cuh": "#ifndef USE_ROCM\n#include <cuda.h>\n#endif\n"}
    kernel = "#include <sgl_kernel/utils.cuh>\n#include <cub/cub.cuh>\n"
    assert Kernels(tree(kernel, **header)).guardable() == (FILE,)
    opened = {"include__sgl_kernel__utils.cuh": "#include <cuda.h>\n"}
    assert Kernels(tree(kernel, **opened)).guardable() == (FILE, f"{ROOT}/include/sgl_kernel/utils.cuh")


def test_a_file_is_spelled_by_the_end_of_its_path() -> None:
    kernels = Kernels(tree("", **{"csrc__mk.cuh": ""}))
    assert kernels.spelled("k.cuh") == (FILE,)
    assert kernels.spelled("/csrc/k.cuh") == (FILE,)


def test_of_a_header_that_only_cuda_reads_it_is_said_why_it_is_not_compiled(tmp_path: Path) -> None:
    """It was left out without a word."""
    kernels = Kernels(tree("#ifndef USE_ROCM\n#include <sgl_kernel/utils.cuh>\n#endif\n"))
    named = kernels.named(["sgl_kernel/utils.cuh"])
    assert named == (f"{ROOT}/include/sgl_kernel/utils.cuh",)
    (built,) = build(kernels, named, ["gfx942"], fake_toolchain(tmp_path)).built
    assert (built.came, built.error) == (
        Came.NOT_COMPILABLE,
        "no loader call names it, nor a file that reads it on ROCm",
    )
    lines = list(build_lines(BuildReport(source="s", toolchain="t", built=(built,))))
    assert lines[1] == f"not compilable here gfx942 sgl_kernel/utils.cuh: {built.error}"


def test_what_rocm_does_not_come_to_is_named_as_left_out() -> None:
    nobodys = LOADER.replace("k.cuh", "other.cuh").replace("def module", "def other")
    kernels = Kernels(tree("int a;\n", **{"csrc__other.cuh": "", "other.py": nobodys}))
    report = BuildReport(source="s", toolchain="t", built=()).leaving(kernels)
    assert report.left_out == (f"{ROOT}/csrc/other.cuh",)
    assert "  other.cuh" in build_lines(report)


@pytest.mark.parametrize(
    ("script", "ended"),
    [
        ("kill -9 $$", (Came.NOT_COMPILABLE, "the compiler ended with -9, without a word", None)),
        ("exit 137", (Came.NOT_COMPILABLE, "the compiler ended with 137, without a word", None)),
        ("exit 1", (Came.FAILED, "the compiler ended with 1, without a word", None)),
        ("echo 'k.cuh:3:2: error: ' >&2; exit 1", (Came.FAILED, "an #error without a word", "k.cuh:3")),
        (
            "printf '%s\\n' 'ld.lld: error: undefined symbol: f' 'clang-22: error: linker command failed' >&2; exit 1",
            (Came.FAILED, "undefined symbol: f", None),
        ),
        ("sleep 60", (Came.NOT_COMPILABLE, "the compiler was not done after 1 s", None)),
    ],
)  # fmt: skip
def test_a_compilation_that_did_not_come_to_an_end_has_a_reason(
    script: str, ended: tuple[Came, str, str | None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An #error without a text was shown as if it had compiled, a compiler that hung as a traceback."""
    monkeypatch.setattr("rocmfix.guards.toolchain.compile_file", partial(compile_file, timeout=1))
    chain = fake_toolchain(tmp_path)
    Path(chain.command[0]).write_text(f"#!/bin/sh\n{script}\n")
    built = built_of(tree("int a;\n"), chain)
    assert (built.came, built.error, built.at) == ended


def test_a_header_means_the_files_that_include_it() -> None:
    kernels = Kernels(tree("#include <sgl_kernel/utils.cuh>\n"))
    assert kernels.named(["sgl_kernel/utils.cuh"]) == (FILE,)
    assert kernels.named(["k.cuh"]) == (FILE,)


def test_a_file_that_is_not_there_is_a_wrong_argument_and_the_nearest_are_named() -> None:
    """It ended as 15, a guard that was refused."""
    with pytest.raises(SourceError, match="file 'csrc/utls") as caught:
        Kernels(tree("")).named(["csrc/utls.cu"])
    assert caught.value.exit_code == 3
    assert caught.value.details == (f"it has {ROOT}/include/sgl_kernel/utils.cuh",)
    assert caught.value.hint


@pytest.mark.parametrize("name", ["./k.cuh", "csrc//k.cuh", f"/some/where/{FILE}", f"tree/{FILE}", "x/../k.cuh"])
def test_a_file_may_be_spelled_as_a_shell_completes_it(name: str) -> None:
    assert Kernels(tree("")).spelled(name) == (FILE,)


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


@pytest.mark.parametrize("compiler", ["/nonexistent/hipcc", "", "/etc/passwd", "no-such-hipcc"])
def test_a_compiler_that_was_asked_for_is_never_another(compiler: str, tmp_path: Path) -> None:
    """`--compiler /nonexistent/hipcc` took this machine's clang, and made a patch that was proved by it."""
    fake_toolchain(tmp_path)
    with pytest.raises(ToolMissingError, match="is no program that can be run"):
        find_toolchain(tmp_path, compiler)


def test_a_program_that_is_no_compiler_is_not_called_old(tmp_path: Path) -> None:
    fake_toolchain(tmp_path)
    (tmp_path / "tvm-ffi/0.1.11/tvm_ffi/include").mkdir(parents=True)
    with pytest.raises(ToolMissingError, match="no compiler for HIP"):
        find_toolchain(tmp_path, "/bin/false")
