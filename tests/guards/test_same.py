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
    "#ifdef USE_ROCM\n#if X\na\n#elif Y\nb\n#endif\nc\n#endif\nd\n",
    "#ifdef USE_ROCM\na\n#elif X\nb\n#elif Y\nc\n#endif\nd\n",
    "#ifndef USE_ROCM\na\n#elif X\nb\n#else\nc\n#endif\nd\n",
    "#ifdef USE_ROCM\na\n#elif defined(USE_ROCM)\nb\n#else\nc\n#endif\nd\n",
    "#ifndef NO_USE_ROCM\na\n#endif\n#if 0\nb\n#endif\n",
)


@pytest.mark.skipif(shutil.which("unifdef") is None, reason="no unifdef here")
@pytest.mark.parametrize("text", TEXTS)
def test_it_leaves_what_unifdef_leaves(text: str) -> None:
    done = subprocess.run(["unifdef", "-UUSE_ROCM"], input=text, capture_output=True, text=True, check=False)
    assert without_rocm(text) == done.stdout.replace("#if   X", "#if X")


@pytest.mark.parametrize(
    ("text", "left"),
    [
        (TEXTS[0], "#if X\nb\n#else\nc\n#endif\nd\n"),
        ("#ifdef USE_ROCM\na\n#elifdef X\nb\n#else\nc\n#endif\n", "#ifdef X\nb\n#else\nc\n#endif\n"),
        ("#ifdef USE_ROCM\na\n#elifndef USE_ROCM\nb\n#else\nc\n#endif\n", "b\n"),
        ("#ifdef USE_ROCM\na\n#elifdef USE_ROCM\nb\n#else\nc\n#endif\n", "c\n"),
        ("#ifdef USE_ROCM\na\n#elif 0\nb\n#else\nc\n#endif\n", "c\n"),
        ("#ifdef Y\n#ifdef USE_ROCM\na\n#elif X\nb\n#endif\n#endif\n", "#ifdef Y\n#if X\nb\n#endif\n#endif\n"),
        ("#if defined(USE_ROCM) && \\\n  X\na\n#else /* with\na comment */\nb\n#endif\nc\n", "b\nc\n"),
    ],
)
def test_what_follows_the_rocm_branch_is_left_to_whatever_decides_it(text: str, left: str) -> None:
    """The first such branch was kept without its condition, the others went: what changed there was not seen."""
    assert without_rocm(text) == left


@pytest.mark.parametrize("ending", ["elif X", "elifdef X", "elifndef X", "elif X || defined(USE_ROCM)"])
def test_a_change_behind_the_rocm_branch_is_seen(ending: str) -> None:
    text = f"#ifdef USE_ROCM\na\n#{ending}\nb\n#else\nc\n#endif\n"
    assert same_for_cuda(text, text.replace("\na\n", "\nnew\n"))
    assert not same_for_cuda(text, text.replace("\nb\n", "\nnew\n"))
    assert not same_for_cuda(text, text.replace("\nc\n", "\nnew\n"))
    assert not same_for_cuda(text, text.replace(" X", " Y"))


def test_the_file_may_end_its_lines_as_windows_does() -> None:
    assert without_rocm(TEXTS[1].replace("\n", "\r\n")) == without_rocm(TEXTS[1])


def test_a_form_feed_is_no_line_end() -> None:
    """It shifted the lines that go by one: the branch for CUDA lost its first, and a directive stayed."""
    assert without_rocm("a\f\n#ifndef USE_ROCM\nb\n#endif\n") == "a\f\nb\n"
