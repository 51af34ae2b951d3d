"""Which `#include` lines of one file a compiler would reach, without a compiler.

The catalogue's `include_guarded` probe asks

    include_state(text, "cuda_runtime.h", HIP)

and gets one `IncludeState` for each `#include` whose path is, or ends in, that name. Its `active` is True
when the line is compiled, False when a conditional takes it out, None when that hangs on something only the
compiler knows (host or device pass, GPU, compiler version). So an include is *guarded* when it is there,
`active` is False for `HIP`, and True or None for `CUDA`; `guarded()` says just that for a whole file.

Contexts map macro names to their text. A name that is absent is not defined, as for a compiler; a name that
maps to None may or may not be, and both branches stay possible. One file is looked at alone: what its
own headers define is not seen here (`guards.chain` follows them).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final, TypeAlias

from rocmfix.guards.condition import Value, evaluate
from rocmfix.guards.directives import Directive, directives

Macros: TypeAlias = "Mapping[str, str | None]"
Maybe: TypeAlias = "bool | None"
"""Yes, no, or None: cannot tell."""

HIP: Final[Macros] = MappingProxyType(
    {
        # sglang's load_jit passes USE_ROCM from 0.5.10 (jit_kernel/utils.py), tvm-ffi the platform macro.
        "USE_ROCM": "1",
        "__HIP_PLATFORM_AMD__": "1",
        # Predefined by clang with -x hip (`clang -x hip -dM -E`); __CUDACC__ and __CUDA_ARCH__ are not.
        "__HIP__": "1",
        "__HIPCC__": "1",
        "__clang__": "1",
        "__GNUC__": "4",
        "__cplusplus": "202002L",
        "__x86_64__": "1",
        # Device pass only, or one GPU only.
        "__HIP_DEVICE_COMPILE__": None,
        "__AMDGCN__": None,
        "__GFX9__": None,
        "__gfx942__": None,
        "__gfx950__": None,
        "HIP_FP8_TYPE_FNUZ": None,
        "HIP_FP8_TYPE_E4M3": None,
    }
)
"""Compiled by hipcc for gfx942 or gfx950, as sglang's own JIT asks for it."""

CUDA: Final[Macros] = MappingProxyType(
    {
        "__CUDACC__": "1",
        "__NVCC__": "1",
        "__GNUC__": "12",
        "__cplusplus": "202002L",
        "__x86_64__": "1",
        "__CUDA_ARCH__": None,
        "SGL_CUDA_ARCH": None,
        "CUDA_VERSION": None,
        "CUDART_VERSION": None,
        "__CUDACC_VER_MAJOR__": None,
        "__CUDACC_VER_MINOR__": None,
    }
)
"""Compiled by nvcc for any GPU."""


@dataclass(frozen=True, slots=True)
class IncludeState:
    """One `#include` line and whether it is compiled."""

    line: int
    name: str
    """The path as the file spells it."""
    active: Maybe
    condition: str
    """The conditionals around it, outermost first, as source text; empty when there are none."""


def include_state(text: str, header: str, defines: Macros) -> tuple[IncludeState, ...]:
    """Every `#include` of `header` in `text`, and whether it is compiled where `defines` hold.

    `header` is a file name or the end of a path: `cuda_runtime.h` finds `<cuda_runtime.h>`, `cub.cuh` finds
    `<cub/cub.cuh>`.
    """
    wanted = "/" + header
    return tuple(
        IncludeState(step.directive.line, name, step.active, step.condition)
        for step in Conditionals(defines).steps(directives(text))
        if step.directive.name.startswith("include")
        and (name := step.directive.included)
        and ("/" + name).endswith(wanted)
    )


def guarded(text: str, header: str) -> bool:
    """Whether `text` includes `header` for CUDA, and never when compiled for ROCm."""
    hip = include_state(text, header, HIP)
    cuda = include_state(text, header, CUDA)
    return (
        bool(hip) and all(state.active is False for state in hip) and any(state.active is not False for state in cuda)
    )


@dataclass(frozen=True, slots=True)
class Step:
    """A directive that is no conditional, with the answer whether it is compiled."""

    directive: Directive
    active: Maybe
    condition: str


@dataclass(slots=True)
class _Group:
    """One `#if` ... `#endif` being read."""

    outer: Maybe
    active: Maybe
    taken: Maybe
    """Whether a branch so far was compiled: later ones are then not."""
    shown: str
    tested: list[str] = field(default_factory=list)


