"""Upstream's own Dockerfile over the patched tree, through a real `docker buildx`."""

from __future__ import annotations

import json
import subprocess

import docker
import pytest

from rocmfix.image.manifest import PATH, parse
from tests.image.conftest import LABEL, PATCHED, Files, import_image, remove_images, rocmfix
from tests.image.standin import ENV, Rootfs, host_python

pytestmark = [pytest.mark.docker, pytest.mark.upstream]

# Ours, in the shape of upstream's docker/rocm.Dockerfile: stages by GPU_ARCH, a local source stage chosen by
# BRANCH_TYPE, ARGs that are declared again after FROM, and a step that is a heredoc.
DOCKERFILE = """\
ARG BASE_IMAGE_950_ROCM720="rocmfix-test/none"
ARG GPU_ARCH=gfx950

FROM $BASE_IMAGE_950_ROCM720 AS gfx950-rocm720
ENV AITER_COMMIT_DEFAULT="0000000000000000000000000000000000000000"

FROM scratch AS local_src
COPY . /src

FROM ${GPU_ARCH}
ARG GPU_ARCH=gfx950
ENV GPU_ARCH=${GPU_ARCH}
ARG BRANCH_TYPE=remote
ARG SGL_BRANCH=main
ARG SETUPTOOLS_SCM_PRETEND_VERSION=""
ARG AITER_COMMIT=""
ENV AITER_COMMIT="${AITER_COMMIT:-${AITER_COMMIT_DEFAULT}}"
WORKDIR /sgl-workspace
COPY --from=local_src /src /tmp/local_src
RUN if [ "$BRANCH_TYPE" = "local" ]; then cp -r /tmp/local_src sglang; else echo "would clone ${SGL_BRANCH}"; exit 9; fi \\
    && rm -rf /tmp/local_src
RUN python3 <<'PY'
from pathlib import Path
Path("/sgl-workspace/heredoc").write_text("it ran\\n")
PY
RUN --mount=type=secret,id=PIP_PASSWORD \\
    if [ -f /run/secrets/PIP_PASSWORD ]; then cat /run/secrets/PIP_PASSWORD && echo && \\
    python3 -c "print(len(open('/run/secrets/PIP_PASSWORD').read()))" > /sgl-workspace/secret-size; fi
"""


@pytest.fixture(scope="module")
def modern(buildkit, run_id):
    """The engine that reads heredocs, holding a base with Python for the Dockerfile's FROM."""
    client = docker.DockerClient(base_url=buildkit, timeout=600)
    rootfs = Rootfs()
    host_python(rootfs)
    name = f"rocmfix-test/rocm-{run_id}:base"
    env = {key: value for key, value in ENV.items() if key in ("PATH", "HIP_FORCE_DEV_KERNARG")}
    import_image(client, rootfs, name, env)
    yield client, name
    remove_images(client, f"rocmfix-test/rocm-{run_id}")
    client.images.prune(filters={"label": LABEL, "dangling": True})
    client.close()


@pytest.fixture(scope="module")
def repository(few_files, tmp_path_factory):
    """A checkout of upstream, as far as the build needs it."""
    root = tmp_path_factory.mktemp("upstream")
    for path, data in {**few_files, "docker/rocm.Dockerfile": DOCKERFILE.encode()}.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(data)
    (root / "python/sglang/_version.py").write_text("__version__ = '0.5.14'\n")
    git = ("git", "-c", "user.name=t", "-c", "user.email=t@t", "-C", str(root))
    for step in (("init", "-q"), ("add", "-A"), ("commit", "-q", "-m", "upstream"), ("tag", "v0.5.14")):
        subprocess.run([*git, *step], check=True, capture_output=True)
    return root


def build(monkeypatch, buildkit, repository, base, *more: object):
    monkeypatch.setenv("DOCKER_HOST", buildkit)
    return rocmfix(
        "build", "--from-source", repository, "--flavour", "mi35x-rocm720", "--network", "none",
        "--build-arg", f"BASE_IMAGE_950_ROCM720={base}", *more,
    )  # fmt: skip


def test_the_patched_tree_is_built_by_upstreams_dockerfile_and_sealed(
    monkeypatch, buildkit, modern, repository, run_id
):
    client, base = modern
    tag = f"rocmfix-test/rocm-{run_id}:built"
    result = build(monkeypatch, buildkit, repository, base, "-t", tag)
    assert result.exit_code == 0, result.stderr
    files = Files(client, tag)
    assert files.read("/sgl-workspace/heredoc") == b"it ran\n"
    assert b"hip_runtime.h" in files.read(PATCHED)
    manifest = parse(files.read(PATH))
    assert "jit-fused-metadata-guard" in manifest.applied
    assert PATCHED in {file.path for file in manifest.files}
    assert manifest.content.before != manifest.content.after
    env = client.api.inspect_image(tag)["Config"]["Env"]
    assert "GPU_ARCH=gfx950-rocm720" in env, "the flavour's stage"
    assert "AITER_COMMIT=7d604afe5fa7efba63c0dce323b95d9daf2db112" in env, "the flavour's AITER"
    assert rocmfix("verify", tag).exit_code == 0
    assert subprocess.run(["git", "-C", repository, "status", "--short"], capture_output=True, check=True).stdout == b""


