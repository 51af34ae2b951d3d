"""Whether ROCm ever has a file compiled: loader calls, gates, callers."""

from __future__ import annotations

import ast
import textwrap

import pytest

from rocmfix.guards import pyfacts
from rocmfix.guards.chain import Sources
from rocmfix.guards.loaders import loaders
from rocmfix.guards.program import Program
from rocmfix.guards.reach import Reach, Reachability, Reachable, condition, reach as reach_all
from rocmfix.tree import MemoryTree

ROOT = "python/sglang"
LOADER = """
    import torch
    from sglang.jit_kernel.utils import load_jit

    def _module(n: int):
        return load_jit("k", cuda_files=["moe/k.cuh"], cuda_wrappers=[("k", f"K<{n}>::run")])

    def run_k(x):
        return _module(x.shape[0]).k(x)
"""
UTILS = """
    import torch
    from functools import lru_cache, partial

    def is_hip() -> bool:
        return torch.version.hip is not None

    def is_cuda():
        return torch.cuda.is_available() and torch.version.cuda is not None

    def _check(majors):
        if not is_cuda():
            return False
        return torch.cuda.get_device_capability()[0] in majors

    fancy_supported = lru_cache(maxsize=1)(partial(_check, majors=[10]))
"""


def reach(layer: str, loader: str = LOADER, **more: str) -> Reach:
    """The answer for k.cuh, which `layer` uses; a model uses the layer."""
    files = {
        f"{ROOT}/jit_kernel/k.py": loader,
        f"{ROOT}/jit_kernel/utils.py": "def load_jit(*args, cuda_files=None): ...",
        f"{ROOT}/srt/utils/__init__.py": "from sglang.srt.utils.common import *",
        f"{ROOT}/srt/utils/common.py": UTILS,
        f"{ROOT}/srt/layers/layer.py": layer,
        f"{ROOT}/srt/models/model.py": "from sglang.srt.layers.layer import Layer\nEntryClass = Layer\n",
    } | {f"{ROOT}/srt/{name.replace('__', '/')}.py": text for name, text in more.items()}
    program, sources = opened(files)
    (loader_call,) = loaders(program, sources)
    assert loader_call.files == (f"{ROOT}/jit_kernel/csrc/moe/k.cuh",)
    return Reachability(program).of(loader_call)


def opened(files: dict[str, str]) -> tuple[Program, Sources]:
    tree = MemoryTree(
        {path: textwrap.dedent(text).encode() for path, text in files.items()}
        | {f"{ROOT}/jit_kernel/csrc/moe/k.cuh": b"#include <cuda.h>\n", f"{ROOT}/jit_kernel/include/x.cuh": b""}
    )
    return Program(tree), Sources(tree)


def layer(body: str, head: str = "") -> str:
    lines = ["from sglang.srt.utils import is_cuda, is_hip", *textwrap.dedent(head).splitlines(), "", "class Layer:"]
    return "\n".join(lines) + "\n" + textwrap.indent(textwrap.dedent(body), "    ")


IMPORT = "from sglang.jit_kernel.k import run_k"


def test_an_open_way_is_told_call_by_call() -> None:
    answer = reach(layer("def forward(self, x):\n    return run_k(x)", IMPORT))
    assert answer.reachable is Reachable.YES
    assert [step.removeprefix(f"{ROOT}/") for step in answer.chain] == [
        "jit_kernel/k.py:6 _module",
        "jit_kernel/k.py:9 run_k",
        "srt/layers/layer.py:6 Layer.forward",
        "srt/models/model.py:2 EntryClass (runs on every platform)",
    ]


