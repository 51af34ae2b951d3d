"""The engine, the stand-in base, registries: real ones, made for the session and gone after it."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import tarfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

import docker
import pytest
from click.testing import CliRunner, Result

from rocmfix.cli import main
from rocmfix.errors import EngineError
from rocmfix.image.progress import Progress
from rocmfix.image.tree import is_source
from rocmfix.system.docker import RUN_LABEL, Engine
from tests.image import services
from tests.image.standin import ENV, PACKAGE, Rootfs, host_python, upstream_layout

LABEL = "io.rocmfix.test"
ROOT = Path(__file__).parents[2]
HOME = Path.home()
"""Found before a test's own home hides it: ci/engine keeps its engines below it."""


@pytest.fixture(scope="session")
def engine() -> Engine:
    """The engine. Without one the test is skipped, which in CI is a failure."""
    try:
        return Engine.connect()
    except EngineError as error:
        pytest.skip(f"no Docker engine (ci/engine starts one): {error}")


@pytest.fixture(scope="session")
def client() -> docker.DockerClient:
    return docker.from_env(timeout=600)


@pytest.fixture(scope="session")
def run_id() -> str:
    return uuid4().hex[:8]


@pytest.fixture(scope="session")
def release_files(release_tree) -> dict[str, bytes]:
    """The package of 0.5.14, less the JSON tuning files that no fix touches."""
    tree = release_tree("0.5.14")
    wanted = (path for path in tree.paths("python/sglang") if is_source(path) and not path.endswith(".json"))
    return {path: data for path in wanted if (data := tree.read(path)) is not None}


@pytest.fixture(scope="session")
def few_files(release_files) -> dict[str, bytes]:
    """Of the package only what the shipped fixes ask about: what most tests need, and far quicker to import."""
    from rocmfix.catalog import load
    from rocmfix.tree import MemoryTree
    from rocmfix.verdict import judge_all

    asked = set[str]()

    class Asking(MemoryTree):
        def read(self, path: str) -> bytes | None:
            asked.add(path)
            return super().read(path)

    judge_all(load(), Asking(release_files))
    kept = asked | {"python/sglang/__init__.py", "python/sglang/srt/__init__.py", "python/sglang/version.py"}
    return {path: data for path, data in release_files.items() if path in kept or path.endswith("server_args.py")}


def import_image(client: docker.DockerClient, rootfs: Rootfs, name: str, env: dict[str, str] = ENV) -> str:
    """A root file system as an image of one layer, labelled as this suite's."""
    changes = [f'ENV {key}="{value}"' for key, value in env.items()]
    changes += [f"LABEL {LABEL}=1", 'CMD ["/bin/sh"]']
    repository, _, tag = name.rpartition(":")
    client.api.import_image_from_data(rootfs.tar(), repository=repository, tag=tag, changes=changes)
    return name


def remove_images(client: docker.DockerClient, prefix: str) -> None:
    for image in client.images.list():
        for tag in image.tags:
            if tag.startswith(prefix):
                client.images.remove(tag, force=True)


@pytest.fixture(scope="session")
def whole_base(engine, client, release_files, run_id) -> Iterator[str]:
    """The stand-in with Python, git and all of sglang 0.5.14."""
    rootfs = Rootfs()
    host_python(rootfs)
    upstream_layout(rootfs, release_files)
    yield import_image(client, rootfs, f"rocmfix-test/whole-{run_id}:v0.5.14-rocm720-mi35x")
    remove_images(client, f"rocmfix-test/whole-{run_id}")


@pytest.fixture(scope="session")
def base(engine, client, few_files, run_id) -> Iterator[str]:
    """A small stand-in: the files that fixes ask about, foreign owners, bytecode of two Pythons, a JIT build."""
    rootfs = Rootfs()
    upstream_layout(rootfs, few_files)
    stale(rootfs)
    yield import_image(client, rootfs, f"rocmfix-test/base-{run_id}:v0.5.14-rocm720-mi35x")
    remove_images(client, f"rocmfix-test/base-{run_id}")


PATCHED = f"{PACKAGE}/jit_kernel/csrc/elementwise/fused_metadata_copy.cuh"
PATCHED_PY = f"{PACKAGE}/jit_kernel/utils.py"
BYTECODE = f"{PACKAGE}/jit_kernel/__pycache__/utils.cpython-310.pyc"
OTHER_BYTECODE = f"{PACKAGE}/jit_kernel/__pycache__/other.cpython-310.pyc"
JIT = "/root/.cache/tvm-ffi/sgl_kernel_jit_fused_metadata_copy_1a2b"


def stale(rootfs: Rootfs) -> None:
    """What an image collects while it is built: bytecode and a JIT build of files that fixes change."""
    folder = f"{PACKAGE}/jit_kernel/__pycache__"
    rootfs.folder(folder, mode=0o750, uid=1000, gid=1001)
    for name in ("utils.cpython-310.pyc", "utils.cpython-311.opt-1.pyc", "other.cpython-310.pyc"):
        rootfs.add(f"{folder}/{name}", b"compiled before the patch", mode=0o640, uid=1000, gid=1001)
    entry = rootfs.entries[PATCHED_PY]
    rootfs.add(PATCHED_PY, entry.data or b"", mode=0o664, uid=1000, gid=1001)
    rootfs.add(f"{JIT}/cuda.cu", f'#include "{PATCHED}"\n'.encode())
    for name in ("build.ninja", ".ninja_log", ".ninja_deps", "cuda.o", "main.so"):
        rootfs.add(f"{JIT}/{name}", b"built from the unpatched header")
    rootfs.add("/root/.cache/tvm-ffi/sgl_kernel_jit_norm_3c4d/cuda.cu", b'#include "/x/norm.cuh"\n')
    rootfs.add("/root/.cache/tvm-ffi/sgl_kernel_jit_norm_3c4d/main.so", b"has nothing to do with it")


