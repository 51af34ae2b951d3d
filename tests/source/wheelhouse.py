"""Tiny real wheels, and the release records that promise them."""

import hashlib
import zipfile
from datetime import date
from pathlib import Path

from rocmfix.releases import Release, Wheel

PACKAGE = {
    "sglang/__init__.py": b"raise SystemExit('a tree is read, never imported')\n",
    "sglang/_version.py": b"__version__ = version = '9.9'\n",
    "sglang/srt/server.py": b"serve()\r\n",
    "sglang/srt/models/glm.py": b"class GLM: ...\n",
    "sglang/jit_kernel/csrc/copy.cuh": b"#include <cuda_runtime.h>\n" * 40,
}


def build_wheel(
    folder: Path, tag: str = "py3-none-any", version: str = "9.9", packed: int = zipfile.ZIP_DEFLATED
) -> Path:
    """A wheel of sglang `version` with the files of PACKAGE."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"sglang-{version}-{tag}.whl"
    info = f"sglang-{version}.dist-info"
    metadata = f"Metadata-Version: 2.1\nName: sglang\nVersion: {version}\n\nVersion: of the text, not of the wheel\n"
    with zipfile.ZipFile(path, "w", packed) as archive:
        for name, data in PACKAGE.items():
            archive.writestr(name, data)
        archive.writestr("tools/extra.py", b"")
        archive.writestr(f"{info}/METADATA", metadata)
        archive.writestr(f"{info}/WHEEL", f"Wheel-Version: 1.0\nGenerator: t\nRoot-Is-Purelib: true\nTag: {tag}\n")
        archive.writestr(f"{info}/RECORD", b"")
    return path


def promise(*wheels: Path, version: str = "9.9") -> Release:
    """The record of a release that has exactly these wheels."""
    return Release(
        version=version,
        date=date(2026, 1, 1),
        wheels={
            path.name: Wheel(size=path.stat().st_size, sha256=hashlib.sha256(path.read_bytes()).hexdigest())
            for path in wheels
        },
    )


def unpack(wheel: Path, into: Path) -> Path:
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(into)
    return into