@pytest.mark.parametrize(
    ("body", "head"),
    [
        ("def forward(self, x):\n    if is_cuda():\n        return run_k(x)", IMPORT),
        ("def forward(self, x):\n    if not is_hip():\n        return run_k(x)", IMPORT),
        ("def forward(self, x):\n    if is_hip():\n        return x\n    return run_k(x)", IMPORT),
        ("def forward(self, x):\n    assert is_cuda()\n    return run_k(x)", IMPORT),
        ("def forward(self, x):\n    return run_k(x) if _is_cuda else x", f"{IMPORT}\n_is_cuda = is_cuda()"),
        ("def forward(self, x):\n    return _is_cuda and x.ok and run_k(x)", f"{IMPORT}\n_is_cuda = is_cuda()"),
        ("def forward(self, x):\n    return run_k(x)", f"if is_cuda():\n    {IMPORT}"),
        ("def forward(self, x):\n    import flashinfer\n    return run_k(x)", IMPORT),
        ("def forward(self, x):\n    if FUSE:\n        return run_k(x)", f"{IMPORT}\nFUSE = ENV.get() and not is_hip()"),
        ("def forward(self, x):\n    use = is_cuda() and x.ok\n    if use:\n        return run_k(x)", IMPORT),
        ("def __init__(self):\n    self.fuse = is_cuda()\ndef forward(self, x):\n    if self.fuse:\n        return run_k(x)", IMPORT),
        ("def forward(self, x):\n    if can(x):\n        return run_k(x)", f"{IMPORT}\ndef can(x):\n    return x.ok and is_cuda()"),
        ("def forward(self, x):\n    if can(x):\n        return run_k(x)", f"{IMPORT}\ndef can(x):\n    if is_hip():\n        return False\n    return x.ok"),
        ("def forward(self, x):\n    if fancy_supported():\n        return run_k(x)", f"{IMPORT}\nfrom sglang.srt.utils import is_sm100_supported as fancy_supported"),
        ("def forward(self, x):\n    if torch.cuda.get_device_capability()[0] >= 10:\n        return run_k(x)", IMPORT),
        ("def forward_npu(self, x):\n    return run_k(x)", IMPORT),
        ("def forward_hip(self, x):\n    return x\ndef forward_cuda(self, x):\n    return run_k(x)", IMPORT),
        ("def forward(self, x):\n    if is_cuda():\n        self._go(x)\ndef _go(self, x):\n    return run_k(x)", IMPORT),
        ("def forward(self, x):\n    if is_cuda():\n        Layer._go(x)\ndef _go(x):\n    return run_k(x)", IMPORT),
        ("@classmethod\ndef make(cls, x):\n    if is_cuda():\n        cls._go(x)\n@classmethod\ndef _go(cls, x):\n    return run_k(x)", IMPORT),
        ("def forward(self, x):\n    if is_cuda():\n        self._go(x)\ndef _go(self, x):\n    def inner():\n        return run_k(x)\n    return inner()", IMPORT),
        ("def forward(self, x):\n    if is_cuda():\n        self.go(x)\ndef go(self, x):\n    return run_k(x)", IMPORT),
        ("def forward(self, x):\n    if is_cuda():\n        self.__go(x)\ndef __go(self, x):\n    return run_k(x)", IMPORT),
        ("def forward(self, x):\n    return x", ""),
    ],
)  # fmt: skip
def test_a_gate_that_rocm_does_not_pass_is_found(body: str, head: str) -> None:
    answer = reach(layer(body, head))
    assert answer.reachable is Reachable.NO
    assert answer.gate


@pytest.mark.parametrize(
    ("body", "head"),
    [
        ("def forward(self, x):\n    if x.is_cuda:\n        return run_k(x)", IMPORT),
        ("def forward(self, x):\n    if torch.cuda.get_device_capability()[0] >= 9:\n        return run_k(x)", IMPORT),
        ("def forward(self, x):\n    if is_cuda() or is_hip():\n        return run_k(x)", IMPORT),
        ("def forward(self, x):\n    if is_cuda():\n        return x\n    return run_k(x)", IMPORT),
        ("def forward(self, x):\n    try:\n        import flashinfer\n    except ImportError:\n        flashinfer = None\n    return run_k(x)", IMPORT),
        ("def forward(self, x, mode=None):\n    if mode is None:\n        return x\n    return run_k(x)", IMPORT),
        ("def forward(self, x):\n    found = None\n    for found in x:\n        pass\n    if found is None:\n        return x\n    return run_k(x)", IMPORT),
        ("fuse = False\ndef forward(self, x):\n    if self.fuse:\n        return run_k(x)", IMPORT),
        ("def __init__(self):\n    self.fuse = False\ndef forward(self, x):\n    if self.fuse:\n        return run_k(x)", IMPORT),
        ("def forward_cuda(self, x):\n    return run_k(x)", IMPORT),
        ("def forward_hip(self, x):\n    return self.forward_cuda(x)\ndef forward_cuda(self, x):\n    return run_k(x)", IMPORT),
        ("def forward(self, x):\n    from sglang.jit_kernel import k\n    return k.run_k(x)", ""),
        ("def forward(self, x):\n    if DONE:\n        return run_k(x)\ndef set(self):\n    global DONE\n    DONE = True", f"{IMPORT}\nDONE = False"),
    ],
)  # fmt: skip
def test_a_gate_that_rocm_passes_or_may_pass_is_no_gate(body: str, head: str) -> None:
    assert reach(layer(body, head)).reachable is Reachable.YES


