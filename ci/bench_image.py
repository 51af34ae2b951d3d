"""Image builds as figures: layer bytes, time above a hand-written build, rebuild time, bytes read remotely."""

from __future__ import annotations

import contextlib
import io
import json
import os
import statistics
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import docker

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from rocmfix.image.manifest import PATH, parse  # noqa: E402 - the root is put on the path first
from rocmfix.image.tree import is_source  # noqa: E402
from rocmfix.source import open_release  # noqa: E402
from tests.image import services  # noqa: E402
from tests.image.standin import ENV, PACKAGE, Rootfs, host_python, upstream_layout  # noqa: E402

ROCMFIX = [sys.executable, "-m", "rocmfix"]
FLAVOUR = ("--flavour", "mi35x-rocm720")
NAME = "rocmfix-bench/image"
BULK = 1_000_000_000
LABEL = 'LABEL io.rocmfix.test="1"'

# What somebody would write who knows the base and the files: read them out, patch (here: done), build, look, clean up.
HAND = """
import io, json, sys, tarfile, docker
base, context, tag, paths = sys.argv[1], sys.argv[2], sys.argv[3], json.loads(sys.argv[4])
api = docker.from_env(timeout=600).api
container = api.create_container(base, ["/"])["Id"]
for path in paths:
    b"".join(api.get_archive(container, path)[0])
api.remove_container(container, force=True)
packed = io.BytesIO()
with tarfile.open(fileobj=packed, mode="w") as tar:
    for name in ("Dockerfile", "files.tar"):
        tar.add(f"{context}/{name}", name)
packed.seek(0)
for said in api.build(fileobj=packed, custom_context=True, decode=True, rm=True, tag=tag, nocache=True):
    assert "error" not in said, said
container = api.create_container(tag, ["/"])["Id"]
for path in paths:
    b"".join(api.get_archive(container, path)[0])
api.remove_container(container, force=True)
"""


def run(*argv: object) -> str:
    done = subprocess.run(list(map(str, argv)), cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode in (0, 10, 11), done.stderr
    return done.stdout


def took(*argv: object) -> float:
    start = time.perf_counter()
    run(*argv)
    return time.perf_counter() - start


def checkout() -> dict[str, bytes]:
    tree = open_release("0.5.14")
    return {path: tree.read(path) or b"" for path in tree.paths("python/sglang") if is_source(path)}


def show(name: str, value: float, unit: str, goal: float) -> None:
    print(f"{name}: {value:.2f} {unit} (goal {goal} {unit}: {'met' if value <= goal else 'MISSED'})")


@contextlib.contextmanager
def images(client: docker.DockerClient) -> Iterator[tuple[str, str]]:
    """The stand-in base, and the same on a gigabyte of /opt/rocm, each removed afterwards."""
    small, large, bulk = f"{NAME}:small", f"{NAME}:large", f"{NAME}:bulk"
    rootfs = Rootfs()
    host_python(rootfs)
    upstream_layout(rootfs, checkout())
    packed = rootfs.tar()
    changes = [f'ENV {name}="{value}"' for name, value in ENV.items()] + [LABEL]
    client.api.import_image_from_data(packed, repository=NAME, tag="small", changes=changes)
    rocm = Rootfs()
    for number in range(10):
        rocm.add(f"/opt/rocm/lib/lib{number}.so", os.urandom(1 << 20) * (BULK // 10 // (1 << 20)))
    client.api.import_image_from_data(rocm.tar(), repository=NAME, tag="bulk", changes=changes)
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "rootfs.tar").write_bytes(packed)
        Path(folder, "Dockerfile").write_text(f"FROM {bulk}\nADD rootfs.tar /\n")
        client.images.build(path=folder, tag=large, rm=True)
    try:
        yield small, large
    finally:
        for name in [tag for image in client.images.list(NAME) for tag in image.tags]:
            client.images.remove(name, force=True)
        client.images.prune(filters={"dangling": True, "label": "io.rocmfix.test=1"})


def bench_build(client: docker.DockerClient, base: str, folder: Path) -> None:
    size = client.images.get(base).attrs["Size"] / 1e6
    tag, hand = f"{NAME}:ours", f"{NAME}:hand"
    context = folder / f"context-{base.rpartition(':')[2]}"
    run(*ROCMFIX, "build", "--base", base, *FLAVOUR, "--context", context)
    with tarfile.open(context / "files.tar") as tar:
        paths = ["/" + member.name for member in tar if member.isreg() and f"/{member.name}".startswith(PACKAGE)]
    ours, theirs = [], []
    for number in range(5):
        env = ("--env", f"ROUND={number}")  # other inputs each time, so that it really builds
        ours.append(took(*ROCMFIX, "build", "--base", base, *FLAVOUR, "-t", tag, *env))
        theirs.append(took(sys.executable, "-c", HAND, base, context, hand, json.dumps(paths)))
    above = statistics.median(ours) - statistics.median(theirs)
    pair = f"{statistics.median(ours):.2f} s / {statistics.median(theirs):.2f} s"
    show(f"build on {size:.0f} MB / hand-written through the same calls: {pair}", above, "s above", 2.0)
    again = ("build", "--base", base, *FLAVOUR, "-t", tag, "--env", "ROUND=4")
    show(
        f"rebuild on {size:.0f} MB, nothing changed",
        statistics.median(took(*ROCMFIX, *again) for _ in range(5)),
        "s",
        1.0,
    )


def bench_bytes(client: docker.DockerClient, base: str) -> None:
    tag = f"{NAME}:bytes"
    run(*ROCMFIX, "build", "--base", base, *FLAVOUR, "-t", tag)
    container = client.api.create_container(tag, ["/"])["Id"]
    changed = 0
    for path in (PATH, *(file.path for file in parse(_read(client, container, PATH)).files)):
        changed += len(_read(client, container, path))
    client.api.remove_container(container)
    with tarfile.open(fileobj=io.BytesIO(b"".join(client.api.get_image(tag)))) as saved:
        listing = saved.extractfile("manifest.json")
        assert listing
        layer = saved.getmember(json.load(listing)[0]["Layers"][-1]).size
    show(f"layer's tar {layer} bytes / changed content {changed} bytes", layer / changed, "x", 1.1)


def _read(client: docker.DockerClient, container: str, path: str) -> bytes:
    with tarfile.open(fileobj=io.BytesIO(b"".join(client.api.get_archive(container, path)[0]))) as tar:
        stream = tar.extractfile(tar.getmembers()[0])
        return stream.read() if stream else b""


def bench_remote(base: str, folder: Path) -> None:
    tag = f"{NAME}:remote"
    run(*ROCMFIX, "build", "--base", base, *FLAVOUR, "-t", tag)
    with services.registry(folder / "registry") as registry:
        run(*ROCMFIX, "publish", tag, "--to", f"{registry}/bench/image", "--tag", "v1")
        start = time.perf_counter()
        said = json.loads(run(*ROCMFIX, "inspect", f"{registry}/bench/image:v1", "--remote", "--json"))
        elapsed = time.perf_counter() - start
    reading = said["reading"]
    print(f"remote inspect: {reading['bytes'] / 1e6:.1f} MB of {reading['of'] / 1e6:.1f} MB read in {elapsed:.1f} s, "
          f"{reading['layers']} of {reading['of_layers']} layers opened")  # fmt: skip


def main() -> None:
    client = docker.from_env(timeout=600)
    with images(client) as (small, large), tempfile.TemporaryDirectory() as folder:
        bench_bytes(client, small)
        for base in (small, large):
            bench_build(client, base, Path(folder))
        bench_remote(large, Path(folder))


if __name__ == "__main__":
    main()
