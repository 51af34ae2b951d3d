"""The translation units that sglang's own loader would compile on ROCm, read from the tree."""

from __future__ import annotations

import ast
import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from rocmfix.guards.chain import Sources
from rocmfix.guards.loaders import Loader, keyword
from rocmfix.guards.program import Program, within
from rocmfix.guards.pyfacts import Scope
from rocmfix.guards.pysource import PySource

_PRELUDE = "".join(
    f"#include <tvm/ffi/{name}.h>\n" for name in ("container/tensor", "dtype", "error", "extra/c_env_api", "function")
)
"""What tvm-ffi puts before inline sources (tvm_ffi/cpp/extension.py), and sglang from 0.5.18 (compile/spec.py)."""
_TVM_FFI_FLAGS = ("-fPIC", "-D__HIP_PLATFORM_AMD__=1", "-fno-gpu-rdc")
NVIDIA: Final = "sm_90"
"""The architecture that stands for CUDA: PTX for it says what nvcc makes of a kernel, and needs no GPU."""
_NVCC_FLAGS = ("-std=c++20", "-O3", "--expt-relaxed-constexpr", "-DSGL_CUDA_ARCH=900")
"""The flags for CUDA of every release from 0.5.8 to 0.5.23 (the first two have no SGL_CUDA_ARCH and ask for none)."""
_MOST = 32
"""Instantiations of one kernel that are compiled."""
_DTYPES: Final = {
    "float": "fp32_t", "float32": "fp32_t", "float16": "fp16_t", "bfloat16": "bf16_t",
    "float8_e4m3fn": "fp8_e4m3_t", "int8": "int8_t", "int32": "int32_t", "int64": "int64_t", "uint8": "uint8_t",
}  # fmt: skip
"""CPP_DTYPE_MAP of the loader."""
_GUESSES: Final = (
    (r"dim|size|width|hidden", "128"), (r"top_?k|_k$|^k$", "8"), (r"expert", "256"), (r"block|page", "64"),
    (r"thread", "256"), (r"world|rank|ranks|gpus", "8"), (r"mode|stage|version|unroll|split|num_|n_", "1"),
)  # fmt: skip
"""A typical value where a template takes a number that the tree does not spell out."""


class NotReadableError(Exception):
    """The tree does not say, in a way that can be read, what is instantiated."""


@dataclass(frozen=True)
class Unit:
    """One translation unit and how to compile it."""

    file: str
    text: str
    flags: tuple[str, ...]
    includes: tuple[str, ...]
    """Folders of the tree."""
    kernels: tuple[str, ...]
    """What is instantiated, as C++."""
    guessed: tuple[str, ...]
    """Arguments whose value is ours, not the tree's."""


@dataclass(frozen=True)
class Argument:
    """The values a template argument can take."""

    values: tuple[str, ...]
    guessed: str = ""


def unit_of(loader: Loader, file: str, sources: Sources, program: Program, arch: str) -> Unit:
    """The unit that `loader` compiles from `file` for `arch`, NVIDIA's or AMD's. Raises NotReadableError."""
    call = loader.use.call
    if call is None or keyword(call, "sources") is not None:
        raise NotReadableError("torch builds it as an extension, from sources it translates to HIP itself")
    if keyword(call, "cpp_files") is not None and keyword(call, "cuda_files") is None:
        raise NotReadableError("a C++ file for the host compiler; there is no device code in it")
    cuda = arch == NVIDIA
    reader = _Arguments(loader.source, loader.use.scope, pdl="true" if cuda else "false")
    kernels = _kernels(reader, call)
    root = next((each for each in sources.kernel_roots if file.startswith(each + "/")), "")
    own = tuple(_flags(reader, keyword(call, "extra_cuda_cflags")))
    rules = rules_of(program, root)
    hip = (*_TVM_FFI_FLAGS, *rules.flags(arch), *(flag for flag in own if flag not in rules.dropped))
    flags = (*_NVCC_FLAGS, *own) if cuda else hip
    return Unit(
        file,
        _text(file, kernels, rules),
        flags,
        (f"{root}/include",) if root else (),
        kernels,
        tuple(sorted(reader.guessed)),
    )