@pytest.mark.parametrize("other", ["cpu", "npu", "xpu", "hpu", "musa", "mps", "tpu"])
def test_another_platforms_method_is_not_rocms(other: str) -> None:
    answer = reach(layer(f"def go_{other}(self, x):\n    return run_k(x)", IMPORT))
    assert (answer.reachable, answer.gate) == (
        Reachable.NO,
        f"{ROOT}/srt/layers/layer.py: Layer.go_{other} is another platform's",
    )


def test_a_gate_is_told_with_its_line_and_the_way_up_to_it() -> None:
    answer = reach(layer("def forward(self, x):\n    if is_cuda():\n\n        return run_k(x)", IMPORT))
    assert answer.gate == f"{ROOT}/srt/layers/layer.py:6: needs is_cuda(), which ROCm does not pass"
    assert [step.removeprefix(f"{ROOT}/") for step in answer.chain] == [
        "jit_kernel/k.py:6 _module",
        "jit_kernel/k.py:9 run_k",
        "srt/layers/layer.py:8",
    ]
    imports = reach(layer("def forward(self, x):\n    import flashinfer\n    return run_k(x)", IMPORT))
    assert imports.gate == f"{ROOT}/srt/layers/layer.py:6: import flashinfer fails on ROCm"
    hip = reach(
        layer("def forward_hip(self, x):\n    return x\ndef forward_cuda(self, x):\n    return run_k(x)", IMPORT)
    )
    assert hip.gate == f"{ROOT}/srt/layers/layer.py: Layer has a forward_hip"


def test_of_two_gates_the_nearer_is_told() -> None:
    far = f"{IMPORT}\ndef helper(x):\n    return run_k(x)\n"
    near = layer("def forward(self, x):\n    if is_cuda():\n        return run_k(x)", IMPORT)
    assert "layer.py:6: needs is_cuda()" in reach(near, layers__aside=far).gate


def test_a_gate_beside_a_way_that_cannot_be_told_closes_nothing() -> None:
    gated = layer("def forward(self, x):\n    if is_cuda():\n        return run_k(x)", IMPORT)
    helper = f"{IMPORT}\ndef helper(x):\n    return run_k(x)\n"
    answer = reach(gated, layers__aside=helper, layers__table="LAZY = {'helper': 1}")
    assert (answer.reachable, answer.gate) == (
        Reachable.UNKNOWN,
        f"helper is named in {ROOT}/srt/layers/table.py, but not as a call this scan can follow",
    )


def test_a_method_that_another_class_calls_on_itself_is_another_method() -> None:
    body = "def forward(self, x):\n    if is_cuda():\n        self._go(x)\ndef _go(self, x):\n    return run_k(x)"
    other = "\nclass Other:\n    def forward(self, x):\n        return self._go(x)\n"
    model = "from sglang.srt.layers.layer import Other\nEntryClass = Other\n"
    assert reach(layer(body, IMPORT) + other, models__other=model).reachable is Reachable.NO


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("def f(layer, x):\n    return layer.go(x)\n", Reachable.YES),
        ("def f(args):\n    return args.go\n", Reachable.NO),
        ("class Other:\n    def f(self, x):\n        return self.go(x)\n", Reachable.NO),
    ],
)
def test_a_public_method_may_be_called_through_an_object_elsewhere(text: str, answer: Reachable) -> None:
    body = "def forward(self, x):\n    if is_cuda():\n        self.go(x)\ndef go(self, x):\n    return run_k(x)"
    assert reach(layer(body, IMPORT), layers__user=text).reachable is answer


def test_a_method_that_is_called_without_its_name_is_everybodys() -> None:
    body = "def forward(self, x):\n    if is_cuda():\n        self.__call__(x)\ndef __call__(self, x):\n    return run_k(x)"
    assert reach(layer(body, IMPORT)).reachable is Reachable.YES


def test_a_name_of_the_class_hides_the_modules_from_no_method() -> None:
    own = LOADER + "\n    class Used:\n        run_k = None\n        def go(self, x):\n            return run_k(x)\n"
    model = "from sglang.jit_kernel.k import Used\nEntryClass = Used\n"
    assert reach("class Layer: ...", own, models__used=model).reachable is Reachable.YES


def test_an_operator_of_torchs_is_the_function_of_its_name() -> None:
    own = LOADER + "\n    def go(x):\n        return torch.ops.sglang.run_k(x)\n"
    answer = reach("class Layer: ...", own, models__zoo="from sglang.jit_kernel.k import go\ngo(1)\n")
    assert answer.reachable is Reachable.YES


