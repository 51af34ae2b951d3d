"""Overlays on a real engine: what enters the image, what stays as it was, and what is left behind."""

from __future__ import annotations

import io
import json
import signal
import time

import docker
import pytest

from rocmfix.image.manifest import INPUTS_LABEL, PATH, parse
from tests.image.conftest import (
    BYTECODE,
    JIT,
    OTHER_BYTECODE,
    PATCHED,
    PATCHED_PY,
    import_image,
    leftovers,
    new_layers,
    python,
    rebuilt,
    rocmfix,
)
from tests.image.standin import PACKAGE, Rootfs, upstream_layout

pytestmark = [pytest.mark.docker, pytest.mark.upstream]

FLAVOUR = ("--flavour", "mi35x-rocm720")


def layer_tar(client: docker.DockerClient, image: str) -> bytes:
    """The topmost layer's tar, taken out of a save of the image."""
    import tarfile

    with tarfile.open(fileobj=io.BytesIO(b"".join(client.api.get_image(image)))) as saved:
        listing = saved.extractfile("manifest.json")
        assert listing
        layer = saved.extractfile(json.load(listing)[0]["Layers"][-1])
        assert layer
        return layer.read()


def test_needed_fixes_are_in_the_image_and_nowhere_else(base, built, files):
    assert b"hip_runtime.h" in files(built).read(PATCHED)
    assert b"hip_runtime.h" not in files(base).read(PATCHED)
    manifest = parse(files(built).read(PATH))
    assert "jit-fused-metadata-guard" in manifest.applied
    assert manifest.content.before != manifest.content.after
    assert {fix.fix for fix in manifest.fixes} >= set(manifest.applied)


def test_owner_and_mode_are_kept_and_the_time_is_the_patchs(base, built, files):
    before, after = files(base).member(PATCHED_PY), files(built).member(PATCHED_PY)
    assert (after.mode & 0o7777, after.uid, after.gid) == (0o664, 1000, 1001)
    assert (before.mode & 0o7777, before.uid, before.gid) == (0o664, 1000, 1001)
    assert after.mtime != before.mtime
    assert 1_700_000_000 < after.mtime < time.time(), "the patch's date, not the build's"


@pytest.mark.parametrize("folder", ["/sgl-workspace", PACKAGE, f"{PACKAGE}/jit_kernel/__pycache__", "/root"])
def test_the_folders_above_are_as_they_were(base, built, files, folder):
    before, after = files(base).member(folder), files(built).member(folder)
    assert (after.mode & 0o7777, after.uid, after.gid) == (before.mode & 0o7777, before.uid, before.gid)
    assert after.mtime == before.mtime


def test_stale_bytecode_and_jit_builds_of_what_changed_are_emptied_and_no_others(built, files):
    assert files(built).read(BYTECODE) == b""
    assert files(built).read(BYTECODE.replace("310.pyc", "311.opt-1.pyc")) == b""
    assert files(built).read(OTHER_BYTECODE) == b"compiled before the patch"
    for name in (".ninja_log", ".ninja_deps", "cuda.o", "main.so"):
        assert files(built).read(f"{JIT}/{name}") == b"", name
    assert files(built).read("/root/.cache/tvm-ffi/sgl_kernel_jit_norm_3c4d/main.so") == b"has nothing to do with it"


def test_a_layers_bytes_are_what_changed_and_little_more(client, base, built, files):
    """A naive COPY or chown -R of the tree would add the whole of it."""
    manifest = parse(files(built).read(PATH))
    changed = sum(len(files(built).read(file.path)) for file in manifest.files) + len(files(built).read(PATH))
    assert len(layer_tar(client, built)) <= 1.1 * changed


def test_the_base_is_named_by_digest(client, base, built):
    labels = client.api.inspect_image(built)["Config"]["Labels"]
    assert labels["org.opencontainers.image.base.digest"] == client.api.inspect_image(base)["Id"]
    assert labels["io.rocmfix.test"] == "1", "labels of the base are inherited"


def test_two_builds_give_the_same_layer(client, base, tag):
    first = tag.replace(":tag", ":one")
    assert rocmfix("build", "--base", base, *FLAVOUR, "-t", first, "--env", "A=1").exit_code == 0
    layers = new_layers(client, first, base)
    client.images.remove(first, force=True)
    time.sleep(1.1)  # a clock in the layer would show in its times, which are whole seconds
    assert rocmfix("build", "--base", base, *FLAVOUR, "-t", tag, "--env", "A=1").exit_code == 0
    assert new_layers(client, tag, base) == layers
    assert len(layers) == 1


