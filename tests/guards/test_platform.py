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
