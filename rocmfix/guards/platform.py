"""What a Python condition comes to on a ROCm GPU, as far as the tree itself can tell."""

from __future__ import annotations

import ast
import builtins
import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from rocmfix.guards.conditionals import Maybe
from rocmfix.guards.program import Program, within
from rocmfix.guards.pyfacts import IMPORTS, NVIDIA_PACKAGES, RETURNS, Assigned, Binding, Scope, Test
from rocmfix.guards.pysource import PySource
from rocmfix.guards.returned import returned


class _Unknown:
    def __bool__(self) -> bool:
        raise TypeError


UNKNOWN: Final = _Unknown()
_DEEPEST = 12
_BUILTIN: Final = frozenset(dir(builtins))


@dataclass(frozen=True, slots=True)
class Gpu:
    """A GPU as sglang's platform tests see it."""

    gfx: str
    capability: tuple[int, int]
    """What torch.cuda.get_device_capability() answers on it: 9 is AMD's generation here, not Hopper."""


GPUS: Final = (Gpu("gfx942", (9, 4)), Gpu("gfx950", (9, 5)))

# sglang/srt/utils/common.py and jit_kernel/utils.py; the same tests are also kept as `_is_cuda` or `IS_HIP`.
_TRUE = re.compile(r"^is_(?:hip|rocm|amd|cuda_alike|hip_runtime)$")
_FALSE = re.compile(
    r"^is_(?:cuda|npu|xpu|hpu|cpu|musa|mps|mlx|sail|nvidia|tpu|out_of_tree|cuda_runtime|musa_runtime|"
    r"sail_runtime|flashinfer_available|deep_gemm_available|nvidia_cublas_version_ge_12_9)$"
)
_NVIDIA_GENERATION = re.compile(
    r"^is_(?:sm_?\d\w*|blackwell\w*|hopper\w*|ampere\w*|ada\w*)$|^(?:supports?|has)_sm\d+\w*$"
)
_GFX = re.compile(r"^is_(gfx\w*?)(?:_supported)?$")
_COMPARE: Final[Mapping[type[ast.cmpop], Callable[..., bool]]] = {
    ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.Lt: operator.lt, ast.LtE: operator.le,
    ast.Gt: operator.gt, ast.GtE: operator.ge, ast.Is: operator.is_, ast.IsNot: operator.is_not,
    ast.In: lambda left, right: left in right, ast.NotIn: lambda left, right: left not in right,
}  # fmt: skip