def _text(file: str, kernels: tuple[str, ...], rules: Rules) -> str:
    exports = "".join(
        f"TVM_FFI_DLL_EXPORT_TYPED_FUNC(kernel_{number}, ({kernel}));\n" for number, kernel in enumerate(kernels)
    )
    if rules.namespace and exports:
        exports = f"namespace {rules.namespace} {{\n{exports}}}\n"
    return f'{_PRELUDE}#include "{file}"\n{exports}'


@dataclass(frozen=True)
class Rules:
    """What the tree's loader does on HIP."""

    common: tuple[str, ...]
    by_arch: tuple[tuple[str, str], ...]
    """Flag for one architecture, and for every other one (named `*`)."""
    dropped: frozenset[str]
    namespace: str

    def flags(self, arch: str) -> tuple[str, ...]:
        """The flags for `arch`."""
        own = [flag for name, flag in self.by_arch if name == arch] or [f for name, f in self.by_arch if name == "*"]
        return (*self.common, *own)


def rules_of(program: Program, root: str) -> Rules:
    """Read the loader below the kernel folder `root` (`_get_default_target_flags`, `_wrapper_source`, `load_jit`)."""
    files = [path for path in program.below(root) if re.search(r"/utils(?:\.py$|/)", path)]
    common: tuple[str, ...] = ()
    by_arch: tuple[tuple[str, str], ...] = ()
    dropped: set[str] = set()
    namespace = ""
    for source in map(program.source, files):
        for scope, function in source.functions().items():
            if scope[-1].lstrip("_") == "get_default_target_flags":
                common, by_arch = _target_flags(function)
            elif scope == ("load_jit",):
                dropped.update(_filtered(function))
            elif scope == ("_wrapper_source",):
                namespace = namespace or _namespace(function)
        for given in source.assigned("DEFAULT_CUDA_CFLAGS"):
            common = common or _literals(given.value)
    return Rules(common, by_arch, frozenset(dropped), namespace)


def _target_flags(
    function: ast.FunctionDef | ast.AsyncFunctionDef,
) -> tuple[tuple[str, ...], tuple[tuple[str, str], ...]]:
    hip = next(
        (node for node in ast.walk(function) if isinstance(node, ast.If) and "is_hip" in ast.unparse(node.test)), None
    )
    if hip is None:
        return (), ()
    lists = [node for statement in hip.body for node in ast.walk(statement) if isinstance(node, ast.List)]
    by_arch: list[tuple[str, str]] = []
    for node in (each for statement in hip.body for each in ast.walk(statement)):
        if isinstance(node, ast.If) and (arch := re.search(r"gfx\w+", ast.unparse(node.test))):
            by_arch += [(arch[0], flag) for flag in _appended(node.body)] + [
                ("*", flag) for flag in _appended(node.orelse)
            ]
    return (_literals(lists[0]) if lists else ()), tuple(by_arch)


def _appended(body: list[ast.stmt]) -> Iterator[str]:
    for statement in body:
        for node in ast.walk(statement):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "append":
                yield from _literals(node)


def _filtered(function: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[str]:
    """Flags that load_jit takes out when it runs on HIP."""
    for node in ast.walk(function):
        if isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.NotIn):
            yield from (text for text in _literals(node.comparators[0]) if text.startswith("-"))


