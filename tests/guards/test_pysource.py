"""A Python file read piece by piece says what it says when read as a whole."""

from __future__ import annotations

import textwrap

import pytest

from rocmfix.guards.pieces import members, pieces
from rocmfix.guards.pysource import PySource

TEXT = '''
"""A module.

import nothing, for this is prose
def neither(): ...
"""
import os
from sglang.a import (
    one,
    two as second,
)

if os.name == "nt":
    raise SystemExit
elif os.name == "posix":
    from sglang.b import *
else:
    flag = one()

@cache
@other(1)
def top(x):
    """Text
at the margin, with def inside
"""
    return one(x)

class Layer(
    Base,
):  # said
    """Words.

    def not_a_method(self): ...
    """

    size = one

    @property
    def go(self):
        if self.ready:
            return second(self)

    async def later(self):
        self.ready = one
'''


def test_statements_are_cut_with_their_decorators_and_branches() -> None:
    assert [(piece.line, piece.opens, piece.decides) for piece in pieces(TEXT)] == [
        (2, "", False),
        (7, "", False),
        (8, "", False),
        (13, "", True),
        (20, "top", False),
        (28, "Layer", False),
    ]


def test_a_class_is_cut_into_a_head_and_its_members() -> None:
    head, *rest = members(pieces(TEXT)[-1])
    assert (head.opens, head.line, head.text.endswith("pass\n")) == ("Layer", 28, True)
    assert [(piece.line, piece.opens) for piece in rest] == [(31, ""), (36, ""), (38, "go"), (43, "later")]


def test_what_is_found_has_its_line_its_scope_and_its_tests() -> None:
    source = PySource("python/sglang/x.py", TEXT)
    assert [(use.line, use.scope) for use in source.uses("one")] == [
        (18, ()),
        (26, ("top",)),
        (36, ("Layer",)),
        (44, ("Layer", "later")),
    ]
    (use,) = source.uses("second")
    assert [(test.text, test.line) for test in use.tests] == [("not (os.name == 'nt')", 13), ("self.ready", 40)]
    assert [bound.line for bound in source.imports("two")] == [8]
    assert [bound.module for bound in source.imports("*")] == ["sglang.b"]
    assert source.function(("Layer", "go")) is not None
    assert source.function(("Layer", "not_a_method")) is None
    assert source.unit(("Layer", "go", "inner")) == ("Layer", "go")


def test_a_name_is_also_found_later_in_a_class_that_was_cut_for_another() -> None:
    source = PySource("x.py", TEXT)
    assert source.uses("second")
    assert [one.scope for one in source.assigned("self.ready")] == [("Layer", "later")]
    assert source.is_class(("Layer",))


def test_only_what_is_visible_from_a_place_need_be_read() -> None:
    source = PySource("x.py", "v = 1\ndef f():\n    v = 2\ndef g():\n    global v\n    v = 3\ndef h():\n    v = 4\n")
    seen = {one.scope for one in source.assigned("v", ("f",))}
    assert {(), ("f",)} <= seen
    assert ("h",) not in seen
    assert len(source.assigned("v")) == 5  # `global` gives one more, of which nothing is known


def test_a_test_that_ends_the_module_early_holds_for_what_follows() -> None:
    source = PySource("x.py", "if not_here():\n    raise SystemExit\ndef f():\n    return k()\n")
    (use,) = source.uses("k")
    assert [(test.text, test.line) for test in use.tests] == [("not not_here()", 1)]


@pytest.mark.parametrize(
    "text",
    [
        "x = [\n1,\nk(2)]\ndef f():\n    return k()\n",  # items at the margin
        "x = 1 + \\\nk(2)\ndef f():\n    return k()\n",
        'x = \'"""\'; k(2)\ndef f():\n    return k()\n',  # quotes that open nothing
        "class A:\n    x = (\n    k(2))\n    def f(self):\n        return k()\n",
        "class A: x = k(2)\ndef f():\n    return k()\n",
    ],
)
def test_text_that_is_hard_to_cut_is_read_as_a_whole(text: str) -> None:
    assert len(PySource("x.py", text).uses("k")) == 2


@pytest.mark.parametrize("text", ["def k(:\n", "if k\n    k()\n", "k\0", "k = " + "(" * 5000])
def test_what_is_no_python_says_nothing(text: str) -> None:
    assert not PySource("x.py", text).uses("k")
    assert not PySource("x.py", text).imports("*")


def test_a_name_is_not_found_in_a_longer_one() -> None:
    (piece,) = pieces("mask = unmask(masks, a.mask_)\n")
    assert piece.holds("unmask")
    assert piece.holds("mask")
    assert not piece.holds("ask")
    assert not piece.holds("")
    assert textwrap.dedent(piece.text) == piece.text
