"""`/etc/rocmfix/manifest.json`: what was done to an image, by digest; and the labels that say the same in short."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Literal

from pydantic import ValidationError

from rocmfix.aiter.origin import RowSource
from rocmfix.errors import VerifyError
from rocmfix.image.flavour import Variable, reasons
from rocmfix.model import How, Outcome, Record
from rocmfix.state import State

PATH = "/etc/rocmfix/manifest.json"
LABEL = "io.rocmfix"
INPUTS_LABEL = f"{LABEL}.inputs"
MANIFEST_LABEL = f"{LABEL}.manifest"
VERSION_LABEL = "org.opencontainers.image.version"


class BaseImage(Record):
    """The image underneath. `digest` is its manifest's in a registry, or its id in an engine that alone has it."""

    name: str
    digest: str


class Content(Record):
    """The image's package tree, one digest for all its source files, before and after."""

    package: str
    release: str | None
    commit: str | None
    before: str
    after: str


class FixRecord(Record):
    """One fix of the catalogue and how it stands in this image. `patch` is the sha256 of the patch applied."""

    fix: str
    verdict: Outcome
    how: How | None = None
    reason: str
    variant: str | None = None
    patch: str | None = None


class FileRecord(Record):
    """One file that the image's layers of ours put in place."""

    path: str
    kind: Literal["source", "bytecode", "cache", "table"]
    sha256: str
    mode: int
    uid: int
    gid: int
    mtime: int


class TableRecord(Record):
    """One AITER table: its rows, each by digest, and where each is from."""

    path: str
    sha256: str
    rows: int
    sources: tuple[RowSource, ...]
    digests: str
    """The first eight digits of the SHA-256 of each row, a space between them: they tell which row was changed."""

    @property
    def source(self) -> str:
        """Where its rows are from, in short: files by the number of rows that each gave, most first."""
        counts: dict[str, int] = {}
        for each in self.sources:
            counts[each.file] = counts.get(each.file, 0) + each.count
        most = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
        return ", ".join(f"{count} of {file}" for file, count in most)


def table_record(path: str, data: bytes, sources: tuple[RowSource, ...]) -> TableRecord:
    """The record of a table that begins with a header line."""
    digests = row_digests(data)
    return TableRecord(
        path=path,
        sha256=hashlib.sha256(data).hexdigest(),
        rows=len(digests),
        sources=sources,
        digests=" ".join(digests),
    )


def row_digests(data: bytes) -> list[str]:
    """What a record keeps of each row of a table."""
    return [hashlib.sha256(line).hexdigest()[:8] for line in data.splitlines()[1:]]


class ImageManifest(Record):
    """The whole record. It holds no time and no host: the same inputs give the same bytes."""

    format: Literal[1] = 1
    tool: str
    inputs: str
    """One digest for everything that decided this image: base, catalogue, flavour, tables, ENV, template, tool."""
    flavour: str
    gpu: str
    rocm: str
    base: BaseImage
    content: Content
    aiter: str | None
    """AITER's commit, as its checkout in the base says."""
    layers: int
    """How many this build laid on its base: an image with more was made from this one by somebody else."""
    fixes: tuple[FixRecord, ...]
    state: State
    """What each applied patch did to each file, as git blob ids: what `check` on this image reads."""
    files: tuple[FileRecord, ...]
    tables: tuple[TableRecord, ...] = ()
    env: tuple[Variable, ...] = ()

    def to_bytes(self) -> bytes:
        """As it lies in the image."""
        return (self.model_dump_json(indent=1) + "\n").encode()

    @property
    def digest(self) -> str:
        """sha256 of its bytes."""
        return f"sha256:{hashlib.sha256(self.to_bytes()).hexdigest()}"

    @property
    def applied(self) -> tuple[str, ...]:
        """Ids of the fixes that this image has from us, in order."""
        return tuple(fix.fix for fix in self.state.fixes)


def parse(data: bytes) -> ImageManifest:
    """Read a manifest. Raises VerifyError when it is none, or a later rocmfix wrote it."""
    try:
        return ImageManifest.model_validate_json(data)
    except ValidationError as error:
        raise VerifyError(
            f"{PATH} cannot be read",
            details=reasons(error)[:5],
            hint="it was changed by hand, or a newer rocmfix wrote it",
        ) from None


def labels(manifest: ImageManifest) -> Mapping[str, str]:
    """What the image's labels must say, given its manifest."""
    content = manifest.content
    said = {
        "org.opencontainers.image.title": "sglang for ROCm",
        "org.opencontainers.image.description": (
            f"sglang {content.release or 'of unknown release'} for {manifest.gpu} on ROCm {manifest.rocm},"
            f" {len(manifest.applied)} fixes applied by rocmfix {manifest.tool}"
        ),
        "org.opencontainers.image.source": "https://github.com/sgl-project/sglang",
        "org.opencontainers.image.licenses": "Apache-2.0",
        "org.opencontainers.image.base.name": manifest.base.name,
        "org.opencontainers.image.base.digest": manifest.base.digest,
        f"{LABEL}.tool": manifest.tool,
        f"{LABEL}.flavour": manifest.flavour,
        INPUTS_LABEL: manifest.inputs,
        MANIFEST_LABEL: manifest.digest,
        f"{LABEL}.fixes": " ".join(manifest.applied),
        f"{LABEL}.tree": content.after,
        f"{LABEL}.tables": str(len(manifest.tables)),
    }
    if content.release:
        said[VERSION_LABEL] = content.release
    if content.commit:
        said["org.opencontainers.image.revision"] = content.commit
    return said
