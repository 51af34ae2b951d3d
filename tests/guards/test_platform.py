"""What a condition of the tree's Python comes to on ROCm: yes, no, or it cannot be told."""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Mapping
from types import MappingProxyType

import pytest

from rocmfix.guards import pyfacts
from rocmfix.guards.conditionals import Maybe
from rocmfix.guards.platform import Platform
from rocmfix.guards.program import Program
from rocmfix.tree import MemoryTree

ROOT = "python/sglang/srt"


def told(text: str, *, at: tuple[str, ...] = ("f",), others: Mapping[str, str] = MappingProxyType({})) -> Maybe:
    """What the value that the function `at` of `text` returns at its end comes to."""
    files = {"x": text, **others}
    program = Program(MemoryTree({f"{ROOT}/{name}.py": textwrap.dedent(each).encode() for name, each in files.items()}))
    source = program.module("sglang.srt.x")
    assert source
    function = source.function(at)
    assert function
    end = function.body[-1]
    assert isinstance(end, ast.Return)
    assert end.value
    return Platform(program).truth(pyfacts.Test(end.value, holds=True, line=1), source, at)


def value(text: str) -> Maybe:
    """What `text` comes to where nothing else is known."""
    return told(f"def f(x):\n    return {text}\n")


@pytest.mark.parametrize("name", ["is_hip()", "is_rocm()", "is_amd()", "is_cuda_alike()", "_is_hip", "IS_HIP"])
def test_what_is_asked_about_amd_is_so(name: str) -> None:
    assert value(name) is True


@pytest.mark.parametrize(
    "name",
    [
        "is_cuda()", "is_npu()", "is_xpu()", "is_hpu()", "is_cpu()", "is_musa()", "is_mps()", "_is_cuda", "IS_CUDA",
        "is_flashinfer_available()", "is_sm100_supported()", "is_blackwell()", "is_hopper_with_cuda_12_3()",
        "supports_sm90", "is_gfx1201_supported()", "TYPE_CHECKING",
    ],
)  # fmt: skip
def test_what_is_asked_about_others_is_not_so(name: str) -> None:
    assert value(name) is False


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("is_gfx95_supported()", None),
        ("is_gfx942()", None),
        ("is_gfx94_supported() or is_gfx950_supported()", True),
        ("torch.cuda.get_device_capability() >= (9, 4)", True),
        ("torch.cuda.get_device_capability() > (9, 5)", False),
        ("torch.cuda.get_device_capability() == (9, 5)", None),
        ("torch.cuda.get_device_capability()[1] in (4, 5)", True),
        ("torch.cuda.get_device_capability()[2] > 0", None),
        ("5 < torch.cuda.get_device_capability()[0] < 8", None),
        ("get_device_sm() >= 94", True),
        ("get_device_sm() >= 95", None),
        ("get_device_sm() >= 96", False),
        ("device_arch.major == 9", True),
        ("device_arch.minor == 9", False),
        ("torch.cuda.is_available()", True),
        ("torch.version.hip is not None", True),
        ("torch.version.cuda is not None", False),
        ("torch.version.musa is not None", False),
        ("find_spec('flashinfer.jit') is not None", False),
        ("find_spec('aiter') is not None", None),
        ("bool(is_cuda())", False),
        ("bool(x)", None),
        ("x.ok and is_cuda()", False),
        ("x.ok or is_hip()", True),
        ("x.ok or is_cuda()", None),
        ("not x.ok", None),
        ("(is_cuda() if is_hip() else is_hip())", False),
        ("1 < 'a'", None),
    ],
)
def test_a_condition_is_decided_as_far_as_every_amd_gpu_agrees(text: str, answer: Maybe) -> None:
    assert value(text) is answer


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("use = is_hip()\ndef f(x):\n    use = is_cuda()\n    return use\n", False),
        ("use = is_cuda()\ndef f(use):\n    return use\n", None),
        ("def f(x):\n    if x.ok:\n        use = is_hip()\n    else:\n        use = True\n    return use\n", True),
        ("def f(x):\n    if x.ok:\n        use = is_hip()\n    else:\n        use = False\n    return use\n", None),
        ("def f(x):\n    if is_cuda():\n        use = x\n    else:\n        use = False\n    return use\n", False),
        ("def f(x):\n    use = use\n    return use\n", None),
        ("def can(x):\n    return\ndef f(x):\n    return can(x)\n", False),
        ("def can(x):\n    return can(x)\ndef f(x):\n    return can(x)\n", None),
        ("def can(x):\n    if is_hip():\n        x = 1\n    return is_cuda()\ndef f(x):\n    return can(x)\n", False),
        ("def can():\n    return True\ndef f(x):\n    def can():\n        return is_cuda()\n    return can()\n", False),
    ],
)
def test_a_name_is_what_it_was_given_where_rocm_comes_by(text: str, answer: Maybe) -> None:
    assert told(text) is answer


def test_an_attribute_is_that_of_its_own_class() -> None:
    text = """
        class A:
            def __init__(self):
                self.fuse = is_cuda()
            def f(self):
                return self.fuse
        class B:
            def __init__(self):
                self.fuse = is_hip()
    """
    assert told(text, at=("A", "f")) is False