@pytest.mark.parametrize(
    "more", ['__all__ = ["run_k"]', "def run_j(y):\n    return y.run_k(y)", "run_j = wraps(run_j)"]
)
def test_what_a_file_says_of_its_own_function_is_no_mention(more: str) -> None:
    own = LOADER + textwrap.indent(f"\n{more}\n", "    ")
    answer = reach("class Layer: ...", own)
    assert (answer.reachable, answer.gate) == (Reachable.NO, "nothing that a server runs calls run_k")


def test_a_function_that_calls_itself_is_called_by_nobody_else() -> None:
    own = LOADER.replace("return _module(x.shape[0]).k(x)", "return run_k(x) if x.deep else _module(1).k(x)")
    answer = reach("class Layer: ...", own)
    assert (answer.reachable, answer.gate) == (Reachable.NO, "nothing that a server runs calls run_k")


def test_a_decorator_that_names_nothing_registers_nothing() -> None:
    text = f"{IMPORT}\n@wraps(other)\ndef create(x):\n    return run_k(x)\n"
    assert reach("class Layer: ...", layers__registry=text).gate == "nothing that a server runs calls create"


AT_IMPORT = """
    from sglang.jit_kernel.utils import load_jit

    K = load_jit("k", cuda_files=["moe/k.cuh"])
"""


def test_what_stands_at_module_level_runs_when_the_module_is_imported() -> None:
    answer = reach(layer("def forward(self, x):\n    return k.run(x)", "from sglang.jit_kernel import k"), AT_IMPORT)
    assert answer.reachable is Reachable.YES
    assert [step.removeprefix(f"{ROOT}/") for step in answer.chain] == [
        "jit_kernel/k.py:4 module level",
        "srt/layers/layer.py:2 import",
    ]
    alone = reach("class Layer: ...", AT_IMPORT)
    assert (alone.reachable, alone.gate) == (Reachable.UNKNOWN, "no import of sglang.jit_kernel.k found")


@pytest.mark.parametrize(
    ("test", "said"),
    [
        ("self.speculative_num_steps > 3", "depth >= 4"),
        ("speculative_num_steps >= 4", "depth >= 4"),
        ("not (use_aiter and bias is not None)", "not (use_aiter and bias is not None)"),
        ("envs.SGLANG_FUSE.get()", "envs.SGLANG_FUSE.get()"),
        ("is_gfx95_supported()", "is_gfx95_supported()"),
        ("USE_AITER_MOE", "USE_AITER_MOE"),
    ],
)
def test_what_hangs_on_the_user_is_a_condition(test: str, said: str) -> None:
    answer = reach(layer(f"def forward(self, x, use_aiter, bias):\n    if {test}:\n        return run_k(x)", IMPORT))
    assert answer.reachable is Reachable.YES
    assert answer.conditions == (said,)


def test_a_condition_is_told_once_and_in_the_loaders_order() -> None:
    text = f"""{IMPORT}
def first(x):
    if envs.A.get():
        return run_k(x)

@register("mla")
def create(x):
    if x.backend:
        if envs.A.get():
            return first(x)
"""
    answer = reach("class Layer: ...", layers__registry=text)
    assert answer.conditions == ("envs.A.get()", "x.backend", "register('mla')")


def test_a_depth_that_must_not_be_is_told_as_the_depths_below() -> None:
    body = "def forward(self, x):\n    if self.speculative_num_steps > 3:\n        return x\n    return run_k(x)"
    assert reach(layer(body, IMPORT)).conditions == ("depth < 4",)


def test_a_long_condition_is_cut() -> None:
    def told(length: int) -> str:
        return condition(pyfacts.Test(ast.Name("a" * length, ast.Load()), holds=True, line=1))

    assert told(120) == "a" * 120
    assert told(121) == "a" * 117 + "..."


def test_a_shape_is_no_condition_worth_telling() -> None:
    answer = reach(layer("def forward(self, x):\n    if x.shape[0] > 4:\n        return run_k(x)", IMPORT))
    assert answer.conditions == ()


def test_one_open_way_beside_a_closed_one_is_enough() -> None:
    body = "def forward(self, x):\n    if is_cuda():\n        return run_k(x)\n    if x.slow:\n        return run_k(x)"
    assert reach(layer(body, IMPORT)).reachable is Reachable.YES