class Conditionals:
    """Reads directives in order, keeps the macros, and knows at each line whether it is compiled."""

    def __init__(self, macros: Macros) -> None:
        self.macros: dict[str, str | None] = dict(macros)
        self.changes = 0
        """How often a macro has become another: as long as none has, a file reads as it did."""
        self._groups: list[_Group] = []

    @property
    def active(self) -> Maybe:
        """Whether the line reached is compiled."""
        return self._groups[-1].active if self._groups else True

    @property
    def condition(self) -> str:
        """The open conditionals as one expression, outermost first."""
        return " && ".join(group.shown for group in self._groups)

    def steps(self, lines: tuple[Directive, ...], gaps: list[tuple[int, int]] | None = None) -> Iterator[Step]:
        """Each directive of one file that is no conditional; `#define` and `#undef` work in passing.

        `gaps` is given the stretches of lines, first and last, that are not compiled.
        """
        depth, shut = len(self._groups), None
        gaps = [] if gaps is None else gaps
        for line in lines:
            if line.name not in _CONDITIONALS:
                active = self.active
                if line.name in {"define", "undef"}:
                    self._define(line, active)
                yield Step(line, active, self.condition)
                continue
            self._conditional(line, depth)
            if self.active is False:
                shut = shut or line
            elif shut:
                gaps.append((shut.line, line.line))
                shut = None
        if shut:
            gaps.append((shut.line, lines[-1].end))
        del self._groups[depth:]

    def _conditional(self, line: Directive, depth: int) -> None:
        if line.name in _OPENING:
            self._open(line)
        elif len(self._groups) == depth:
            return  # a stray #else or #endif: the compiler reports it, the scan goes on
        elif line.name == "endif":
            self._groups.pop()
        else:
            self._turn(line)

    def _open(self, line: Directive) -> None:
        outer = self.active
        value = None if outer is False else self._truth(line)
        shown = _shown(line)
        self._groups.append(_Group(outer, _and(outer, value), value, shown, [shown]))

    def _turn(self, line: Directive) -> None:
        group = self._groups[-1]
        free = None if group.taken is None else not group.taken
        value: Maybe = True if line.name == "else" else None
        if line.name != "else" and group.outer is not False and free is not False:
            value = self._truth(line)
        group.active = _and(group.outer, _and(free, value))
        group.taken = _or(group.taken, value) if free is not False else True
        refused = [_not(test) for test in group.tested]
        if line.name != "else":
            group.tested.append(_shown(line))
            refused.append(group.tested[-1])
        group.shown = " && ".join(refused)

    def _truth(self, line: Directive) -> Maybe:
        name = line.rest.split(None, 1)[0] if line.rest else ""
        match line.name:
            case "ifdef" | "elifdef":
                return self._is_defined(name)
            case "ifndef" | "elifndef":
                known = self._is_defined(name)
                return None if known is None else not known
            case _:
                value: Value = evaluate(line.rest, self.macros)
                return None if value is None else bool(value)

    def _is_defined(self, name: str) -> Maybe:
        return None if name in self.macros and self.macros[name] is None else name in self.macros

    def _define(self, line: Directive, active: Maybe) -> None:
        if active is False:
            return
        name, body = _macro(line.rest)
        before = self.macros.get(name, _ABSENT)
        if active is None:
            self.macros[name] = None
        elif line.name == "undef":
            self.macros.pop(name, None)
        else:
            self.macros[name] = body
        self.changes += self.macros.get(name, _ABSENT) != before


_ABSENT: Final = object()
_OPENING: Final = frozenset({"if", "ifdef", "ifndef"})
_CONDITIONALS: Final = _OPENING | {"elif", "elifdef", "elifndef", "else", "endif"}


def _macro(rest: str) -> tuple[str, str]:
    """Name and text of a `#define`; parameters stay in the text, which no `#if` can then evaluate."""
    end = 0
    while end < len(rest) and (rest[end].isalnum() or rest[end] == "_"):
        end += 1
    return rest[:end], rest[end:].strip()


def _shown(line: Directive) -> str:
    name = line.rest.split(None, 1)[0] if line.rest else ""
    if line.name.endswith("ifdef"):
        return f"defined({name})"
    if line.name.endswith("ifndef"):
        return f"!defined({name})"
    text = " ".join(line.rest.split())
    return f"({text})" if "||" in text or "&&" in text else text


def _not(text: str) -> str:
    if text.startswith("!defined(") and text.count("(") == 1:
        return text[1:]
    return f"!{text}" if text.startswith(("defined(", "(")) or text.isidentifier() else f"!({text})"


def _and(left: Maybe, right: Maybe) -> Maybe:
    if left is False or right is False:
        return False
    return None if left is None or right is None else True


def _or(left: Maybe, right: Maybe) -> Maybe:
    if left is True or right is True:
        return True
    return None if left is None or right is None else False
