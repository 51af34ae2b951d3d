"""Into a real registry and back: digests, tags that keep their meaning, cuts, refusals."""

from __future__ import annotations

import json
from typing import Any

import pytest

from rocmfix.errors import RegistryError
from rocmfix.image.manifest import INPUTS_LABEL, PATH, parse
from rocmfix.image.publish import Target, publish, release_tag
from rocmfix.system.reference import parse_reference
from rocmfix.system.registry import Registry
from tests.image import services
from tests.image.conftest import PATCHED, login, rocmfix
from tests.image.services import Fault

pytestmark = [pytest.mark.docker, pytest.mark.upstream]


def published(result) -> Any:
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def digest_of(name: str) -> str | None:
    reference = parse_reference(name)
    return Registry(reference).digest(reference.version)


def test_build_verify_publish_pull_back_verify(client, base, built, registry, files):
    said = published(rocmfix("publish", built, "--to", f"{registry}/me/sglang", "--json"))
    manifest = parse(files(built).read(PATH))
    name = said["tags"][0]
    assert name == f"{registry}/me/sglang:{release_tag(manifest)}"
    assert digest_of(name) == said["digest"]
    assert name not in client.images.get(built).tags, "the engine's own name for the push is gone"

    pinned = f"{registry}/me/sglang@{said['digest']}"
    client.images.pull(pinned)
    result = rocmfix("verify", pinned)
    assert result.exit_code == 0
    assert b"hip_runtime.h" in files(pinned).read(PATCHED)
    client.images.remove(pinned)


def test_publishing_again_pushes_nothing(built, registry):
    first = published(rocmfix("publish", built, "--to", f"{registry}/me/sglang", "--json"))
    with services.flaky(registry) as proxy:
        again = published(rocmfix("publish", built, "--to", f"{proxy.name}/me/sglang", "--json"))
        assert not [request for request in proxy.requests if request.startswith(("PUT", "POST", "PATCH"))]
    assert (first["pushed"], again["pushed"]) == (True, False)
    assert again["digest"] == first["digest"]


def test_a_release_tag_never_changes_its_meaning(client, base, built, registry):
    to = f"{registry}/me/sglang"
    client.api.tag(base, to, "v1")
    client.api.push(to, tag="v1")
    client.images.remove(f"{to}:v1")
    before = digest_of(f"{to}:v1")
    result = rocmfix("publish", built, "--to", to, "--tag", "v1")
    assert result.exit_code == 8
    assert f"{to}:v1 is taken: it stands for {before}" in result.stderr
    assert "nothing was pushed" in result.stderr
    assert "hint: " in result.stderr
    assert digest_of(f"{to}:v1") == before


def test_a_moving_tag_moves_and_says_from_where(client, base, built, registry):
    to = f"{registry}/me/sglang"
    client.api.tag(base, to, "latest")
    client.api.push(to, tag="latest")
    client.images.remove(f"{to}:latest")
    before = digest_of(f"{to}:latest")
    said = published(rocmfix("publish", built, "--to", to, "--tag", "v2", "--moving", "latest", "--json"))
    assert said["moved"] == [f"latest was {before}"]
    assert digest_of(f"{to}:latest") == digest_of(f"{to}:v2") == said["digest"]


def test_several_tags_are_one_image_sent_once(built, registry):
    with services.flaky(registry) as proxy:
        said = published(rocmfix("publish", built, "--to", f"{proxy.name}/me/s", "--tag", "a", "--tag", "b", "--json"))
        uploads = [request for request in proxy.requests if request.startswith("POST")]
        assert len(uploads) <= 3, "two layers and a configuration"
    assert digest_of(f"{registry}/me/s:a") == digest_of(f"{registry}/me/s:b") == said["digest"]