def test_a_rebuild_with_nothing_changed_builds_nothing(client, base, built, tag):
    result = rocmfix("build", "--base", base, *FLAVOUR, "-t", tag, "--json")
    assert result.exit_code == 0
    assert '"is_new": false' in result.stdout
    assert client.api.inspect_image(tag)["Id"] == client.api.inspect_image(built)["Id"]


def test_an_image_built_on_top_of_ours_is_not_taken_for_ours(client, base, tag):
    """Labels are inherited, so the label alone proves nothing."""
    assert rocmfix("build", "--base", base, *FLAVOUR, "-t", tag, "--env", "B=1").exit_code == 0
    ours = client.api.inspect_image(tag)["Id"]
    child = rebuilt(client, tag, "ENV B=2")
    client.images.remove(tag, force=True)
    result = rocmfix("build", "--base", base, *FLAVOUR, "-t", tag, "--env", "B=1")
    assert result.exit_code == 0
    assert client.api.inspect_image(tag)["Id"] != child
    client.images.remove(child, force=True)
    assert ours


def test_building_on_our_own_image_applies_nothing_twice(built):
    result = rocmfix("build", "--base", built, *FLAVOUR)
    assert result.exit_code == 0
    assert "nothing was built" in result.stdout
    assert "rocmfix applied it" in result.stdout


def test_an_image_on_top_of_our_own_keeps_the_earlier_record(client, base, tag, files):
    """What the first build put in place is still vouched for by the second."""
    first = tag.replace(":tag", ":one")
    only = ("--fix", "jit-fused-metadata-guard")
    assert rocmfix("build", "--base", base, *FLAVOUR, "-t", first, *only).exit_code == 0
    assert rocmfix("build", "--base", first, *FLAVOUR, "-t", tag).exit_code == 0
    manifest = parse(files(tag).read(PATH))
    assert manifest.applied[0] == "jit-fused-metadata-guard"
    assert len(manifest.applied) > 1
    assert PATCHED in {file.path for file in manifest.files}
    assert rocmfix("verify", tag).exit_code == 0


def test_only_the_wanted_fix_is_applied_and_the_rest_says_why(base):
    result = rocmfix("build", "--base", base, *FLAVOUR, "--fix", "jit-fused-metadata-guard", "--dry-run")
    assert result.exit_code == 0
    assert result.stdout.count("\napply") + result.stdout.startswith("apply") == 1
    assert "not asked for" in result.stdout


def test_a_dry_run_builds_nothing(client, base):
    before = {image.id for image in client.images.list(all=True)}
    result = rocmfix("build", "--base", base, *FLAVOUR, "--dry-run", "--env", "DRY=1")
    assert result.exit_code == 0
    assert "ADD files.tar /" in result.stdout
    assert 'DRY="1"' in result.stdout
    ours = {i.id for i in client.images.list(all=True) if INPUTS_LABEL in (i.labels or {})}
    assert not ours - before - {i.id for i in client.images.list() if i.tags}


def test_a_written_context_builds_with_any_client(client, base, tag, tmp_path, files):
    folder = tmp_path / "context"
    assert rocmfix("build", "--base", base, *FLAVOUR, "--context", folder).exit_code == 0
    assert {path.name for path in folder.iterdir()} == {"Dockerfile", "files.tar", "plan.json"}
    client.images.build(path=str(folder), tag=tag, rm=True)
    assert rocmfix("verify", tag).exit_code == 0


def test_env_of_the_user_is_set_and_recorded(client, base, tag, files):
    assert rocmfix("build", "--base", base, *FLAVOUR, "-t", tag, "--env", 'ODD=a "b" $c \\d').exit_code == 0
    assert 'ODD=a "b" $c \\d' in client.api.inspect_image(tag)["Config"]["Env"]
    assert parse(files(tag).read(PATH)).env[-1].value == 'a "b" $c \\d'


def test_a_base_without_sglang_is_refused(client, run_id, tag):
    rootfs = Rootfs()
    rootfs.add("/etc/hostname", b"x\n")
    name = import_image(client, rootfs, f"rocmfix-test/built-{run_id}-empty:tag")
    result = rocmfix("build", "--base", name, *FLAVOUR, "-t", tag)
    client.images.remove(name)
    assert result.exit_code == 3
    assert f"{name}: holds no sglang" in result.stderr
    assert "looked in /sgl-workspace/sglang" in result.stderr
    assert "hint: " in result.stderr
    assert not leftovers(client)


