"""What one Python file says: imports, uses, assignments, each with the tests that must hold to get there."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from typing import Final, NamedTuple, TypeAlias

Scope: TypeAlias = "tuple[str, ...]"
"""Names of the enclosing classes and functions, outermost first."""

NVIDIA_PACKAGES: Final = frozenset({"flashinfer", "deep_gemm", "cutlass", "cuda", "nvidia", "cudnn", "tensorrt_llm"})
"""Python packages that exist for CUDA only: importing one on ROCm raises."""


IMPORTS: Final = "import "
RETURNS: Final = "return of "
"""Before a name: the tests that the import of a module succeeds, and that a function returns instead of raising."""


class Test(NamedTuple):
    """A condition on the way: `expr` must be true (or false) for the lines after it to run."""

    expr: ast.expr
    holds: bool
    line: int

    @property
    def text(self) -> str:
        """As source, with the polarity written out."""
        expr, holds = self.expr, self.holds
        while isinstance(expr, ast.UnaryOp) and isinstance(expr.op, ast.Not):
            expr, holds = expr.operand, not holds
        text = ast.unparse(expr)
        if holds:
            return text
        return f"not ({text})" if isinstance(expr, (ast.BoolOp, ast.Compare)) else f"not {text}"


class Binding(NamedTuple):
    """An import: `name` stands for `symbol` of `module`, or for the module itself when `symbol` is None."""

    name: str
    module: str
    symbol: str | None
    scope: Scope
    tests: tuple[Test, ...]
    line: int


class Use(NamedTuple):
    """A name or attribute read."""

    name: str
    base: str
    """What stands before the dot, as far as it is plain names; empty for a bare name, `?` for anything else."""
    scope: Scope
    tests: tuple[Test, ...]
    line: int
    call: ast.Call | None
    """The call, when the name is being called."""
    kept_as: str = ""
    """The name under which the module keeps what it is or makes: that of an assignment or of an operator of torch's."""


class Assigned(NamedTuple):
    """A value given to a name."""

    value: ast.expr
    scope: Scope
    tests: tuple[Test, ...]


@dataclass(slots=True)
class Facts:
    """What has been read of a file so far."""

    imports: dict[str, list[Binding]] = field(default_factory=dict)
    """By what they bring in, and by the name they bring it in under."""
    uses: dict[str, list[Use]] = field(default_factory=dict)
    assigned: dict[str, list[Assigned]] = field(default_factory=dict)
    """By name; attributes of self as `self.name`."""
    functions: dict[Scope, ast.FunctionDef | ast.AsyncFunctionDef] = field(default_factory=dict)
    redefined: set[Scope] = field(default_factory=set)
    """Functions that stand there more than once: overloads, or one for each platform."""
    classes: set[Scope] = field(default_factory=set)
    calls: list[Use] = field(default_factory=list)
    """Every call that passes keywords: where loaders are found."""
