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
from rocmfix.upstream.looks import Looks, Question
from rocmfix.upstream.watch import Gap, Line, Look, Seen, Watch
from rocmfix.verdict import judge_all


@dataclass(frozen=True)
class Source:
    """Where to look: a name, its kind, and how to open it."""

    name: str
    line: Line
    open: Callable[[], Tree]


@dataclass(frozen=True)
class Setting:
    """What one run is to know. Without `looks` only fixes are judged."""

    day: str
    oldest: str
    looks: Looks | None = None


@dataclass(frozen=True)
class _Opened:
    """A source that was reached: what is known of it so far, and its tree for what is still to be asked."""

    seen: Seen
    tree: Tree | None


def watch(
    catalog: Catalog, sources: Iterable[Source], last: Watch | None, setting: Setting, gaps: tuple[Gap, ...] = ()
) -> Watch:
    """One run over `sources`, compared with the last one."""
    opened = [_open(catalog, source, last, setting) for source in sources]
    seen = [each.seen for each in opened]
    if looks := setting.looks:
        asked = _asked(last, seen, looks.by)
        pairs = [
            _looked(each, looks, last.find(each.seen.source) if last else None, asked=each.seen.source in asked)
            for each in opened
        ]
        seen = [each for each, _ in pairs]
        gaps = (*gaps, *(gap for _, found in pairs for gap in found))
    now = Watch(
        day=setting.day,
        project=catalog.project,
        oldest=setting.oldest,
        is_first=last is None,
        seen=(*seen, *_missed(last, {each.source for each in seen})),
        gaps=gaps,
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


def _open(catalog: Catalog, source: Source, last: Watch | None, setting: Setting) -> _Opened:
    try:
        tree = source.open()
        report = judge_all(catalog, tree, read_record(tree))
    except RocmfixError as error:
        lost = Seen(source=source.name, line=source.line, not_reached=_why(error))
        return _Opened(carried(last, lost), None)
    return _Opened(Seen(source=source.name, line=source.line, reached=setting.day, report=report), tree)


def _asked(last: Watch | None, seen: list[Seen], by: str) -> frozenset[str]:
    """Whose CUDA-only code is looked for: it takes seconds a tree, and what was released does not change.

    Every branch and image; each release that is new; and the one before those, which they are compared with.
    """
    moving = {each.source for each in seen if each.line is not Line.RELEASE}
    released = [each.source for each in seen if each.line is Line.RELEASE and each.report]
    new = [name for name in released if last and not ((before := last.find(name)) and before.report)]
    settled = [name for name in released if name not in new]
    done = {each.source for each in last.seen if each.includes and each.includes.by == by} if last else set()
    return frozenset(moving | ({*new, *settled[-1:]} - done))


def _looked(opened: _Opened, looks: Looks, before: Seen | None, *, asked: bool) -> tuple[Seen, tuple[Gap, ...]]:
    """What was seen, with what else is asked of it. What cannot be told now keeps its last answer, and is a gap."""
    if opened.tree is None:
        return opened.seen, ()
    answers: dict[str, Look | None] = {}
    gaps: list[Gap] = []
    for question in looks.questions:
        known: Look | None = getattr(before, question.field, None)
        answer, why = _answer(question, opened.tree, known, looks.by) if asked else (known, "")
        answers[question.field] = answer
        gaps += [Gap(what=f"{question.what} of {opened.seen.source}", why=why)] if why else []
    return opened.seen.model_copy(update=answers), tuple(gaps)


def _answer(question: Question, tree: Tree, known: Look | None, by: str) -> tuple[Look | None, str]:
    """The answer, and what a reader must know about it."""
    try:
        found = question.ask(tree)
    except RocmfixError as error:
        return known, _why(error)
    why = f"rocmfix {by} looked anew, and does not compare with what {known.by} saw" if known and known.by != by else ""
    return (None if found is None else Look(by=by, found=found)), why


def _why(error: RocmfixError) -> str:
    """The error in one line, with the last word of the tool that met it."""
    return "; ".join((error.message, *error.details[-1:]))


def _missed(last: Watch | None, names: set[str]) -> Iterator[Seen]:
    """What the last run saw and this one was not asked about: known, and old."""
    for seen in last.seen if last else ():
        if seen.source not in names:
            yield seen.model_copy(update={"not_reached": "not asked about in this run"})