def test_a_build_secret_reaches_the_build_and_nothing_else(monkeypatch, buildkit, modern, repository, run_id):
    """Not the log, though the Dockerfile prints it; not the command line, the history, the labels or a layer."""
    client, base = modern
    secret = "hunter2-very-secret"
    monkeypatch.setenv("PIP_PASSWORD", secret)
    tag = f"rocmfix-test/rocm-{run_id}:secret"
    result = build(
        monkeypatch,
        buildkit,
        repository,
        base,
        "-t",
        tag,
        "--secret",
        "PIP_PASSWORD",
        "--build-arg",
        f"SGL_BRANCH=uncached-{run_id}",
    )
    assert result.exit_code == 0, result.stderr
    files = Files(client, tag)
    assert int(files.read("/sgl-workspace/secret-size")) == len(secret)
    assert secret not in result.stdout + result.stderr
    assert "***" in result.stderr, "the Dockerfile printed it"
    assert secret not in json.dumps(client.api.inspect_image(tag)) + json.dumps(client.api.history(tag))
    assert secret.encode() not in b"".join(client.api.get_image(tag))


def test_a_build_argument_that_is_a_secret_is_refused(monkeypatch, buildkit, modern, repository):
    dockerfile = repository / "docker/rocm.Dockerfile"
    dockerfile.write_text(DOCKERFILE + "ARG HF_TOKEN\n")
    try:
        result = build(monkeypatch, buildkit, repository, modern[1], "--build-arg", "HF_TOKEN=hunter2")
    finally:
        dockerfile.write_text(DOCKERFILE)
    assert result.exit_code == 4
    assert "hunter2" not in result.output
    assert "hint: --secret HF_TOKEN" in result.stderr


def test_an_argument_that_no_arg_declares_is_refused(monkeypatch, buildkit, modern, repository):
    """Docker drops it without a word (sgl-project/sglang#35088)."""
    result = build(monkeypatch, buildkit, repository, modern[1], "--build-arg", "SGLANG_VERSION=1")
    assert result.exit_code == 4
    assert "declares no ARG SGLANG_VERSION" in result.stderr
    assert "SGL_BRANCH" in result.stderr


def test_a_failing_step_is_shown_with_its_last_lines(monkeypatch, buildkit, modern, repository):
    dockerfile = repository / "docker/rocm.Dockerfile"
    dockerfile.write_text(DOCKERFILE + "RUN echo fatal error: cuda_runtime.h file not found && exit 7\n")
    try:
        result = build(monkeypatch, buildkit, repository, modern[1])
    finally:
        dockerfile.write_text(DOCKERFILE)
    assert result.exit_code == 7
    assert "the build failed" in result.stderr
    assert "exit code: 7" in result.stderr
    assert "hint: a CUDA header was asked for on ROCm" in result.stderr


def test_a_dockerfile_that_would_clone_unpatched_is_refused(monkeypatch, buildkit, modern, repository):
    dockerfile = repository / "docker/rocm.Dockerfile"
    dockerfile.write_text(DOCKERFILE.replace("ARG BRANCH_TYPE=remote\n", ""))
    try:
        result = build(monkeypatch, buildkit, repository, modern[1])
    finally:
        dockerfile.write_text(DOCKERFILE)
    assert result.exit_code == 3
    assert "knows no BRANCH_TYPE" in result.stderr


def test_a_wheel_has_no_dockerfile(engine):
    result = rocmfix("build", "--from-source", "0.5.14", "--flavour", "mi35x-rocm720", "--offline")
    assert result.exit_code == 3


def test_without_buildx_it_says_so(engine, repository, monkeypatch, tmp_path):
    """A docker command without the plugin."""
    (tmp_path / "docker").write_text("#!/bin/sh\necho \"docker: 'buildx' is not a docker command.\" >&2\nexit 1\n")
    (tmp_path / "docker").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    result = rocmfix("build", "--from-source", repository, "--flavour", "mi35x-rocm720")
    assert result.exit_code == 6
    assert "docker buildx is not there" in result.stderr
    assert "'buildx' is not a docker command" in result.stderr
    assert "hint: install Docker's buildx plugin" in result.stderr


def test_an_engine_too_old_for_heredocs_says_so(engine, repository):
    if int(engine.version.split(".")[0]) >= 23:
        from rocmfix.errors import ToolMissingError
        from rocmfix.image.source_build import refuse_old_engine

        with pytest.raises(ToolMissingError, match="heredocs"):
            refuse_old_engine("20.10.24", DOCKERFILE)
        return
    result = rocmfix("build", "--from-source", repository, "--flavour", "mi35x-rocm720")
    assert result.exit_code == 6
    assert "uses heredocs" in result.stderr
    assert "hint: Docker 23 or newer" in result.stderr
