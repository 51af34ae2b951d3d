"""Shows a drift run as one HTML file that needs nothing else: no script, no font, no network. Pure."""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from rocmfix.catalog import Catalog, Fix, PatchSet
from rocmfix.model import Outcome, Verdict
from rocmfix.report import place
from rocmfix.upstream.page import ALARM, LETTERS, columns, headline, short, worst
from rocmfix.upstream.propose import Proposal
from rocmfix.upstream.watch import Seen, Watch

_TEMPLATE = Path(__file__).with_name("webpage.html.j2")
_OFFSETS = re.compile(r" \(applies [^()]* lines off\)$")
"""What a patch's hunks moved by: of use to who applies it, and no reason."""

_ORDER = (*ALARM, Outcome.APPLIED, Outcome.UPSTREAM, Outcome.NOT_APPLICABLE)
_MEANINGS = {
    Outcome.CONFLICT.value: "a shape that nobody knows yet",
    Outcome.UNMENDED.value: "no patch: do what the reason says",
    Outcome.NEEDED.value: "a patch of ours mends it",
}


@dataclass(frozen=True)
class Cell:
    """One fix on one source, as the page shows it."""

    source: str
    letter: str
    outcome: str
    hint: str
    is_old: bool


@dataclass(frozen=True)
class Span:
    """Neighbouring sources that say the same of a fix."""

    sources: str
    outcome: str
    reason: str
    place: str
    advice: str


@dataclass(frozen=True)
class Row:
    """One fix: its cells, and in words what they mean."""

    fix: str
    why: str
    set: str
    pr: str
    link: str
    stand: str
    remove_when: str
    is_broken: bool
    """In the newest release."""
    cells: tuple[Cell, ...]
    spans: tuple[Span, ...]


@dataclass(frozen=True)
class Share:
    """How many of the known defects have one verdict."""

    outcome: str
    count: int


@dataclass(frozen=True)
class Card:
    """One source of today. `broken` is worst first; `more` and `fewer` are against the newest release."""

    seen: Seen
    name: str
    headline: str
    tone: str
    shares: tuple[Share, ...]
    broken: tuple[Verdict, ...]
    more: tuple[Verdict, ...] = ()
    fewer: tuple[str, ...] = ()

    def has(self, outcome: str) -> bool:
        """Whether any defect has this verdict here."""
        return any(share.outcome == outcome for share in self.shares)

    @property
    def tables(self) -> tuple[str, ...]:
        """Tuned tables that its AITER cannot run."""
        return self.seen.broken_tables.found if self.seen.broken_tables else ()

    @property
    def cuda_files(self) -> int | None:
        """How many files hold CUDA-only code that ROCm comes to."""
        found = self.seen.includes
        return len({name.partition(": ")[0] for name in found.found}) if found else None


def html(catalog: Catalog, now: Watch, found: tuple[Proposal, ...], diffs: Iterable[str]) -> str:
    """The whole run."""
    import jinja2

    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    newest, *others = (_card(seen) for seen in now.today) if now.today else (None,)
    rows = sorted(_rows(catalog, now), key=lambda row: not row.is_broken)
    return environment.from_string(_TEMPLATE.read_text("utf-8")).render(
        now=now,
        newest=newest,
        others=[_against(newest, card) for card in others],
        columns=columns(now)[::-1],
        groups=[(is_broken, list(group)) for is_broken, group in itertools.groupby(rows, lambda row: row.is_broken)],
        rows=rows,
        proposals=found,
        diff="".join(diffs),
        days=[(day, list(events)) for day, events in itertools.groupby(reversed(now.history), lambda each: each.day)],
        letters={outcome.value: letter for outcome, letter in LETTERS.items()},
        place=place,
        short=short,
        reason=reason,
        meanings=_MEANINGS,
    )


def reason(verdict: Verdict) -> str:
    """Why, for a reader who applies nothing."""
    return _OFFSETS.sub("", verdict.reason)


def _card(seen: Seen) -> Card:
    verdicts = seen.report.verdicts if seen.report else ()
    counts = Counter(verdict.verdict for verdict in verdicts)
    return Card(
        seen=seen,
        name=short(seen.source),
        headline=headline(seen),
        tone=_tone(seen),
        shares=tuple(Share(outcome.value, counts[outcome]) for outcome in _ORDER if counts[outcome]),
        broken=tuple(sorted(seen.broken(), key=lambda verdict: ALARM.index(verdict.verdict))),
    )


def _tone(seen: Seen) -> str:
    if seen.broken_tables and seen.broken_tables.found:
        return Outcome.CONFLICT.value
    return "unknown" if seen.report is None else (worst(seen) or Outcome.UPSTREAM).value


def _against(newest: Card | None, card: Card) -> Card:
    """`card` with what sets it apart from the newest release."""
    if newest is None or newest.seen.report is None:
        return Card(**{**card.__dict__, "more": card.broken})
    known, here = ({verdict.fix for verdict in each.broken} for each in (newest, card))
    return Card(
        **{
            **card.__dict__,
            "more": tuple(verdict for verdict in card.broken if verdict.fix not in known),
            "fewer": tuple(sorted(known - here)) if card.seen.report else (),
        }
    )


def _rows(catalog: Catalog, now: Watch) -> Iterator[Row]:
    today = next(iter(now.today), None)
    broken = {verdict.fix for verdict in today.broken()} if today else set()
    for patches, fix in catalog.fixes():
        yield _row(patches, fix, [(seen, seen.verdict(fix.id)) for seen in columns(now)], is_broken=fix.id in broken)


def _row(patches: PatchSet, fix: Fix, cells: list[tuple[Seen, Verdict | None]], *, is_broken: bool) -> Row:
    repository, _, number = (fix.upstream.pr or "").partition("#")
    return Row(
        fix=fix.id,
        why=fix.why,
        set=patches.name,
        pr=fix.upstream.pr or "",
        link=f"https://github.com/{repository}/pull/{number}" if number else "",
        stand=fix.upstream.status.value + (f" in {fix.upstream.since}" if fix.upstream.since else ""),
        remove_when=fix.remove_when,
        is_broken=is_broken,
        cells=tuple(_cell(seen, verdict) for seen, verdict in cells),
        spans=tuple(_spans([(seen, verdict) for seen, verdict in cells if verdict])),
    )


def _cell(seen: Seen, verdict: Verdict | None) -> Cell:
    if verdict is None:
        return Cell(seen.source, "?", "unknown", f"{seen.source}: {seen.not_reached or 'never asked'}", is_old=True)
    hint = f"{seen.source}: {verdict.verdict.value}: {reason(verdict)} {place(verdict)}".strip()
    return Cell(seen.source, LETTERS[verdict.verdict], verdict.verdict.value, hint, is_old=bool(seen.not_reached))


def _spans(cells: list[tuple[Seen, Verdict]]) -> Iterator[Span]:
    groups = itertools.groupby(cells, lambda pair: (pair[1].verdict, reason(pair[1]), pair[1].file))
    for _, group in groups:
        run = list(group)
        first, last = run[0], run[-1]
        names = dict.fromkeys((short(first[0].source), short(last[0].source)))
        verdict = last[1]
        yield Span(
            " \N{EN DASH} ".join(names), verdict.verdict.value, reason(verdict), place(verdict), verdict.advice or ""
        )
