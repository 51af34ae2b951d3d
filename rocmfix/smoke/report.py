"""Turns a smoke report into a table, Markdown, and JUnit XML; pure."""

from __future__ import annotations

from collections.abc import Iterable
from xml.etree import ElementTree as ET

from rocmfix.smoke.checks.speed import rate, step_seconds
from rocmfix.smoke.records import Outcome, Rung, SmokeReport, Verdict

SIGNS = {
    Outcome.PASSED: "passed",
    Outcome.FAILED: "FAILED",
    Outcome.WARNING: "warning",
    Outcome.NOT_JUDGED: "not judged",
}


def sections(report: SmokeReport) -> tuple[tuple[str, tuple[Verdict, ...]], ...]:
    """The verdicts by where they belong: the machine and checkpoint, then each depth."""
    before = (("before", report.before),) if report.before else ()
    return before + tuple((rung.depth.label, rung.verdicts) for rung in report.rungs)


def headline(report: SmokeReport) -> str:
    """The result in one line."""
    counts = dict.fromkeys(Outcome, 0)
    for verdict in report.verdicts:
        counts[verdict.outcome] += 1
    result = "passed" if report.is_passed else "FAILED"
    tally = ", ".join(f"{count} {outcome.value}" for outcome, count in counts.items() if count)
    return f"smoke {result}: {tally}"


def table(report: SmokeReport) -> str:
    """A plain table for a terminal: one line a verdict, failures followed by why and what to do."""
    rows = [(where, verdict) for where, verdicts in sections(report) for verdict in verdicts]
    wide = max((len(verdict.check) for _, verdict in rows), default=5)
    lines = []
    for where, verdict in rows:
        value = verdict.measured or verdict.reason
        bound = f"  [{verdict.bound}]" if verdict.bound else ""
        lines.append(f"{where:<8} {verdict.check:<{wide}}  {SIGNS[verdict.outcome]:<10}  {value}{bound}")
        if verdict.outcome in {Outcome.FAILED, Outcome.WARNING}:
            lines.append(f"{'':<9}{'':<{wide}}  why: {verdict.reason}")
            lines.append(f"{'':<9}{'':<{wide}}  do:  {verdict.advice}")
    # What a server said may hold escape sequences, which a terminal would obey.
    return "\n".join([*map(printable, lines), "", headline(report)])


def markdown(report: SmokeReport, explanations: dict[str, str]) -> str:
    """The report for people: what was tested, what failed first, then everything, then what it does not prove."""
    parts = [f"# {headline(report)}", "", *_tested(report), *_failures(report)]
    for where, verdicts in sections(report):
        parts += [f"## {where}", "", "| check | result | measured | bound | why |", "|---|---|---|---|---|"]
        parts += [
            f"| {verdict.check} | {SIGNS[verdict.outcome]} | {_cell(verdict.measured)} | {_cell(verdict.bound)} "
            f"| {_cell(verdict.reason)} |"
            for verdict in verdicts
        ]
        parts.append("")
    parts += [*_speeds(report.rungs), *_stacks(report.rungs), *_unproved(report)]
    used = dict.fromkeys(verdict.check for verdict in report.verdicts)
    parts += ["## What each check asks", ""]
    parts += [f"- **{name}**: {explanations[name]}" for name in used if name in explanations]
    return "\n".join(parts) + "\n"


def junit(report: SmokeReport) -> str:
    """JUnit XML: a suite a depth, a case a check. A warning passes with its text in system-out."""
    root = ET.Element("testsuites", name="rocmfix smoke", time=f"{report.seconds:.3f}")
    for where, verdicts in sections(report):
        suite = ET.SubElement(root, "testsuite", name=f"smoke.{where}", tests=str(len(verdicts)))
        suite.set("failures", str(sum(verdict.outcome is Outcome.FAILED for verdict in verdicts)))
        suite.set("skipped", str(sum(verdict.outcome is Outcome.NOT_JUDGED for verdict in verdicts)))
        for verdict in verdicts:
            _case(suite, where, verdict)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + ET.tostring(root, encoding="unicode") + "\n"


def _case(suite: ET.Element, where: str, verdict: Verdict) -> None:
    case = ET.SubElement(suite, "testcase", classname=f"smoke.{where}", name=verdict.check)
    text = printable(f"measured {verdict.measured}; bound {verdict.bound}; {verdict.reason}")
    if verdict.outcome is Outcome.FAILED:
        ET.SubElement(case, "failure", message=text).text = printable(verdict.advice)
    elif verdict.outcome is Outcome.NOT_JUDGED:
        ET.SubElement(case, "skipped", message=printable(verdict.reason))
    else:
        ET.SubElement(case, "system-out").text = text


def printable(text: str) -> str:
    """XML 1.0 has no place for control characters, and garbage output is full of them."""
    return "".join(char if char in "\t\n" or char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in text)


def _tested(report: SmokeReport) -> Iterable[str]:
    subject = report.subject
    facts = {
        "image": subject.image,
        "digest": ", ".join(subject.digests) or subject.image_id,
        "model": subject.model,
        "flavour": subject.flavour,
        "device": subject.device,
        "server": ", ".join(subject.urls) or None,
        "sglang": next((rung.info.version for rung in report.rungs if rung.info), None),
        "started": report.started,
        "took": f"{report.seconds:.0f} s",
    }
    yield from (f"- {name}: {_cell(value)}" for name, value in facts.items() if value)
    yield ""


def _failures(report: SmokeReport) -> Iterable[str]:
    failures = [
        (where, verdict)
        for where, verdicts in sections(report)
        for verdict in verdicts
        if verdict.outcome is Outcome.FAILED
    ]
    for where, verdict in failures:
        found = f"{_cell(verdict.measured)}. {_cell(verdict.reason)}"
        yield f"- **{where}, {verdict.check}**: {found}. Do: {verdict.advice}"
    if failures:
        yield ""


def _speeds(rungs: tuple[Rung, ...]) -> Iterable[str]:
    rows = []
    for rung in rungs:
        heard = rung.answer("solo")
        if heard is None or heard.failed:
            continue
        step = step_seconds(heard)
        length = f"{heard.completion_tokens / heard.verifies:.3f}" if heard.verifies else ""
        histogram = list(heard.histogram(rung.depth.steps)) if heard.verifies else ""
        rows.append(
            f"| {rung.depth.label} | {rate(heard):.1f} | {step * 1000 if step else 0:.2f} | {length} | {histogram} |"
        )
    if rows:
        yield from (
            "## One stream",
            "",
            "| depth | tok/s | step ms | accept length | histogram |",
            "|---|---|---|---|---|",
        )
        yield from rows
        yield ""


def _unproved(report: SmokeReport) -> Iterable[str]:
    unproved = [*report.unproved, *([f"checks left out: {', '.join(report.left_out)}"] if report.left_out else [])]
    if unproved:
        yield from ("## What this does not prove", "", *(f"- {text}" for text in unproved), "")


def _stacks(rungs: tuple[Rung, ...]) -> Iterable[str]:
    for rung in rungs:
        if rung.stacks:
            lines = [
                f"    {printable(line)}" for line in rung.stacks.splitlines()
            ]  # indented: no fence to break out of
            yield from (f"## Stacks of the hang at {rung.depth.label}", "", *lines, "")


def _cell(text: object) -> str:
    """Text for a Markdown table, with what a server said kept from being markup."""
    return printable(str(text)).replace("|", "\\|").replace("<", "&lt;").replace("\n", " ")
