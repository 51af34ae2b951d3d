"""Shows a drift run: as text, as Markdown for an issue, as one HTML file, and as a badge. Pure."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from html import escape
from pathlib import Path

from rocmfix.catalog import Catalog
from rocmfix.model import Outcome, Verdict
from rocmfix.report import aligned, place
from rocmfix.upstream.propose import Proposal
from rocmfix.upstream.watch import BROKEN, Event, Seen, Watch

LETTERS = {
    Outcome.CONFLICT: "X",
    Outcome.NEEDED: "N",
    Outcome.UNMENDED: "u",
    Outcome.APPLIED: "a",
    Outcome.UPSTREAM: ".",
    Outcome.NOT_APPLICABLE: "-",
}
_ALARM = (Outcome.CONFLICT, Outcome.UNMENDED, Outcome.NEEDED)
_COLOURS = {Outcome.CONFLICT: "#c62828", Outcome.UNMENDED: "#7b1fa2", Outcome.NEEDED: "#b26a00", None: "#2e7d32"}
_HERE = Path(__file__).parent


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
    cells: tuple[Cell, ...]
    spans: tuple[Span, ...]


def headline(seen: Seen) -> str:
    """One source in one line: what is wrong with it, worst first."""
    if seen.report is None:
        return "not reached yet"
    counts = Counter(verdict.verdict for verdict in seen.report.verdicts)
    said = ", ".join(f"{counts[outcome]} {outcome.value}" for outcome in _ALARM if counts[outcome])
    return said or "nothing is wrong"


def worst(seen: Seen) -> Outcome | None:
    """The worst verdict on a source; None when there is nothing to do."""
    found = {verdict.verdict for verdict in seen.broken()}
    return next((outcome for outcome in _ALARM if outcome in found), None)


def lines(now: Watch, found: tuple[Proposal, ...]) -> Iterator[str]:
    """The run as plain text: what is wrong today, what happened, what was not reached, what to edit."""
    yield from aligned([("TODAY", "", ""), *((seen.source, headline(seen), _old(seen)) for seen in now.today)])
    yield ""
    if now.is_first:
        yield "first run: nothing to compare with yet"
    else:
        rows = [(event.what.value, event.source, event.fix or "-", event.text) for event in now.events]
        yield from aligned([("SINCE THE LAST RUN", "SOURCE", "FIX", ""), *rows]) if rows else ("nothing new",)
    if now.unreached:
        yield ""
        yield from aligned([("NOT REACHED", "WHY"), *((gap.what, gap.why) for gap in now.unreached)])
    if found:
        yield ""
        yield from aligned([("PROPOSED EDIT", "FIX", "WHY"), *((each.set, each.fix, each.why) for each in found)])


def markdown(now: Watch, found: tuple[Proposal, ...], diffs: Iterable[str]) -> str:
    """The same for an issue or a job summary, with the matrix and the edits as diffs."""
    parts = ["## Today", *(f"- **{_md(seen.source)}**: {headline(seen)}{_md(_old(seen))}" for seen in now.today)]
    parts += ["", "## Since the last run", ""]
    parts += [_event_line(event) for event in now.events] or ["first run" if now.is_first else "nothing new"]
    if now.unreached:
        parts += ["", "## Not reached", "", *(f"- **{_md(gap.what)}**: {_md(gap.why)}" for gap in now.unreached)]
    if found:
        parts += ["", "## Proposed edits", "", *(f"- {each.fix}: {_md(each.why)}" for each in found), ""]
        parts += ["```diff", *("".join(diffs).splitlines()), "```"]
    parts += ["", "## Matrix", "", *_matrix(now)]
    return "\n".join(parts) + "\n"


def html(catalog: Catalog, now: Watch, found: tuple[Proposal, ...], diffs: Iterable[str]) -> str:
    """The whole run as one HTML file that needs nothing else: no script, no font, no network."""
    import jinja2

    template = (_HERE / "page.html.j2").read_text("utf-8")
    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    return environment.from_string(template).render(
        now=now,
        today=[_card(seen) for seen in now.today],
        columns=_columns(now)[::-1],
        rows=tuple(_rows(catalog, now)),
        proposals=found,
        diff="".join(diffs),
        days=[(day, list(events)) for day, events in itertools.groupby(reversed(now.history), lambda each: each.day)],
        letters={outcome.value: letter for outcome, letter in LETTERS.items()},
        place=place,
        short=short,
    )


def badge(now: Watch) -> str:
    """The state of the newest release as an SVG, in the usual shape."""
    seen = now.today[0] if now.today else None
    right = f"{seen.source}: {headline(seen)}" if seen else "no release seen"
    left, colour = "rocmfix", _COLOURS[worst(seen) if seen else None]
    widths = [round(6.6 * len(text)) + 14 for text in (left, right)]
    texts = (
        f'<text x="{7 + (widths[0] if i else 0)}" y="14">{escape(text)}</text>' for i, text in enumerate((left, right))
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{sum(widths)}" height="20" role="img" '
        f'aria-label="{escape(f"{left}: {right}", quote=True)}">'
        f'<rect width="{widths[0]}" height="20" fill="#555"/>'
        f'<rect x="{widths[0]}" width="{widths[1]}" height="20" fill="{colour}"/>'
        f'<g fill="#fff" font-family="Verdana,DejaVu Sans,sans-serif" font-size="11">{"".join(texts)}</g></svg>\n'
    )


def short(source: str) -> str:
    """A source as a column head."""
    name = source.removeprefix("image:").removeprefix("git:")
    return name.rpartition("/")[2]


def _columns(now: Watch) -> tuple[Seen, ...]:
    others = tuple(seen for seen in now.seen if seen not in now.releases)
    return (*now.releases, *others)


def _rows(catalog: Catalog, now: Watch) -> Iterator[Row]:
    for patches, fix in catalog.fixes():
        cells = [(seen, seen.verdict(fix.id)) for seen in _columns(now)]
        repository, _, number = (fix.upstream.pr or "").partition("#")
        yield Row(
            fix=fix.id,
            why=fix.why,
            set=patches.name,
            pr=fix.upstream.pr or "",
            link=f"https://github.com/{repository}/pull/{number}" if number else "",
            stand=fix.upstream.status.value + (f" in {fix.upstream.since}" if fix.upstream.since else ""),
            remove_when=fix.remove_when,
            cells=tuple(_cell(seen, verdict) for seen, verdict in cells),
            spans=tuple(_spans([(seen, verdict) for seen, verdict in cells if verdict])),
        )


def _cell(seen: Seen, verdict: Verdict | None) -> Cell:
    if verdict is None:
        return Cell(seen.source, "?", "unknown", seen.not_reached or "never asked", is_old=True)
    hint = f"{seen.source}: {verdict.verdict.value}: {verdict.reason} {place(verdict)}".strip()
    return Cell(seen.source, LETTERS[verdict.verdict], verdict.verdict.value, hint, is_old=bool(seen.not_reached))


def _spans(cells: list[tuple[Seen, Verdict]]) -> Iterator[Span]:
    groups = itertools.groupby(cells, lambda pair: (pair[1].verdict, pair[1].reason, pair[1].file))
    for _, group in groups:
        run = list(group)
        first, last = run[0], run[-1]
        names = dict.fromkeys((short(first[0].source), short(last[0].source)))
        verdict = last[1]
        yield Span(
            " \N{EN DASH} ".join(names), verdict.verdict.value, verdict.reason, place(verdict), verdict.advice or ""
        )


def _card(seen: Seen) -> tuple[Seen, str, str, list[Verdict]]:
    tone = "unknown" if seen.report is None else (worst(seen) or Outcome.UPSTREAM).value
    return seen, headline(seen), tone, _ordered(seen.broken())


def _ordered(verdicts: tuple[Verdict, ...]) -> list[Verdict]:
    return sorted(verdicts, key=lambda verdict: BROKEN.index(verdict.verdict), reverse=True)


def _matrix(now: Watch) -> Iterator[str]:
    columns = _columns(now)
    yield "| fix | " + " | ".join(_md(short(seen.source)) for seen in columns) + " |"
    yield "|---" * (len(columns) + 1) + "|"
    for fix in now.fixes:
        verdicts = (seen.verdict(fix) for seen in columns)
        yield f"| {fix} | " + " | ".join(LETTERS[v.verdict] if v else "?" for v in verdicts) + " |"
    yield ""
    yield ", ".join(f"`{letter}` {outcome.value}" for outcome, letter in LETTERS.items()) + ", `?` never reached"


def _event_line(event: Event) -> str:
    fix = f" `{event.fix}`" if event.fix else ""
    text = f": {_md(event.text)}" if event.text else ""
    return f"- **{event.what.value}**{fix} on {_md(event.source)}{text}"


def _old(seen: Seen) -> str:
    if not seen.not_reached:
        return ""
    return f" (not reached today; as of {seen.reached})" if seen.reached else " (not reached)"


def _md(text: str) -> str:
    """Text of somebody else's tree, harmless in Markdown."""
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;").replace("@", "@\N{ZERO WIDTH SPACE}")
