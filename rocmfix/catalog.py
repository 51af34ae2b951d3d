"""Reads the folders of patches into one frozen catalogue, and refuses whatever is wrong in them."""

from __future__ import annotations

import contextlib
import itertools
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from packaging.version import InvalidVersion, Version
from pydantic import AfterValidator, Field, ValidationError, model_validator

from rocmfix.errors import CatalogError
from rocmfix.hunks import Read
from rocmfix.model import Record, Status, Upstream
from rocmfix.patchfile import MAX_BYTES, Patch, parse_patch
from rocmfix.probe import (
    AllProbe,
    AnyProbe,
    FileProbe,
    GuardProbe,
    NotProbe,
    Paths,
    Probe,
    PythonProbe,
    subject_of,
)
from rocmfix.shipped import shipped

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

Slug = Annotated[str, Field(pattern=r"^[a-z0-9]+(-[a-z0-9]+)*$")]
PatchName = Annotated[str, Field(pattern=r"^[A-Za-z0-9_.-]+\.patch$")]


def _release(text: str) -> str:
    try:
        Version(text)
    except InvalidVersion as error:
        raise ValueError(f"not a release: {text}") from error
    return text


Release = Annotated[str, AfterValidator(_release)]


class Stand(Upstream):
    """`upstream = {...}` in `series.toml`: status, pull request, first fixed release, and a reason for `local`."""

    reason: str | None = None

    @model_validator(mode="after")
    def _evidence(self) -> Stand:
        if self.status is Status.LOCAL and not self.reason:
            raise ValueError("status local needs a reason")
        if self.status is not Status.LOCAL and not self.pr:
            raise ValueError(f"status {self.status.value} needs the pull request (pr = 'owner/repo#N')")
        if self.status is Status.MERGED and not self.since:
            raise ValueError("status merged needs the first release that has it (since)")
        return self


class Variant(Record):
    """One patch text of a fix, and the half-open window of releases it was cut for: a hint, never the decision."""

    file: PatchName
    since: Release
    until: Release | None = None
    relevant: tuple[Probe, ...] = ()
    """Asked after the fix's own: does this variant, rather than another, speak of this tree."""
    fixed: tuple[Probe, ...] = ()


class Shape(Record):
    """A shape of the defect that no patch of ours covers, and what its user can do."""

    probe: tuple[Probe, ...] = ()
    advice: Annotated[str, Field(min_length=10)]
    reason: str | None = None
    """Said instead of the fix's `why` where this shape is only suspect, partial or conditional."""


class Fix(Record):
    """One defect: how to see it, how to see it mended, and the patches that mend it."""

    id: Slug
    why: Annotated[str, Field(min_length=10)]
    upstream: Stand
    relevant: Annotated[tuple[Probe, ...], Field(min_length=1)]
    fixed: Annotated[tuple[Probe, ...], Field(min_length=1)]
    remove_when: Annotated[str, Field(min_length=5)]
    unmended: tuple[Shape, ...] = ()
    variant: tuple[Variant, ...] = ()

    @property
    def subject(self) -> Paths:
        """The file that probes mean when they name none."""
        return subject_of(self.relevant)

    @model_validator(mode="after")
    def _sound(self) -> Fix:
        if not self.variant and not self.unmended:
            raise ValueError("has neither a variant nor an unmended shape: it could only ever be a conflict")
        if not self.subject:
            raise ValueError("no `relevant` probe names a file")
        for probes in self.probe_lists():
            _refuse_impossible(probes, self.subject)
        windows = sorted((Version(v.since), Version(v.until or "9999"), v.file) for v in self.variant)
        for since, until, file in windows:
            if since >= until:
                raise ValueError(f"{file}: its window ends before it begins")
        for (_, until, one), (since, _, other) in itertools.pairwise(windows):
            if since < until:
                raise ValueError(f"{one} and {other} have overlapping windows")
        return self

    def probe_lists(self) -> Iterator[tuple[Probe, ...]]:
        """Every all-of list of probes in this fix."""
        yield from (self.relevant, self.fixed)
        yield from (shape.probe for shape in self.unmended)
        for variant in self.variant:
            yield from (variant.relevant, variant.fixed)


class Series(Record):
    """The content of one `series.toml`."""

    project: str
    summary: Annotated[str, Field(min_length=10)]
    gfx: tuple[Literal["gfx942", "gfx950"], ...] = ()
    """GPU targets the set is for; empty = every GPU."""
    fix: Annotated[tuple[Fix, ...], Field(min_length=1)]


class Listing(Record):
    """Every set of a catalogue, as `fixes list --json` prints it."""

    sets: tuple[Series, ...]


@dataclass(frozen=True)
class PatchSet:
    """A folder of fixes with one reason to exist, its patches parsed."""

    name: str
    """`project/folder`, such as `sglang/mtp-depth`."""
    folder: Path
    series: Series
    patches: dict[str, Patch]

    def patch(self, variant: Variant) -> Patch:
        """The parsed patch of `variant`."""
        return self.patches[variant.file]

    def text(self, variant: Variant) -> str:
        """The text of the patch file of `variant`."""
        return (self.folder / variant.file).read_text(encoding="utf-8")


