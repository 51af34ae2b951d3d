"""Whether what CUDA runs is the same: proved from the text, or not claimed."""

from __future__ import annotations

import pytest

from rocmfix.upstream.cuda_path import prove
from rocmfix.upstream.records import Proof


def proof(path: str, before: str, after: str) -> Proof:
    (one,) = prove({path: before.encode()}, {path: after.encode()})
    return one.cuda


INCLUDE = "// a\n#include <cuda_runtime.h>\nint f();\n"


@pytest.mark.parametrize(
    ("after", "expected"),
    [
        (INCLUDE.replace("#include <cuda_runtime.h>", "#ifndef USE_ROCM\n#include <cuda_runtime.h>\n#endif"), Proof.SAME),
        (INCLUDE.replace("#include <cuda_runtime.h>", "#ifdef USE_ROCM\n#include <hip/hip_runtime.h>\n#else\n#include <cuda_runtime.h>\n#endif"), Proof.SAME),
        (INCLUDE.replace("#include <cuda_runtime.h>", "#ifdef USE_ROCM\n#include <cuda_runtime.h>\n#endif"), Proof.CHANGED),
        (INCLUDE + "int g();\n", Proof.CHANGED),
        (INCLUDE + "#ifdef USE_ROCM\nint g();\n#endif\n", Proof.SAME),
        (INCLUDE + "#if CUDA_VERSION > 1\nint g();\n#endif\n", Proof.CHANGED),
        (INCLUDE.replace("// a", "// b"), Proof.CHANGED),
    ],
)  # fmt: skip
def test_cpp_is_the_same_when_the_preprocessor_leaves_the_same_lines(after, expected):
    assert proof("k.cuh", INCLUDE, after) is expected


GATE = "def go(x):\n    if x.steps > 3:\n        fast(x)\n"


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (GATE, GATE.replace("x.steps > 3:", "x.steps > 3 and not _is_hip:"), Proof.SAME),
        (GATE, GATE.replace("x.steps > 3:", "x.steps > 3 and not is_hip():"), Proof.SAME),
        (GATE, GATE.replace("x.steps > 3:", "x.steps > 3 and _is_hip:"), Proof.UNKNOWN),
        (GATE, GATE.replace("x.steps > 3:", "x.steps > 4:"), Proof.UNKNOWN),
        (GATE, "def go(x):\n    if _is_hip:\n        slow(x)\n    elif x.steps > 3:\n        fast(x)\n", Proof.SAME),
        (GATE, GATE + "    if torch.version.hip:\n        more(x)\n", Proof.SAME),
        (GATE, GATE + "    if torch.version.hip is not None:\n        more(x)\n", Proof.SAME),
        (GATE, GATE + "    if torch.version.cuda is not None:\n        more(x)\n", Proof.UNKNOWN),
        (GATE, GATE + "    if ask(x) and _is_hip:\n        more(x)\n", Proof.UNKNOWN),
        ("y = a\n", "y = a or _is_hip\n", Proof.UNKNOWN),
        ("y = a\n", "y = not _is_hip and a\n", Proof.SAME),
        ("y = a or None\n", "y = a\n", Proof.UNKNOWN),
        (GATE, GATE + "\n\ndef helper():\n    pass\n", Proof.SAME),
        (GATE, GATE + "\n\ndef helper():\n    pass\n\n\nhelper()\n", Proof.UNKNOWN),
        (GATE, GATE + "\n\n@register\ndef helper():\n    pass\n", Proof.UNKNOWN),
        (GATE, GATE + "\n\ndef go(x):\n    pass\n", Proof.UNKNOWN),
        (GATE, "def go(x:\n", Proof.UNKNOWN),
    ],
)  # fmt: skip
def test_python_is_the_same_when_the_program_without_hip_is(before, after, expected):
    assert proof("m.py", before, after) is expected


TRY = "def go(x):\n    try:\n        return fast(x)\n    finally:\n        clean(x)\n"
CATCHES = "    except {}:\n        if is_hip_runtime():\n            raise Failed(x)\n        {}\n    finally:\n"


@pytest.mark.parametrize(
    ("caught", "then", "expected"),
    [
        ("Exception as error", "raise", Proof.SAME),
        ("Exception", "raise", Proof.SAME),
        ("Exception as error", "raise error", Proof.UNKNOWN),
        ("Exception", "pass", Proof.UNKNOWN),
        ("Exception", "log(x); raise", Proof.UNKNOWN),
        ("kinds(x)", "raise", Proof.UNKNOWN),
    ],
)
def test_a_handler_that_raises_again_what_it_caught_is_none(caught, then, expected):
    assert proof("m.py", TRY, TRY.replace("    finally:\n", CATCHES.format(caught, then))) is expected


def test_a_handler_before_another_shields_it():
    late = "def go(x):\n    try:\n        fast(x)\n    except Exception:\n        slow(x)\n"
    early = late.replace("    except E", "    except KeyError:\n        raise\n    except E")
    assert proof("m.py", late, early) is Proof.UNKNOWN
    assert proof("m.py", late, late.replace("slow(x)", "slow(x)\n    except KeyError:\n        raise")) is Proof.SAME


def test_what_runs_when_nothing_was_raised_is_not_lost():
    plain = "def go(x):\n    fast(x)\n"
    after = "def go(x):\n    try:\n        fast(x)\n    except E:\n        raise\n    else:\n        slow(x)\n"
    assert proof("m.py", plain, after) is Proof.UNKNOWN


def test_a_try_that_only_raises_again_is_its_body():
    plain = "def go(x):\n    fast(x)\n"
    assert proof("m.py", plain, "def go(x):\n    try:\n        fast(x)\n    except E:\n        raise\n") is Proof.SAME


def test_other_files_are_not_judged():
    assert proof("notes.txt", "a\n", "b\n") is Proof.UNKNOWN


def test_lines_are_counted():
    (one,) = prove({"a.py": b"x = 1\ny = 2\n"}, {"a.py": b"x = 1\nz = 3\nw = 4\n"})
    assert (one.added, one.removed) == (2, 1)
