"""Finds a compiler for HIP device code: ROCm's own hipcc, or clang with AMD's headers on a plain machine."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rocmfix.errors import ToolMissingError
from rocmfix.system.compiler import Compiled, compile_file, find_program, workspace
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
    image: str | None = None
    """The image that the compiler is in; None for this machine's."""
    mounted: tuple[Path, ...] = ()
    """Folders of this machine that a container of the image has to see."""

    def run(self, argv: tuple[str, ...], cwd: Path) -> Compiled:
        """Run one command of `argv` in the folder `cwd`."""
        return compile_file(argv, cwd=cwd, image=self.image, reads=self.mounted)

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


def toolchain_for(source: str, folder: Path | None = None, compiler: str | None = None) -> Toolchain:
    """For an image its own hipcc, unless another is asked for; for any other source this machine's compiler."""
    if source.startswith("image:") and folder is None and compiler is None:
        return image_toolchain(source.removeprefix("image:"))
    return find_toolchain(folder, compiler)


def find_toolchain(folder: Path | None = None, compiler: str | None = None) -> Toolchain:
    """The machine's hipcc, else what ci/hip-toolchain has put into `folder`.

    Raises ToolMissingError when there is none, when `compiler` is none, or when its HIP headers are too old for sglang.
    """
    folder = folder or _put_here()
    headers = tvm_headers(folder)
    hipcc = find_program("/opt/rocm/bin/hipcc", "hipcc") if compiler is None else _asked_for(compiler)
    found = Toolchain(hipcc, (hipcc, "-x", "hip"), headers) if hipcc else _stand_in(folder, headers)
    if not found.tvm_ffi:
        raise ToolMissingError("not compiled: the tvm-ffi headers are not here", hint=_HINT)
    _refuse_old(found)
    return found


def _asked_for(compiler: str) -> str:
    """The program that the user names: another in its place would prove nothing to him."""
    found = find_program(compiler)
    if found is None:
        raise ToolMissingError(f"not compiled: {compiler!r} is no program that can be run", hint=_HINT)
    return str(Path(found).absolute())  # it is started in another folder


def image_toolchain(image: str) -> Toolchain:
    """The hipcc of an image that the engine holds, with the tvm-ffi that is installed in it.

    Raises ToolMissingError when there is none, or when its HIP headers are too old for sglang.
    """
    if find_program("docker") is None:
        raise ToolMissingError("not compiled: docker is not on PATH, and the hipcc of an image needs it", hint=_HINT)
    local = _unpacked(_put_here())
    with workspace() as folder:
        (folder / "here").touch()
        said = compile_file(("sh", "-c", _ASK), cwd=folder, image=image).ran
    lines = said.out.splitlines()
    if len(lines) < 3 or not lines[1]:
        why = "has no hipcc" if len(lines) >= 3 else "cannot be run"
        raise ToolMissingError(f"not compiled: {image} {why}", details=said.tail[-3:], hint=_IMAGE_HINT)
    if lines[0] != "here":
        raise ToolMissingError(
            "not compiled: the engine is on another machine and sees none of our files", hint=_IMAGE_HINT
        )
    own = (Path(lines[2]) / "include",) if lines[2] else ()
    found = Toolchain(f"{lines[1]} of {image}", (lines[1], "-x", "hip"), (*own, *local), image, local)
    if not found.tvm_ffi:
        raise ToolMissingError(f"not compiled: the tvm-ffi headers are neither in {image} nor here", hint=_HINT)
    _refuse_old(found)
    return found


_ASK: Final = """[ -e here ] && echo here || echo far
command -v /opt/rocm/bin/hipcc || command -v hipcc || echo
python3 -c 'import importlib.util as u; print(u.find_spec("tvm_ffi").submodule_search_locations[0])' 2>/dev/null || echo
"""
_IMAGE_HINT: Final = "--toolchain FOLDER compiles the image's tree with what ci/hip-toolchain put there"


def tvm_headers(folder: Path | None = None) -> tuple[Path, ...]:
    """This machine's tvm-ffi headers: those that this Python would import, then what ci/hip-toolchain unpacked."""
    installed = package_folder("tvm_ffi")
    own = (installed / "include",) if installed else ()
    return (*own, *_unpacked(folder or _put_here()))


def _put_here() -> Path:
    """Where ci/hip-toolchain puts its files, unless told otherwise."""
    return cache_home("rocmfix") / "hip-toolchain"


def _unpacked(folder: Path) -> tuple[Path, ...]:
    """The tvm-ffi headers that ci/hip-toolchain has unpacked, newest first."""
    return tuple(path / "tvm_ffi/include" for path in sorted(folder.glob("tvm-ffi/*"), key=_version, reverse=True))


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
        done = toolchain.run(toolchain.argv("probe.hip", ARCHITECTURES[0], ("-std=c++20",), ()), folder)
    if not done.ok:
        why = "toolchain too old" if "hipLaunchConfig_t" in done.ran.err else "no compiler for HIP"
        raise ToolMissingError(
            f"{why}, nothing compiled: {toolchain.name} does not compile hipLaunchConfig_t for gfx942",
            details=done.ran.tail[:3],
            hint=_HINT,
        )
