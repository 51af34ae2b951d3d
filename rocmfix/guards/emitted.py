"""Tells whether a change alters what nvcc emits of the kernels that read the changed files."""

from __future__ import annotations

import re
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from enum import Enum
from itertools import zip_longest
from pathlib import Path

from rocmfix.guards.compile import Job, Kernels, copies
from rocmfix.guards.conditionals import CUDA
from rocmfix.guards.nvcc import NONE, Nvcc, Ptx
from rocmfix.guards.units import NVIDIA, Unit
from rocmfix.model import Record
from rocmfix.system.compiler import processors, workspace
from rocmfix.system.files import write_out

_CODE = re.compile(r"^[.\w\s]*\.(?:entry|func)\b[^\n]*?([\w$]+)\($", re.MULTILINE)
"""How a function begins in PTX: `.visible .entry name(`, `.func (.param .b32 func_retval0) name(`."""
_WIDE = 80
_WITHOUT_LINES = "-D__LINE__=0"
"""A guard moves what stands below it, and `assert` puts its line into the code."""


class Emission(str, Enum):
    """How the device code of two versions compares."""

    SAME = "same"
    DIFFERS = "differs"
    FAILED = "fails after"
    NOT_COMPARED = "not compared"


class Emitted(Record):
    """One file and one loader call, compiled by nvcc before and after."""

    file: str
    came: Emission
    loader: str = ""
    kernels: int = 0
    """Template instantiations in the unit."""
    why: str | None = None
    """The first difference, the error, or the reason why nothing was compared."""
    seconds: float = 0.0

    @property
    def is_changed(self) -> bool:
        """Whether the change shows on CUDA."""
        return self.came in {Emission.DIFFERS, Emission.FAILED}


def compare(before: Kernels, after: Kernels, changed: Sequence[str], nvcc: Nvcc | None) -> tuple[Emitted, ...]:
    """Compile every kernel that reads one of `changed` from both trees. `after` has the Python of `before`."""
    if nvcc is None:
        return tuple(_not_compared(before, path, NONE) for path in changed)
    reading = {path: before.compiled_for(path, CUDA) for path in changed}
    files = tuple(dict.fromkeys(root for roots in reading.values() for root in roots))
    unread = (path for path, roots in reading.items() if not roots)
    with workspace() as old, workspace() as new, ThreadPoolExecutor(processors()) as pool:
        for folder, kernels in ((old, before), (new, after)):
            write_out(folder, copies(kernels, files))
        jobs = enumerate(zip(before.jobs(files, (NVIDIA,)), after.jobs(files, (NVIDIA,)), strict=True))
        pairs = [_Pair(f"unit_{number}.cu", both, (old, new), nvcc) for number, both in jobs]
        told = tuple(pool.map(lambda pair: pair.compared(before), pairs))
    return (*told, *(_not_compared(before, path, "no loader call compiles it for CUDA") for path in unread))


@dataclass(frozen=True)
class _Pair:
    """One unit, before and after."""

    source: str
    jobs: tuple[Job, Job]
    folders: tuple[Path, Path]
    nvcc: Nvcc

    def compared(self, kernels: Kernels) -> Emitted:
        """What came of it; `kernels` are those before."""
        job, other = self.jobs
        came, why, seconds = Emission.NOT_COMPARED, job.refusal or other.refusal, 0.0
        if job.unit and other.unit:
            came, why, seconds = self._judged(job.unit, other.unit)
        return Emitted(
            file=kernels.tree.shown(job.file),
            came=came,
            loader=job.place(kernels.tree),
            kernels=len(job.unit.kernels) if job.unit else 0,
            why=why or None,
            seconds=round(seconds, 2),
        )

    def _judged(self, before: Unit, after: Unit) -> tuple[Emission, str, float]:
        one, other = self._emit(before, after)
        seconds = one.seconds + other.seconds
        if one.error:
            return Emission.NOT_COMPARED, f"nvcc does not compile it without the change: {one.error}", seconds
        if other.error:
            return Emission.FAILED, other.error, seconds
        if one.text == other.text:
            told = (Emission.SAME, "") if _CODE.search(one.text) else (Emission.NOT_COMPARED, "it has no device code")
            return *told, seconds
        ones, others = self._emit(before, after, _WITHOUT_LINES)
        if not ones.error and not others.error and ones.text == others.text:
            return Emission.SAME, "but for line numbers, which its asserts print", seconds
        return Emission.DIFFERS, _difference(one.text, other.text), seconds

    def _emit(self, before: Unit, after: Unit, *flags: str) -> tuple[Ptx, Ptx]:
        """Both sides, with the newest tvm-ffi that the first one compiles with."""
        one = Ptx()
        headers: tuple[Path, ...] = ()
        for headers in tuple((folder,) for folder in self.nvcc.tvm_ffi) or ((),):
            one = self.nvcc.emit(before, self.source, self.folders[0], headers, *flags)
            if "tvm" not in one.error:
                break
        if one.error:
            return one, Ptx()
        return one, self.nvcc.emit(after, self.source, self.folders[1], headers, *flags)


def _difference(before: str, after: str) -> str:
    """The first line that differs, and the function it is in."""
    function = ""
    for old, new in zip_longest(before.splitlines(), after.splitlines(), fillvalue=""):
        if old != new:
            where = f" in {function}" if function else ""
            return f"`{_from(old, new)}` became `{_from(new, old)}`{where}"
        if found := _CODE.search(old):
            function = found[1]
    return "nothing but the ends of lines"


def _from(line: str, other: str) -> str:
    """What can be shown of a line: of a long one, where it parts from the other."""
    shared = min(len(line), len(other))
    parting = next((at for at in range(shared) if line[at] != other[at]), shared)
    start = 0 if parting < _WIDE - 20 else parting - 20
    return ("..." if start else "") + line[start : start + _WIDE].strip()


def _not_compared(kernels: Kernels, path: str, why: str) -> Emitted:
    return Emitted(file=kernels.tree.shown(path), came=Emission.NOT_COMPARED, why=why)