def test_a_registry_that_wants_a_login(client, built, closed_registry, tmp_path, monkeypatch):
    login(tmp_path, monkeypatch, "elsewhere.example", "x", "y")
    result = rocmfix("publish", built, "--to", f"{closed_registry}/me/sglang")
    assert result.exit_code == 8
    assert "wants a login (401" in result.stderr
    assert f"hint: docker login {closed_registry}" in result.stderr
    assert not [tag for tag in client.images.get(built).tags if closed_registry in tag]


def test_a_stored_login_is_used_and_never_shown(built, logged_in):
    result = rocmfix("publish", built, "--to", f"{logged_in}/me/sglang", "--json")
    said = published(result)
    assert digest_of(said["tags"][0]) == said["digest"]
    assert services.PASSWORD not in result.stdout + result.stderr


def test_a_wrong_login(built, closed_registry, tmp_path, monkeypatch):
    login(tmp_path, monkeypatch, closed_registry, services.USER, "wr0ng-pass")
    result = rocmfix("publish", built, "--to", f"{closed_registry}/me/sglang")
    assert result.exit_code == 8
    assert "refused the stored login (401" in result.stderr
    assert "wr0ng-pass" not in result.stderr
    assert "hint: docker login" in result.stderr


def test_nothing_answers(built):
    port = services.free_port()
    result = rocmfix("publish", built, "--to", f"127.0.0.1:{port}/me/sglang")
    assert result.exit_code == 8
    assert f"registry 127.0.0.1:{port} does not answer" in result.stderr
    assert "Connection refused" in result.stderr
    assert "hint: check the name" in result.stderr


def test_a_manifest_that_the_registry_fails_to_take_leaves_no_tag(client, engine, built, registry, progress):
    fault = Fault(lambda method, path: method == "PUT" and "/manifests/" in path, status=500)
    with services.flaky(registry, fault) as proxy:
        repository = parse_reference(f"{proxy.name}/me/sglang")
        with pytest.raises(RegistryError) as caught:
            publish(engine, built, Target(repository, ("v1",)), patient(repository), progress)
    assert "was not pushed" in caught.value.message
    assert "500" in " ".join(caught.value.details)
    assert "finished layers are not sent twice" in (caught.value.hint or "")
    assert digest_of(f"{registry}/me/sglang:v1") is None
    assert not [tag for tag in client.images.get(built).tags if proxy.name in tag]


def test_a_push_that_fails_once_is_tried_again(engine, built, registry, progress):
    fault = Fault(lambda method, path: method == "PUT" and "/manifests/" in path, status=500, times=1)
    with services.flaky(registry, fault) as proxy:
        repository = parse_reference(f"{proxy.name}/me/sglang")
        said = publish(engine, built, Target(repository, ("v1",)), patient(repository), progress)
    assert fault.hits == 1
    assert digest_of(f"{registry}/me/sglang:v1") == said.digest


def test_a_connection_cut_in_the_middle_of_a_layer_is_taken_up_again(engine, built, registry, progress):
    fault = Fault(lambda method, _: method == "PATCH", cut=1000, times=1)
    with services.flaky(registry, fault) as proxy:
        repository = parse_reference(f"{proxy.name}/me/sglang")
        said = publish(engine, built, Target(repository, ("v1",)), patient(repository), progress)
    assert fault.hits == 1
    assert digest_of(f"{registry}/me/sglang:v1") == said.digest


def test_only_a_repository_may_be_published_to(built, registry):
    result = rocmfix("publish", built, "--to", f"{registry}/me/sglang:tag")
    assert result.exit_code == 2
    assert "--to names a repository" in result.output


def test_an_image_the_engine_does_not_have(engine, registry):
    result = rocmfix("publish", "no/such:image", "--to", f"{registry}/me/sglang")
    assert result.exit_code == 7
    assert "the engine has no image no/such:image" in result.stderr
    assert "hint: " in result.stderr


def patient(repository) -> Registry:
    """A registry client that does not really wait."""
    return Registry(repository, pause=lambda _: None)


def test_labels_say_which_inputs(client, built):
    assert client.images.get(built).labels[INPUTS_LABEL].startswith("sha256:")
