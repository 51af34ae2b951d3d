"""The CUDA side of a change, compared without a compiler."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from rocmfix.guards.same import same_for_cuda, without_rocm

PLAIN = "#include <a.h>\n#include <cuda_runtime.h>\nint x;\n"


@pytest.mark.parametrize(
    "guard",
    [
        "#ifndef USE_ROCM\n{}#endif\n",
        "#ifdef USE_ROCM\n#include <hip/hip_runtime.h>\n#else\n{}#endif\n",
        "#if !defined(USE_ROCM)\n{}#endif\n",
        "#if defined(USE_ROCM)\n#elif 1\n{}#endif\n",
        "#if defined(USE_ROCM) && defined(X)\n#include <y.h>\n#endif\n{}",
    ],
)
def test_a_guard_changes_nothing_for_cuda(guard: str) -> None:
    include = "#include <cuda_runtime.h>\n"
    assert same_for_cuda(PLAIN, PLAIN.replace(include, guard.format(include)))


@pytest.mark.parametrize(
    "after",
    [
        PLAIN.replace("int x", "int y"),
        PLAIN.replace("#include <cuda_runtime.h>\n", ""),
        PLAIN.replace("#include <cuda_runtime.h>\n", "#ifdef USE_ROCM\n#include <cuda_runtime.h>\n#endif\n"),
        PLAIN.replace("#include <cuda_runtime.h>\n", "#ifdef X\n#include <cuda_runtime.h>\n#endif\n"),
        PLAIN.replace(
            "#include <cuda_runtime.h>\n", "#if defined(USE_ROCM) || defined(X)\n#include <cuda_runtime.h>\n#endif\n"
        ),
    ],
)
def test_any_other_change_is_seen(after: str) -> None:
    assert not same_for_cuda(PLAIN, after)


TEXTS = (
    "#ifdef USE_ROCM\na\n#elif X\nb\n#else\nc\n#endif\nd\n",
    "#ifndef USE_ROCM\n#ifdef Y\na\n#else\nb\n#endif\n#else\nc\n#endif\n",
    "#if X\n#ifdef USE_ROCM\na\n#endif\nb\n#endif\n",
    "#ifdef USE_ROCM\n#if X\na\n#else\nb\n#endif\n#endif\nc\n",
    "#if defined(USE_ROCM) && X\na\n#endif\nb\n",
)


@pytest.mark.skipif(shutil.which("unifdef") is None, reason="no unifdef here")
@pytest.mark.parametrize("text", [TEXTS[1], TEXTS[2], TEXTS[3], TEXTS[4]])
def test_it_leaves_what_unifdef_leaves(text: str) -> None:
    done = subprocess.run(["unifdef", "-UUSE_ROCM"], input=text, capture_output=True, text=True, check=False)
    assert without_rocm(text) == done.stdout


def test_an_elif_that_something_else_decides_stays_and_counts_as_a_change() -> None:
    assert without_rocm(TEXTS[0]) == "b\nd\n"
