"""Reads how `aiter/tuned_gemm.py` takes a bf16 row: by the function of its `libtype`, often without a kernel's name."""

from __future__ import annotations

import ast

PATH = "aiter/tuned_gemm.py"


def functions(text: str) -> dict[str, bool]:
    """For each `libtype` of `solMap`, whether its function reads the row's `kernelName`; empty where none is found.

    A row of any other `libtype` raises KeyError at the first request of its shape. Raises SyntaxError.
    """
    body = ast.parse(text).body
    named = {each.name: _reads_name(each) for each in body if isinstance(each, ast.FunctionDef)}
    found: dict[str, bool] = {}
    for each in body:
        match each:
            case ast.Assign(targets=[ast.Name(id="solMap")], value=ast.Dict(keys=keys, values=values)):
                for key, value in zip(keys, values, strict=True):
                    if isinstance(key, ast.Constant) and isinstance(value, ast.Name):
                        found[str(key.value)] = named.get(value.id, True)
            case _:
                pass
    return found


def _reads_name(function: ast.FunctionDef) -> bool:
    return any(isinstance(node, ast.Constant) and node.value == "kernelName" for node in ast.walk(function))
