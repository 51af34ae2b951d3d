"""The preprocessor model: nesting, expressions, comments, continuations, and what it cannot tell."""

from __future__ import annotations

import shutil
import subprocess

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from rocmfix.guards.condition import evaluate
from rocmfix.guards.conditionals import CUDA, HIP, guarded, include_state
from rocmfix.guards.directives import directives

HEADER = "cuda_runtime.h"
INCLUDE = f"#include <{HEADER}>\n"


def active(text: str, defines=HIP):
    return [state.active for state in include_state(text, HEADER, defines)]


@pytest.mark.parametrize(
    ("around", "on_hip", "on_cuda"),
    [
        ("%s", True, True),
        ("#ifndef USE_ROCM\n%s#endif\n", False, True),
        ("#ifdef USE_ROCM\n%s#endif\n", True, False),
        ("#ifdef USE_ROCM\n#else\n%s#endif\n", False, True),
        ("#if !defined(USE_ROCM)\n%s#endif\n", False, True),
        ("#if !defined USE_ROCM && 1\n%s#endif\n", False, True),
        ("#ifdef __CUDACC__\n%s#endif\n", False, True),
        ("#if defined(__HIP__) || defined(__HIP_PLATFORM_AMD__)\n#else\n%s#endif\n", False, True),
        ("#if 0\n#ifdef USE_ROCM\n#else\n%s#endif\n#endif\n", False, False),
        ("#ifndef USE_ROCM\n#ifdef __CUDACC__\n%s#endif\n#endif\n", False, True),
        ("#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900\n%s#endif\n", False, None),
        ("#ifdef __HIP_DEVICE_COMPILE__\n%s#endif\n", None, False),
        ("#if defined(USE_ROCM)\n#elif 1\n%s#endif\n", False, True),
        ("#if __CUDA_ARCH__ >= 900\n#elif __CUDA_ARCH__ >= 800\n#else\n%s#endif\n", True, None),
        ("#ifndef A_H\n#define A_H\n%s#endif\n", True, True),
        ("#define PORTED USE_ROCM\n#if PORTED\n#else\n%s#endif\n", False, True),
        ("#undef USE_ROCM\n#ifndef USE_ROCM\n%s#endif\n", True, True),
        ("#ifdef __HIP_DEVICE_COMPILE__\n#define X\n#endif\n#ifdef X\n%s#endif\n", None, False),
        ("#define X\n#ifdef __HIP_DEVICE_COMPILE__\n#undef X\n#endif\n#ifdef X\n%s#endif\n", None, True),
        ("#if __CUDA_ARCH__ >= 900\n#elif A\n#else\n%s#endif\n", True, None),
        ("#elifdef nothing open\n#endif\n%s", True, True),
        ("#ifdef A\n#elifndef USE_ROCM\n%s#endif\n", False, True),
    ],
)
def test_a_conditional_decides_for_rocm_and_for_cuda(around, on_hip, on_cuda):
    text = around % INCLUDE
    assert active(text) == [on_hip]
    assert active(text, CUDA) == [on_cuda]


@pytest.mark.parametrize(
    ("name", "on_hip", "on_cuda"),
    [
        ("USE_ROCM", True, False),
        ("__HIP_PLATFORM_AMD__", True, False),
        ("__HIP__", True, False),
        ("__HIPCC__", True, False),
        ("__clang__", True, False),
        ("__GNUC__", True, True),
        ("__cplusplus", True, True),
        ("__x86_64__", True, True),
        ("__CUDACC__", False, True),
        ("__NVCC__", False, True),
        ("__HIP_DEVICE_COMPILE__", None, False),
        ("__AMDGCN__", None, False),
        ("__GFX9__", None, False),
        ("__gfx942__", None, False),
        ("__gfx950__", None, False),
        ("HIP_FP8_TYPE_FNUZ", None, False),
        ("HIP_FP8_TYPE_E4M3", None, False),
        ("__CUDA_ARCH__", False, None),
        ("SGL_CUDA_ARCH", False, None),
        ("CUDA_VERSION", False, None),
        ("CUDART_VERSION", False, None),
        ("__CUDACC_VER_MAJOR__", False, None),
        ("__CUDACC_VER_MINOR__", False, None),
        ("_WIN32", False, False),
    ],
)
def test_a_macro_is_defined_where_that_compiler_has_it(name, on_hip, on_cuda):
    text = f"#ifdef {name}\n{INCLUDE}#endif\n"
    assert active(text) == [on_hip]
    assert active(text, CUDA) == [on_cuda]


