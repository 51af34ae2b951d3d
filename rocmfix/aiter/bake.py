"""What an image needs to carry tuned rows: one complete table a family, the variable that selects it, its sources."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial

from rocmfix.aiter.doctor import examine
from rocmfix.aiter.findings import Finding, Kind, Severity
from rocmfix.aiter.frame import Origin
from rocmfix.aiter.layout import BAKED, AiterTree
from rocmfix.aiter.merging import MergedTable, merge_tables
from rocmfix.aiter.origin import RowSource, joined, origin_of
from rocmfix.aiter.probing import probe
from rocmfix.aiter.reader import TableFile
from rocmfix.aiter.schema import FAMILIES, FMOE, Family, family_of
from rocmfix.aiter.selection import family_by_content, select
from rocmfix.aiter.sources import Wanted
from rocmfix.errors import TableError


@dataclass(frozen=True)
class Baked:
    """The complete table of one family, with the wanted rows in it."""

    family: Family
    data: bytes = field(repr=False)
    sources: tuple[RowSource, ...]
    """Where every row is from, in order."""
    asked: tuple[int, ...]
    """Lines of the wanted rows."""
    replaced: tuple[tuple[Origin, Origin], ...]
    """Rows that gave way to wanted ones, each with the row that has its place."""

    @property
    def path(self) -> str:
        """Where it lies in the image."""
        return f"{BAKED}/{self.family.name}.csv"

    @property
    def rows(self) -> int:
        """How many it has."""
        return sum(each.count for each in self.sources)


def bake(
    tree: AiterTree,
    wanted: Sequence[Wanted],
    gfx: str = "gfx950",
    earlier: Mapping[str, tuple[RowSource, ...]] | None = None,
) -> tuple[Baked, ...]:
    """For each family that `wanted` has rows of: all that `tree` reads for it, with those rows in their place.

    A variable replaces every shipped table (`get_config_file` in `aiter/jit/core.py`), so the shipped rows are in
    it too. `earlier` says where the rows of tables are from that a build before this one baked. Raises TableError
    for a row whose kernel this AITER lacks, and for a table that nothing reads.
    """
    rules = probe(tree)
    if rules is None or not rules.known:
        raise TableError(
            f"{tree.source}: this AITER reads its tables in a way not seen before; nothing is baked",
            hint="report the AITER commit, so that its reader can be added",
        )
    chosen: dict[Family, list[TableFile]] = {}
    for item in wanted:
        chosen.setdefault(_family(item.file), []).append(_kept(item))
    _refuse_bad_rows(tree, [file for files in chosen.values() for file in files], gfx, wanted)
    read = {selection.family: selection.files for selection in select(tree, rules)}
    _refuse_unread(tree, chosen, read)
    shipped = [Wanted(file) for family in chosen for file in read[family]]
    place = partial(_source, {item.file.path: item for item in (*shipped, *wanted)}, earlier or {})
    return tuple(
        _baked(family, merge_tables(read[family], family, rules, preferred=files, gfx=gfx), files, place)
        for family, files in chosen.items()
    )


def _baked(
    family: Family, merged: MergedTable, chosen: Sequence[TableFile], place: Callable[[int, Origin], RowSource]
) -> Baked:
    own = {file.path for file in chosen}
    return Baked(
        family=family,
        data=merged.data,
        sources=joined(place(line, at) for line, at in enumerate(merged.origins, start=2)),
        asked=tuple(line for line, at in enumerate(merged.origins, start=2) if at.file in own),
        replaced=tuple((gone, by) for gone, by in merged.dropped if by.file in own and gone.file not in own),
    )


def _refuse_unread(
    tree: AiterTree, chosen: Mapping[Family, Sequence[TableFile]], read: Mapping[Family, Sequence[TableFile]]
) -> None:
    for family, files in chosen.items():
        if family not in read:
            raise TableError(
                f"{tree.source}: this AITER has no table of the family {family.name}",
                details=(f"asked for by {', '.join(file.path for file in files)}",),
                hint="leave it out, or take a base whose AITER reads it",
            )


def _family(file: TableFile) -> Family:
    """The family of a wanted table. Raises TableError for one whose rows cannot be merged here."""
    family = family_by_content(file)
    if family is not FMOE and family_of(file.path.rpartition("/")[2]) is None:
        raise TableError(
            f"{file.path}: several families of tables have this header",
            details=(", ".join(each.name for each in FAMILIES if each.key and each is not FMOE),),
            hint="name the file as AITER does: with the family in it",
        )
    if not family.key:
        raise TableError(
            f"{file.path}: tables of the family {family.name} are not merged, so none is baked",
            hint=f"set {family.variable} by hand",
        )
    return family


def _kept(wanted: Wanted) -> TableFile:
    """The file with only the rows its source says to keep; other lines are emptied, so that line numbers hold."""
    keep = dict(part.split("=", 1) for part in wanted.source.keep) if wanted.source else {}
    if not keep:
        return wanted.file
    header, *lines = wanted.file.data.decode("utf-8-sig").splitlines()
    at = {name: header.split(",").index(name) for name in keep}
    kept = [line if line and all(line.split(",")[at[n]] == v for n, v in keep.items()) else "" for line in lines]
    return TableFile(wanted.file.path, ("\n".join([header, *kept]) + "\n").encode())


def _refuse_bad_rows(tree: AiterTree, chosen: Sequence[TableFile], gfx: str, wanted: Sequence[Wanted]) -> None:
    """A baked row may not stop the server or be known to give wrong answers.

    Ahead-of-time compilation passes over a name that does not exist, and exits 0: it would not notice.
    """
    report = examine(tree, chosen, gfx) if chosen else None
    bad = [finding for finding in report.findings if _is_refused(finding)] if report else []
    if bad:
        raise TableError(
            f"{len(bad)} rows cannot be baked into {tree.source}",
            details=(
                *(f"{f.file}:{f.line}: {f.kind.value}: {f.effect}" for f in bad[:10]),
                *_made_for(wanted, {f.file for f in bad}),
            ),
            hint="rocmfix aiter doctor shows all; take a table made for this AITER, or retune",
        )


def _made_for(wanted: Sequence[Wanted], files: set[str]) -> Iterator[str]:
    """From which AITER on the pinned tables among `files` can be used."""
    for item in wanted:
        if item.source and item.file.path in files:
            yield f"{item.source.name} is for {item.source.repo} from {item.source.since[:10]} on"


def _is_refused(finding: Finding) -> bool:
    kinds = {Kind.UNKNOWN_KERNEL, Kind.KNOWN_BAD_KERNEL, Kind.TABLE_OFF, Kind.WRONG_STAGE}
    return finding.severity is Severity.BOOT or finding.kind in kinds


def _source(
    files: Mapping[str, Wanted], earlier: Mapping[str, tuple[RowSource, ...]], line: int, at: Origin
) -> RowSource:
    """Where the row on `line` is from: through a table that was baked before, to what that was made of."""
    before = origin_of(at.line, earlier.get(at.file, ()))
    if before:
        return before.model_copy(update={"first": line})
    item = files[at.file]
    return RowSource(
        first=line,
        count=1,
        file=at.file,
        line=at.line,
        sha256=_sha256(item.file),
        repo=item.source.repo if item.source else None,
        commit=item.source.commit if item.source else None,
        path=item.source.path if item.source else None,
    )


@lru_cache(maxsize=256)
def _sha256(file: TableFile) -> str:
    return hashlib.sha256(file.data).hexdigest()
