"""A stand-in for upstream's ROCm image, made in seconds from this machine's own Python and git, without a network.

Its layout is that of docker/rocm.Dockerfile: `/sgl-workspace/sglang` an editable checkout of a real release,
`/sgl-workspace/aiter` with tables, the ENV of the image's tail. What cannot be had here (torch, kernels) is left out.
"""

from __future__ import annotations

import io
import os
import subprocess
import sys
import tarfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from tests.aiter import rows, trees

PACKAGE = "/sgl-workspace/sglang/python/sglang"
AITER = "/sgl-workspace/aiter"
AITER_COMMIT = "7d604afe5fa7efba63c0dce323b95d9daf2db112"
SGLANG_COMMIT = "5b1a4f2c0d3e4f5061728394a5b6c7d8e9f00112"
BUILT = 1_782_500_000  # the stand-in's own files are this old (June 2026)

ENV = {
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "SGLANG_USE_AITER": "1",
    "SGLANG_MOE_PADDING": "1",
    "SGLANG_ROCM_FUSED_DECODE_MLA": "1",
    "HIP_FORCE_DEV_KERNARG": "1",
    "HSA_NO_SCRATCH_RECLAIM": "1",
    "NCCL_MIN_NCHANNELS": "112",
    "GPU_ARCH": "gfx950-rocm720",
}

AOT = """
import csv, os, sys
cache = os.environ["FLYDSL_RUNTIME_CACHE_DIR"]
os.makedirs(cache, exist_ok=True)
with open(sys.argv[sys.argv.index("--csv") + 1]) as table:
    names = {row["kernelName1"] for row in csv.DictReader(table)}
for name in names:
    if name.startswith("PREFIX"):
        with open(f"{cache}/{name}", "w") as kernel:
            kernel.write(f"{os.environ['GPU_ARCHS']} {os.environ['CU_NUM']} {os.environ['AITER_AOT_IMPORT']}")
"""
"""Stands in for AITER's ahead-of-time compilers: like them each passes over the names that are the other's."""


def aiter_files() -> dict[str, bytes]:
    """A small AITER that reads tables as the commit above does, with two tables of its own."""
    small = trees.tree("v0.1.15+#3377").tree
    files = {path: small.read(path) or b"" for path in small.paths("")}
    files["aiter/configs/tuned_fmoe.csv"] = rows.table(rows.ladder(inter_dim=2048))
    files["aiter/configs/model_configs/glm5_tuned_fmoe.csv"] = rows.table(rows.ladder())
    files["aiter/aot/flydsl/moe.py"] = AOT.replace("PREFIX", "flydsl_moe").encode()
    files["aiter/aot/flydsl/mxfp4_moe.py"] = AOT.replace("PREFIX", "flydsl_mxmoe").encode()
    return files


@dataclass(frozen=True)
class Entry:
    """One path of an image under construction."""

    path: str
    data: bytes | None = b""
    mode: int = 0o644
    uid: int = 0
    gid: int = 0
    mtime: int = BUILT
    link: str | None = None


@dataclass
class Rootfs:
    """A root file system as a tar, folders made on the way."""

    entries: dict[str, Entry] = field(default_factory=dict)

    def add(self, path: str, data: bytes, **how: int) -> None:
        self._folders(path)
        self.entries[path] = Entry(path, data, **how)  # type: ignore[arg-type]

    def folder(self, path: str, **how: int) -> None:
        self._folders(path)
        self.entries[path] = Entry(path, None, **{"mode": 0o755, **how})  # type: ignore[arg-type]

    def link(self, path: str, target: str) -> None:
        self._folders(path)
        self.entries[path] = Entry(path, b"", link=target)

    def tar(self) -> bytes:
        out = io.BytesIO()
        with tarfile.open(fileobj=out, mode="w", format=tarfile.GNU_FORMAT) as tar:
            for path in sorted(self.entries):
                self._write(tar, self.entries[path])
        return out.getvalue()

    def _folders(self, path: str) -> None:
        for parent in list(Path(path).parents)[-2::-1]:
            self.entries.setdefault(str(parent), Entry(str(parent), None, mode=0o755))

    @staticmethod
    def _write(tar: tarfile.TarFile, entry: Entry) -> None:
        info = tarfile.TarInfo(entry.path.lstrip("/"))
        info.mode, info.uid, info.gid, info.mtime = entry.mode, entry.uid, entry.gid, entry.mtime
        if entry.link:
            info.type, info.linkname = tarfile.SYMTYPE, entry.link
        elif entry.data is None:
            info.type = tarfile.DIRTYPE
        else:
            info.size = len(entry.data)
        tar.addfile(info, io.BytesIO(entry.data or b""))


def host_python(root: Rootfs) -> None:
    """The host's Python, git, shell and their libraries: enough to run both inside the image."""
    python = Path(os.path.realpath("/usr/bin/python3"))
    programs = [str(python), "/usr/bin/git", "/bin/sh", "/bin/cat", "/bin/ls", "/bin/cp", "/bin/rm", "/bin/mkdir"]
    for program in (*programs, *_libraries(programs)):
        real = os.path.realpath(program)
        root.add(real, Path(real).read_bytes(), mode=0o755)
        if real != program:
            root.link(program, real)
    root.link("/usr/bin/python3", str(python))
    for path, data in _standard_library(python.name):
        root.add(path, data)
    root.folder("/tmp", mode=0o1777)
    root.folder("/root", mode=0o700)
    root.add("/etc/passwd", b"root:x:0:0:root:/root:/bin/sh\n")


@lru_cache(maxsize=1)
def _standard_library(name: str) -> tuple[tuple[str, bytes], ...]:
    folder = Path("/usr/lib") / name
    skipped = {"__pycache__", "test", "idlelib", "tkinter", "ensurepip", "lib2to3", "pydoc_data", "dist-packages"}
    return tuple(
        (str(path), path.read_bytes())
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not path.is_symlink() and not skipped & set(path.parts) and path.suffix != ".a"
    )


def _libraries(programs: Iterable[str]) -> Iterator[str]:
    said = subprocess.run(["ldd", *programs], capture_output=True, text=True, check=True).stdout
    for word in said.split():
        if word.startswith("/") and not word.endswith(":"):
            yield word


def upstream_layout(root: Rootfs, files: Mapping[str, bytes], release: str = "0.5.14") -> None:
    """The checkout and its installation. `files` are repository paths (`python/sglang/...`)."""
    for path, data in files.items():
        root.add(f"/sgl-workspace/sglang/{path}", data)
    root.add(f"{PACKAGE}/_version.py", f"__version__ = version = '{release}'\n".encode())
    root.add("/sgl-workspace/sglang/.git/HEAD", f"{SGLANG_COMMIT}\n".encode())
    root.add("/sgl-workspace/sglang/.git/packed-refs", f"{SGLANG_COMMIT} refs/tags/v{release}\n".encode())
    packages = f"/usr/local/lib/python3.{sys.version_info.minor}/dist-packages"
    root.add(f"{packages}/__editable__.sglang-{release}.pth", b"/sgl-workspace/sglang/python\n")
    root.add(f"{packages}/sglang-{release}.dist-info/METADATA", f"Name: sglang\nVersion: {release}\n".encode())
    root.add(f"{AITER}/.git/HEAD", f"{AITER_COMMIT}\n".encode())
    root.add(f"{packages}/__editable__.aiter.pth", f"{AITER}\n".encode())
    for path, data in aiter_files().items():
        root.add(f"{AITER}/{path}", data)
