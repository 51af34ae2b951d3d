"""Which of its return statements a function can come to, given what is known of its conditions."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from typing import Final

from rocmfix.guards.conditionals import Maybe

_NOTHING: Final = ast.Constant(None)
"""What is returned where nothing is said."""
_Truth = Callable[[ast.expr], Maybe]


def returned(body: list[ast.stmt], truth: _Truth) -> list[ast.expr]:
    """Every expression that a function of this `body` may return; None where it ends. A way that raises is left out."""
    return [_NOTHING if end is None else end for end in _ends(body, truth)]


def _ends(body: list[ast.stmt], truth: _Truth) -> Iterator[ast.expr | None]:
    """What `body` may return; None, once, when it may run past its end."""
    for statement in body:
        match statement:
            case ast.Return(value=value):
                yield value or _NOTHING
                return
            case ast.Raise():
                return
            case _:
                ends = [end for branch in _branches(statement, truth) for end in _ends(branch, truth)]
                yield from (end for end in ends if end is not None)
                if None not in ends:
                    return
    yield None


def _branches(statement: ast.stmt, truth: _Truth) -> list[list[ast.stmt]]:
    """The blocks of `statement` of which one is run; an empty one where it may be that none is."""
    match statement:
        case ast.If(test=test, body=yes, orelse=no):
            chosen = truth(test)
            return [yes, no] if chosen is None else [yes if chosen else no]
        case ast.With(body=inner) | ast.AsyncWith(body=inner):
            return [inner]
        case ast.Try(body=inner, handlers=handlers, orelse=then, finalbody=last):
            return [[*inner, *then, *last], *([*handler.body, *last] for handler in handlers)]
        case ast.For(body=inner) | ast.AsyncFor(body=inner) | ast.While(body=inner):
            return [inner, statement.orelse]
        case ast.Match(cases=cases):
            return [*(case.body for case in cases), []]
        case _:
            return [[]]
