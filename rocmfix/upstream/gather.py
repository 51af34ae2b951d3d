"""Looks at every source of a drift run; one that cannot be reached is said to be so and spoils no other."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from rocmfix.catalog import Catalog
from rocmfix.errors import RocmfixError
from rocmfix.record import read_record
from rocmfix.releases import as_version, releases
from rocmfix.source import open_release, open_releases, open_tree
from rocmfix.tree import Tree
from rocmfix.upstream.compare import carried, next_run
from rocmfix.upstream.watch import Gap, Line, Seen, Watch
from rocmfix.verdict import judge_all


@dataclass(frozen=True)
class Source:
    """Where to look: a name, its kind, and how to open it."""

    name: str
    line: Line
    open: Callable[[], Tree]


@dataclass(frozen=True)
class Looks:
    """What is asked of a tree besides its fixes; None where this version cannot ask."""

    includes: Callable[[Tree], tuple[str, ...]] | None = None
    broken_tables: Callable[[Tree], tuple[str, ...]] | None = None


@dataclass(frozen=True)
class Setting:
    """What one run is to know."""

    day: str
    oldest: str
    looks: Looks = Looks()


def watch(
    catalog: Catalog, sources: Iterable[Source], last: Watch | None, setting: Setting, gaps: tuple[Gap, ...] = ()
) -> Watch:
    """One run over `sources`, compared with the last one."""
    seen = [carried(last, _look(catalog, source, setting)) for source in sources]
    missed = _missed(last, {each.source for each in seen})
    now = Watch(
        day=setting.day,
        project=catalog.project,
        oldest=setting.oldest,
        is_first=last is None,
        seen=(*seen, *missed),
        gaps=(*gaps, *_unasked(setting.looks)),
        history=last.history if last else (),
    )
    return next_run(last, now)


def release_sources(project: str, *, offline: bool) -> tuple[Source, ...]:
    """Every known release; their wheels are fetched together if that works, else each says for itself."""
    try:
        trees = {tree.source: tree for tree in open_releases(offline=offline, project=project)}
    except RocmfixError:
        trees = {}

    def opener(version: str) -> Callable[[], Tree]:
        return lambda: trees.get(version) or open_release(version, offline=offline, project=project)

    return tuple(Source(version, Line.RELEASE, opener(version)) for version in releases(project).versions())


def other_source(spec: str, project: str, *, offline: bool) -> Source:
    """A branch, an image or a folder, as a user types it."""
    line = Line.IMAGE if spec.startswith("image:") else Line.BRANCH
    return Source(spec, line, lambda: open_tree(spec, offline=offline, project=project))


def unlisted(project: str, versions: Iterable[str]) -> Iterator[Source]:
    """Releases that the index has and `releases.toml` does not list yet: known by name, and not to be opened."""
    newest = as_version(releases(project).versions()[-1])

    def refuse(version: str) -> Callable[[], Tree]:
        return lambda: open_release(version, project=project)

    for text in versions:
        version = as_version(text)
        if version and newest and version > newest and not version.is_prerelease:
            yield Source(str(version), Line.RELEASE, refuse(str(version)))


def _look(catalog: Catalog, source: Source, setting: Setting) -> Seen:
    try:
        tree = source.open()
        report = judge_all(catalog, tree, read_record(tree))
        includes = setting.looks.includes(tree) if setting.looks.includes else None
        tables = setting.looks.broken_tables(tree) if setting.looks.broken_tables else None
    except RocmfixError as error:
        return Seen(source=source.name, line=source.line, not_reached=error.message)
    return Seen(
        source=source.name,
        line=source.line,
        reached=setting.day,
        report=report,
        includes=includes,
        broken_tables=tables,
    )


def _missed(last: Watch | None, names: set[str]) -> Iterator[Seen]:
    """What the last run saw and this one was not asked about: known, and old."""
    for seen in last.seen if last else ():
        if seen.source not in names:
            yield seen.model_copy(update={"not_reached": "not asked about in this run"})


def _unasked(looks: Looks) -> Iterator[Gap]:
    if looks.includes is None:
        yield Gap(what="unguarded includes", why="this version of rocmfix has no scanner for them")
    if looks.broken_tables is None:
        yield Gap(what="AITER tables", why="this version of rocmfix cannot judge them")