def test_a_registered_function_is_an_entry() -> None:
    text = f'{IMPORT}\n@register("mla")\ndef create(x):\n    return run_k(x)\n'
    answer = reach("class Layer: ...", layers__registry=text)
    assert (answer.reachable, answer.conditions) == (Reachable.YES, ("register('mla')",))


def test_a_name_that_is_only_written_down_somewhere_cannot_be_told() -> None:
    answer = reach("class Layer: ...", layers__table="LAZY = {'run_k': 'sglang.jit_kernel.k'}")
    assert answer.reachable is Reachable.UNKNOWN
    assert "run_k" in answer.gate


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("from sgl_kernel import run_k\ndef go(x):\n    return run_k(x)\n", Reachable.NO),
        ("def run_k(x): ...\ndef go(x):\n    return run_k(x)\n", Reachable.NO),
        ("from sgl_kernel import run_k\nLAZY = {'run_k': 'sglang.jit_kernel.k'}\n", Reachable.UNKNOWN),
        ("def go(x):\n    return x.kernels.run_k(x)\n", Reachable.UNKNOWN),
    ],
)
def test_the_same_name_from_elsewhere_is_no_mention(text: str, answer: Reachable) -> None:
    """0.5.9 called a fifth of its loaders "cannot tell" because sgl_kernel has functions of the same names."""
    assert reach("class Layer: ...", layers__other=text).reachable is answer


def test_tests_and_benchmarks_are_no_callers() -> None:
    answer = reach("class Layer: ...", tests__test_k=f"{IMPORT}\nrun_k(1)", benchmark__b=f"{IMPORT}\nrun_k(1)")
    assert (answer.reachable, answer.gate) == (Reachable.NO, "nothing that a server runs calls run_k")


@pytest.mark.parametrize(
    "files",
    [
        'cuda_files=["moe/k.cuh"]',
        "cuda_files=[NAME]",
        'cuda_files=[f"moe/{n}.cuh"]',
        "cuda_files=files",
        'sources=[HERE + "/csrc/moe/k.cuh"]',
    ],
)
def test_the_file_is_found_however_it_is_named(files: str) -> None:
    loader = f"""
        from sglang.jit_kernel.utils import load_jit

        NAME = "moe/k.cuh"
        HERE = "x"

        def run_k(n):
            files = [NAME]
            return load_jit("k", {files})
    """
    assert reach(layer("def forward(self, x):\n    return run_k(x)", IMPORT), loader).reachable is Reachable.YES


def test_a_file_that_is_no_python_has_nothing_in_it() -> None:
    assert (
        reach(layer("def forward(self, x):\n    return run_k(x)", IMPORT), layers__broken="def run_k(:").reachable
        is Reachable.YES
    )


@pytest.mark.parametrize(
    "body", ["def other(run_k):\n    return run_k + 1", "def other(x):\n    run_k = 1\n    return run_k + 1"]
)
def test_an_argument_or_a_local_of_the_same_name_is_no_call(body: str) -> None:
    """`topk` of 0.5.23's deep_select.py was taken for called by a function whose argument is called topk."""
    text = f"{IMPORT}\ndef run_j(x):\n    return run_k(x)\n"
    own = LOADER + textwrap.indent(body, "    ") + "\n    def used(x):\n        return other(x)\n"
    model = "from sglang.jit_kernel.k import used\nfrom sglang.srt.layers.layer import run_j\nused(1)\n"
    assert reach("class Layer: ...", own, models__more=model).reachable is Reachable.NO
    assert reach(text, own, models__more=model.replace("used(1)", "run_j(1)")).reachable is Reachable.YES


CIRCLE = """
    from sglang.jit_kernel.k import run_k

    def outer(x, again=False):
        first_k(x)
        return run_k(inner(x))

    def inner(x):
        second_k(x)
        return outer(x) if x.deep else x

    def first_k(x):
        return load_jit("a", cuda_files=["moe/k.cuh"])

    def second_k(x):
        return load_jit("b", cuda_files=["moe/k.cuh"])
"""


@pytest.mark.parametrize("step", [1, -1])
def test_functions_that_call_each_other_are_both_reached_whichever_is_asked_first(step: int) -> None:
    """The climb kept "only reached from itself" for `inner`, which it had met below the `outer` that calls it."""
    files = {
        f"{ROOT}/srt/layers/circle.py": CIRCLE,
        f"{ROOT}/srt/models/model.py": "from sglang.srt.layers.circle import outer\nouter(1)\n",
    }
    program, sources = opened(files)
    climb = Reachability(program)
    answers = {call.use.line: climb.of(call) for call in list(loaders(program, sources))[::step]}
    assert [answer.reachable for answer in answers.values()] == [Reachable.YES] * 2
    assert [hop.rpartition(":")[2] for hop in answers[16].chain] == [
        "16 second_k",
        "9 inner",
        "6 outer",
        "2 module level (runs on every platform)",
    ]
    alone = Reachability(opened(files)[0])
    assert answers == {call.use.line: alone.of(call) for call in loaders(program, sources)}


