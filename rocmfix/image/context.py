"""The build context: the few files that change, the tables, the manifest and the Dockerfile. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Literal

from rocmfix.errors import ApplyError
from rocmfix.image.dockerfile import Page, render
from rocmfix.image.flavour import Feature, Flavour, Variable
from rocmfix.image.layer import Entry, archive, plain_tar
from rocmfix.image.manifest import (
    PATH,
    BaseImage,
    Content,
    FileRecord,
    FixRecord,
    ImageManifest,
    TableRecord,
    labels,
)
from rocmfix.image.tree import ImageTree, tree_hash
from rocmfix.model import TreeReport
from rocmfix.plan import Patched
from rocmfix.state import State
from rocmfix.system.container import File

FILES, TABLES = "files.tar", "tables.tar"

_OVER_ALL = 1_577_836_800
"""The time (2020) of a layer that has neither a patch nor a release to take one from."""


@dataclass(frozen=True)
class BakedTable:
    """One table to lay into the image: its path there, its bytes, and where its rows are from."""

    path: str
    data: bytes = field(repr=False)
    rows: int
    source: str


@dataclass(frozen=True)
class Tables:
    """Every table to lay into the image, and the ENV by which AITER finds them."""

    files: tuple[BakedTable, ...] = ()
    env: tuple[Variable, ...] = ()


@dataclass(frozen=True)
class Recipe:
    """What was asked for."""

    flavour: Flavour
    features: tuple[tuple[str, Feature], ...]
    tables: Tables
    env: tuple[Variable, ...]
    """Given by the user for this build."""
    tool: str
    inputs: str

    @property
    def variables(self) -> tuple[Variable, ...]:
        """The ENV of the image. The user's word beats the tables', theirs the flavour's, its own a feature's."""
        layers = (*(feature.env for _, feature in self.features), self.flavour.env, self.tables.env, self.env)
        chosen = {variable.name: variable for layer in layers for variable in layer}
        return tuple(chosen[name] for name in sorted(chosen))


@dataclass(frozen=True)
class Facts:
    """What the base image turned out to hold."""

    base: BaseImage
    start: str
    """What FROM names."""
    tree: ImageTree
    report: TreeReport
    commit: str | None
    aiter: str | None
    state: State
    """What an earlier rocmfix build already did to this base."""
    earlier: tuple[FileRecord, ...]
    """The files that build laid over it."""
    bytecode: tuple[File, ...]
    kernels: tuple[File, ...]
    folders: Mapping[str, Entry]
    """Owner, mode and time of every folder above a file that changes."""


@dataclass(frozen=True)
class Context:
    """All that a build needs, and all that it is given."""

    dockerfile: str
    files: bytes = field(repr=False)
    tables: bytes | None = field(repr=False)
    manifest: ImageManifest
    changed_bytes: int
    """How many bytes of content the image gains."""

    def members(self) -> tuple[tuple[str, bytes], ...]:
        """The context's files by name."""
        named = (("Dockerfile", self.dockerfile.encode()), (FILES, self.files))
        return named if self.tables is None else (*named, (TABLES, self.tables))

    def tar(self) -> bytes:
        """As the engine takes it."""
        return plain_tar(self.members())

    @property
    def layers(self) -> int:
        """How many layers it adds."""
        return 1 if self.tables is None else 2


def prepare(recipe: Recipe, facts: Facts, patched: Patched, templates: Path | None = None) -> Context:
    """Lay out the context for `patched` on the base that `facts` describes."""
    sources = _sources(facts.tree, patched)
    newest = max((entry.mtime for entry in sources), default=_age(facts.tree))
    emptied = [_emptied(file, newest) for file in (*facts.bytecode, *facts.kernels)]
    tables = [_table(table, facts.tree, newest) for table in recipe.tables.files]
    manifest = _manifest(recipe, facts, patched, (sources, emptied, tables))
    record = Entry(PATH, manifest.to_bytes(), mtime=newest)
    page = Page(
        facts.start, recipe.flavour, recipe.features, recipe.variables, labels(manifest), bool(tables), recipe.tool
    )
    entries = [*sources, *emptied, record]
    return Context(
        dockerfile=render(page, templates),
        files=archive(entries, facts.folders, newest),
        tables=archive(tables, facts.folders, newest) if tables else None,
        manifest=manifest,
        changed_bytes=sum(len(entry.data or b"") for entry in (*entries, *tables)),
    )


