"""Looking into an image in a registry: layer rules, and no more bytes than it takes."""

from __future__ import annotations

import gzip
import io
import json
import tarfile

import pytest

from rocmfix.errors import RegistryError
from rocmfix.image.remote import EVERYTHING, Stack, Unpacked, Wants, read_layer
from tests.image import services
from tests.image.conftest import rocmfix
from tests.image.services import Fault

PACKAGE = "sgl-workspace/sglang/python/sglang"


def layer(*members: tuple[str, bytes | None], links: dict[str, str] | None = None) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for name, data in members:
            info = tarfile.TarInfo(name)
            if data is None:
                info.type = tarfile.DIRTYPE
            info.size = len(data or b"")
            tar.addfile(info, io.BytesIO(data or b""))
        for name, target in (links or {}).items():
            info = tarfile.TarInfo(name)
            info.type, info.linkname = tarfile.LNKTYPE, target
            tar.addfile(info)
    return out.getvalue()


def stacked(*layers: bytes) -> dict[str, bytes]:
    """What is seen of layers given from the top down."""
    stack = Stack()
    for each in layers:
        read_layer(io.BytesIO(each), stack)
    return {path: file.data for path, file in stack.files.items() if not file.is_directory}


def test_the_topmost_layer_that_has_a_file_decides_it():
    top, below = layer((f"{PACKAGE}/a.py", b"new")), layer((f"{PACKAGE}/a.py", b"old"), (f"{PACKAGE}/b.py", b"b"))
    assert stacked(top, below) == {f"/{PACKAGE}/a.py": b"new", f"/{PACKAGE}/b.py": b"b"}


def test_a_removed_file_is_not_there():
    top = layer((f"{PACKAGE}/.wh.a.py", b""))
    assert stacked(top, layer((f"{PACKAGE}/a.py", b"old"))) == {}


def test_a_removed_folder_takes_all_below_it_along():
    top = layer(("sgl-workspace/sglang/python/.wh.sglang", b""))
    assert stacked(top, layer((f"{PACKAGE}/srt/a.py", b"old"))) == {}


def test_a_folder_removed_and_made_anew_shows_only_the_new():
    top = layer((f"{PACKAGE}/srt/.wh..wh..opq", b""), (f"{PACKAGE}/srt/b.py", b"new"))
    below = layer((f"{PACKAGE}/a.py", b"stays"), (f"{PACKAGE}/srt/a.py", b"old"))
    assert stacked(top, below) == {f"/{PACKAGE}/srt/b.py": b"new", f"/{PACKAGE}/a.py": b"stays"}


def test_a_link_on_top_hides_the_file_below():
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        info = tarfile.TarInfo(f"{PACKAGE}/a.py")
        info.type, info.linkname = tarfile.SYMTYPE, "/elsewhere"
        tar.addfile(info)
    assert stacked(out.getvalue(), layer((f"{PACKAGE}/a.py", b"old"))) == {}


def test_a_hard_link_has_the_bytes_of_what_it_links_to():
    one = layer((f"{PACKAGE}/a.py", b"same"), links={f"{PACKAGE}/b.py": f"{PACKAGE}/a.py"})
    assert stacked(one)[f"/{PACKAGE}/b.py"] == b"same"


def test_a_layer_that_made_a_checkout_says_so():
    assert read_layer(io.BytesIO(layer(("sgl-workspace/aiter/.git/HEAD", b"x"))), Stack()) == {"/sgl-workspace/aiter"}


def test_nothing_is_read_past_the_last_wanted_path():
    packed = layer((f"{PACKAGE}/a.py", b"x"), ("tmp/large", b"0" * 1_000_000), ("usr/large", b"0" * 1_000_000))
    blob = io.BytesIO(packed)
    read_layer(blob, Stack())
    assert blob.tell() < 200_000


