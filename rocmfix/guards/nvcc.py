"""Finds nvcc, and has it emit PTX: what it makes of a kernel's device code, without an NVIDIA GPU."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rocmfix.guards.toolchain import tvm_headers
from rocmfix.guards.units import NVIDIA, Unit
from rocmfix.system.compiler import compile_file, find_program, workspace
from rocmfix.system.files import cache_home
from rocmfix.system.surroundings import variable

NONE: Final = (
    "there is no nvcc where CUDA_HOME says, or else on PATH, in /usr/local/cuda or where ci/nvcc puts one; "
    "run ci/nvcc once (no GPU needed)"
)
_ERROR = re.compile(
    r"^(?P<file>[^\s:(]+)[:(](?P<line>\d+)\)?(?::\d+)?: (?:\w+ )?error[^:]*: (?P<text>.*)$"  # gcc's, then cudafe++'s
    r"|^nvcc (?:fatal|error) *: (?P<nvcc>.*)$",
    re.MULTILINE,
)
_HASH = re.compile(r"(_INTERNAL_|_GLOBAL__N__)[0-9a-f]{8}_")
"""What nvcc puts into names that are local to a unit: a checksum of all that the preprocessor has left of it, the
line marks included."""


@dataclass(frozen=True)
class Ptx:
    """What came of one compilation for CUDA."""

    text: str = ""
    """The PTX, in names that depend on nothing but the code."""
    error: str = ""
    """The first error, with its place; empty when it compiled."""
    seconds: float = 0.0


@dataclass(frozen=True)
class Nvcc:
    """An nvcc and the headers that go with it."""

    name: str
    """What it is, for people: `nvcc 13.0.88`."""
    command: str
    tvm_ffi: tuple[Path, ...]
    """Include folders of the tvm-ffi versions at hand, newest first."""

    def emit(self, unit: Unit, source: str, folder: Path, headers: tuple[Path, ...], *flags: str) -> Ptx:
        """Compile `unit`, which is written to `folder` as `source`."""
        (folder / source).write_text(unit.text, encoding="utf-8")
        out = folder / f"{source}.ptx"
        argv = (
            self.command, "-ptx", f"-arch={NVIDIA}", "-w",
            *unit.flags, *flags,
            *(f"-I{each}" for each in (*unit.includes, *headers)),
            source, "-o", out.name,
        )  # fmt: skip
        done = compile_file(argv, cwd=folder)
        if not done.ok:
            return Ptx(error=_first_error(done.ran.err + done.ran.out), seconds=done.seconds)
        return Ptx(_HASH.sub(r"\1", out.read_text(encoding="utf-8", errors="replace")), seconds=done.seconds)


def find_nvcc(toolchain: Path | None = None) -> Nvcc | None:
    """The nvcc that sglang's own loader would take, else what ci/nvcc has put into the cache.

    CUDA_HOME and CUDA_PATH name one nvcc: another in its place would prove nothing to whoever set them. `toolchain` is
    where ci/hip-toolchain put the tvm-ffi headers.
    """
    home = variable("CUDA_HOME") or variable("CUDA_PATH")
    others = ("nvcc", "/usr/local/cuda/bin/nvcc", str(cache_home("rocmfix") / "nvcc/bin/nvcc"))
    found = find_program(*((f"{home}/bin/nvcc",) if home else others))
    if found is None:
        return None
    command = str(Path(found).absolute())  # it is started in another folder
    with workspace() as folder:
        said = compile_file((command, "--version"), cwd=folder).ran.out
    version = re.search(r"\bV(\d+(?:\.\d+)+)", said)
    return Nvcc(f"nvcc {version[1]}" if version else command, command, tvm_headers(toolchain))


def _first_error(said: str) -> str:
    found = _ERROR.search(said)
    if found is None:
        return (said.strip().splitlines() or ["nvcc failed without a word"])[-1]
    return found["nvcc"] or f"{found['text']} at {found['file'].removeprefix('./')}:{found['line']}"