def test_functions_that_only_call_each_other_are_reached_by_nobody() -> None:
    program, sources = opened({f"{ROOT}/srt/layers/circle.py": CIRCLE})
    answers = reach_all(program, tuple(loaders(program, sources)))
    assert {(answer.reachable, answer.gate) for answer in answers} == {(Reachable.NO, "only reached from itself")}


def test_of_two_ways_the_shorter_is_told() -> None:
    long = "def forward(self, x):\n    return self._a(x)\ndef _a(self, x):\n    return self._b(x)\ndef _b(self, x):\n    return run_k(x)"
    short = f"{IMPORT}\nrun_k(1)\n"
    assert len(reach(layer(long, IMPORT)).chain) == 6
    assert len(reach(layer(long, IMPORT), models__zoo=short).chain) == 3


def test_every_loader_call_has_its_own_answer_in_the_order_asked() -> None:
    files = {
        f"{ROOT}/srt/layers/a/one.py": 'def f():\n    load_jit("a", cuda_files=["moe/k.cuh"])\n',
        f"{ROOT}/srt/layers/b/two.py": 'def g():\n    load_jit("b", cuda_files=["moe/k.cuh"])\n\n\ndef h():\n'
        '    load_jit("c", cuda_files=["moe/k.cuh"])\n',
        f"{ROOT}/srt/models/model.py": "from sglang.srt.layers.b.two import h\nh()\n",
    }
    program, sources = opened(files)
    calls = tuple(loaders(program, sources))
    answers = reach_all(program, calls[::-1])
    assert [answer.chain[0].partition("srt/layers/")[2] for answer in answers] == [
        "b/two.py:6 h",
        "b/two.py:2 g",
        "a/one.py:2 f",
    ]
    assert [answer.reachable for answer in answers] == [Reachable.YES, Reachable.NO, Reachable.NO]


def test_methods_and_functions_of_one_name_are_not_mixed_up() -> None:
    one = 'def go():\n    load_jit("c", cuda_files=["moe/k.cuh"])\n'
    method = textwrap.indent(one.replace("()", "(self)", 1), "    ")
    files = {
        f"{ROOT}/srt/layers/a.py": f"class A:\n{method}class B:\n{method}{one}",
        f"{ROOT}/srt/layers/b.py": one,
        f"{ROOT}/srt/models/model.py": "from sglang.srt.layers.a import A\nfrom sglang.srt.layers.b import go\ngo(A)\n",
    }
    program, sources = opened(files)
    calls = tuple(loaders(program, sources))
    answers = {answer.chain[0].partition("layers/")[2]: answer.reachable for answer in reach_all(program, calls)}
    assert answers == {
        "a.py:3 A.go": Reachable.YES,
        "a.py:6 B.go": Reachable.NO,
        "a.py:8 go": Reachable.NO,
        "b.py:2 go": Reachable.YES,
    }


MODEL = "from sglang.srt.utils import is_cuda, is_hip\nfrom sglang.jit_kernel.k import run_k\n"


def model(body: str, **more: str) -> Reach:
    """The answer for k.cuh, which a model's own code uses."""
    return reach("class Layer: ...", models__own=MODEL + textwrap.dedent(body), **more)


@pytest.mark.parametrize(
    "body",
    [
        # 0.5.14's minimax_m2.py: both callers of its fused_tp_qknorm ask for CUDA
        """
        def fused(x):
            return run_k(x)
        class Attention:
            def forward(self, x):
                if is_cuda() and x.ok:
                    return fused(x)
        class Model:
            def __init__(self):
                self.attention = Attention()
        EntryClass = Model
        """,
        """
        class Attention:
            def forward(self, x):
                if is_cuda():
                    return self._fused(x)
            def _fused(self, x):
                return run_k(x)
        EntryClass = Attention
        """,
        """
        class Attention:
            def forward(self, x):
                return run_k(x)
        class Model:
            def __init__(self):
                if not is_hip():
                    self.attention = Attention()
        EntryClass = [Model]
        """,
    ],
)
def test_what_every_caller_in_a_model_gates_is_not_reached_though_models_run_everywhere(body: str) -> None:
    answer = model(body)
    assert answer.reachable is Reachable.NO
    assert "models/own.py" in answer.gate