def test_a_guarded_include_is_off_for_rocm_and_on_for_cuda():
    assert guarded(f"#ifndef USE_ROCM\n{INCLUDE}#endif\n", HEADER)
    assert not guarded(INCLUDE, HEADER)
    assert not guarded("", HEADER), "a file without the include has no guard to show"
    assert not guarded(f"#if 0\n{INCLUDE}#endif\n", HEADER), "dead for everyone is no guard"
    assert not guarded(f"#ifndef USE_ROCM\n{INCLUDE}#endif\n{INCLUDE}", HEADER), "the second one is open"
    assert guarded(f"#ifndef USE_ROCM\n#if 0\n{INCLUDE}#endif\n{INCLUDE}#endif\n", HEADER), "one for CUDA is enough"
    maybe = f"#if !defined(USE_ROCM) || defined(__gfx942__)\n{INCLUDE}#endif\n"
    assert not guarded(maybe, HEADER), "one GPU of AMD's may come to it"


def test_comments_and_strings_hide_directives():
    text = f"""\
// {INCLUDE}/* {INCLUDE}
#if 0
*/ const char* a = "/*"; const char* raw = R"x(
{INCLUDE})" )x"; int n = 1'000; // it's
/**/ # /**/ include /* odd */ <{HEADER}> // trailing
"""
    (state,) = include_state(text, HEADER, HIP)
    assert (state.line, state.active) == (8, True)


def test_a_continued_line_is_one_directive_at_its_first_line():
    text = f"int a;\n#if defined(USE_ROCM) \\\n || \\\n 0\n{INCLUDE}#endif\n#if\\\nndef USE_RO\\\nCM\n{INCLUDE}#endif\n"
    states = include_state(text, HEADER, HIP)
    assert [(state.line, state.active) for state in states] == [(5, True), (10, False)]
    assert next((line.line, line.end) for line in directives(text)) == (2, 4)


def test_windows_line_ends_change_nothing():
    text = f"#if defined(USE_ROCM) \\\n&& 0\n{INCLUDE}#endif\n"
    assert include_state(text.replace("\n", "\r\n"), HEADER, HIP) == include_state(text, HEADER, HIP)


def test_the_header_is_named_by_the_end_of_its_path():
    text = '#include <cub/cub.cuh>\n#include "my_cub.cuh"\n#include MACRO\n'
    assert [state.name for state in include_state(text, "cub.cuh", HIP)] == ["cub/cub.cuh"]
    assert [state.name for state in include_state(text, "cub/cub.cuh", HIP)] == ["cub/cub.cuh"]
    assert [state.line for state in include_state("\n#include_next <cub/cub.cuh>\n", "cub.cuh", HIP)] == [2]


@pytest.mark.parametrize(
    ("around", "condition"),
    [
        ("#ifndef USE_ROCM\n#if A || B\n#elif C\n%s#endif\n#endif\n", "!defined(USE_ROCM) && !(A || B) && C"),
        ("#ifdef A\n#elifdef B\n%s#endif\n", "!defined(A) && defined(B)"),
        ("#ifndef A\n#elifndef B\n%s#endif\n", "defined(A) && !defined(B)"),
        ("#ifdef A\n#else\n#if  B &&  C\n%s#endif\n#endif\n", "!defined(A) && (B && C)"),
        ("#if A\n#elif B > 1\n#else\n%s#endif\n", "!A && !(B > 1)"),
        ("%s", ""),
    ],
)
def test_the_condition_around_an_include_is_told_outermost_first(around, condition):
    (state,) = include_state(around % INCLUDE, HEADER, CUDA)
    assert state.condition == condition


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1 + 2 * 3 == 7 && !0", 1),
        ("(1 ? 2 : 3) << 2", 8),
        ("-7 / 2", -3),
        ("-7 % 2", -1),
        ("0x1F == 31 && 010 == 8 && 0b11 == 3 && 1'000u == 1000UL", 1),
        ("NOT_DEFINED", 0),
        ("defined(K) + defined K", 2),
        ("K", 3),
        ("SELF", 0),
        ("MAYBE", None),
        ("defined(MAYBE)", None),
        ("MAYBE && 0", 0),
        ("MAYBE || 1", 1),
        ("MAYBE && 1", None),
        ("MAYBE ? 4 : 4", 4),
        ("MAYBE ? 4 : 5", None),
        ("1 / 0", None),
        ("1 << 64", None),
        ("1 << -1", None),
        ("1 << 62 >> 61", 2),
        ("1 << 63", None),
        ("-1 << 1 < 0", 1),
        ("-1 * 2 < 0", 1),
        ("0xFFFFFFFFFFFFFFFF * 2", None),
        ("6 & 2 == 2", 0),
        ("9 - 3 - 2", 4),
        ("1 || 0 && 0", 1),
        ("~5", -6),
        ("2zu == 2", 1),
        ("true && !false", 1),
        ("089", None),
        ("0x'", None),
        ("CALL(1, (2))", None),
        ("CALL(1, (2)) && 0", None),
        ("__has_include(<cub/cub.cuh>)", None),
        ("__has_include(<cub/cub.cuh>) && K", None),
        ("defined(__has_include)", 1),
        ("1 +", None),
        ("((((", None),
        ("'a' == 97", None),
        ("9" * 5000, None),
        ("(" * 500 + "1" + ")" * 500, None),
        ("!" * 5000 + "1", None),
        (" || ".join("0" * 5000), None),
        ("DOUBLE0", None),
    ],
)
def test_an_expression_has_a_value_or_cannot_be_told(text, value):
    macros = {"K": "3", "SELF": "SELF", "MAYBE": None} | {
        f"DOUBLE{n}": f"DOUBLE{n + 1} + DOUBLE{n + 1}" for n in range(40)
    }
    assert evaluate(text, macros) == value


