"""The build context: the few files that change, the tables, the manifest and the Dockerfile. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Literal

from rocmfix.errors import ApplyError, VerifyError
from rocmfix.image import stale
from rocmfix.image.dockerfile import Page, render
from rocmfix.image.flavour import Feature, Flavour, Variable
from rocmfix.image.inspect import Seen
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
    """One table to lay into the image: its record and its bytes."""

    record: TableRecord
    data: bytes = field(repr=False)


@dataclass(frozen=True)
class Tables:
    """Every table to lay into the image, and the ENV by which AITER finds them."""

    files: tuple[BakedTable, ...] = ()
    env: tuple[Variable, ...] = ()
    run: str = ""
    """The command that compiles the kernels of their rows, if that was asked for."""
    notes: tuple[str, ...] = ()
    """What was done, a line each."""


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
class Past:
    """What rocmfix did to a base before this build."""

    state: State = field(default_factory=State)
    files: tuple[FileRecord, ...] = ()
    """The files it put in place."""
    before: Mapping[str, bytes | None] = field(default_factory=dict)
    """What those files were at first, where that is known."""
    tables: tuple[TableRecord, ...] = ()
    env: tuple[Variable, ...] = ()


def past_of_source(tree: ImageTree, done: Patched) -> Past:
    """The past of an image built from a patched source. Raises VerifyError when it does not hold that source."""
    lost = [path for path, data in done.after.items() if tree.read(path) != data]
    if lost:
        raise VerifyError(
            "the image was built, and does not hold the patched source",
            details=tuple(tree.shown(path) for path in lost),
            hint="its Dockerfile takes the source from elsewhere: does it honour BRANCH_TYPE=local?",
        )
    held = (file for path in sorted(done.after) if (file := tree.file(path)))
    records = (_file(Entry(f.path, f.data, f.mode, f.uid, f.gid, f.mtime), "source") for f in held)
    return Past(State().then(done), tuple(records), done.before)


@dataclass(frozen=True)
class Ground:
    """The base as it was found and judged."""

    base: BaseImage
    start: str
    """What FROM names."""
    seen: Seen
    report: TreeReport
    past: Past

    @property
    def tree(self) -> ImageTree:
        """The tree inside it."""
        return self.seen.tree


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
        return self.manifest.layers


def prepare(recipe: Recipe, ground: Ground, patched: Patched, templates: Path | None = None) -> Context:
    """Lay out the context for `patched` on `ground`."""
    tree = ground.tree
    sources = _sources(tree, patched)
    newest = max((entry.mtime for entry in sources), default=_age(tree))
    bytecode = [_emptied(file, newest) for file in stale.bytecode(tree, patched.after)]
    kernels = [_emptied(file, newest) for file in stale.kernels(tree, patched.after)]
    tables = [_table(table, tree, newest) for table in recipe.tables.files]
    records = (
        *(_file(entry, "source") for entry in sources),
        *(_file(entry, "bytecode") for entry in bytecode),
        *(_file(entry, "cache") for entry in kernels),
        *(_file(entry, "table") for entry in tables),
    )
    manifest = _manifest(recipe, ground, patched, records)
    page = Page(
        base=ground.start,
        flavour=recipe.flavour,
        features=recipe.features,
        env=recipe.variables,
        labels=labels(manifest),
        has_tables=bool(tables),
        run=recipe.tables.run,
        tool=recipe.tool,
    )
    entries = [*sources, *bytecode, *kernels, Entry(PATH, manifest.to_bytes(), mtime=newest)]
    folders = {path: _folder(file, newest) for path, file in tree.files.items() if file.is_directory}
    return Context(
        dockerfile=render(page, templates),
        files=archive(entries, folders, newest),
        tables=archive(tables, folders, newest) if tables else None,
        manifest=manifest,
        changed_bytes=sum(len(entry.data or b"") for entry in (*entries, *tables)),
    )


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
    path = table.record.path
    before = tree.files.get(path)
    if before is None:
        return Entry(path, table.data, mtime=mtime)
    return Entry(path, table.data, before.mode, before.uid, before.gid, mtime)


def _folder(file: File, newest: int) -> Entry:
    # The engine writes hosts and resolv.conf into /etc of every container, so its time there is the container's own.
    return Entry(file.path, None, file.mode, file.uid, file.gid, newest if file.path == "/etc" else file.mtime)


def _manifest(recipe: Recipe, ground: Ground, patched: Patched, records: tuple[FileRecord, ...]) -> ImageManifest:
    new = {record.path for record in records}
    files = sorted((*records, *(old for old in ground.past.files if old.path not in new)), key=lambda each: each.path)
    tree = ground.tree
    return ImageManifest(
        tool=recipe.tool,
        inputs=recipe.inputs,
        flavour=recipe.flavour.name,
        gpu=recipe.flavour.gpu.value,
        rocm=recipe.flavour.rocm,
        base=ground.base,
        content=Content(
            package=tree.layout.package,
            release=tree.release,
            commit=ground.seen.commit,
            before=tree_hash(tree, ground.past.before),
            after=tree_hash(tree, patched.after),
        ),
        aiter=ground.seen.aiter,
        layers=1 + bool(recipe.tables.files) + bool(recipe.tables.run),
        fixes=_fixes(ground.report, patched),
        state=ground.past.state.then(patched),
        files=tuple(files),
        tables=_tables(recipe, ground.past),
        env=_env(recipe, ground.past),
    )


def _tables(recipe: Recipe, past: Past) -> tuple[TableRecord, ...]:
    """Those of this build, and those of the base that it leaves as they are."""
    chosen = {table.path: table for table in (*past.tables, *(baked.record for baked in recipe.tables.files))}
    return tuple(chosen[path] for path in sorted(chosen))


def _env(recipe: Recipe, past: Past) -> tuple[Variable, ...]:
    chosen = {variable.name: variable for variable in (*past.env, *recipe.variables)}
    return tuple(chosen[name] for name in sorted(chosen))


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