def test_a_checkout_behind_a_link_is_patched_where_it_really_lies(client, few_files, run_id, tag, files):
    """A layer that names a link as a folder would replace it, and hide everything behind it."""
    rootfs = Rootfs()
    upstream_layout(rootfs, few_files)
    rootfs.entries = {path.replace("/sgl-workspace/", "/data/"): e for path, e in rootfs.entries.items()}
    moved = {path: type(e)(**{**vars(e), "path": path}) for path, e in rootfs.entries.items()}
    rootfs.entries = {path: e for path, e in moved.items() if path != "/sgl-workspace"}
    rootfs.link("/sgl-workspace", "/data")
    name = import_image(client, rootfs, f"rocmfix-test/built-{run_id}-link:tag")
    assert rocmfix("build", "--base", name, *FLAVOUR, "-t", tag).exit_code == 0
    assert files(tag).member("/sgl-workspace").issym()
    assert b"hip_runtime.h" in files(tag).read(PATCHED)
    assert rocmfix("verify", tag).exit_code == 0
    client.images.remove(tag, force=True)
    client.images.remove(name)


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_leaves_nothing(client, whole_base, tag, how):
    process = python("build", "--base", whole_base, *FLAVOUR, "-t", tag, "--env", f"INTERRUPTED={how.value}")
    deadline = time.monotonic() + 60
    while not leftovers(client, process.pid) and time.monotonic() < deadline:
        time.sleep(0.02)
    process.send_signal(how)
    _, stderr = process.communicate(timeout=60)
    assert process.returncode == 130, stderr
    assert "nothing was left half-done" in stderr
    assert not leftovers(client, process.pid)
    assert not [image for image in client.images.list() if tag in image.tags]


def test_what_a_killed_run_left_is_swept_by_the_next(client, base, engine):
    import socket

    dead = 2**22 - 7
    labels = {"io.rocmfix.run": f"{socket.gethostname()}:{dead}"}
    left = client.api.create_container(base, ["/"], labels=labels)["Id"]
    alive = client.api.create_container(base, ["/"], labels={"io.rocmfix.run": f"{socket.gethostname()}:1"})["Id"]
    engine.sweep()
    remaining = [*leftovers(client, dead), *leftovers(client, 1)]
    client.api.remove_container(alive)
    assert left not in remaining
    assert alive in remaining


def test_a_failed_build_leaves_no_image_and_shows_its_last_lines(client, base, engine, tmp_path, monkeypatch):
    """The template is made to fail on purpose: its RUN exits 3."""
    from rocmfix.errors import EngineError
    from rocmfix.image import flavour as flavours
    from rocmfix.image.build import build
    from rocmfix.image.order import Order
    from rocmfix.image.progress import Progress

    (tmp_path / "overlay.Dockerfile.j2").write_text(
        "FROM {{ base }}\nLABEL {% for n, v in labels.items() %}{{ n }}={{ v | quoted }} {% endfor %}\n\n"
        'ADD files.tar /\nRUN ["/no/such/program"]\n'
    )
    from rocmfix.catalog import load

    def unnamed() -> set[str | None]:
        images = client.images.list(all=True, filters={"dangling": True})
        return {image.id for image in images if INPUTS_LABEL in (image.labels or {})}

    before = unnamed()
    order = Order(flavours.load("mi35x-rocm720"), load(), base=base, templates=tmp_path)
    with pytest.raises(EngineError) as caught:
        build(engine, order, Progress(io.StringIO()))
    assert "the build failed at Step 4/4" in caught.value.message
    assert "no such file" in " ".join(caught.value.details).lower()
    assert caught.value.hint
    assert not leftovers(client)
    assert unnamed() <= before


def test_buildkit_and_the_classic_builder_make_the_same_layer(client, base, registry, tag, tmp_path):
    """A COPY would not: each of the two gives copied folders other owners and times."""
    import subprocess

    if subprocess.run(["docker", "buildx", "version"], capture_output=True, check=False).returncode:
        pytest.skip("no buildx (ci/engine installs it)")
    name = f"{registry}/up/sglang:v0.5.14-rocm720-mi35x"
    client.api.tag(base, f"{registry}/up/sglang", "v0.5.14-rocm720-mi35x")
    client.api.push(f"{registry}/up/sglang", tag="v0.5.14-rocm720-mi35x")
    assert rocmfix("build", "--base", name, *FLAVOUR, "-t", tag).exit_code == 0
    context = tmp_path / "context"
    assert rocmfix("build", "--base", name, *FLAVOUR, "--context", context).exit_code == 0
    other = tag.replace(":tag", ":buildkit")
    argv = ["docker", "buildx", "build", "--no-cache", "--load", "--tag", other, str(context)]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert new_layers(client, other, base) == new_layers(client, tag, base)
    assert rocmfix("verify", other).exit_code == 0
    client.images.remove(name)
