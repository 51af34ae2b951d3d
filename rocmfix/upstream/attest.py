"""Attaches to a published image what rocmfix knows of it, and reads it back."""

from __future__ import annotations

import json
import tarfile
import zlib
from collections.abc import Iterator

from rocmfix.catalog import Catalog
from rocmfix.errors import VerifyError
from rocmfix.image.manifest import LABEL, PATH, ImageManifest, parse
from rocmfix.image.remote import Unpacked
from rocmfix.model import Record
from rocmfix.system.artifact import attach, attached
from rocmfix.system.reference import Reference
from rocmfix.system.registry import Descriptor, Manifest, Registry
from rocmfix.upstream.provenance import SBOM, STATEMENT, sbom, statement

_OURS = 4
"""How many layers from the top may be ours: files, tables, compiled kernels, and the empty one of LABEL."""


class Document(Record):
    """One document attached to an image: what it is, by digest, and its text."""

    media_type: str
    digest: str
    text: str


class Attested(Record):
    """An image by digest, and what is attached to it."""

    image: str
    documents: tuple[Document, ...]


def attest(reference: Reference, registry: Registry, catalog: Catalog, *, when: str, builder: str) -> Attested:
    """Attach SBOM and provenance to the published image. Raises VerifyError when it is none of rocmfix."""
    published = registry.manifest(reference.digest or reference.version)
    image = reference.with_digest(published.digest)
    manifest = manifest_of(reference, registry, published)
    notes = {"org.opencontainers.image.created": when, f"{LABEL}.manifest": manifest.digest}
    there = {document.media_type for document in attached(registry, published.digest)}
    for media_type, data in (
        (SBOM, sbom(manifest, image, catalog, when)),
        (STATEMENT, statement(manifest, image, when, builder)),
    ):
        if media_type not in there:
            attach(registry, published, media_type, data, notes)
    return read(image, registry)


def read(reference: Reference, registry: Registry) -> Attested:
    """Everything attached to an image, whoever did it."""
    digest = reference.digest or registry.manifest(reference.version).digest
    documents = (
        Document(media_type=each.media_type, digest=each.digest, text=each.data.decode("utf-8", "replace"))
        for each in attached(registry, digest)
    )
    return Attested(image=str(reference.with_digest(digest)), documents=tuple(documents))


def manifest_of(reference: Reference, registry: Registry, published: Manifest) -> ImageManifest:
    """The manifest inside a published image, read out of its top layers and held against its label."""
    labels = (json.loads(registry.blob(published.config.digest)).get("config") or {}).get("Labels") or {}
    promised = labels.get(f"{LABEL}.manifest")
    for layer in reversed(published.layers[-_OURS:]) if promised else ():
        for data in _manifests(registry, layer):
            manifest = parse(data)
            if manifest.digest != promised:
                raise VerifyError(
                    f"{reference} holds another manifest than its label says",
                    details=(f"label {promised}", f"holds {manifest.digest}"),
                    hint=f"rocmfix verify {reference}",
                )
            return manifest
    raise VerifyError(f"{reference} is no image of rocmfix: it has no {PATH}", hint="rocmfix build makes one")


def _manifests(registry: Registry, layer: Descriptor) -> Iterator[bytes]:
    try:
        with registry.open_blob(layer) as blob, tarfile.open(fileobj=Unpacked(blob), mode="r|") as tar:
            for member in tar:
                if member.isreg() and f"/{member.name.removeprefix('./').lstrip('/')}" == PATH:
                    file = tar.extractfile(member)
                    yield file.read() if file else b""
                    return
    except (tarfile.TarError, zlib.error, EOFError) as error:
        raise VerifyError(f"layer {layer.digest} cannot be read: {error}") from None
