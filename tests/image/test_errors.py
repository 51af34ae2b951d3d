"""Every failure of the engine, provoked for real: what happened, where, what to do next."""

from __future__ import annotations

import contextlib
import io
import os
import shutil
import socket
import subprocess
import tempfile
import time
from pathlib import Path

import docker
import pytest

from rocmfix.errors import EngineError
from rocmfix.image.flavour import load as load_flavour
from rocmfix.image.progress import Progress
from rocmfix.system.docker import Engine
from rocmfix.system.docker_errors import BuildFailedError, probable_cause
from tests.image.conftest import import_image, leftovers, rocmfix
from tests.image.standin import Rootfs

pytestmark = pytest.mark.docker


def parts(result) -> tuple[str, str, str]:
    """Message, details and hint of an error as it was printed."""
    lines = result.stderr.splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith("Error: "))
    hint = next(i for i, line in enumerate(lines) if line.startswith("  hint: "))
    assert start < hint - 1, "three parts: what, where, what next"
    return lines[start], " ".join(lines[start + 1 : hint]), lines[hint]


def test_no_engine(monkeypatch, tmp_path):
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/none.sock")
    result = rocmfix("verify", "some/image:tag")
    assert result.exit_code == 7
    message, details, hint = parts(result)
    assert "no Docker engine answers" in message
    assert "No such file or directory" in details
    assert "systemctl start docker" in hint


def test_an_engine_that_does_not_listen(monkeypatch, tmp_path):
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(f"{tmp_path}/left.sock")
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/left.sock")
    result = rocmfix("verify", "some/image:tag")
    assert result.exit_code == 7
    _, details, hint = parts(result)
    assert "refused" in details
    assert "nobody listens" in hint


def test_a_socket_that_this_user_may_not_use(engine):
    if os.geteuid() != 0:
        pytest.skip("needs root, to become somebody else")
    socket_path = Path("/var/run/docker.sock")
    assert not socket_path.stat().st_mode & 0o007, "everybody may use this engine"
    os.setegid(65534)
    groups = os.getgroups()
    os.setgroups([])
    os.seteuid(65534)
    try:
        result = rocmfix("verify", "some/image:tag")
    finally:
        os.seteuid(0)
        os.setegid(0)
        os.setgroups(groups)
    assert result.exit_code == 7
    _, details, hint = parts(result)
    assert "ermission denied" in details
    assert "join the group docker" in hint


def test_an_image_that_is_nowhere(engine):
    result = rocmfix("verify", "rocmfix-test/none:tag")
    assert result.exit_code == 7
    assert "the engine has no image rocmfix-test/none:tag" in result.stderr
    assert "hint: docker pull" in result.stderr


def test_a_base_that_its_registry_does_not_have(engine, registry):
    result = rocmfix("build", "--base", f"{registry}/up/none:v1", "--flavour", "mi35x-rocm720")
    assert result.exit_code == 8
    message, _, hint = parts(result)
    assert f"{registry}/up/none:v1" in message
    assert "rocmfix tags resolve" in hint


def test_a_base_whose_registry_does_not_answer(engine):
    result = rocmfix("build", "--base", "127.0.0.1:9/up/none:v1", "--flavour", "mi35x-rocm720")
    assert result.exit_code == 8
    message, details, hint = parts(result)
    assert "registry 127.0.0.1:9 does not answer" in message
    assert "refused" in details
    assert "check the name" in hint


def test_a_base_whose_registry_wants_a_login(engine, closed_registry, tmp_path, monkeypatch):
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    result = rocmfix("build", "--base", f"{closed_registry}/up/x:v1", "--flavour", "mi35x-rocm720")
    assert result.exit_code == 8
    _, details, hint = parts(result)
    assert "UNAUTHORIZED" in details
    assert f"docker login {closed_registry}" in hint


@contextlib.contextmanager
def small_engine(folder: Path, size: str):
    """A second engine whose disk is `size`, in a network of its own."""
    disk = folder / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", disk], check=True)
    short = Path(tempfile.mkdtemp(prefix="e-"))  # containerd's socket: a path of 108 bytes is one too long
    host = f"unix://{short}/d.sock"
    argv = ["unshare", "--net", "dockerd", "--host", host, "--pidfile", f"{folder}/d.pid"]
    argv += ["--data-root", f"{disk}/data", "--exec-root", f"{short}/x", "--bridge", "none", "--iptables=false"]
    with subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            yield host, disk, _answering(host)
        finally:
            process.terminate()
            process.wait(30)
            subprocess.run(["umount", "-l", disk], check=True)
            shutil.rmtree(short, ignore_errors=True)


