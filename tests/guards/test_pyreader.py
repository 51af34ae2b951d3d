"""What holds at a place of a Python file, and what is read there."""

from __future__ import annotations

import pytest

from rocmfix.guards.pysource import PySource, dotted


def held(text: str) -> list[list[str]]:
    """For each read of `k`, what must hold for it."""
    return [[test.text for test in use.tests] for use in PySource("x.py", text).uses("k")]


@pytest.mark.parametrize(
    ("text", "tests"),
    [
        ("if a:\n    k()\nelse:\n    k()\nk()\n", [["a"], ["not a"], []]),
        ("def f():\n    if a:\n        return\n    k()\n", [["not a"]]),
        ("def f():\n    if a:\n        pass\n    else:\n        raise E\n    k()\n", [["a"]]),
        ("def f():\n    if a:\n        return\n    else:\n        return\n    k()\n", [[]]),
        ("def f():\n    if a:\n        if b:\n            return\n    k()\n", [[]]),
        ("def f():\n    if a:\n        if b:\n            return\n        else:\n            raise E\n    k()\n", [["not a"]]),
        ("for x in y:\n    if a:\n        continue\n    k()\n", [["not a"]]),
        ("for x in y:\n    if a:\n        break\n    k()\nelse:\n    k()\n", [["not a"], []]),
        ("while a > 1:\n    k()\nelse:\n    k()\nk()\n", [["a > 1"], [], []]),
        ("def f():\n    assert a\n    k()\n", [["a"]]),
        ("def f():\n    with w:\n        assert a\n    k()\n", [["a"]]),
        ("try:\n    assert a\n    k()\nexcept E:\n    k()\nelse:\n    k()\nfinally:\n    k()\n", [["a"], [], ["a", "return of k"], []]),
        ("def f():\n    try:\n        import cutlass\n    except E:\n        pass\n    k()\n", [[]]),
        ("try:\n    def f():\n        import cutlass\n        k()\nexcept E:\n    pass\n", [["import cutlass"]]),
        ("def f():\n    needs()\n    k()\n", [["return of needs"]]),
        ("def f():\n    with needs() as x:\n        k()\n    k()\n", [["return of needs"], ["return of needs", "return of k"]]),
        ("def f():\n    x.needs()\n    y = needs()\n    k()\n", [[]]),
        ("a and b and k()\n", [["a", "b"]]),
        ("a or k()\n", [["not a"]]),
        ("k() if a else k()\n", [["a"], ["not a"]]),
        ("match k():\n    case 1 if k():\n        k()\n", [[], [], []]),
    ],
)  # fmt: skip
def test_what_must_hold_is_told_for_each_read(text: str, tests: list[list[str]]) -> None:
    assert held(text) == tests


@pytest.mark.parametrize(
    "text",
    [
        "x = [1 for y in k()]", "x = {y: 1 for y in z if k()}", 'x = f"{k()}"', "f(x=k())", "f(*k())", "x[k():]",
        "x = lambda: k()", "x = not k", "x = (y := k())", "x += k()", "x[k()] = 1", "x: int = k()", "del k",
        "def f(a=k()): ...", "def f(*, a=k()): ...", "async def f():\n    async for x in k(): ...",
        "@k\ndef f(): ...", "@k\nclass A: ...", "class A(k): ...", "class A(B, metaclass=k): ...",
        "def f():\n    yield k()", "with k() as x: ...", "assert k()", "raise E from k()", "f()(k)", "k.x.y",
    ],
)  # fmt: skip
def test_a_read_is_found_wherever_it_stands(text: str) -> None:
    assert held(text + "\n") == [[]]


@pytest.mark.parametrize(
    "text",
    [
        "k = 1", "k: int = 1", "k += 1", "(k := 1)", "a, (b, k) = c", "[k, *_] = c", "for k in x: ...", "with x as k: ...",
        "with x as (a, k): ...", "def f():\n    global k",
    ],
)  # fmt: skip
def test_a_name_is_given_something_wherever_that_stands(text: str) -> None:
    assert len(PySource("x.py", text + "\n").assigned("k")) == 1


@pytest.mark.parametrize(
    ("text", "base"),
    [
        ("k()", ""),
        ("a.b.k()", "a.b"),
        ("super().k()", "super"),
        ("f().k()", "?"),
        ("f().a.k()", "?.a"),
        ("x[0].k", "?"),
    ],
)
def test_what_stands_before_the_dot_is_told(text: str, base: str) -> None:
    (use,) = PySource("x.py", text + "\n").uses("k")
    assert use.base == base


@pytest.mark.parametrize(
    ("path", "line", "bound"),
    [
        ("p/x.py", "from .q import k", ("k", "sglang.p.q", "k")),
        ("p/x.py", "from ..q import k as other", ("other", "sglang.q", "k")),
        ("p/x.py", "from . import k", ("k", "sglang.p", "k")),
        ("p/__init__.py", "from .q import k", ("k", "sglang.p.q", "k")),
        ("p/__init__.py", "from ..q import k", ("k", "sglang.q", "k")),
        ("p/x.py", "from sglang.r import other as k", ("k", "sglang.r", "other")),
    ],
)
def test_an_import_is_told_by_its_full_name(path: str, line: str, bound: tuple[str, str, str]) -> None:
    (found,) = PySource(f"python/sglang/{path}", line + "\n").imports("k")
    assert (found.name, found.module, found.symbol) == bound


def test_an_imported_module_is_bound_by_its_first_name_or_by_the_one_given() -> None:
    source = PySource("x.py", "import sglang.a.b\nimport sglang.a.b as ab\nfrom sglang.a.b import c\n")
    assert [(bound.name, bound.symbol) for bound in source.imports("sglang.a.b")] == [("sglang", None), ("ab", None)]
    assert [bound.name for bound in source.imports_from("sglang.a.b")] == ["c"]


def test_an_import_of_everything_is_found() -> None:
    (bound,) = PySource("x.py", "def f(): ...\nfrom sglang.a import *\n").imports("*")
    assert (bound.module, bound.line) == ("sglang.a", 2)


def test_reads_are_told_from_the_top_down_whatever_was_asked_before() -> None:
    source = PySource("x.py", "def f():\n    k()\ndef g():\n    k(j)\ndef h():\n    k()\n")
    assert source.uses("j")
    assert [use.line for use in source.uses("k")] == [2, 4, 6]


def test_functions_and_calls_are_found_unasked_by_name() -> None:
    source = PySource("x.py", "def f():\n    g(files=1)\n    g(other=2)\n    g(3)\nclass A:\n    def m(self): ...\n")
    assert set(source.functions()) == {("f",), ("A", "m")}
    assert [use.line for use in source.calls(("files", "sources"))] == [2]


@pytest.mark.parametrize("given", ["k", "k, /", "*, k", "*k", "**k", "a, k=1"])
def test_every_kind_of_argument_is_one(given: str) -> None:
    source = PySource("x.py", f"def f({given}):\n    def g(x):\n        return k\n")
    assert source.is_parameter("k", ("f", "g"))
    assert not source.is_parameter("x", ("f",))


def test_code_of_a_nested_class_is_nobodys_function() -> None:
    source = PySource("x.py", "class A:\n    class B:\n        x = k()\n        def m(self):\n            return k()\n")
    assert [source.unit(use.scope) for use in source.uses("k")] == [("A", "B"), ("A", "B", "m")]


def test_a_package_is_named_without_its_init() -> None:
    assert [dotted(f"python/sglang/{path}.py") for path in ("srt/utils/__init__", "srt/x")] == [
        "sglang.srt.utils",
        "sglang.srt.x",
    ]