@pytest.fixture
def tag(client, run_id) -> Iterator[str]:
    """A fresh image name, removed afterwards."""
    name = f"rocmfix-test/built-{run_id}-{uuid4().hex[:6]}"
    yield f"{name}:tag"
    remove_images(client, name)


@pytest.fixture(scope="session")
def built(base, client, run_id) -> Iterator[str]:
    """The small stand-in with every fix it needs, for tests that only look at it."""
    name = f"rocmfix-test/ready-{run_id}:tag"
    result = rocmfix("build", "--base", base, "--flavour", "mi35x-rocm720", "-t", name)
    assert result.exit_code == 0, result.output
    yield name
    remove_images(client, f"rocmfix-test/ready-{run_id}")


def rocmfix(*argv: object) -> Result:
    """The command line, as a user types it."""
    return CliRunner().invoke(main, [str(arg) for arg in argv])


@dataclass(frozen=True)
class Files:
    """A look into an image."""

    client: docker.DockerClient
    image: str

    def tar(self, path: str) -> tarfile.TarFile:
        container = self.client.api.create_container(self.image, ["/"], labels={LABEL: "1"})
        try:
            chunks, _ = self.client.api.get_archive(container["Id"], path)
            return tarfile.open(fileobj=io.BytesIO(b"".join(chunks)))
        finally:
            self.client.api.remove_container(container["Id"], force=True)

    def member(self, path: str) -> tarfile.TarInfo:
        return self.tar(path).getmembers()[0]

    def read(self, path: str) -> bytes:
        tar = self.tar(path)
        stream = tar.extractfile(tar.getmembers()[0])
        assert stream
        return bytes(stream.read())


@pytest.fixture
def files(client) -> Callable[[str], Files]:
    return lambda image: Files(client, image)


@pytest.fixture
def progress() -> Progress:
    return Progress(io.StringIO())


def new_layers(client: docker.DockerClient, image: str, base: str) -> tuple[str, ...]:
    ours, theirs = (client.api.inspect_image(name)["RootFS"]["Layers"] for name in (image, base))
    assert ours[: len(theirs)] == theirs
    return tuple(ours[len(theirs) :])


def leftovers(client: docker.DockerClient, pid: int | None = None) -> list[str]:
    """Containers that are still there of this process, or of another; other runs share the engine."""
    held = client.api.containers(all=True, filters={"label": RUN_LABEL})
    return [each["Id"] for each in held if each["Labels"][RUN_LABEL].endswith(f":{pid or os.getpid()}")]


def rebuilt(client: docker.DockerClient, image: str, dockerfile: str, files: dict[str, bytes] | None = None) -> str:
    """`image` changed by hand, as a Dockerfile on top of it."""
    from rocmfix.image.layer import plain_tar

    members = [("Dockerfile", f"FROM {image}\nLABEL {LABEL}=1\n{dockerfile}\n".encode()), *(files or {}).items()]
    built = None
    for said in client.api.build(fileobj=io.BytesIO(plain_tar(members)), custom_context=True, decode=True, rm=True):
        assert "error" not in said, said
        built = said.get("aux", {}).get("ID", built)
    assert built
    return str(built)


@pytest.fixture
def registry(tmp_path) -> Iterator[str]:
    """An open registry."""
    with services.registry(tmp_path / "registry") as name:
        yield name


@pytest.fixture
def closed_registry(tmp_path) -> Iterator[str]:
    """A registry that wants a login."""
    with services.registry(tmp_path / "closed", htpasswd=services.HTPASSWD) as name:
        yield name


@pytest.fixture
def logged_in(closed_registry, tmp_path, monkeypatch) -> str:
    """The closed registry, with the login stored as `docker login` stores it."""
    return login(tmp_path, monkeypatch, closed_registry, services.USER, services.PASSWORD)


def login(folder: Path, monkeypatch: pytest.MonkeyPatch, registry: str, user: str, password: str) -> str:
    import base64
    import json

    config = folder / "docker-config"
    config.mkdir(exist_ok=True)
    auth = base64.b64encode(f"{user}:{password}".encode()).decode()
    (config / "config.json").write_text(json.dumps({"auths": {registry: {"auth": auth}}}))
    monkeypatch.setenv("DOCKER_CONFIG", str(config))
    return registry


@pytest.fixture(scope="session")
def buildkit() -> str:
    """DOCKER_HOST of an engine whose BuildKit reads heredocs, with buildx: this one, or Debian 13's beside it."""
    said = subprocess.run(
        [ROOT / "ci/engine", "buildkit"],
        env={**os.environ, "HOME": str(HOME)}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if said.returncode:
        pytest.skip(f"no BuildKit engine: {said.stderr}")
    return said.stdout.strip()


def python(*argv: object, **env: str) -> subprocess.Popen[str]:
    """rocmfix as a process of its own: for what a signal or another user does to it."""
    return subprocess.Popen(
        [sys.executable, "-m", "rocmfix", *map(str, argv)],
        cwd=ROOT, env={**os.environ, **env}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
