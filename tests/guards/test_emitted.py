"""What nvcc emits before and after: the same, not the same, or not compared, and never "ok" without an nvcc."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from rocmfix.guards.compile import Built, Came, Kernels
from rocmfix.guards.emitted import Emission, Emitted, compare
from rocmfix.guards.nvcc import Nvcc, find_nvcc
from rocmfix.guards.prove import Proof
from rocmfix.guards.report import proof_lines
from rocmfix.guards.units import NVIDIA, unit_of
from rocmfix.tree import Overlay
from tests.guards.kernels import FILE, LOADER, ROOT, fake_toolchain, needs_cpp, tree

PLAIN = 'from sglang.jit_kernel.utils import load_jit\ndef module():\n    return load_jit("k", cuda_files=["k.cuh"])\n'
HEADER = f"{ROOT}/include/sgl_kernel/utils.cuh"

# Preprocesses as the unit asks: the kernel's text is its PTX. What stands behind ERROR is an error of cudafe++.
FAKE = r"""#!/bin/sh
for each; do
    case $each in
    --version) echo "Cuda compilation tools, release 13.0, V13.0.88"; exit ;;
    -I* | -D*) kept="$kept $each" ;;
    *.cu) source=$each ;;
    esac
    out=$each
done
cpp -x c++ -undef -nostdinc -w $kept "$source" >"$out.i" || exit
if grep -q '^ERROR' "$out.i"; then
    sed -n -E 's/^ERROR (.*)/k.cuh(9): error: \1/p' "$out.i" >&2
    exit 1
