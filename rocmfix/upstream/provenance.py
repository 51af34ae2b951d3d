"""Says what rocmfix put into an image as others read it: CycloneDX, and SLSA provenance in in-toto. Pure."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from typing import Any

from rocmfix import __version__
from rocmfix.catalog import Catalog
from rocmfix.image.manifest import PATH, ImageManifest
from rocmfix.system.reference import Reference

SBOM = "application/vnd.cyclonedx+json"
STATEMENT = "application/vnd.in-toto+json"
_BUILD_TYPE = "urn:rocmfix:build:overlay:v1"
_SPACE = uuid.UUID("7c0f7a52-9a4e-4b0e-8f57-5a2c7b9d1e60")


def sbom(manifest: ImageManifest, image: Reference, catalog: Catalog, when: str) -> bytes:
    """What rocmfix added to the base, as CycloneDX 1.6: the patched package, each patch, each table, each file."""
    document = {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        # The same image gives the same document, but for its time.
        "serialNumber": f"urn:uuid:{uuid.uuid5(_SPACE, f'{image.digest}{manifest.digest}')}",
        "version": 1,
        "metadata": {
            "timestamp": when,
            "tools": {"components": [{"type": "application", "name": "rocmfix", "version": __version__}]},
            "component": _image(image),
        },
        "components": [_base(manifest), _package(manifest, catalog), *_tables(manifest), *_files(manifest)],
    }
    return _bytes(document)


def statement(manifest: ImageManifest, image: Reference, when: str, builder: str) -> bytes:
    """How the image came to be, as an in-toto statement with SLSA provenance v1. `builder` is who ran the build."""
    predicate = {
        "buildDefinition": {
            "buildType": _BUILD_TYPE,
            "externalParameters": {
                "flavour": manifest.flavour,
                "base": manifest.base.name,
                "env": {variable.name: variable.value for variable in manifest.env},
            },
            "internalParameters": {"inputs": manifest.inputs, "manifest": manifest.digest, "manifestPath": PATH},
            "resolvedDependencies": list(_materials(manifest)),
        },
        "runDetails": {
            "builder": {"id": builder, "version": {"rocmfix": manifest.tool}},
            "metadata": {"invocationId": manifest.inputs, "finishedOn": when},
        },
    }
    return _bytes(
        {
            "_type": "https://in-toto.io/Statement/v1",
            "subject": [{"name": image.name, "digest": {"sha256": _hex(image.digest or "")}}],
            "predicateType": "https://slsa.dev/provenance/v1",
            "predicate": predicate,
        }
    )


def _image(image: Reference) -> dict[str, Any]:
    return {
        "type": "container",
        "bom-ref": str(image),
        "name": image.name,
        "version": image.digest,
        "hashes": [_hash(image.digest or "")],
    }


def _base(manifest: ImageManifest) -> dict[str, Any]:
    return {
        "type": "container",
        "bom-ref": f"base:{manifest.base.digest}",
        "name": manifest.base.name,
        "version": manifest.base.digest,
        "hashes": [_hash(manifest.base.digest)],
        "scope": "required",
    }


def _package(manifest: ImageManifest, catalog: Catalog) -> dict[str, Any]:
    """The patched package; CycloneDX has a place for patches and for the defect each resolves."""
    release = manifest.content.release or "unknown"
    return {
        "type": "library",
        "bom-ref": f"pkg:{manifest.content.package}",
        "name": "sglang",
        "version": release,
        "purl": f"pkg:pypi/sglang@{release}",
        "hashes": [_hash(manifest.content.after)] if manifest.content.after.startswith("sha256:") else [],
        "pedigree": {
            "ancestors": [{"type": "library", "name": "sglang", "version": release}],
            "patches": list(_patches(manifest, catalog)),
        },
    }


def _patches(manifest: ImageManifest, catalog: Catalog) -> Iterator[dict[str, Any]]:
    known = {fix.id: fix for _, fix in catalog.fixes()}
    for state in manifest.state.fixes:
        fix = known.get(state.fix)
        pr = fix.upstream.pr if fix else None
        repository, _, number = (pr or "").partition("#")
        source = {"name": pr, "url": f"https://github.com/{repository}/pull/{number}"} if number else None
        resolves = {"type": "defect", "id": state.fix, "name": state.variant, "description": fix.why if fix else ""}
        yield {
            # A change that upstream has, brought to an older release, is what CycloneDX calls a backport.
            "type": "backport" if fix and fix.upstream.since else "unofficial",
            "diff": {"url": f"urn:sha256:{state.digest}"},
            "resolves": [{**resolves, **({"source": source} if source else {})}],
        }


def _tables(manifest: ImageManifest) -> Iterator[dict[str, Any]]:
    for table in manifest.tables:
        yield {
            "type": "data",
            "bom-ref": f"table:{table.path}",
            "name": table.path,
            "description": f"{table.rows} tuned AITER rows from {table.source}",
            "hashes": [_hash(table.sha256)],
        }


def _files(manifest: ImageManifest) -> Iterator[dict[str, Any]]:
    for file in manifest.files:
        if file.kind == "source":
            yield {"type": "file", "bom-ref": f"file:{file.path}", "name": file.path, "hashes": [_hash(file.sha256)]}


def _materials(manifest: ImageManifest) -> Iterator[dict[str, Any]]:
    yield {"uri": f"docker://{manifest.base.name}", "digest": {"sha256": _hex(manifest.base.digest)}}
    if manifest.content.commit:
        yield {"uri": "git+https://github.com/sgl-project/sglang", "digest": {"gitCommit": manifest.content.commit}}
    if manifest.aiter:
        yield {"uri": "git+https://github.com/ROCm/aiter", "digest": {"gitCommit": manifest.aiter}}
    for state in manifest.state.fixes:
        yield {"name": state.variant, "digest": {"sha256": state.digest}}
    brought = {source.file: source for table in manifest.tables for source in table.sources}
    for file, source in sorted(brought.items()):
        if not file.startswith("/"):  # the base's own rows came with the base
            where = {"uri": f"git+https://github.com/{source.repo}@{source.commit}"} if source.repo else {}
            yield {"name": file, **where, "digest": {"sha256": source.sha256}}


def _hash(digest: str) -> dict[str, str]:
    return {"alg": "SHA-256", "content": _hex(digest)}


def _hex(digest: str) -> str:
    return digest.removeprefix("sha256:")


def _bytes(document: Any) -> bytes:
    return (json.dumps(document, indent=1) + "\n").encode()