@pytest.mark.parametrize(
    "body",
    [
        "class Attention:\n    def forward(self, x):\n        return run_k(x)\n",
        "def helper(x):\n    return run_k(x)\n",
        "class A:\n    def forward(self, x):\n        if is_cuda():\n            self._go(x)\n    def _go(self, x):\n        run_k(x)\nclass B(A):\n    def forward(self, x):\n        self._go(x)\nEntryClass = B\n",
        "class A:\n    def forward(self, x):\n        if is_cuda():\n            self._go(x)\n    def _go(self, x):\n        run_k(x)\nclass Mixin:\n    def prepare(self, x):\n        self._go(x)\nclass B(A, Mixin): ...\nEntryClass = B\n",
        "class A:\n    def forward(self, x):\n        self._go(x)\nclass B(A):\n    def other(self, x):\n        if is_cuda():\n            self._go(x)\n    def _go(self, x):\n        run_k(x)\nEntryClass = B\n",
    ],
)  # fmt: skip
def test_what_anybody_in_a_model_may_call_is_reached(body: str) -> None:
    assert model(body).reachable is Reachable.YES


def test_the_chain_ends_where_the_servers_own_files_begin() -> None:
    answer = model(
        "def fused(x):\n    return run_k(x)\nclass A:\n    def forward(self, x):\n        return fused(x)\nEntryClass = A\n"
    )
    assert [step.removeprefix(f"{ROOT}/") for step in answer.chain][
        -1
    ] == "srt/models/own.py:4 fused (runs on every platform)"


def test_a_gate_further_up_in_a_model_is_told_with_the_way_to_it() -> None:
    body = "class A:\n    def forward(self, x):\n        return run_k(x)\nclass B:\n    def __init__(self):\n        if is_cuda():\n            self.a = A()\nEntryClass = B\n"
    answer = model(body)
    assert answer.gate == f"{ROOT}/srt/models/own.py:8: needs is_cuda(), which ROCm does not pass"
    assert [step.removeprefix(f"{ROOT}/srt/") for step in answer.chain[2:]] == [
        "models/own.py:5 A.forward",
        "models/own.py:9",
    ]


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("def f(x):\n    return isinstance(x, Layer)\n", Reachable.NO),
        ("def f(x):\n    return issubclass(type(x), (Layer, int))\n", Reachable.NO),
        ("def f(x):\n    return isinstance(Layer(), x)\n", Reachable.YES),
        ("def f(x: Layer) -> Layer: ...\n", Reachable.NO),
    ],
)
def test_to_ask_for_a_class_is_not_to_make_one(text: str, answer: Reachable) -> None:
    """0.5.23's prefill_cuda_graph_runner.py asks whether the backend is DSA's; it has none made."""
    body = layer("def forward(self, x):\n    return run_k(x)", IMPORT)
    asks = f"from sglang.srt.layers.layer import Layer\n{text}"
    assert reach(body, models__model="", models__asks=asks).reachable is answer


@pytest.mark.parametrize(
    ("heir", "answer"),
    [
        ("class Heir(Layer): ...\n", Reachable.YES),
        ("class Heir(Layer):\n    def forward(self, x):\n        return x\n", Reachable.NO),
        ("class Heir(Layer):\n    def forward(self, x):\n        return super().forward(x)\n", Reachable.YES),
        ("class Heir:\n    go = Layer.forward\n    def forward(self, x):\n        return x\n", Reachable.YES),
    ],
)
def test_an_heir_runs_what_it_has_not_of_its_own(heir: str, answer: Reachable) -> None:
    body = layer("def forward(self, x):\n    return run_k(x)", IMPORT)
    model = f"from sglang.srt.layers.layer import Layer\n{heir}EntryClass = Heir\n"
    assert reach(body, models__model=model).reachable is answer