class Platform:
    """Answers for ROCm: True, False, or None where it hangs on the user, the model or the machine."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._known: dict[tuple[str, Scope, int], Maybe] = {}
        self._worlds = tuple(_World(program, gpu) for gpu in GPUS)

    def truth(self, test: Test, source: PySource, scope: Scope) -> Maybe:
        """Whether `test` is passed on ROCm; None when some GPU or setting passes it and some does not."""
        key = (source.path, source.unit(scope), id(test.expr))
        if key not in self._known:
            self._known[key] = self._on_each(test.expr, source, scope)
        value = self._known[key]
        return value if value is None or test.holds else not value

    def _on_each(self, expr: ast.expr, source: PySource, scope: Scope) -> Maybe:
        """What it comes to on every GPU; where the first was not looked at, the others need not be asked."""
        first, *others = self._worlds
        first.looked = False
        answer = first.truth(expr, source, scope)
        if first.looked and any(other.truth(expr, source, scope) is not answer for other in others):
            return None
        return answer


class _World:
    """One evaluation for one GPU."""

    def __init__(self, program: Program, gpu: Gpu) -> None:
        self._program = program
        self._chip = gpu
        self._depth = 0
        self._known: dict[tuple[str, str, Scope], tuple[object, bool]] = {}
        self.looked = False
        """Whether a value since this was reset hung on the GPU."""

    @property
    def _gpu(self) -> Gpu:
        self.looked = True
        return self._chip

    def truth(self, node: ast.expr, source: PySource, scope: Scope) -> Maybe:
        value = self.value(node, source, scope)
        try:
            return bool(value)
        except (TypeError, ValueError):
            return None

    def value(self, node: ast.expr, source: PySource, scope: Scope) -> object:
        self._depth += 1
        try:
            return UNKNOWN if self._depth > _DEEPEST else self._value(node, source, scope)
        finally:
            self._depth -= 1

    def _value(self, node: ast.expr, source: PySource, scope: Scope) -> object:  # noqa: C901 - one arm an expression
        match node:
            case ast.Constant():
                return node.value
            case ast.Name(id=name):
                return self._name(name, source, scope)
            case ast.Attribute():
                return self._attribute(node, source, scope)
            case ast.Call():
                return self._call(node, source, scope)
            case ast.UnaryOp(op=ast.Not()):
                inner = self.truth(node.operand, source, scope)
                return UNKNOWN if inner is None else not inner
            case ast.BoolOp():
                return self._boolean(node, source, scope)
            case ast.Compare():
                return self._compare(node, source, scope)
            case ast.IfExp():
                chosen = self.truth(node.test, source, scope)
                return UNKNOWN if chosen is None else self.value(node.body if chosen else node.orelse, source, scope)
            case ast.List(elts=[]):
                return UNKNOWN  # it may be filled later
            case ast.Tuple() | ast.List() | ast.Set():
                values = tuple(self.value(item, source, scope) for item in node.elts)
                return UNKNOWN if UNKNOWN in values else values
            case ast.Subscript():
                return self._item(node, source, scope)
            case _:
                return UNKNOWN

    def _boolean(self, node: ast.BoolOp, source: PySource, scope: Scope) -> object:
        decides = isinstance(node.op, ast.Or)
        answers = [self.truth(value, source, scope) for value in node.values]
        if decides in answers:
            return decides
        return UNKNOWN if None in answers else not decides

    def _compare(self, node: ast.Compare, source: PySource, scope: Scope) -> object:
        if len(node.ops) != 1:
            return UNKNOWN
        left, right = self.value(node.left, source, scope), self.value(node.comparators[0], source, scope)
        if isinstance(left, _Unknown) or isinstance(right, _Unknown):
            return UNKNOWN
        try:
            return bool(_COMPARE[type(node.ops[0])](left, right))
        except TypeError:
            return UNKNOWN

    def _item(self, node: ast.Subscript, source: PySource, scope: Scope) -> object:
        whole, index = self.value(node.value, source, scope), self.value(node.slice, source, scope)
        return whole[index] if isinstance(whole, tuple) and isinstance(index, int) and index < len(whole) else UNKNOWN

    def _attribute(self, node: ast.Attribute, source: PySource, scope: Scope) -> object:
        text = ast.unparse(node)
        if text.endswith("version.hip"):
            return "7.2"
        if text.endswith(("version.cuda", "version.musa")):
            return None
        if node.attr in {"major", "minor"} and "arch" in text.lower():
            return self._gpu.capability[node.attr == "minor"]
        if isinstance(node.value, ast.Name) and node.value.id == "self":
            return self._assigned(f"self.{node.attr}", source, scope)
        return self._imported_attribute(node, source, scope)

    def _imported_attribute(self, node: ast.Attribute, source: PySource, scope: Scope) -> object:
        if not isinstance(node.value, ast.Name):
            return UNKNOWN
        for bound in _bound(node.value.id, source, scope):
            module = self._program.module(f"{bound.module}.{bound.symbol}" if bound.symbol else bound.module)
            return self._name(node.attr, module, ()) if module else UNKNOWN
        return UNKNOWN

    def _name(self, name: str, source: PySource, scope: Scope) -> object:
        if name.startswith(IMPORTS):
            return name.removeprefix(IMPORTS).split(".")[0] not in NVIDIA_PACKAGES
        if name.startswith(RETURNS):
            return self._returns(name.removeprefix(RETURNS), source, scope)
        if name == "TYPE_CHECKING":
            return False
        known = self._platform(name)
        if known is not None:
            return known
        if source.is_parameter(name, scope):
            return UNKNOWN
        if source.assigned(name, scope):
            return self._assigned(name, source, scope)
        for bound in _bound(name, source, scope):
            if bound.symbol:
                module = self._defining(bound.module, bound.symbol)
                return self._name(bound.symbol, module, ()) if module else UNKNOWN
        return UNKNOWN

    def _platform(self, name: str) -> Maybe:
        plain = name.strip("_").lower()
        if _TRUE.match(plain):
            return True
        if _FALSE.match(plain):
            return False
        gfx = _GFX.match(plain)
        if gfx:
            return self._gpu.gfx.startswith(gfx[1])
        return False if _NVIDIA_GENERATION.match(plain) else None

    def _assigned(self, name: str, source: PySource, scope: Scope) -> object:
        return self._once((name, source.path, scope), lambda: self._held(name, source, scope))

    def _once(self, key: tuple[str, str, Scope], make: Callable[[], object]) -> object:
        """The value of a name or of a function, remembered; of what is defined by itself nothing can be told."""
        if key not in self._known:
            self._known[key] = (UNKNOWN, False)
            before, self.looked = self.looked, False
            self._known[key] = (make(), self.looked)
            self.looked |= before
        value, looked = self._known[key]
        self.looked |= looked
        return value

    def _held(self, name: str, source: PySource, scope: Scope) -> object:
        """What the assignments that can have run on ROCm agree on."""
        visible = self._visible(name, source, scope)
        own = name.startswith("self.")
        if own and all(isinstance(one.value, ast.Constant) for one in visible):
            return UNKNOWN  # a default that others may change through the object
        told = _agreed([self.value(one.value, source, one.scope) for one in visible])
        return UNKNOWN if own and told is not UNKNOWN and self._heir_assigns(name, scope[0]) else told

    def _heir_assigns(self, name: str, owner: str) -> bool:
        return any(
            one.scope[:1] == (heir,) for other, heir in self._program.heirs(owner) for one in other.assigned(name)
        )

    def _visible(self, name: str, source: PySource, scope: Scope) -> list[Assigned]:
        given = source.assigned(name, scope[:1] if name.startswith("self.") else scope)
        if name.startswith("self."):
            mine = [one for one in given if one.scope[:1] == scope[:1]]
        else:
            depth = max((len(one.scope) for one in given if within(scope, one.scope)), default=-1)
            mine = [one for one in given if len(one.scope) == depth and within(scope, one.scope)]
        return [one for one in mine if not any(self._fails(test, source, one.scope) for test in one.tests)]

    def _fails(self, test: Test, source: PySource, scope: Scope) -> bool:
        value = self.truth(test.expr, source, scope)
        return value is not None and value is not test.holds

    def _call(self, node: ast.Call, source: PySource, scope: Scope) -> object:
        text = ast.unparse(node.func)
        name = text.rpartition(".")[2]
        if name == "get_device_capability":
            return self._gpu.capability
        if name == "get_device_sm":
            return self._gpu.capability[0] * 10 + self._gpu.capability[1]
        if text in {"torch.cuda.is_available", "cuda.is_available"}:
            return True
        if name == "bool" and len(node.args) == 1:
            inner = self.truth(node.args[0], source, scope)
            return UNKNOWN if inner is None else inner
        if name == "find_spec" and node.args and isinstance(node.args[0], ast.Constant):
            return None if str(node.args[0].value).split(".")[0] in NVIDIA_PACKAGES else UNKNOWN
        if text in _BUILTIN:
            return UNKNOWN
        if name.strip("_") in {"is_hip", "is_cuda", "is_rocm", "is_cuda_alike"} or not isinstance(
            node.func, ast.Attribute
        ):
            return self._function(name, source, scope)
        if text.startswith("self."):
            return self._method(name, source, scope)
        return UNKNOWN

    def _function(self, name: str, source: PySource, scope: Scope) -> object:
        symbols = [each.symbol for each in _bound(name, source, scope) if each.symbol]
        known = next((told for each in (name, *symbols) if (told := self._platform(each)) is not None), None)
        if known is not None:
            return known
        place = self._place(name, source, scope)
        return self._body(*place) if place else UNKNOWN

    def _returns(self, name: str, source: PySource, scope: Scope) -> bool:
        """Whether a call of the function comes back on ROCm; not when all ways through it raise."""
        place = None if name in _BUILTIN else self._place(name, source, scope)
        function = place and place[0].function(place[1])
        return not (place and function) or bool(returned(function.body, lambda test: self.truth(test, *place)))

    def _place(self, name: str, source: PySource, scope: Scope) -> tuple[PySource, Scope] | None:
        """Where the function that `name` means stands; None when there are several."""
        bound = _bound(name, source, scope)
        for end in range(len(scope), -1, -1):
            here = (*scope[:end], name)
            if source.function(here):
                return None if bound or source.redefined(here) else (source, here)
        for each in bound[:1]:
            module = self._defining(each.module, each.symbol) if each.symbol else None
            return self._place(each.symbol or "", module, ()) if module else None
        return None

    def _method(self, name: str, source: PySource, scope: Scope) -> object:
        told = self._body(source, (scope[0], name))
        if told is UNKNOWN or any(other.function((heir, name)) for other, heir in self._program.heirs(scope[0])):
            return UNKNOWN
        return told

    def _body(self, source: PySource, key: Scope) -> object:
        """What all ways through a function that ROCm can take return; False when each returns something falsy."""
        function = source.function(key)
        if not function or source.redefined(key):
            return UNKNOWN

        def value() -> object:
            ends = returned(function.body, lambda test: self.truth(test, source, key))
            return _agreed([self.value(each, source, key) for each in ends])

        return self._once(("", source.path, key), value)

    def _defining(self, module: str, symbol: str, hops: int = 4) -> PySource | None:
        """The module that defines `symbol`, through packages that pass it on."""
        source = self._program.module(module)
        if source is None or hops == 0:
            return None
        if source.assigned(symbol, ()) or source.function((symbol,)):
            return source
        for bound in source.imports(symbol, ()):
            if bound.name == symbol and bound.symbol and not bound.scope:
                return self._defining(bound.module, bound.symbol, hops - 1)
        for bound in source.imports("*", ()):
            if found := self._defining(bound.module, symbol, hops - 1):
                return found
        return source


def _bound(name: str, source: PySource, scope: Scope) -> list[Binding]:
    """The imports that `name` may stand for."""
    return [each for each in source.imports(name, scope) if each.name == name and within(scope, each.scope)]


def _agreed(values: list[object]) -> object:
    """The one value that all are, False when all are falsy, else nothing that can be told."""
    if not values or any(isinstance(value, _Unknown) for value in values):
        return UNKNOWN
    if all(value == values[0] for value in values):
        return values[0]
    return UNKNOWN if any(values) else False