def _answering(host: str) -> docker.DockerClient:
    for _ in range(150):
        with contextlib.suppress(docker.errors.DockerException):
            client = docker.DockerClient(base_url=host, timeout=60)
            client.ping()
            return client
        time.sleep(0.2)
    raise AssertionError("the small engine did not come up")


@pytest.mark.upstream
def test_a_full_disk(engine, few_files, tmp_path, monkeypatch):
    """Once while the layer is written; once before a pull that could never fit."""
    from tests.image.standin import upstream_layout

    if os.geteuid() != 0:
        pytest.skip("needs root, to mount a small disk")
    with small_engine(tmp_path, "64m") as (host, disk, client):
        rootfs = Rootfs()
        upstream_layout(rootfs, few_files)
        import_image(client, rootfs, "rocmfix-test/small:v1")
        monkeypatch.setenv("DOCKER_HOST", host)
        free = os.statvfs(disk)
        with (disk / "filler").open("wb") as filler:
            filler.write(b"0" * max(0, free.f_bavail * free.f_frsize - 60_000))
        result = rocmfix("build", "--base", "rocmfix-test/small:v1", "--flavour", "mi35x-rocm720", "-t", "x/y:z")
        assert result.exit_code == 7, result.stderr
        _, details, hint = parts(result)
        assert "no space left on device" in details
        assert "the engine's disk is full" in hint
        assert not leftovers(client)
        assert client.images.list("x/y") == []
        _cannot_fit(monkeypatch, disk)
        client.close()


def _cannot_fit(monkeypatch, disk: Path) -> None:
    from rocmfix.image import base
    from rocmfix.system.registry import Descriptor

    class Huge:
        def __init__(self, reference: object) -> None:
            """Stands for a registry that holds an image of 75 GB, which no test could."""

        def manifest(self, version: str) -> Huge:
            return self

        layers = (Descriptor("sha256:0", 75_000_000_000, ""),)

    monkeypatch.setattr(base, "Registry", Huge)
    with pytest.raises(EngineError) as caught:
        base.find_base(Engine.connect(), load_flavour("mi35x-rocm720"), "big/base:v1", Progress(io.StringIO()))
    assert f"free in {disk}/data" in caught.value.message
    assert "75 GB packed" in caught.value.details[0]
    assert "docker system df" in (caught.value.hint or "")


def test_an_engine_that_goes_away_in_the_middle(tmp_path, monkeypatch):
    if os.geteuid() != 0:
        pytest.skip("needs root, to start an engine")
    with small_engine(tmp_path, "64m") as (host, _, client):
        monkeypatch.setenv("DOCKER_HOST", host)
        connected = Engine.connect()
        client.close()
        pid = int((tmp_path / "d.pid").read_text())
        os.kill(pid, 9)
        time.sleep(0.5)
        with pytest.raises(EngineError) as caught:
            connected.image("x")
    assert caught.value.hint
    assert "systemctl start docker" in caught.value.hint


@pytest.mark.parametrize(
    ("said", "hint"),
    [
        ("write /x: no space left on device", "disk is full"),
        ("returned a non-zero code: 137", "want of memory"),
        ("fatal error: 'cuda_runtime.h' file not found", "CUDA header"),
        ("Could not resolve host: github.com", "could not be resolved"),
        ("x509: certificate signed by unknown authority", "re-signs TLS"),
        ("dockerfile parse error line 3: unknown instruction: PRINT(1)", "buildx"),
        ("everything is fine", None),
    ],
)
def test_a_known_failure_has_its_cause_named(said, hint):
    found = probable_cause(said)
    assert (found is None) if hint is None else (hint in (found or ""))


def test_a_failed_build_shows_twenty_lines_and_no_secret():
    lines = [f"line {number}" for number in range(50)] + ["Step 2/3 : RUN make", "password is hunter2"]
    error = BuildFailedError.of(lines, "http://u:hunter2@proxy refused", ("hunter2",))
    assert len(error.details) <= 21
    assert "hunter2" not in " ".join((error.message, *error.details, error.hint or ""))
    assert "Step 2/3 : RUN make" in error.message
