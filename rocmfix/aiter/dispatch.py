"""Reads how `aiter/tuned_gemm.py` takes a bf16 row: by the function of its `libtype`, often without a kernel's name."""

from __future__ import annotations

import ast
from collections.abc import Iterator

PATH = "aiter/tuned_gemm.py"


def functions(text: str) -> dict[str, bool]:
    """For each `libtype` it serves, whether the row's `kernelName` is read for it; empty where `solMap` is no map.

    A row of any other `libtype` raises KeyError at the first request of its shape. Raises SyntaxError.
    """
    tree = ast.parse(text)
    named = {each.name: _reads_name(each) for each in tree.body if isinstance(each, ast.FunctionDef)}
    served = {libtype: named.get(function, True) for libtype, function in _map(tree)}
    return {**dict.fromkeys(_asked_for(tree), True), **served} if served else {}


def _map(tree: ast.Module) -> Iterator[tuple[str, str]]:
    for each in tree.body:
        match each:
            case ast.Assign(targets=[ast.Name(id="solMap")], value=ast.Dict(keys=keys, values=values)):
                for key, value in zip(keys, values, strict=True):
                    if isinstance(key, ast.Constant) and isinstance(value, ast.Name):
                        yield str(key.value), value.id
            case _:
                pass


def _asked_for(tree: ast.Module) -> Iterator[str]:
    """What `config["libtype"]` is compared with: v0.1.12 to v0.1.14 take flydsl before they look into the map."""
    for node in ast.walk(tree):
        match node:
            case ast.Compare(
                left=ast.Subscript(slice=ast.Constant(value="libtype")),
                ops=[ast.Eq()],
                comparators=[ast.Constant(value=str(libtype))],
            ):
                yield libtype
            case _:
                pass


def _reads_name(function: ast.FunctionDef) -> bool:
    return any(isinstance(node, ast.Constant) and node.value == "kernelName" for node in ast.walk(function))
