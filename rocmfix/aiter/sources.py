"""Where a table comes from: a file, or a pinned entry of `index.toml`: a repository, commit, path and digest."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from pydantic import StringConstraints, ValidationError

from rocmfix.aiter.reader import TableFile
from rocmfix.errors import CatalogError, SourceError, TableError
from rocmfix.model import Record
from rocmfix.shipped import shipped

if sys.version_info >= (3, 11):
    import tomllib
else:  # pragma: no cover
    import tomli as tomllib

Commit = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{40}$")]
Digest = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
Repository = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*$")]
Name = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9.-]*$")]
SafePath = Annotated[str, StringConstraints(pattern=r"^(?:\w[\w.-]*/)*\w[\w.-]*\.csv$")]


class TableSource(Record):
    """One pinned table."""

    name: Name
    summary: str
    repo: Repository
    commit: Commit
    path: SafePath
    sha256: Digest
    since: Commit
    """The oldest AITER commit whose kernels the rows need. Kernels are looked for by name; this says where they are."""
    keep: tuple[str, ...] = ()
    """Only rows that have these cells, such as `expert=256`; all rows when empty."""

    @property
    def url(self) -> str:
        """Where the file can be fetched."""
        return f"https://raw.githubusercontent.com/{self.repo}/{self.commit}/{self.path}"

    @property
    def shown(self) -> str:
        """The source in a message or a manifest."""
        return f"{self.repo}@{self.commit[:10]}:{self.path}"


class Index(Record):
    """`dockerfiles/aiter/index.toml`."""

    table: tuple[TableSource, ...]

    def find(self, name: str) -> TableSource:
        """The table called `name`."""
        for source in self.table:
            if source.name == name:
                return source
        known = ", ".join(source.name for source in self.table)
        raise TableError(f"no table is called {name}", hint=f"there are {known}; or give a .csv file")


@dataclass(frozen=True)
class Wanted:
    """A table the user asked for, and the pinned source it came from, if any."""

    file: TableFile
    source: TableSource | None = None


@dataclass(frozen=True)
class Asked:
    """A table asked for. Its digest is known before it is fetched, and so what will be built from it."""

    name: str
    """As typed."""
    origin: TableSource | TableFile

    @property
    def sha256(self) -> str:
        """Of the whole file."""
        origin = self.origin
        return origin.sha256 if isinstance(origin, TableSource) else hashlib.sha256(origin.data).hexdigest()

    @property
    def keep(self) -> tuple[str, ...]:
        """The cells a row must have to be taken; none: all rows are."""
        return self.origin.keep if isinstance(self.origin, TableSource) else ()


def ask(names: Iterable[str], index: Path | None = None) -> tuple[Asked, ...]:
    """The tables of these names: a path when it ends in `.csv`, else an entry of the index (the shipped one).

    Raises TableError for a name that is neither.
    """
    return tuple(_asked(name, index) for name in dict.fromkeys(names))


def _asked(name: str, index: Path | None) -> Asked:
    if not name.endswith(".csv"):
        return Asked(name, read_index(index or shipped("dockerfiles") / "aiter/index.toml").find(name))
    try:
        return Asked(name, TableFile(name, Path(name).read_bytes()))
    except OSError as error:
        raise TableError(
            f"the table {name} cannot be read: {error.strerror or error}",
            hint="--table takes a .csv file, or a name of dockerfiles/aiter/index.toml",
        ) from None


def obtain(asked: Iterable[Asked], cache: Path, get: Callable[[str], bytes]) -> tuple[Wanted, ...]:
    """The files of these tables; pinned ones from the cache, or by `get`."""
    return tuple(_obtained(each.origin, cache, get) for each in asked)


def _obtained(origin: TableSource | TableFile, cache: Path, get: Callable[[str], bytes]) -> Wanted:
    return Wanted(origin) if isinstance(origin, TableFile) else Wanted(fetched(origin, cache, get), origin)


def read_index(path: Path) -> Index:
    """The index at `path`. Raises CatalogError for anything that is not as it must be."""
    try:
        index = Index.model_validate(tomllib.loads(path.read_text(encoding="utf-8")))
    except (tomllib.TOMLDecodeError, ValidationError, OSError) as error:
        raise CatalogError(f"{path}: {error}", hint="dockerfiles/aiter/README.md says what an entry needs") from None
    names = [source.name for source in index.table]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice:
        raise CatalogError(f"{path}: two tables are called {twice}")
    return index


def fetched(source: TableSource, cache: Path, get: Callable[[str], bytes]) -> TableFile:
    """The file of a pinned table, from the cache or by `get`; its digest is checked either way."""
    from rocmfix.system import files

    kept = cache / "tables" / f"{source.sha256}.csv"
    data = kept.read_bytes() if files.is_regular(kept) else _got(source, kept, get)
    digest = hashlib.sha256(data).hexdigest()
    if digest != source.sha256:
        raise TableError(
            f"{source.shown} is not the pinned file: its SHA-256 is {digest}",
            details=(f"pinned: {source.sha256}",),
            hint=f"delete {kept}" if kept.exists() else "do not use it; the commit may have been rewritten",
        )
    if not kept.exists():
        files.write_atomic(kept, data)
    return TableFile(source.shown, data)


def _got(source: TableSource, kept: Path, get: Callable[[str], bytes]) -> bytes:
    try:
        return get(source.url)
    except SourceError as error:
        raise TableError(
            f"the table {source.name} is not here, and cannot be fetched",
            details=(error.message, f"its SHA-256 is {source.sha256}"),
            hint=f"fetch it once with a network, or put the file at {kept}",
        ) from None