def test_a_table_that_the_env_names_is_read_wherever_it_lies():
    """Also behind the last path that is wanted otherwise."""
    packed = layer((f"{PACKAGE}/a.py", b"x"), ("srv/t.csv", b"a,b\n"), ("usr/large", b"0" * 1_000_000))
    stack = Stack()
    blob = io.BytesIO(packed)
    read_layer(blob, stack, Wants((*EVERYTHING.roots, "/srv/t.csv")))
    assert stack.files["/srv/t.csv"].data == b"a,b\n"
    assert blob.tell() < 200_000


def test_of_a_checkout_the_commit_is_read():
    head = ("sgl-workspace/aiter/.git/HEAD", b"ref: refs/heads/main\n")
    made = stacked(layer(head, ("sgl-workspace/aiter/csrc/a.cu", b"large")))
    assert made["/sgl-workspace/aiter/.git/HEAD"] == b"ref: refs/heads/main\n"
    assert "/sgl-workspace/aiter/csrc/a.cu" not in made


def test_a_layer_out_of_order_is_read_to_its_end():
    packed = layer(("usr/large", b"0" * 300_000), ("etc/x", b""), (f"{PACKAGE}/a.py", b"late"))
    assert stacked(layer(("bin/x", b""), ("a", b""), ("usr/x", b""), (f"{PACKAGE}/a.py", b"late"))) != {}
    assert read_layer(io.BytesIO(packed), Stack()) == set()


@pytest.mark.parametrize(
    "pack", [bytes, lambda data: gzip.compress(data, 6), lambda d: gzip.compress(d[:700]) + gzip.compress(d[700:])]
)
def test_layers_are_unpacked_whatever_they_are_packed_with(pack):
    packed = layer((f"{PACKAGE}/a.py", b"x" * 5000))
    assert Unpacked(io.BytesIO(pack(packed))).read(1 << 20) == packed


def test_a_packing_that_python_lacks_is_an_error_not_an_empty_image():
    with pytest.raises(RegistryError, match="zstd"):
        read_layer(io.BytesIO(b"\x28\xb5\x2f\xfd" + b"0" * 100), Stack())


@pytest.mark.parametrize("data", [b"\x1f\x8b" + b"0" * 100, b"not a tar at all" * 100])
def test_a_damaged_layer_is_an_error_not_an_empty_image(data):
    with pytest.raises(RegistryError, match="cannot be read"):
        read_layer(io.BytesIO(data), Stack())


@pytest.mark.docker
@pytest.mark.upstream
def test_an_image_is_looked_into_without_a_pull(client, built, registry):
    """Through a proxy that counts: what is said to be read is what was sent."""
    published = json.loads(rocmfix("publish", built, "--to", f"{registry}/me/sglang", "--tag", "v1", "--json").stdout)
    local = json.loads(rocmfix("inspect", built, "--json").stdout)
    before = {image.id for image in client.images.list(all=True)}
    cut = Fault(lambda _, path: "/blobs/" in path, cut=40_000, times=1)
    with services.flaky(registry, cut) as proxy:
        result = rocmfix("inspect", f"{proxy.name}/me/sglang:v1", "--remote", "--json")
        remote = json.loads(result.stdout)
        assert not [request for request in proxy.requests if not request.startswith(("GET", "HEAD"))]
    assert {image.id for image in client.images.list(all=True)} == before
    for key in ("id", "release", "commit", "aiter", "tree", "applied", "tables", "env"):
        assert remote[key] == local[key], key
    assert [v["verdict"] for v in remote["report"]["verdicts"]] == [v["verdict"] for v in local["report"]["verdicts"]]
    assert 0 < remote["reading"]["bytes"] <= remote["reading"]["of"]
    assert remote["digest"] == published["digest"]


@pytest.mark.docker
def test_an_image_that_the_registry_does_not_have(registry):
    result = rocmfix("inspect", f"{registry}/me/none:v1", "--remote")
    assert result.exit_code == 8
    assert "has no such image (404" in result.stderr
