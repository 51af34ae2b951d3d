"""The registry client against a real registry, through a proxy that breaks things."""

from __future__ import annotations

import gzip
import hashlib
import json
import os

import pytest
import requests

from rocmfix.errors import RegistryError
from rocmfix.system.reference import parse_reference
from rocmfix.system.registry import Descriptor, NotInRegistryError, Registry
from rocmfix.system.registry_auth import Credentials, Login
from tests.image import services
from tests.image.conftest import rocmfix
from tests.image.services import Fault

pytestmark = pytest.mark.docker

DATA = os.urandom(200_000)
LAYER = gzip.compress(DATA, mtime=0)


def put(registry: str, repository: str, tag: str, layer: bytes = LAYER) -> str:
    """A tiny image, uploaded by hand."""
    config = json.dumps({"os": "linux", "architecture": "amd64", "rootfs": {"type": "layers", "diff_ids": []}}).encode()
    for blob in (config, layer):
        where = requests.post(f"http://{registry}/v2/{repository}/blobs/uploads/", timeout=10).headers["Location"]
        digest = f"sha256:{hashlib.sha256(blob).hexdigest()}"
        assert requests.put(f"{where}&digest={digest}", data=blob, timeout=10).status_code == 201
    body = {
        "schemaVersion": 2,
        "mediaType": "application/vnd.docker.distribution.manifest.v2+json",
        "config": describe(config, "application/vnd.docker.container.image.v1+json"),
        "layers": [describe(layer, "application/vnd.docker.image.rootfs.diff.tar.gzip")],
    }
    answer = requests.put(
        f"http://{registry}/v2/{repository}/manifests/{tag}",
        data=json.dumps(body), headers={"Content-Type": str(body["mediaType"])}, timeout=10,
    )  # fmt: skip
    assert answer.status_code == 201
    return answer.headers["Docker-Content-Digest"]


def describe(blob: bytes, kind: str) -> dict[str, str | int]:
    return {"mediaType": kind, "size": len(blob), "digest": f"sha256:{hashlib.sha256(blob).hexdigest()}"}


def open_(registry: str, name: str = "me/x:v1") -> Registry:
    return Registry(parse_reference(f"{registry}/{name}"), pause=lambda _: None)


LAYER_BLOB = Descriptor(f"sha256:{hashlib.sha256(LAYER).hexdigest()}", len(LAYER), "")


def test_a_tag_resolves_to_the_digest_it_was_put_under(registry):
    digest = put(registry, "me/x", "v1")
    assert open_(registry).digest("v1") == digest
    assert open_(registry).manifest(digest).layers[0].size == len(LAYER)
    result = rocmfix("tags", "resolve", f"{registry}/me/x:v1")
    assert result.stdout == f"{registry}/me/x@{digest}\n"


def test_a_tag_that_does_not_exist_names_the_nearest(registry):
    for tag in ("v0.5.14-rocm720-mi35x-20260701", "v0.5.14-rocm700-mi30x-20260701"):
        put(registry, "up/sglang-rocm", tag)
    result = rocmfix("tags", "resolve", f"{registry}/up/sglang-rocm:v0.5.14-rocm720-mi35x")
    assert result.exit_code == 8
    assert "has no tag v0.5.14-rocm720-mi35x" in result.stderr
    assert "nearest: v0.5.14-rocm720-mi35x-20260701" in result.stderr
    assert "every tag of" in result.stderr
    assert "ends in a date" in result.stderr
    assert f"hint: rocmfix tags resolve {registry}/up/sglang-rocm:v0.5.14-rocm720-mi35x-20260701" in result.stderr


def test_a_repository_that_does_not_exist(registry):
    result = rocmfix("tags", "resolve", f"{registry}/no/such:v1")
    assert result.exit_code == 8
    assert "has no such image (404" in result.stderr
    assert "hint: " in result.stderr


def test_tags_are_read_page_by_page(registry):
    for number in range(5):
        put(registry, "me/x", f"t{number}")
    found = open_(registry).tags(page=2)
    assert sorted(found) == [f"t{number}" for number in range(5)]


def test_a_registry_in_trouble_is_asked_again(registry):
    digest = put(registry, "me/x", "v1")
    with services.flaky(registry, Fault(lambda *_: True, status=503, times=2)) as proxy:
        assert open_(proxy.name).digest("v1") == digest


def test_a_registry_that_stays_in_trouble(registry):
    with services.flaky(registry, Fault(lambda *_: True, status=500)) as proxy:
        with pytest.raises(RegistryError) as caught:
            open_(proxy.name).manifest("v1")
        assert len(proxy.requests) == 4
    assert "failed inside (500 on GET)" in caught.value.message
    assert "the fault is the registry's" in (caught.value.hint or "")


def test_a_cut_layer_is_taken_up_where_it_broke(registry):
    put(registry, "me/x", "v1")
    with services.flaky(registry, Fault(lambda _, path: "/blobs/" in path, cut=2000, times=2)) as proxy:
        with open_(proxy.name).open_blob(LAYER_BLOB) as blob:
            data = blob.read(len(LAYER))
            data += b"".join(iter(lambda: blob.read(65536) or b"", b""))
        assert gzip.decompress(data) == DATA
        assert sum("/blobs/" in request for request in proxy.requests) == 3
        assert blob.count == len(LAYER), "no byte was asked for twice"


def test_a_layer_that_is_cut_again_and_again(registry):
    put(registry, "me/x", "v1")
    with (
        services.flaky(registry, Fault(lambda _, path: "/blobs/" in path, cut=0)) as proxy,
        pytest.raises(RegistryError) as caught,
        open_(proxy.name).open_blob(LAYER_BLOB) as blob,
    ):
        blob.read(10)
    assert "was cut 4 times at byte 0" in caught.value.message
    assert caught.value.hint


def test_what_is_not_asked_for_is_not_sent(registry):
    big = os.urandom(30_000_000)  # well above what sockets hold on the way
    put(registry, "me/x", "v1", big)
    with services.flaky(registry) as proxy:
        with open_(proxy.name).open_blob(Descriptor(str(describe(big, "")["digest"]), len(big), "")) as blob:
            blob.read(1000)
            assert blob.count < 100_000
        assert proxy.sent < len(big) / 2


def test_a_blob_that_arrives_damaged_is_refused(registry):
    put(registry, "me/x", "v1")
    wrong = f"sha256:{'0' * 64}"
    with pytest.raises(NotInRegistryError):
        open_(registry).blob(wrong)


def test_the_stored_login_is_sent_only_where_it_belongs(logged_in):
    assert open_(logged_in).digest("v1") is None
    reference = parse_reference(f"{logged_in}/me/x:v1")
    with pytest.raises(RegistryError, match="refused the stored login"):
        Registry(reference, Credentials("tester", "nope"), pause=lambda _: None).manifest("v1")


def test_a_token_is_never_fetched_over_plain_http_from_elsewhere():
    login = Login(requests.Session(), Credentials("u", "p"))
    with pytest.raises(RegistryError, match="sends its users to http"):
        login._respond('Bearer realm="http://evil.example/token",service="x",scope="y"')


def test_a_password_does_not_show_in_a_representation():
    assert "p4ss" not in repr(Credentials("u", "p4ss"))
