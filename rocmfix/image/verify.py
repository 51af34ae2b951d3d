"""An image against its own manifest: every file of ours, the whole package, labels and ENV."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from difflib import SequenceMatcher
from enum import Enum
from pathlib import PurePosixPath

from rocmfix.aiter.origin import origin_of
from rocmfix.errors import VerifyError
from rocmfix.image.manifest import (
    MANIFEST_LABEL,
    PATH,
    FileRecord,
    ImageManifest,
    TableRecord,
    labels,
    parse,
    row_digests,
)
from rocmfix.image.tree import Layout, read_tree, tree_hash
from rocmfix.model import Record
from rocmfix.system.container import Container, File
from rocmfix.system.docker import LocalImage


class Depth(str, Enum):
    """How much is read: our own files, or the whole package too."""

    OURS = "ours"
    WHOLE = "whole"


class Problem(Record):
    """One thing in an image that its manifest does not say."""

    what: str
    """source, bytecode, cache, table, tree, label, env or manifest."""
    where: str
    says: str
    """What the manifest says."""
    holds: str
    """What the image holds."""


class Verified(Record):
    """An image examined: what its manifest says of it, and what disagrees."""

    image: str
    id: str
    flavour: str
    manifest: str
    applied: tuple[str, ...]
    files: int
    tables: int
    problems: tuple[Problem, ...]


def verify(container: Container, image: LocalImage, name: str, depth: Depth = Depth.WHOLE) -> Verified:
    """Compare an image with its manifest. Raises VerifyError when it has none."""
    file = container.read(PATH)
    if file is None:
        raise VerifyError(
            f"{name}: has no {PATH}, so there is nothing to verify it against",
            hint=f"rocmfix inspect {name}  says what it holds; rocmfix build makes images that have one",
        )
    manifest = parse(file.data)
    problems = (
        *_manifest(manifest, file, image),
        *_labels(manifest, image),
        *_env(manifest, image),
        *_files(manifest, container),
        *_bytecode(manifest, container),
        *(_tree(manifest, container, name) if depth is Depth.WHOLE else ()),
    )
    return Verified(
        image=name,
        id=image.id,
        flavour=manifest.flavour,
        manifest=manifest.digest,
        applied=manifest.applied,
        files=len(manifest.files),
        tables=len(manifest.tables),
        problems=problems,
    )


def _manifest(manifest: ImageManifest, file: File, image: LocalImage) -> Iterator[Problem]:
    digest = f"sha256:{hashlib.sha256(file.data).hexdigest()}"
    labelled = image.labels.get(MANIFEST_LABEL, "no label")
    if digest != labelled:
        yield Problem(what="manifest", where=PATH, says=labelled, holds=digest)
    tables = {table.path: table.sha256 for table in manifest.tables}
    files = {record.path: record.sha256 for record in manifest.files if record.kind == "table"}
    for path in sorted(tables.keys() | files.keys()):
        if tables.get(path) != files.get(path):
            yield Problem(what="manifest", where=path, says=str(tables.get(path)), holds=str(files.get(path)))


def _labels(manifest: ImageManifest, image: LocalImage) -> Iterator[Problem]:
    for name, value in labels(manifest).items():
        holds = image.labels.get(name)
        if holds != value and name != MANIFEST_LABEL:
            yield Problem(what="label", where=name, says=value, holds="no such label" if holds is None else holds)


def _env(manifest: ImageManifest, image: LocalImage) -> Iterator[Problem]:
    env = dict(image.env)
    for variable in manifest.env:
        holds = env.get(variable.name)
        if holds != variable.value:
            yield Problem(
                what="env", where=variable.name, says=variable.value, holds="not set" if holds is None else holds
            )


def _files(manifest: ImageManifest, container: Container) -> Iterator[Problem]:
    tables = {table.path: table for table in manifest.tables}
    for record in manifest.files:
        file = container.read(record.path)
        holds = "no such file" if file is None else _difference(record, file)
        if holds:
            rows = tuple(changed_rows(tables[record.path], file.data)) if file and record.path in tables else ()
            yield from rows or (Problem(what=record.kind, where=record.path, says=_says(record), holds=holds),)


def changed_rows(table: TableRecord, data: bytes) -> Iterator[Problem]:
    """Each row of a table that is not as its record says, by its line: what stands there, and where the row is from."""
    said, held = table.digests.split(), row_digests(data)
    lines = data.splitlines()
    for tag, a, b, c, d in SequenceMatcher(None, said, held, autojunk=False).get_opcodes():
        for offset in range(max(b - a, d - c) if tag != "equal" else 0):
            old, new = a + offset, c + offset
            yield Problem(
                what="table",
                where=f"{table.path}:{min(new, d) + 2}",
                says=_row_source(table, old + 2) if old < b else "no such row",
                holds=lines[new + 1].decode("utf-8", "replace") if new < d else "no such row",
            )


def _row_source(table: TableRecord, line: int) -> str:
    source = origin_of(line, table.sources)
    return f"line {line}, from {source.file}:{source.line}" if source else f"line {line}"


def _says(record: FileRecord) -> str:
    if record.kind in ("bytecode", "cache"):
        return "an empty file, so that it is never used"
    return f"sha256:{record.sha256[:12]} mode {record.mode:o} owner {record.uid}:{record.gid}"


def _difference(record: FileRecord, file: File) -> str | None:
    digest = hashlib.sha256(file.data).hexdigest()
    if record.kind in ("bytecode", "cache") and file.data:
        return f"{len(file.data)} bytes, built from something else than the patched file"
    if (digest, file.mode, file.uid, file.gid) != (record.sha256, record.mode, record.uid, record.gid):
        return f"sha256:{digest[:12]} mode {file.mode:o} owner {file.uid}:{file.gid}"
    return None


def _bytecode(manifest: ImageManifest, container: Container) -> Iterator[Problem]:
    """Bytecode of patched files that the build did not leave there."""
    known = {record.path for record in manifest.files}
    stems: dict[str, set[str]] = {}
    for record in manifest.files:
        path = PurePosixPath(record.path)
        if record.kind == "source" and path.suffix == ".py":
            stems.setdefault(f"{path.parent}/__pycache__", set()).add(path.stem)
    for folder, names in stems.items():
        for file in container.walk(folder, lambda _: False):
            compiled = PurePosixPath(file.path).name
            if file.size and file.path not in known and any(compiled.startswith(f"{name}.") for name in names):
                yield Problem(
                    what="bytecode", where=file.path, says="no bytecode of a patched file", holds=f"{file.size} bytes"
                )


def _tree(manifest: ImageManifest, container: Container, name: str) -> Iterable[Problem]:
    tree = read_tree(container, Layout(manifest.content.package), name)
    holds = tree_hash(tree)
    if holds == manifest.content.after:
        return ()
    return (Problem(what="tree", where=manifest.content.package, says=manifest.content.after, holds=holds),)