def _namespace(function: ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    texts = " ".join(_literals(function))
    found = re.search(r"namespace (\w+) \{", texts)
    return found[1] if found else ""


def _literals(node: ast.AST | None) -> tuple[str, ...]:
    if node is None:
        return ()
    return tuple(
        each.value for each in ast.walk(node) if isinstance(each, ast.Constant) and isinstance(each.value, str)
    )


def _flags(reader: _Arguments, node: ast.AST | None) -> Iterator[str]:
    """Every text in the list `node`; of one that is put together, the first that it can be."""
    for each in ast.iter_child_nodes(node) if node else ():
        if isinstance(each, ast.JoinedStr) or (isinstance(each, ast.Constant) and isinstance(each.value, str)):
            yield reader.texts(each)[0]
        else:
            yield from _flags(reader, each)


def _kernels(reader: _Arguments, call: ast.Call) -> tuple[str, ...]:
    wrappers = keyword(call, "cuda_wrappers")
    pairs = (
        [node.elts for node in ast.walk(wrappers) if isinstance(node, ast.Tuple) and len(node.elts) == 2]
        if wrappers
        else []
    )
    kernels: list[str] = []
    for pair in pairs:
        kernels += reader.texts(pair[1])
    if wrappers is not None and not kernels:
        raise NotReadableError(f"its kernels are put together at run time: {ast.unparse(wrappers)[:80]}")
    return tuple(dict.fromkeys(kernels))[:_MOST]


class _Arguments:
    """Reads kernel names, with every value their arguments can take."""

    def __init__(self, source: PySource, scope: Scope, pdl: str) -> None:
        self._source = source
        self._scope = scope
        self._pdl = pdl
        self.guessed: set[str] = set()

    def texts(self, node: ast.expr) -> list[str]:
        """The C++ text of `node`, once for each combination of values."""
        match node:
            case ast.Constant(value=str(text)):
                return [text]
            case ast.JoinedStr():
                parts = [self._part(part) for part in node.values]
                return ["".join(chosen) for chosen in itertools.islice(itertools.product(*parts), _MOST)]
            case ast.Name(id=name):
                values = [text for value in self._given(name) for text in self.texts(value)]
                if values:
                    return values
            case _:
                pass
        raise NotReadableError(f"its kernels are put together at run time: {ast.unparse(node)[:80]}")

    def _part(self, node: ast.expr) -> list[str]:
        if isinstance(node, ast.FormattedValue):
            return self._lists(node.value)
        return [str(node.value)] if isinstance(node, ast.Constant) else self.texts(node)

    def _lists(self, node: ast.expr) -> list[str]:
        """`{args}` where args is make_cpp_args(a, b): every `a, b`."""
        for value in self._given(node.id) if isinstance(node, ast.Name) else [node]:
            if isinstance(value, ast.Call) and ast.unparse(value.func).endswith("make_cpp_args"):
                options = [self._values(argument) for argument in value.args]
                return [", ".join(chosen) for chosen in itertools.islice(itertools.product(*options), _MOST)]
        return self._values(node)

    def _values(self, node: ast.expr) -> list[str]:
        match node:
            case ast.Constant(value=bool(flag)):
                return [str(flag).lower()]
            case ast.Constant(value=value):
                return [str(value)]
            case ast.Attribute(value=ast.Name(id="torch"), attr=attr) if attr in _DTYPES:
                return [_DTYPES[attr]]
            case ast.Call(func=ast.Name(id="is_arch_support_pdl")):
                return [self._pdl]  # False on HIP, true from sm_90 on, in every release: jit_kernel/utils.py
            case ast.Call(func=ast.Name(id="int" | "str"), args=[inner]):
                return self._values(inner)
            case ast.Compare() | ast.UnaryOp(op=ast.Not()) | ast.Call(func=ast.Name(id="bool")):
                return ["false", "true"]
            case ast.IfExp(body=yes, orelse=no):
                return list(dict.fromkeys((*self._values(yes), *self._values(no))))
            case ast.JoinedStr():
                return self.texts(node)
            case ast.Name(id=name):
                return self._named(name)
            case _:
                pass
        raise NotReadableError(f"a template argument is computed at run time: {ast.unparse(node)[:80]}")

    def _named(self, name: str) -> list[str]:
        for end in range(len(self._scope), 0, -1):
            function = self._source.function(self._scope[:end])
            for argument in (
                (*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs) if function else ()
            ):
                if argument.arg == name and function:
                    return self._parameter(
                        name, ast.unparse(argument.annotation) if argument.annotation else "", function
                    )
        values = [text for value in self._given(name) for text in self._values(value)]
        if not values:
            raise NotReadableError(f"the template argument {name} is computed at run time")
        return list(dict.fromkeys(values))

    def _parameter(self, name: str, kind: str, function: ast.FunctionDef | ast.AsyncFunctionDef) -> list[str]:
        if kind == "bool":
            return ["false", "true"]
        if "dtype" in kind or "dtype" in name:
            self.guessed.add(f"{name} = bf16_t")
            return ["bf16_t"]
        told = re.search(rf"\b{name}: ((?:\d+=\w+(?:, )?)+)", ast.get_docstring(function) or "")
        if told:
            return re.findall(r"(\d+)=", told[1])
        if kind == "str":
            raise NotReadableError(f"the template argument {name} is a text chosen at run time")
        value = next((value for pattern, value in _GUESSES if re.search(pattern, name)), "1")
        self.guessed.add(f"{name} = {value}")
        return [value]

    def _given(self, name: str) -> list[ast.expr]:
        return [one.value for one in self._source.assigned(name, self._scope) if within(self._scope, one.scope)]
