"""Without the right to build: files and flags that lay the same content over the stock image."""

from __future__ import annotations

import base64
import json

import pytest

from rocmfix.errors import ApplyError
from rocmfix.image.overlay import _refuse_large
from tests.image.conftest import BYTECODE, LABEL, PATCHED, rocmfix

pytestmark = [pytest.mark.docker, pytest.mark.upstream]


@pytest.mark.parametrize("size", [1 << 20, (1 << 20) + 1])
def test_a_file_as_large_as_a_config_map_may_be_passes_and_one_byte_more_does_not(size):
    """A whole fused-MoE table has 800 kB; Kubernetes counts bytes as they are before base64."""
    if size > 1 << 20:
        with pytest.raises(ApplyError, match="more than a ConfigMap can hold"):
            _refuse_large({"/t.csv": b"x" * size})
    else:
        _refuse_large({"/t.csv": b"x" * size})


@pytest.fixture
def overlay(base, tmp_path):
    folder = tmp_path / "over"
    result = rocmfix("build", "--base", base, "--flavour", "mi35x-rocm720", "--overlay", folder, "--env", "A=b c")
    assert result.exit_code == 0, result.stderr
    return folder, result


def test_the_flags_lay_the_patched_files_over_a_running_stock_image(client, whole_base, tmp_path):
    """Really run: the stock image, unchanged, with the files mounted as the flags say."""
    folder = tmp_path / "over"
    result = rocmfix("build", "--base", whole_base, "--flavour", "mi35x-rocm720", "--overlay", folder)
    assert result.exit_code == 0, result.stderr
    volumes = [flag.removeprefix("--volume=") for flag in result.stdout.split() if flag.startswith("--volume=")]
    said = client.containers.run(
        whole_base, ["cat", PATCHED], volumes=volumes, remove=True, network_mode="none", labels={LABEL: "1"}
    )
    assert b"hip_runtime.h" in said


def test_each_file_is_mounted_alone_and_read_only(overlay):
    folder, result = overlay
    flags = result.stdout.splitlines()
    assert f"--volume={folder}/root{PATCHED}:{PATCHED}:ro" in flags
    assert f"--volume={folder}/root{BYTECODE}:{BYTECODE}:ro" in flags
    assert "--env='A=b c'" in flags
    assert (folder / "docker.flags").read_text().splitlines() == flags
    assert (folder / f"root{BYTECODE}").read_bytes() == b""


def test_kubernetes_gets_the_same_bytes(overlay):
    folder, _ = overlay
    said = json.loads((folder / "kubernetes.json").read_text())
    held = {m["metadata"]["annotations"]["io.rocmfix/path"]: m for m in said["configMaps"]["items"]}
    assert base64.b64decode(held[PATCHED]["binaryData"]["file"]) == (folder / f"root{PATCHED}").read_bytes()
    mounts = {mount["mountPath"]: mount for mount in said["pod"]["volumeMounts"]}
    assert mounts[PATCHED] == {
        "name": held[PATCHED]["metadata"]["name"], "mountPath": PATCHED, "subPath": "file", "readOnly": True,
    }  # fmt: skip
    assert {v["name"] for v in said["pod"]["volumes"]} == {m["name"] for m in mounts.values()}


def test_a_folder_that_exists_is_not_overwritten(base, tmp_path):
    folder = tmp_path / "over"
    folder.mkdir()
    (folder / "mine").write_text("keep")
    result = rocmfix("build", "--base", base, "--flavour", "mi35x-rocm720", "--overlay", folder)
    assert result.exit_code != 0
    assert (folder / "mine").read_text() == "keep"
