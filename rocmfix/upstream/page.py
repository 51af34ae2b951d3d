"""Shows a drift run as text, as Markdown for an issue, and as a badge. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from html import escape

from rocmfix.model import Outcome
from rocmfix.report import aligned
from rocmfix.upstream.propose import Proposal
from rocmfix.upstream.watch import Event, Seen, Watch

LETTERS = {
    Outcome.CONFLICT: "X",
    Outcome.NEEDED: "N",
    Outcome.UNMENDED: "u",
    Outcome.APPLIED: "a",
    Outcome.UPSTREAM: ".",
    Outcome.NOT_APPLICABLE: "-",
}
ALARM = (Outcome.CONFLICT, Outcome.UNMENDED, Outcome.NEEDED)
_COLOURS = {Outcome.CONFLICT: "#c62828", Outcome.UNMENDED: "#7b1fa2", Outcome.NEEDED: "#b26a00", None: "#2e7d32"}


def headline(seen: Seen) -> str:
    """One source in one line: what is wrong with it, worst first."""
    if seen.report is None:
        return "not reached yet"
    counts = Counter(verdict.verdict for verdict in seen.report.verdicts)
    said = [f"{counts[outcome]} {outcome.value}" for outcome in ALARM if counts[outcome]]
    tables = len(_tables(seen))
    said += [f"{tables} broken table{'s' if tables > 1 else ''}"] if tables else []
    return ", ".join(said) or "nothing is wrong"


def worst(seen: Seen) -> Outcome | None:
    """The worst verdict on a source; None when there is nothing to do."""
    found = {verdict.verdict for verdict in seen.broken()}
    return next((outcome for outcome in ALARM if outcome in found), None)


def lines(now: Watch, found: tuple[Proposal, ...]) -> Iterator[str]:
    """The run as plain text: what is wrong today, what happened, what was not reached, what to edit."""
    yield from aligned([("TODAY", "", ""), *((seen.source, headline(seen), _old(seen)) for seen in now.today)])
    tables = [(seen.source, *table.partition(": ")[::2]) for seen in now.today for table in _tables(seen)]
    if tables:
        yield ""
        yield from aligned([("BROKEN TABLES", "TABLE", "WHY"), *tables])
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
    parts = ["## Today"]
    for seen in now.today:
        parts.append(f"- **{_md(seen.source)}**: {headline(seen)}{_md(_old(seen))}")
        parts += [f"  - table {_md(table)}" for table in _tables(seen)]
    parts += ["", "## Since the last run", ""]
    parts += [_event_line(event) for event in now.events] or ["first run" if now.is_first else "nothing new"]
    if now.unreached:
        parts += ["", "## Not reached", "", *(f"- **{_md(gap.what)}**: {_md(gap.why)}" for gap in now.unreached)]
    if found:
        parts += ["", "## Proposed edits", "", *(f"- {each.fix}: {_md(each.why)}" for each in found), ""]
        parts += ["```diff", *("".join(diffs).splitlines()), "```"]
    parts += ["", "## Matrix", "", *_matrix(now)]
    return "\n".join(parts) + "\n"


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
    return name.rstrip("/").rpartition("/")[2]


def columns(now: Watch) -> tuple[Seen, ...]:
    """Every source: the releases, oldest first, then the others."""
    return (*now.releases, *(seen for seen in now.seen if seen not in now.releases))


def _matrix(now: Watch) -> Iterator[str]:
    every = columns(now)
    yield "| fix | " + " | ".join(_md(short(seen.source)) for seen in every) + " |"
    yield "|---" * (len(every) + 1) + "|"
    for fix in now.fixes:
        verdicts = (seen.verdict(fix) for seen in every)
        yield f"| {fix} | " + " | ".join(LETTERS[v.verdict] if v else "?" for v in verdicts) + " |"
    yield ""
    yield ", ".join(f"`{letter}` {outcome.value}" for outcome, letter in LETTERS.items()) + ", `?` never reached"


def _event_line(event: Event) -> str:
    fix = f" `{event.fix}`" if event.fix else ""
    text = f": {_md(event.text)}" if event.text else ""
    return f"- **{event.what.value}**{fix} on {_md(event.source)}{text}"


def _tables(seen: Seen) -> tuple[str, ...]:
    return seen.broken_tables.found if seen.broken_tables else ()


def _old(seen: Seen) -> str:
    if not seen.not_reached:
        return ""
    return f" (not reached today; as of {seen.reached})" if seen.reached else " (not reached)"


def _md(text: str) -> str:
    """Text of somebody else's tree, harmless in Markdown."""
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;").replace("@", "@\N{ZERO WIDTH SPACE}")
