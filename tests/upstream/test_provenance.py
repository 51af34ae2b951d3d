"""SBOM and provenance: what the manifest says, in the formats of others."""

from __future__ import annotations

import hashlib
import json
from uuid import uuid4

import pytest

from rocmfix.aiter.origin import RowSource
from rocmfix.catalog import load
from rocmfix.image.manifest import BaseImage, Content, FileRecord, ImageManifest, TableRecord
from rocmfix.state import FileState, FixState, State
from rocmfix.system.artifact import attach, attached
from rocmfix.system.reference import parse_reference
from rocmfix.system.registry import Manifest, Registry
from rocmfix.upstream.builds import dated_tag
from rocmfix.upstream.provenance import sbom, statement
from tests.image.conftest import registry  # noqa: F401 - a fixture

IMAGE = parse_reference("reg.example/sglang@sha256:" + "1" * 64)
MANIFEST = ImageManifest(
    tool="1.0",
    inputs="sha256:" + "2" * 64,
    flavour="mi35x-rocm720",
    gpu="mi35x",
    rocm="7.2.0",
    base=BaseImage(name="lmsysorg/sglang:v0.5.14-rocm720-mi35x", digest="sha256:" + "3" * 64),
    content=Content(package="/sgl-workspace/sglang/python/sglang", release="0.5.14", commit="c" * 40,
                    before="sha256:" + "4" * 64, after="sha256:" + "5" * 64),
    aiter="a" * 40,
    layers=2,
    fixes=(),
    state=State(fixes=(FixState(fix="guard", variant="guard.patch", digest="6" * 64, paths=("k.cuh",)),
                       FixState(fix="remember", variant="remember.patch", digest="7" * 64, paths=("l.py",))),
                files=(FileState(path="k.cuh", before="1" * 40, after="2" * 40),
                       FileState(path="l.py", before="3" * 40, after="4" * 40))),
    files=(FileRecord(path="/x/k.cuh", kind="source", sha256="8" * 64, mode=420, uid=0, gid=0, mtime=1),
           FileRecord(path="/x/k.pyc", kind="bytecode", sha256="9" * 64, mode=420, uid=0, gid=0, mtime=1)),
    tables=(TableRecord(path="/t.csv", sha256="b" * 64, rows=12, digests="",
                        sources=(RowSource(first=2, count=2, file="/shipped.csv", line=2, sha256="c" * 64),
                                 RowSource(first=4, count=10, file="ROCm/aiter@eeeeeeeeee:x.csv", line=2,
                                           sha256="d" * 64, repo="ROCm/aiter", commit="e" * 40, path="x.csv"))),),
)  # fmt: skip
WHEN = "2026-11-30T00:00:00Z"


def test_the_sbom_lists_base_package_patches_tables_and_files(catalogue_folder, golden):
    text = sbom(MANIFEST, IMAGE, load(catalogue_folder), WHEN).decode()
    golden("sbom.json", text)
    parts = {part["bom-ref"]: part for part in json.loads(text)["components"]}
    assert {"base:sha256:" + "3" * 64, "table:/t.csv", "file:/x/k.cuh"} <= set(parts)
    assert "file:/x/k.pyc" not in parts, "emptied bytecode is not something that was added"
    assert [p["type"] for p in parts["pkg:/sgl-workspace/sglang/python/sglang"]["pedigree"]["patches"]] == [
        "backport", "unofficial",
    ]  # fmt: skip


def test_every_reference_in_the_sbom_is_there_once(catalogue_folder):
    document = json.loads(sbom(MANIFEST, IMAGE, load(catalogue_folder), WHEN))
    references = [part["bom-ref"] for part in document["components"]]
    assert len(set(references)) == len(references)


def test_the_same_image_gives_the_same_documents(catalogue_folder):
    catalog = load(catalogue_folder)
    assert sbom(MANIFEST, IMAGE, catalog, WHEN) == sbom(MANIFEST, IMAGE, catalog, WHEN)


def test_the_statement_is_about_the_image_and_names_all_it_was_made_of(golden):
    text = statement(MANIFEST, IMAGE, WHEN, "https://ci.example/1").decode()
    golden("statement.json", text)
    read = json.loads(text)
    assert read["_type"] == "https://in-toto.io/Statement/v1"
    assert read["predicateType"] == "https://slsa.dev/provenance/v1"
    digests = [
        next(iter(each["digest"].values())) for each in read["predicate"]["buildDefinition"]["resolvedDependencies"]
    ]
    assert digests == ["3" * 64, "c" * 40, "a" * 40, "6" * 64, "7" * 64, "d" * 64]


def test_dated_tags_append_and_never_reorder():
    assert dated_tag("v0.5.14-rocm720-mi35x", "0a1b2c3d", "20261130") == "v0.5.14-rocm720-mi35x-rf0a1b2c3d-20261130"
    with pytest.raises(ValueError, match="not a day"):
        dated_tag("v0.5.14-rocm720-mi35x", "0a1b2c3d", "yesterday")


@pytest.mark.docker
def test_documents_are_attached_to_a_digest_and_found_again(registry):  # noqa: F811
    server = Registry(parse_reference(f"{registry}/some/image"))
    config = b'{"config": {}}'
    server.put_blob(config)
    about = {
        "mediaType": "application/vnd.oci.image.config.v1+json",
        "digest": server.put_blob(config),
        "size": len(config),
    }
    body = json.dumps({"schemaVersion": 2, "config": about, "layers": []}).encode()
    kind = "application/vnd.oci.image.manifest.v1+json"
    image = Manifest(f"sha256:{hashlib.sha256(body).hexdigest()}", kind, body)
    server.put_manifest("v1", image)
    assert attached(server, image.digest) == ()
    mark = uuid4().hex
    for number in (1, 2, 1):
        attach(server, image, f"text/kind-{number}", f"{mark} {number}".encode(), {"why": "a test"})
    found = attached(server, image.digest)
    assert [(each.media_type, each.data.decode()) for each in found] == [
        ("text/kind-2", f"{mark} 2"), ("text/kind-1", f"{mark} 1"),
    ]  # fmt: skip
    assert found[0].annotations == (("why", "a test"),)
    assert server.digest("v1") == image.digest, "the image itself is as it was"