def test_a_name_is_followed_through_what_passes_it_on() -> None:
    text = "from sglang.srt.utils import can, FUSE\ndef f(x):\n    return can() or FUSE\n"
    common = "FUSE = False\ndef can():\n    return is_cuda()\n"

    def through(utils: str) -> Maybe:
        return told(text, others={"common": common, "utils/__init__": utils})

    assert through("from sglang.srt.common import *\n") is False
    assert through("from sglang.srt.common import can, FUSE\n") is False
    assert through("from .common import can\nfrom ..srt.common import FUSE\n") is None, "srt/utils has no common"
    assert through("from ..common import can\nfrom ..common import FUSE\n") is False
    assert through("from elsewhere import *\n") is None


@pytest.mark.parametrize(
    ("body", "answer"),
    [
        # 0.5.23's _q8kv8_born_fp8_q_backend: many ways out, and on ROCm each returns None
        (
            "    if x is None:\n        return None\n    if is_hip() or is_cpu():\n        return None\n    return x",
            False,
        ),
        ("    if x is None:\n        return None\n    if is_cuda():\n        return None\n    return x", None),
        ("    if x:\n        return 0\n    return False", False),
        ("    if x:\n        return 3\n    return 4", None),
        ("    if x:\n        return 3\n    return 3", True),
        ("    if x:\n        return True", None),
        ("    with x:\n        return is_cuda()", False),
        ("    with x:\n        y = 1\n    return is_cuda()", False),
        ("    try:\n        return is_cuda()\n    except E:\n        return False", False),
        ("    try:\n        return is_cuda()\n    except E:\n        return x", None),
        ("    try:\n        return is_cuda()\n    except E:\n        raise", False),
        ("    for y in x:\n        return True\n    return True", True),
        ("    for y in x:\n        return True\n    return False", None),
        ("    while x:\n        return False\n    else:\n        return None\n    return True", False),
        ("    match x:\n        case 1:\n            return False\n        case _:\n            return None", False),
        ("    match x:\n        case 1:\n            return True\n    return False", None),
        ("    if is_hip():\n        raise E\n    return True", None),
        ("    pass", False),
    ],
)
def test_a_function_is_what_all_its_ways_that_rocm_can_take_return(body: str, answer: Maybe) -> None:
    assert told(f"def can(x):\n{body}\ndef f(x):\n    return can(x)\n") is answer


@pytest.mark.parametrize(
    "text",
    [
        "@overload\ndef can(x: int): ...\ndef can(x):\n    return x\n",
        "if is_hip():\n    def can(x):\n        return x\nelse:\n    def can(x):\n        return False\n",
        "try:\n    from y import can\nexcept ImportError:\n    def can(x):\n        return False\n",
    ],
)
def test_of_a_function_that_stands_there_twice_nothing_can_be_told(text: str) -> None:
    """The first was taken: a stub's `...` for a False."""
    assert told(f"{text}def f(x):\n    return can(x)\n") is None


ASKS = "class A:\n    def __init__(self):\n        self.fuse = is_cuda()\n    def can(self):\n        return False\n    def f(self):\n        return self.{}\n"


@pytest.mark.parametrize("asked", ["fuse", "can()"])
@pytest.mark.parametrize(
    ("heir", "answer"),
    [
        ("class B: ...\n", False),
        ("class B(A):\n    def other(self):\n        self.others = 1\n", False),
        ("class B(A):\n    def __init__(self, x):\n        self.fuse = x.fuse\n    def can(self):\n        return True\n", None),
        ("class M(A): ...\nclass B(M):\n    def __init__(self, x):\n        self.fuse = x.fuse\n    def can(self):\n        return True\n", None),
    ],
)  # fmt: skip
def test_what_an_heir_may_say_otherwise_cannot_be_told(asked: str, heir: str, answer: Maybe) -> None:
    text = ASKS.format(asked)
    assert told(text + heir, at=("A", "f")) is answer
    assert told(text, at=("A", "f"), others={"y": f"from sglang.srt.x import A\n{heir}"}) is answer


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("def f():\n    found = []\n    found.append(1)\n    return found\n", None),
        ("def f():\n    found = [1]\n    return found\n", True),
        ("def f():\n    found = ()\n    return found\n", False),
        ("def f():\n    a, b = True, is_cuda()\n    return b\n", False),
        ("def f():\n    (a, b), c = (1, is_cuda()), 2\n    return b\n", None),
        ("def f():\n    a, *b = is_cuda(), 1\n    return a\n", None),
        ("def f():\n    major, minor = torch.cuda.get_device_capability()\n    return major >= 10\n", False),
        ("def f():\n    major, minor = torch.cuda.get_device_capability()\n    return minor == 5\n", None),
        ("def f(x):\n    return isinstance(x, int)\n", None),
        ("def f(x):\n    return len(x) > 1\n", None),
    ],
)
def test_what_is_put_together_is_known_as_far_as_its_parts(text: str, answer: Maybe) -> None:
    assert told(text, at=("f",)) is answer


def test_what_hangs_on_the_gpu_is_remembered_as_such() -> None:
    """The second GPU is asked only where the first was looked at, also when what was found there is asked for again."""
    text = (
        "def new():\n    return torch.cuda.get_device_capability() >= (9, 5)\nNEW = new()\ndef f():\n    return NEW\n"
    )
    text += "def g():\n    return NEW and new()\n"
    program = Program(MemoryTree({f"{ROOT}/x.py": text.encode()}))
    source, platform = program.module("sglang.srt.x"), Platform(program)
    assert source
    for name in ("f", "g", "f"):
        function = source.function((name,))
        assert function
        end = function.body[-1]
        assert isinstance(end, ast.Return)
        assert end.value
        assert platform.truth(pyfacts.Test(end.value, holds=True, line=1), source, (name,)) is None