@dataclass(frozen=True)
class Catalog:
    """Every set of one project, in order of application."""

    project: str
    folder: Path
    sets: tuple[PatchSet, ...]

    def fixes(self) -> Iterator[tuple[PatchSet, Fix]]:
        """Every fix with its set, in order of application."""
        for each in self.sets:
            for fix in each.series.fix:
                yield each, fix

    def find(self, fix_id: str) -> tuple[PatchSet, Fix]:
        """The fix called `fix_id`. Raises CatalogError naming the nearest ids."""
        import difflib

        found = {fix.id: (each, fix) for each, fix in self.fixes()}
        if fix_id not in found:
            near = ", ".join(difflib.get_close_matches(fix_id, found)) or "rocmfix fixes list"
            raise CatalogError(f"no fix is called {fix_id}", hint=f"did you mean: {near}")
        return found[fix_id]

    def find_set(self, name: str) -> PatchSet:
        """The set called `name`, with or without its project. Raises CatalogError naming the sets there are."""
        for each in self.sets:
            if name in (each.name, each.folder.name):
                return each
        raise CatalogError(f"no set is called {name}", hint="there are: " + ", ".join(s.name for s in self.sets))


def load(folder: Path | None = None, project: str = "sglang") -> Catalog:
    """The catalogue of `project` in `folder` (default: the shipped one). Raises CatalogError on the first fault."""
    root = (folder or shipped("patches")) / project
    order = sorted(path.parent for path in root.glob("*/series.toml"))
    if not order:
        raise CatalogError(f"no patch sets in {root}", hint="a set is a folder with a series.toml")
    catalog = Catalog(project, root, tuple(_load_set(path, project) for path in order))
    _refuse_repeated("fix id", (fix.id for _, fix in catalog.fixes()))
    return catalog


def _load_set(folder: Path, project: str) -> PatchSet:
    name = f"{project}/{folder.name}"
    series = _series(folder / "series.toml", name)
    if series.project != project:
        raise CatalogError(f"{name}: says project {series.project!r}, but lies under {project}/")
    listed = [variant.file for fix in series.fix for variant in fix.variant]
    _refuse_repeated(f"{name}: patch", listed)
    there = {path.name for path in folder.glob("*.patch")}
    for file in sorted(set(listed) - there):
        raise CatalogError(f"{name}: {file} is listed, but there is no such file")
    for file in sorted(there - set(listed)):
        raise CatalogError(
            f"{name}: {file} is there, but series.toml does not list it",
            hint="give it a [[fix.variant]] (rocmfix refresh prints one), or delete it",
        )
    return PatchSet(name, folder, series, {file: _patch(folder / file, name) for file in listed})


def _series(path: Path, name: str) -> Series:
    try:
        raw = tomllib.loads(_bytes(path, name).decode())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise CatalogError(f"{name}/series.toml: is not TOML: {error}") from error
    try:
        return Series.model_validate(raw)
    except ValidationError as error:
        # A list that holds a wrong item is also said to be too short: that is no second fault.
        inner = {item["loc"][:depth] for item in error.errors() for depth in range(len(item["loc"]))}
        faults = [item for item in error.errors() if item["loc"] not in inner]
        details = tuple(f"{_where(item['loc'], raw)}: {_said(item)}" for item in faults[:10])
        raise CatalogError(
            f"{name}/series.toml is wrong", details=details, hint="see patches/README.md for each key"
        ) from None


def _where(location: tuple[int | str, ...], raw: dict[str, Any]) -> str:
    """`id.key.key` for what lies in a fix; numbers count from 0, as a reader of TOML must."""
    parts = [str(part) for part in location]
    if parts[:1] == ["fix"] and len(parts) > 1:
        with contextlib.suppress(LookupError, TypeError, ValueError):
            parts[:2] = [str(raw["fix"][int(parts[1])]["id"])]
    return ".".join(parts) or "the file"


def _said(item: Any) -> str:
    return str(item["msg"]).removeprefix("Value error, ")


def _patch(path: Path, name: str) -> Patch:
    return parse_patch(_bytes(path, name), f"{name}/{path.name}")


def _bytes(path: Path, name: str) -> bytes:
    """A file of somebody's catalogue: a pipe or a device in its place would be read for ever."""
    where = f"{name}/{path.name}"
    if path.is_symlink() or not path.is_file():
        raise CatalogError(f"{where}: is not a regular file")
    if path.stat().st_size > MAX_BYTES:
        raise CatalogError(f"{where}: larger than {MAX_BYTES} bytes", hint="a fix is small; split or shrink it")
    return path.read_bytes()


def _refuse_repeated(what: str, names: Iterable[str]) -> None:
    seen = set[str]()
    for name in names:
        if name in seen:
            raise CatalogError(f"{what} {name} is there twice")
        seen.add(name)


def _refuse_impossible(probes: tuple[Probe, ...], subject: Paths) -> None:
    for probe in _flat(probes):
        paths = getattr(probe, "within", None) or subject
        if isinstance(probe, PythonProbe) and not all(path.endswith(".py") for path in paths):
            raise ValueError(f"a python probe can never hold in {paths[0]}")
        if isinstance(probe, GuardProbe) and any(path.endswith(".py") for path in paths):
            raise ValueError(f"an include_guarded probe can never hold in {paths[0]}")
        if getattr(probe, "text", None) and any(path.endswith(".py") for path in paths):
            raise ValueError(f"a text probe misjudges Python ({paths[0]}): ask with `python`")
    plain = {_key(probe) for probe in probes}
    for probe in probes:
        if isinstance(probe, NotProbe) and _key(probe.inner) in plain:
            raise ValueError(f"can never hold: asks for a probe and its opposite ({_key(probe.inner)})")


def _key(probe: Probe) -> str:
    return probe.model_dump_json(by_alias=True, exclude={"note"}, exclude_none=True)


def _flat(probes: tuple[Probe, ...]) -> Iterator[Probe]:
    for probe in probes:
        match probe:
            case AnyProbe() | AllProbe():
                yield from _flat(probe.inner)
            case NotProbe():
                yield from _flat((probe.inner,))
            case _:
                yield probe


__all__ = ["Catalog", "FileProbe", "Fix", "PatchSet", "Read", "Series", "Shape", "Variant", "load"]