def test_has_include_is_answered_by_whoever_knows():
    def has(operator: str, argument: str) -> int:
        return int((operator, argument) == ("__has_include", "<a.h>"))

    assert evaluate("__has_include(<a.h>)", {}, has) == 1
    assert evaluate("__has_include ( <a.h> )", {}, has) == 1
    assert evaluate("__has_include(<b.h>)", {}, has) == 0


NAMES = st.sampled_from(["USE_ROCM", "A", "B", "__HIP__"])
EXPRESSIONS = st.recursive(
    NAMES | NAMES.map("defined({})".format) | st.integers(0, 3).map(str),
    lambda inner: (
        st.tuples(inner, st.sampled_from(["&&", "||", "==", "<", "+", "*", "-"]), inner).map(
            "({0[0]} {0[1]} {0[2]})".format
        )
        | inner.map("!{}".format)
    ),
    max_leaves=6,
)
OPENINGS = (
    NAMES.map("#ifdef {}".format)
    | NAMES.map("  #  ifndef {} // why".format)
    | EXPRESSIONS.map("#if {}".format)
    | EXPRESSIONS.map("#if /* so */ \\\n {}".format)
)


def _block(inner):
    branch = st.tuples(EXPRESSIONS.map("#elif {}".format), inner).map("\n".join)
    return st.tuples(OPENINGS, inner, st.lists(branch, max_size=2), st.booleans(), inner).map(
        lambda b: "\n".join([b[0], b[1], *b[2], *(["#else", b[4]] if b[3] else []), "#endif"])
    )


LINES = st.sampled_from(
    [
        "MARK",
        "#define A 1",
        "#undef A",
        "#define B A",
        "#undef USE_ROCM",
        "int a; /* #if 0 */",
        "// \\\n#else",
    ]
)
PROGRAMS = st.lists(st.recursive(LINES, _block, max_leaves=8), min_size=1, max_size=6).map("\n".join)


@pytest.mark.skipif(shutil.which("cpp") is None, reason="no C preprocessor here")
@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(PROGRAMS)
def test_any_nesting_is_read_as_the_real_preprocessor_reads_it(program):
    text = "\n".join(f"#include <{HEADER}>" if line == "MARK" else line for line in program.split("\n")) + "\n"
    numbered = "\n".join(
        f"MARK{n}" if line.startswith("#include") else line for n, line in enumerate(text.split("\n"), 1)
    )
    done = subprocess.run(
        ["cpp", "-P", "-undef", "-DUSE_ROCM=1", "-D__HIP__=1", "-"],
        input=numbered,
        capture_output=True,
        text=True,
        check=True,
    )
    kept = {int(word[4:]) for word in done.stdout.split() if word.startswith("MARK")}
    states = include_state(text, HEADER, {"USE_ROCM": "1", "__HIP__": "1"})
    assert {state.line for state in states if state.active} == kept
    assert all(state.active is not None for state in states)
