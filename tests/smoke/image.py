"""A container image in which the fake is sglang: this machine's own Python, its libraries, nothing fetched."""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path

import docker
import pytest

from rocmfix.smoke import fake

SKIPPED = {"test", "__pycache__", "idlelib", "lib2to3", "ensurepip", "turtledemo", "tkinter", "site-packages"}
SITE = "opt/sglang/lib"


def python() -> tuple[Path, Path]:
    """An interpreter and its standard library; Debian's, if it is there: it is smaller than most."""
    command = "import sys, sysconfig; print(sys.executable, sysconfig.get_path('stdlib'))"
    for candidate in ("/usr/bin/python3", sys.executable):
        if Path(candidate).exists():
            found = subprocess.run(
                [candidate, "-c", command], capture_output=True, text=True, check=True
            ).stdout.split()
            return Path(found[0]).resolve(), Path(found[1])
    raise LookupError("no Python")


def libraries(*programs: Path) -> set[Path]:
    """The shared libraries these need, by the loader's word."""
    said = subprocess.run(["ldd", *programs], capture_output=True, text=True, check=False).stdout
    return {Path(path) for path in re.findall(r"(?:=> |^\t)(/\S+) \(", said, re.MULTILINE)}


def rootfs() -> bytes:
    """The image's file system as a tar."""
    program, library = python()
    extensions = sorted(library.glob("lib-dynload/*.so"))
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for path in (program, *sorted(libraries(program, *extensions))):
            tar.add(path.resolve(), str(path).lstrip("/"))
        tar.add(
            library,
            str(library).lstrip("/"),
            filter=lambda entry: None if SKIPPED & set(entry.name.split("/")) else entry,
        )
        link(tar, "usr/local/bin/python3", str(program))
        add(tar, f"{SITE}/sglang/__init__.py", b"")
        for file in sorted(Path(fake.__file__).parent.glob("*.py")):
            add(tar, f"{SITE}/sglang/launch_server/{file.name}", file.read_bytes())
        add(tar, f"{SITE}/sglang/hog.py", HOG)
        for folder in ("tmp", "proc", "sys", "dev"):
            entry = tarfile.TarInfo(folder)
            entry.type, entry.mode = tarfile.DIRTYPE, 0o755
            tar.addfile(entry)
    return out.getvalue()


HOG = b"x = []\nwhile True:\n    x.append(bytearray(8 << 20))\n"


def add(tar: tarfile.TarFile, name: str, data: bytes) -> None:
    entry = tarfile.TarInfo(name)
    entry.size = len(data)
    tar.addfile(entry, io.BytesIO(data))


def link(tar: tarfile.TarFile, name: str, target: str) -> None:
    entry = tarfile.TarInfo(name)
    entry.type, entry.linkname = tarfile.SYMTYPE, target
    tar.addfile(entry)


@pytest.fixture(scope="session")
def engine() -> docker.DockerClient:
    """The engine of this machine; without one these tests are skipped, which CI does not allow."""
    try:
        client = docker.from_env(timeout=60)
        client.ping()
    except docker.errors.DockerException as error:
        pytest.skip(f"no Docker engine: {error}")
    return client


@pytest.fixture(scope="session")
def fake_image(engine: docker.DockerClient) -> Iterator[str]:
    """The image's name, one a test worker; gone with it."""
    repository, tag = "rocmfix-test/fake-sglang", f"smoke-{os.getpid()}"
    changes = [f"ENV PYTHONPATH=/{SITE}", "ENV PATH=/usr/local/bin:/usr/bin:/bin"]
    engine.api.import_image_from_data(rootfs(), repository=repository, tag=tag, changes=changes)
    yield f"{repository}:{tag}"
    engine.images.remove(f"{repository}:{tag}", force=True)