fi
sed -e '/^#/d' -e '/^$/d' "$out.i" >"$out"
"""


def fake(folder: Path, script: str = FAKE) -> Nvcc:
    path = folder / "bin/nvcc"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(script)
    path.chmod(0o755)
    return Nvcc("fake", str(path), fake_toolchain(folder).tvm_ffi)


def compared(before: str, after: str, nvcc: Nvcc | None, file: str = FILE, **more: str) -> tuple[Emitted, ...]:
    kernels = Kernels(tree(before if file == FILE else '#include "k.h"\n', PLAIN, **more))
    return compare(kernels, Kernels(Overlay(kernels.tree, {file: after.encode()}), like=kernels), [file], nvcc)


ENTRY = ".visible .entry k(\n)\n{\nmov 1;\n}\n"


@needs_cpp
@pytest.mark.parametrize(
    ("before", "after", "came", "why"),
    [
        (ENTRY, f"#ifdef USE_ROCM\nhip\n#else\n{ENTRY}#endif\n", Emission.SAME, None),
        (ENTRY, ENTRY.replace("1", "2"), Emission.DIFFERS, "`mov 1;` became `mov 2;` in k"),
        (ENTRY, ENTRY + "more\n", Emission.DIFFERS, "`` became `more` in k"),
        (f"{'a' * 99}1{'b' * 99}\n", f"{'a' * 99}2{'b' * 99}\n", Emission.DIFFERS, f"`...{'a' * 20}1{'b' * 59}` became `...{'a' * 20}2{'b' * 59}`"),
        (ENTRY, f"#ifdef USE_ROCM\n{ENTRY}#endif\n", Emission.DIFFERS, "`.visible .entry k(` became ``"),
        (ENTRY, "ERROR no such thing\n", Emission.FAILED, "no such thing at k.cuh:9"),
        ("ERROR old\n", "ERROR new\n", Emission.NOT_COMPARED, "nvcc does not compile it without the change: old at k.cuh:9"),
        ("ERROR old\n", ENTRY, Emission.NOT_COMPARED, "nvcc does not compile it without the change: old at k.cuh:9"),
        ("int a;\n", "#ifdef USE_ROCM\n#endif\nint a;\n", Emission.NOT_COMPARED, "it has no device code"),
    ],
)  # fmt: skip
def test_what_is_emitted_is_the_same_differs_or_is_not_compared(
    tmp_path: Path, before: str, after: str, came: Emission, why: str
) -> None:
    (each,) = compared(before, after, fake(tmp_path))
    assert (each.file, each.loader, each.came, each.why) == (FILE, f"{ROOT}/k.py:3", came, why)
    assert each.is_changed is (came in {Emission.DIFFERS, Emission.FAILED})


@needs_cpp
def test_an_assert_that_a_guard_moves_is_no_change(tmp_path: Path) -> None:
    after = "#ifdef USE_ROCM\n#endif\n" + ENTRY.replace("1", "__LINE__")
    (each,) = compared(ENTRY.replace("1", "__LINE__"), after, fake(tmp_path))
    assert (each.came, each.why) == (Emission.SAME, "but for line numbers, which its asserts print")
    (each,) = compared(ENTRY.replace("1", "__LINE__"), after.replace("mov", "add"), fake(tmp_path))
    assert (each.came, each.why) == (Emission.DIFFERS, "`mov 4;` became `add 6;` in k")


@needs_cpp
def test_a_checksum_of_the_text_in_a_name_is_no_change(tmp_path: Path) -> None:
    before, after = (
        ENTRY.replace("k(", f"_ZN40_GLOBAL__N__{checksum}_9_unit_0_cu__Z2goPi1kILi3EEEvPi(")
        for checksum in ("58013914", "c1e35f15")
    )
    (each,) = compared(before, after, fake(tmp_path))
    assert each.came is Emission.SAME


@needs_cpp
def test_a_header_is_compared_by_what_cuda_reads_it_for(tmp_path: Path) -> None:
    reads = {"csrc__k.cuh": "#ifndef USE_ROCM\n#include <sgl_kernel/utils.cuh>\n#endif\n"}
    (each,) = compared("", ENTRY, fake(tmp_path), HEADER, **reads)
    assert (each.file, each.came) == (FILE, Emission.DIFFERS)
    reads = {"csrc__k.cuh": "#ifdef USE_ROCM\n#include <sgl_kernel/utils.cuh>\n#endif\n"}
    (each,) = compared("", ENTRY, fake(tmp_path), HEADER, **reads)
    assert (each.file, each.came, each.why) == (HEADER, Emission.NOT_COMPARED, "no loader call compiles it for CUDA")


def test_without_nvcc_nothing_is_compared_and_that_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    (each,) = compared(ENTRY, ENTRY, None)
    assert (each.came, each.is_changed) == (Emission.NOT_COMPARED, False)
    assert "there is no nvcc" in str(each.why)
    assert "ci/nvcc" in str(each.why)


@needs_cpp
def test_without_the_tvm_ffi_headers_nothing_is_compared(tmp_path: Path) -> None:
    (each,) = compared(ENTRY, ENTRY, Nvcc("fake", fake(tmp_path).command, ()))
    assert each.came is Emission.NOT_COMPARED
    assert "tvm/ffi/container/tensor.h: No such file" in str(each.why)


def test_what_cannot_be_read_is_not_compared(tmp_path: Path) -> None:
    kernels = Kernels(tree("", LOADER.replace("make_cpp_args(mode,", "make_cpp_args(mode * 2,")))
    (each,) = compare(kernels, kernels, [FILE], fake(tmp_path))
    assert each.came is Emission.NOT_COMPARED
    assert "mode * 2" in str(each.why)


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ("nvcc fatal   : Value 'sm_90' is not defined for option", "Value 'sm_90' is not defined for option"),
        ("./a.cuh:3:10: fatal error: x.h: No such file or directory", "x.h: No such file or directory at a.cuh:3"),
        ("a.cuh(5): error: name is undefined\nb.cuh(6): error: other", "name is undefined at a.cuh:5"),
        ("a.cuh(5): catastrophic error #1: out of it", "out of it at a.cuh:5"),
        ("a.cuh(5): warning #1: w\nsh: 1: gcc: not found", "sh: 1: gcc: not found"),
        ("", "nvcc failed without a word"),
    ],
)
def test_the_first_error_is_the_reason(tmp_path: Path, said: str, why: str) -> None:
    (each,) = compared(ENTRY, ENTRY, fake(tmp_path, f"#!/bin/sh\ncat >&2 <<'EOF'\n{said}\nEOF\nexit 1\n"))
    assert each.why == f"nvcc does not compile it without the change: {why}"


def test_kernels_written_against_an_older_tvm_ffi_are_compiled_with_it_on_both_sides(tmp_path: Path) -> None:
    calls = tmp_path / "calls"
    failing = 'echo "/new/tvm/ffi/x.h(1): error: bad" >&2; exit 1'
    body = f'case "$*" in *newer*) {failing} ;; esac\nfor out; do :; done\nprintf ".entry k(\\n" >"$out"\n'
    found = fake(tmp_path, f"#!/bin/sh\necho run >>{calls}\n{body}")
    (each,) = compared(ENTRY, ENTRY, Nvcc("fake", found.command, (tmp_path / "newer", *found.tvm_ffi)))
    assert (each.came, calls.read_text()) == (Emission.SAME, "run\n" * 3)


def test_the_unit_for_cuda_has_the_loaders_flags_for_cuda() -> None:
    kernels = Kernels(tree(""))
    unit = unit_of(kernels.loaders[0], FILE, kernels.sources, kernels.program, NVIDIA)
    assert {"-DSGL_CUDA_ARCH=900", "--expt-relaxed-constexpr", "--use_fast_math", "-DX"} < set(unit.flags)
    assert not [flag for flag in unit.flags if "ROCM" in flag or "HIP" in flag]
    assert unit.kernels[0] == "Kernel<0, false, bf16_t, true>::run"


@pytest.mark.parametrize(
    ("environment", "found"),
    [
        ({"CUDA_HOME": "{}/own"}, "own"),
        ({"CUDA_PATH": "{}/own", "PATH": "{}/path/bin"}, "own"),
        ({"CUDA_HOME": "{}/nothing", "PATH": "{}/path/bin"}, None),
        ({"PATH": "{}/path/bin"}, "path"),
    ],
)
def test_nvcc_is_found_where_sglang_looks(
    environment: Mapping[str, str], found: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("own", "path"):
        fake(tmp_path / name)
    for name in ("CUDA_HOME", "CUDA_PATH"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value.format(tmp_path))
    nvcc = find_nvcc()
    assert (nvcc and (nvcc.name, nvcc.command)) == (found and ("nvcc 13.0.88", str(tmp_path / found / "bin/nvcc")))


def proof(emitted: Emitted, nvcc: str | None) -> Proof:
    before = Built(file=FILE, arch="gfx942", loader="k.py:1", came=Came.FAILED, error="no")
    after = before.model_copy(update={"came": Came.COMPILED, "error": None})
    return Proof(
        source="small", toolchain="fake", fixes=("fix",), files=(FILE,), before=(before,), after=(after,),
        cuda_changed=(), nvcc=nvcc, emitted=(emitted,),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("came", "holds"),
    [(Emission.SAME, True), (Emission.NOT_COMPARED, True), (Emission.DIFFERS, False), (Emission.FAILED, False)],
)
def test_a_fix_that_shows_on_cuda_is_not_proved(*, came: Emission, holds: bool) -> None:
    each = Emitted(file=FILE, came=came, loader=f"{ROOT}/k.py:3", why="so" if came is not Emission.SAME else None)
    told = proof(each, "nvcc 13.0.88")
    assert told.holds is holds
    lines = "\n".join(proof_lines(told))
    assert f"CUDA: what nvcc 13.0.88 emits for sm_90\n  {came.value:18} " in lines
    assert ("NOT proved" in lines) is not holds


SMALL = """\
#include <cuda_runtime.h>
#include <cassert>
namespace {
__device__ int table[4];
template <int N> __global__ void k(int* p) { assert(p[N] > 1); p[N] = table[N] + 1; }
}
#define GUARDED
void go(int* p) { k<3><<<1, 1>>>(p); }
"""


def test_a_guard_is_the_same_for_the_real_nvcc(tmp_path: Path, nvcc: Nvcc) -> None:
    """Though it moves the assert below it, and with it the checksum in every name of the unnamed namespace."""
    include = "#include <cuda_runtime.h>\n"
    after = SMALL.replace(include, f"#ifndef USE_ROCM\n{include}#endif\n")
    (each,) = compared(SMALL, after, real(nvcc, tmp_path))
    assert (each.came, each.why) == (Emission.SAME, "but for line numbers, which its asserts print")


@pytest.mark.parametrize(
    ("old", "new", "came", "why"),
    [
        ("+ 1", "+ 2", Emission.DIFFERS, ", 2;` in _ZN40_GLOBAL__N__"),
        ("#include <cuda_runtime.h>", "#include <hip/hip_bf16.h>", Emission.FAILED, "hip/hip_bf16.h: No such file"),
    ],
)  # fmt: skip
def test_the_real_nvcc_sees_a_change_of_the_cuda_path(
    tmp_path: Path, nvcc: Nvcc, *, old: str, new: str, came: Emission, why: str
) -> None:
    (each,) = compared(SMALL, SMALL.replace(old, new), real(nvcc, tmp_path))
    assert each.came is came
    assert why in str(each.why)


def real(nvcc: Nvcc, folder: Path) -> Nvcc:
    """The real nvcc with tvm-ffi headers that are empty."""
    return Nvcc(nvcc.name, nvcc.command, fake_toolchain(folder).tvm_ffi)
