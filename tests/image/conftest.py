from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import docker
import pytest

sys.path.insert(0, str(Path(__file__).parent))

from standin import ENV, Rootfs, host_python, upstream_layout

from rocmfix.image.tree import is_source
from rocmfix.system.docker import Engine
from rocmfix.system.reference import parse_reference

LABEL = "io.rocmfix.test"


@pytest.fixture(scope="session")
def engine() -> Engine:
    """The engine, or a skip that says why; CI starts one, so there it must answer."""
    try:
        return Engine.connect()
    except Exception as error:
        if os.environ.get("CI"):
            raise
        pytest.skip(f"no Docker engine: {error}")


@pytest.fixture(scope="session")
def release_files() -> dict[str, bytes]:
    """The package of 0.5.14, whole, less the JSON tuning files that no fix touches."""
    from rocmfix.source import open_tree

    tree = open_tree("0.5.14")
    wanted = (path for path in tree.paths("python/sglang") if is_source(path) and not path.endswith(".json"))
    return {path: data for path in wanted if (data := tree.read(path)) is not None}


@pytest.fixture(scope="session")
def run_id() -> str:
    return uuid4().hex[:8]


def import_image(rootfs: Rootfs, name: str, env: dict[str, str] = ENV) -> str:
    """A root file system as an image of one layer, labelled as this suite's."""
    client = docker.from_env(timeout=600)
    changes = [f'ENV {key}="{value}"' for key, value in env.items()]
    changes += [f"LABEL {LABEL}=1", 'CMD ["/bin/sh"]']
    repository, _, tag = name.rpartition(":")
    client.api.import_image_from_data(rootfs.tar(), repository=repository, tag=tag, changes=changes)
    return name


@pytest.fixture(scope="session")
def standin(engine, release_files, run_id) -> Iterator[str]:
    """The stand-in base, whole: Python, git, sglang 0.5.14, AITER's tables, stale bytecode."""
    rootfs = Rootfs()
    host_python(rootfs)
    upstream_layout(rootfs, release_files)
    yield import_image(rootfs, f"rocmfix-test/standin-{run_id}:v0.5.14-rocm720-mi35x")
    remove_images(f"rocmfix-test/standin-{run_id}")


def remove_images(prefix: str) -> None:
    client = docker.from_env()
    for image in client.images.list(filters={"reference": f"{prefix}*"}):
        for tag in image.tags:
            if tag.startswith(prefix):
                client.images.remove(tag, force=True)


@pytest.fixture
def tag(run_id) -> Iterator[str]:
    """A fresh image name, removed afterwards."""
    name = f"rocmfix-test/built-{run_id}-{uuid4().hex[:6]}"
    yield f"{name}:tag"
    remove_images(name)


@pytest.fixture(scope="session")
def as_root() -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root")


def run_in(image: str, *command: str) -> str:
    """What a command says inside an image, without a network."""
    client = docker.from_env()
    output = client.containers.run(
        image, list(command), remove=True, network_mode="none", labels={LABEL: "1"}, stderr=True
    )
    return output.decode()


def reference(text: str):
    return parse_reference(text)


def free_port() -> int:
    import socket

    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return int(listening.getsockname()[1])


def start(argv: list[str], **how) -> subprocess.Popen[bytes]:
    return subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, **how)
