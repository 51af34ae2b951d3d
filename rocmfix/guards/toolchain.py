"""Finds a compiler for HIP device code: ROCm's own hipcc, or clang with AMD's headers on a plain machine."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rocmfix.errors import ToolMissingError
from rocmfix.system.compiler import compile_file, find_program, workspace
from rocmfix.system.files import cache_home
from rocmfix.system.python import package_folder

_HINT = "run ci/hip-toolchain once (Debian 12 or 13, no GPU), or use a ROCm image: rocmfix guards compile image:REF"
_PROBE = "#include <hip/hip_runtime.h>\nhipLaunchConfig_t* launched;\n__global__ void kernel() {}\n"
"""sglang's utils.cuh needs hipLaunchConfig_t, which HIP has from 7.0 or later on (6.4.3 lacks it, 7.2.4 has it)."""
ARCHITECTURES: Final = ("gfx942", "gfx950")


@dataclass(frozen=True)
class Toolchain:
    """A compiler command and the headers that go with it."""

    name: str
    """What it is, for people: `hipcc`, or `clang-22 with HIP 7.2.53211 headers`."""
    command: tuple[str, ...]
    tvm_ffi: tuple[Path, ...]
    """Include folders of the tvm-ffi versions at hand, newest first."""

    def argv(self, source: str, arch: str, flags: tuple[str, ...], includes: tuple[str, ...]) -> tuple[str, ...]:
        """The command that compiles `source` for `arch`, device pass, with code generation.

        -fsyntax-only accepts kernels that code generation then refuses (`needs target feature gfx950-insts`).
        """
        return (
            *self.command,
            *flags,
            f"--offload-arch={arch}",
            "--cuda-device-only", "--no-gpu-bundle-output", "-c",
            *(f"-I{folder}" for folder in includes),
            "-Wno-everything", "-fno-color-diagnostics", "-ferror-limit=1",
            source,
            "-o", f"{source}.{arch}.o",
        )  # fmt: skip


def find_toolchain(folder: Path | None = None, compiler: str | None = None) -> Toolchain:
    """The machine's hipcc, else what ci/hip-toolchain has put into `folder`.

    Raises ToolMissingError when there is none, or when its HIP headers are too old for sglang.
    """
    folder = folder or cache_home("rocmfix") / "hip-toolchain"
    headers = tuple(path / "tvm_ffi/include" for path in sorted(folder.glob("tvm-ffi/*"), key=_version, reverse=True))
    installed = package_folder("tvm_ffi")
    if installed:
        headers = (installed / "include", *headers)
    hipcc = find_program(compiler) if compiler else find_program("/opt/rocm/bin/hipcc", "hipcc")
    found = Toolchain(hipcc, (hipcc, "-x", "hip"), headers) if hipcc else _stand_in(folder, headers)
    if not found.tvm_ffi:
        raise ToolMissingError("not compiled: the tvm-ffi headers are not here", hint=_HINT)
    _refuse_old(found)
    return found


def _version(path: Path) -> tuple[int, ...]:
    return tuple(int(part) for part in path.name.split(".") if part.isdigit())


def _stand_in(folder: Path, headers: tuple[Path, ...]) -> Toolchain:
    rocm = folder / "rocm"
    devices = next(iter(sorted(rocm.glob("lib/llvm-*/lib/clang/*/amdgcn/bitcode"))), None)
    if devices is None:
        raise ToolMissingError("not compiled: there is no hipcc and no stand-in for it here", hint=_HINT)
    clang = find_program(f"clang-{devices.parents[1].name}")
    if clang is None:
        raise ToolMissingError(f"not compiled: clang-{devices.parents[1].name} is not on PATH", hint=_HINT)
    command = (
        clang, "--driver-mode=g++",
        f"--rocm-path={rocm}", f"--rocm-device-lib-path={devices}",
        "-isystem", str(rocm / "include"),
        "-x", "hip",
    )  # fmt: skip
    return Toolchain(f"{Path(clang).name} with HIP {_hip_version(rocm)} headers", command, headers)


def _hip_version(rocm: Path) -> str:
    path = rocm / "share/hip/version"
    pairs = (
        dict(line.split("=", 1) for line in path.read_text(encoding="utf-8").splitlines() if "=" in line)
        if path.is_file()
        else {}
    )
    return ".".join(pairs.get(f"HIP_VERSION_{part}", "?") for part in ("MAJOR", "MINOR", "PATCH"))


def _refuse_old(toolchain: Toolchain) -> None:
    """Compile two lines: a failure here is the toolchain's, and no kernel's."""
    with workspace() as folder:
        (folder / "probe.hip").write_text(_PROBE, encoding="utf-8")
        done = compile_file(toolchain.argv("probe.hip", ARCHITECTURES[0], ("-std=c++20",), ()), cwd=folder)
    if not done.ok:
        raise ToolMissingError(
            f"toolchain too old, nothing compiled: {toolchain.name} does not compile hipLaunchConfig_t for gfx942",
            details=done.ran.tail[:3],
            hint=_HINT,
        )