@pytest.mark.parametrize(
    ("head", "answer"),
    [
        ("TABLE = {'a': run_k}\ndef use(x):\n    return TABLE[x.name](x)\n", Reachable.YES),
        ("TABLE = {'a': run_k}\ndef use(x):\n    if is_cuda():\n        return TABLE[x.name](x)\n", Reachable.NO),
        ("run_k = wrapped(run_k)\ndef use(x):\n    if is_cuda():\n        return run_k(x)\n", Reachable.NO),
        ("run_j = wrapped(run_k)\ndef use(x):\n    return run_j(x)\n", Reachable.YES),
        ("RESULT = run_k(1)\ndef use(x): ...\n", Reachable.YES),
        ("KIND: TypeAlias = Union[run_k, int]\ndef use(x: KIND): ...\n", Reachable.NO),
        ("register(op_name='go', op_func=run_k)\ndef use(x):\n    return torch.ops.sglang.go(x)\n", Reachable.YES),
        ("register(op_name='go', op_func=run_k)\ndef use(x):\n    if is_cuda():\n        return torch.ops.sglang.go(x)\n", Reachable.NO),
        ("register(op_name='use', op_func=run_k)\ndef use(x):\n    return torch.ops.sglang.use(x)\n", Reachable.YES),
        ("atexit.register(run_k)\ndef use(x): ...\n", Reachable.YES),
        ("@lazily(run_k)\nclass Plane: ...\ndef use(x):\n    if is_cuda():\n        return Plane()\n", Reachable.NO),
        ("@lazily(run_k)\nclass Plane: ...\ndef use(x):\n    return Plane()\n", Reachable.YES),
        ("@run_k\nclass Plane: ...\ndef use(x): ...\n", Reachable.YES),
        ("@run_k(1)\ndef use(x): ...\n", Reachable.YES),
    ],
)  # fmt: skip
def test_what_a_module_keeps_under_a_name_is_run_by_whoever_uses_that(head: str, answer: Reachable) -> None:
    """0.5.14's models/utils.py wraps fused_inplace_qknorm for torch.compile: to import that is not to run it."""
    text = f"from sglang.srt.utils import is_cuda\n{IMPORT}\n{head}"
    model = "from sglang.srt.layers.layer import use\nuse(1)\n"
    assert reach(text, models__model=model).reachable is answer


@pytest.mark.parametrize(
    ("kept", "answer"),
    [
        ("POOL = Pool()\ndef use(x):\n    if is_cuda():\n        POOL.go(x)\n", Reachable.NO),
        ("POOL = Pool()\ndef use(x):\n    POOL.go(x)\n", Reachable.YES),
    ],
)
def test_an_object_that_a_module_makes_runs_its_methods_when_it_is_used(kept: str, answer: Reachable) -> None:
    text = (
        f"from sglang.srt.utils import is_cuda\n{IMPORT}\nclass Pool:\n    def go(self, x):\n        run_k(x)\n{kept}"
    )
    model = "from sglang.srt.layers.layer import use\nuse(1)\n"
    assert reach(text, models__model=model).reachable is answer
    made = text.replace("def go(self, x):", "def __init__(self, x=1):")
    assert reach(made, models__model=model).reachable is Reachable.YES


NEEDS = """
def needs():
    if is_hip():
        raise RuntimeError("CUDA only")
"""


@pytest.mark.parametrize(
    ("helper", "answer"),
    [
        (NEEDS, Reachable.NO),
        (NEEDS.replace("is_hip()", "not is_cuda()"), Reachable.NO),
        (NEEDS.replace("is_hip()", "is_cuda()"), Reachable.YES),
        (NEEDS.replace("is_hip()", "envs.A.get()"), Reachable.YES),
        ("def needs():\n    major, minor = torch.cuda.get_device_capability()\n    if major < 10:\n        raise E\n    return arch(major)\n", Reachable.NO),
        ("def needs():\n    major, minor = torch.cuda.get_device_capability()\n    if major < 9:\n        raise E\n", Reachable.YES),
        ("if is_hip():\n    def needs(): ...\nelse:\n    def needs():\n        raise E\n", Reachable.YES),
        ("if is_cuda():\n    def needs():\n        raise E\nelse:\n    def needs(): ...\n", Reachable.YES),
        ("from x import needs\n", Reachable.YES),
    ],
)  # fmt: skip
@pytest.mark.parametrize("call", ["needs()\n    return run_k(x)", "with needs():\n        return run_k(x)"])
def test_what_stands_behind_a_call_that_always_raises_is_not_reached(helper: str, answer: Reachable, call: str) -> None:
    """0.5.23's require_cluster_launch_arch, 0.5.14's _nvfp4_arch_env."""
    text = f"from sglang.srt.utils import is_cuda, is_hip\n{IMPORT}\n{helper}\ndef use(x):\n    {call}\n"
    found = reach(text, models__model="from sglang.srt.layers.layer import use\nuse(1)\n")
    assert found.reachable is answer
    if answer is Reachable.NO:
        assert found.gate.endswith(": needs() raises on ROCm")
    assert found.conditions == ()
