"""A lock gives a colleague the same image, or says what stands in the way."""

from __future__ import annotations

import json

import pytest

from rocmfix.aiter.reader import TableFile
from rocmfix.aiter.sources import Asked
from rocmfix.catalog import load
from rocmfix.errors import CatalogError
from rocmfix.image.dockerfile import template_digest
from rocmfix.image.flavour import load as load_flavour
from rocmfix.image.lock import make_lock, parse_lock, refuse_drift
from rocmfix.image.manifest import BaseImage
from rocmfix.image.order import Order
from tests.image.conftest import new_layers, rocmfix

BASE = BaseImage(name="lmsysorg/sglang:v1", digest="sha256:" + "1" * 64)
TABLES = (Asked("t.csv", TableFile("t.csv", b"a\n1\n")),)


def order(tables=TABLES):
    return Order(load_flavour("mi35x-rocm720"), load(), tables=tables)


def lock(**changed):
    return make_lock(order(), BASE, "a" * 40).model_copy(update=changed)


def test_a_lock_names_everything_by_digest():
    made = lock()
    assert made.reference == "lmsysorg/sglang:v1@sha256:" + "1" * 64
    assert len(made.patches) == sum(len(fix.variant) for _, fix in load().fixes())
    assert parse_lock(made.model_dump_json().encode(), "x") == made


def test_the_same_inputs_pass():
    refuse_drift(lock(), order(), template_digest())


@pytest.mark.parametrize(
    ("made", "tables", "said"),
    [
        (lock(tool="0.0.1"), TABLES, "the lock was made by 0.0.1"),
        (lock(template="other"), TABLES, "the Dockerfile template differs"),
        (lock(patches=lock().patches[1:]), TABLES, "new here"),
        (lock(patches=(lock().patches[0].model_copy(update={"digest": "x"}), *lock().patches[1:])), TABLES, "differs"),
        (lock(), (), "table t.csv: missing here"),
        (lock(), (Asked("t.csv", TableFile("t.csv", b"a\n2\n")),), "table t.csv: differs"),
    ],
    ids=["tool", "template", "new", "changed", "table", "row"],
)
def test_whatever_differs_is_named(made, tables, said):
    with pytest.raises(CatalogError) as caught:
        refuse_drift(made, order(tables), template_digest())
    assert said in " ".join(caught.value.details)
    assert caught.value.hint


def test_a_file_that_is_no_lock():
    with pytest.raises(CatalogError, match="is no lock"):
        parse_lock(b"{}", "x.lock")


@pytest.mark.docker
@pytest.mark.upstream
def test_a_locked_build_is_the_same_image(client, base, tag, registry, tmp_path):
    to = f"{registry}/up/sglang"
    client.api.tag(base, to, "v0.5.14-rocm720-mi35x")
    client.api.push(to, tag="v0.5.14-rocm720-mi35x")
    path = tmp_path / "rocmfix.lock"
    result = rocmfix("lock", "--flavour", "mi35x-rocm720", "--base", f"{to}:v0.5.14-rocm720-mi35x", "-o", path)
    assert result.exit_code == 0, result.stderr
    assert json.loads(path.read_text())["aiter"] == "7d604afe5fa7efba63c0dce323b95d9daf2db112"
    result = rocmfix("build", "--lock", path, "-t", tag)
    assert result.exit_code == 0, result.stderr
    assert len(new_layers(client, tag, base)) == 1
    again = json.loads(path.read_text())
    path.write_text(json.dumps({**again, "aiter": "b" * 40}))
    result = rocmfix("build", "--lock", path, "--env", "X=1")
    assert result.exit_code == 4
    assert "the lock says bbbbbbbbbbbb" in result.stderr
    client.images.remove(f"{to}:v0.5.14-rocm720-mi35x")