def changed_paths(tree: ImageTree, patched: Patched, tables: Tables) -> tuple[str, ...]:
    """Absolute paths that the layers will name: what the folders above must be asked of."""
    return (PATH, *(tree.shown(path) for path in patched.after), *(table.path for table in tables.files))


def _sources(tree: ImageTree, patched: Patched) -> list[Entry]:
    return [_source(tree, path, data, _date(patched, path)) for path, data in sorted(patched.after.items())]


def _source(tree: ImageTree, path: str, data: bytes | None, date: int) -> Entry:
    if data is None:
        raise ApplyError(
            f"{tree.shown(path)} is removed by a patch, and a layer cannot take a file out of the base",
            hint="build from source instead (--from-source), or leave that fix out (--fix, --set)",
        )
    before = tree.file(path)
    if before is None:
        return Entry(tree.shown(path), data, mtime=date)
    # Python and ninja take a file with an unchanged time for an unchanged file.
    mtime = date + 1 if date == before.mtime else date
    return Entry(before.path, data, before.mode, before.uid, before.gid, mtime)


def _date(patched: Patched, path: str) -> int:
    """When the newest patch that touches `path` was written."""
    dates = (change.patch.date for change in patched.changes if path in change.files)
    return max(int(parsedate_to_datetime(date).timestamp()) for date in dates)


def _age(tree: ImageTree) -> int:
    """As old as the release itself: for a layer that holds tables alone."""
    return max((file.mtime for file in tree.files.values() if file.path.endswith("version.py")), default=_OVER_ALL)


def _emptied(file: File, mtime: int) -> Entry:
    return Entry(file.path, b"", file.mode, file.uid, file.gid, mtime + 1 if mtime == file.mtime else mtime)


def _table(table: BakedTable, tree: ImageTree, mtime: int) -> Entry:
    before = tree.files.get(table.path)
    if before is None:
        return Entry(table.path, table.data, mtime=mtime)
    return Entry(table.path, table.data, before.mode, before.uid, before.gid, mtime)


Groups = tuple[Iterable[Entry], Iterable[Entry], Iterable[Entry]]


def _manifest(recipe: Recipe, facts: Facts, patched: Patched, groups: Groups) -> ImageManifest:
    sources, emptied, tables = groups
    kernel_paths = {file.path for file in facts.kernels}
    records = [
        *(_file(entry, "source") for entry in sources),
        *(_file(entry, "cache" if entry.path in kernel_paths else "bytecode") for entry in emptied),
        *(_file(entry, "table") for entry in tables),
    ]
    new = {record.path for record in records}
    files = sorted((*records, *(old for old in facts.earlier if old.path not in new)), key=lambda each: each.path)
    return ImageManifest(
        tool=recipe.tool,
        inputs=recipe.inputs,
        flavour=recipe.flavour.name,
        gpu=recipe.flavour.gpu.value,
        rocm=recipe.flavour.rocm,
        base=facts.base,
        content=Content(
            package=facts.tree.layout.package,
            release=facts.tree.release,
            commit=facts.commit,
            before=tree_hash(facts.tree),
            after=tree_hash(facts.tree, patched.after),
        ),
        aiter=facts.aiter,
        fixes=_fixes(facts.report, patched),
        state=facts.state.then(patched),
        files=tuple(files),
        tables=tuple(
            TableRecord(path=t.path, sha256=_sha256(t.data), rows=t.rows, source=t.source) for t in recipe.tables.files
        ),
        env=recipe.variables,
    )


def _fixes(report: TreeReport, patched: Patched) -> tuple[FixRecord, ...]:
    patches = {change.step.fix: change.step.digest for change in patched.changes}
    return tuple(
        FixRecord(
            fix=verdict.fix,
            verdict=verdict.verdict,
            how=verdict.how,
            reason=verdict.reason,
            variant=verdict.variant,
            patch=patches.get(verdict.fix),
        )
        for verdict in report.verdicts
    )


def _file(entry: Entry, kind: Literal["source", "bytecode", "cache", "table"]) -> FileRecord:
    return FileRecord(
        path=entry.path,
        kind=kind,
        sha256=_sha256(entry.data or b""),
        mode=entry.mode,
        uid=entry.uid,
        gid=entry.gid,
        mtime=entry.mtime,
    )


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
