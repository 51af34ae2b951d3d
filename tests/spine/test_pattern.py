"""Finding Python by shape."""

from __future__ import annotations

import pytest

from rocmfix.pattern import PatternError, compile_pattern, search

SOURCE = '''\
import os
from a.b import c, d


class Backend:
    def init(
        self,
        steps: int,
    ) -> None:
        # a comment
    # a dedented comment ends nothing
        if _is_hip and steps > 3:
            self.run(steps, fast=True)
        else:
            self.walk(steps)

    def text(self):
        x = """
dedented text ends no block
"""
        return marker(x)


if os.name == "nt":
    def load(name):
        return 1
else:
    def load(name):
        return compile_it(name, flags=[])
'''


@pytest.mark.parametrize(
    "pattern", ["...", "x = ...", "a or ...", "f(x=...)", "return ...", "f(..., x)", "f(..., ...)", "(..., 1)"]
)
def test_dots_that_stand_for_nothing_are_refused(pattern):
    """They would match a literal `...` only: a probe that can never hold, and says nothing of it."""
    with pytest.raises(PatternError, match="one expression is `_`"):
        compile_pattern(pattern)


@pytest.mark.parametrize(
    "pattern", ["f(...)", "f(x, ...)", "f(x, ..., y=1)", "x[...]", "x[..., 0]", "if x: ...", "def f(_): ..."]
)
def test_dots_where_they_have_a_meaning(pattern):
    compile_pattern(pattern)


@pytest.mark.parametrize(
    ("scope", "pattern", "under", "line"),
    [
        ("Backend.init", "self.run(...)", None, 13),
        ("Backend.init", "self.run(steps, fast=True)", None, 13),
        ("Backend.init", "self.run(steps)", None, None),
        ("Backend.init", "_.run(_, ...)", None, 13),
        ("Backend.init", "_ > 3", None, 12),
        ("Backend.init", "steps > 3 and _is_hip", None, 12),
        ("Backend.init", "steps > 4", None, None),
        ("Backend.init", "self._(steps)", None, 15),
        ("Backend.init", "self.run(...)", "_is_hip", 13),
        ("Backend.init", "self.walk(...)", "_is_hip", None),
        ("Backend.init", "self.run(...)", "steps > 3", 13),
        ("Backend", "self.walk(_)", None, 15),
        ("Backend.text", "marker(_)", None, 21),
        ("load", "compile_it(_, flags=_)", None, 29),
        ("load", "compile_it(...)", None, 29),
        ("", "from a.b import d", None, 2),
        ("", "from a.b import e", None, None),
        ("", "if os.name == 'nt': ...", None, 24),
        ("Backend.init", "if _: ...", None, 12),
    ],
)
def test_finds_the_line_of_a_shape(scope, pattern, under, line):
    assert search(SOURCE, scope, pattern, under).match_line == line


def test_an_if_with_any_body_is_written_with_dots():
    assert search("if a:\n    b\n    c\n", "", "if a: ...").match_line == 1


@pytest.mark.parametrize(("scope", "line"), [("Backend", 5), ("Backend.text", 17), ("load", 25), ("nothing", None)])
def test_finds_the_line_of_a_scope(scope, line):
    assert search(SOURCE, scope).scope_line == line


def test_a_name_in_a_comment_or_string_is_no_code():
    source = 'def f():\n    # call_me()\n    return "call_me()"\n'
    assert search(source, "f", "call_me()").match_line is None


def test_a_method_of_another_class_is_not_meant():
    source = "class A:\n    def f(self):\n        one()\nclass B:\n    def f(self):\n        two()\n"
    assert search(source, "B.f", "one()").match_line is None
    assert search(source, "A.f", "one()").match_line == 3


@pytest.mark.parametrize(
    ("source", "scope", "pattern", "under"),
    [
        ("def f():\n    if a or b:\n        go()\n", "f", "go()", "a"),
        ("def f():\n    g([])\n", "f", "g(())", None),
        ("def f():\n    g(1)\n", "f", "g(_, _, ...)", None),
        ("from a.b import c\n", "", "from b import c", None),
        ("from .a import c\n", "", "from a import c", None),
        ("def f():\n    a or b\n", "f", "a and b", None),
        (SOURCE, "Backend.text", "self.walk(steps)", None),
    ],
)
def test_what_only_looks_alike_is_no_match(source, scope, pattern, under):
    """The last is a scope that cutting tears inside a string: the whole file is parsed, and only that scope asked."""
    assert search(source, scope).scope_line
    assert search(source, scope, pattern, under).match_line is None


@pytest.mark.parametrize("above", ["", "import os\n"])
def test_a_scope_is_not_inside_itself(above):
    assert search(f"{above}def f():\n    g()\n", "f.f").scope_line is None
    assert search(f"{above}def f():\n    def f():\n        g()\n", "f.f").scope_line == 2 + bool(above)


def test_what_is_not_python_holds_nothing():
    assert search("def f(:\n  call(\n", "f", "call()").match_line is None


@pytest.mark.parametrize("pattern", ["a b", "", "a; b", "def f("])
def test_a_pattern_is_one_expression_or_statement(pattern):
    with pytest.raises(PatternError):
        compile_pattern(pattern)
