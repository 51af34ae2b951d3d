"""Attaches documents to an image as OCI artifacts, and finds them again."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from typing import Any

from rocmfix.system.registry import Manifest, NotInRegistryError, Registry

MANIFEST = "application/vnd.oci.image.manifest.v1+json"
INDEX = "application/vnd.oci.image.index.v1+json"
_EMPTY_TYPE, _EMPTY = "application/vnd.oci.empty.v1+json", b"{}"


@dataclass(frozen=True)
class Attached:
    """One document that belongs to an image."""

    media_type: str
    digest: str
    """Of its manifest."""
    data: bytes = field(repr=False)
    annotations: tuple[tuple[str, str], ...] = ()


def attach(registry: Registry, subject: Manifest, media_type: str, data: bytes, annotations: dict[str, str]) -> str:
    """Attach `data` to the image whose manifest is `subject`; the digest of the artifact. Twice is once."""
    registry.put_blob(data)
    registry.put_blob(_EMPTY)
    body = json.dumps(
        {
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "artifactType": media_type,
            "config": _described(_EMPTY_TYPE, _EMPTY),
            "layers": [_described(media_type, data)],
            "subject": {"mediaType": subject.media_type, "digest": subject.digest, "size": len(subject.body)},
            "annotations": dict(sorted(annotations.items())),
        },
        separators=(",", ":"),
    ).encode()
    manifest = Manifest(_digest(body), MANIFEST, body)
    registry.put_manifest(manifest.digest, manifest)
    if registry.referrers(subject.digest) is None:
        _list_in_tag(registry, subject.digest, manifest, media_type, annotations)
    return manifest.digest


def attached(registry: Registry, image: str) -> tuple[Attached, ...]:
    """Every document attached to the image of that digest, in the order in which the registry lists them."""
    listed = registry.referrers(image)
    index = listed if listed is not None else _index(registry, image)
    found = (registry.manifest(str(each["digest"]), platform=None) for each in index.get("manifests", ()))
    return tuple(_read(registry, manifest) for manifest in found if manifest.media_type == MANIFEST)


def _read(registry: Registry, manifest: Manifest) -> Attached:
    content = manifest.content
    (layer,) = manifest.layers
    notes = tuple(sorted(content.get("annotations", {}).items()))
    return Attached(
        str(content.get("artifactType", layer.media_type)), manifest.digest, registry.blob(layer.digest), notes
    )


def _list_in_tag(
    registry: Registry, image: str, manifest: Manifest, media_type: str, annotations: dict[str, str]
) -> None:
    """What the Distribution specification (1.1, "Referrers Tag Schema") asks of clients of an older registry."""
    index = _index(registry, image)
    others = [each for each in index.get("manifests", ()) if each["digest"] != manifest.digest]
    entry = {
        "mediaType": MANIFEST,
        "digest": manifest.digest,
        "size": len(manifest.body),
        "artifactType": media_type,
        "annotations": annotations,
    }
    body = json.dumps({"schemaVersion": 2, "mediaType": INDEX, "manifests": [*others, entry]}).encode()
    registry.put_manifest(_tag(image), Manifest(_digest(body), INDEX, body))


def _index(registry: Registry, image: str) -> Any:
    try:
        return registry.manifest(_tag(image), platform=None).content
    except NotInRegistryError:
        return {}


def _tag(image: str) -> str:
    return image.replace(":", "-")


def _described(media_type: str, data: bytes) -> dict[str, Any]:
    return {"mediaType": media_type, "digest": _digest(data), "size": len(data)}


def _digest(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"
