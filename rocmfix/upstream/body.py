"""Writes a pull request's title and text from what is known, and marks what is not as a TODO."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from rocmfix.catalog import Fix
from rocmfix.model import Status, Verdict
from rocmfix.patchfile import Patch
from rocmfix.upstream.records import Evidence, FileProof, HookResult, HookState, Measured, Proof, Side
from rocmfix.upstream.template import Filled, Part, fill

_TRAILER = re.compile(r"^[A-Z][A-Za-z-]+: .*$", re.MULTILINE)
_SMOKE = "`rocmfix smoke IMAGE --model DIR --depth 3,4,5`"


@dataclass(frozen=True)
class Facts:
    """All that a pull request can say."""

    project: str
    base: str
    fix: Fix
    patch: Patch
    verdict: Verdict
    files: tuple[FileProof, ...]
    hooks: tuple[HookResult, ...]
    evidence: tuple[Evidence, ...]


@dataclass(frozen=True)
class Text:
    """A pull request's text, and what a person still has to add to it."""

    title: str
    body: str
    todo: tuple[str, ...]


def write(facts: Facts, template: str | None) -> Text:
    """The pull request for `facts`, in upstream's template or, where there is none, in plain sections."""
    todo = list(_todo(facts))
    parts = {
        Part.MOTIVATION: "\n\n".join(_motivation(facts)),
        Part.MODIFICATIONS: "\n".join(_modifications(facts)),
        Part.ACCURACY: _measurements(facts, is_speed=False),
        Part.SPEED: _measurements(facts, is_speed=True),
        Part.TESTING: "\n".join(_testing(facts)),
    }
    filled = fill(template, parts, _is_done(facts)) if template else _plain(parts)
    todo += [f"upstream's template has a section for which nothing is known here: {name}" for name in filled.unknown]
    return Text(title_of(facts.project, facts.patch.subject), filled.text, tuple(todo))


def title_of(project: str, subject: str) -> str:
    """`subject` as upstream's pull requests are called: sglang's start with [AMD]; all of aiter is AMD's."""
    if subject.startswith("["):
        return subject
    plain = re.sub(r"^(?:ROCm|HIP|AMD): *", "", subject)
    plain = plain[:1].upper() + plain[1:]
    return f"[AMD] {plain}" if project == "sglang" else plain


def message_of(project: str, patch: Patch, committer: str) -> str:
    """The commit's message: author's words and sign-off kept, the committer's sign-off added."""
    body = patch.body.rstrip()
    own = f"Signed-off-by: {committer}"
    return f"{title_of(project, patch.subject)}\n\n{body}\n" + ("" if own in body.splitlines() else f"{own}\n")


def reason_of(patch: Patch) -> tuple[str, ...]:
    """The paragraphs of why, each on one line: GitHub would keep the patch's line ends."""
    text = _TRAILER.sub("", patch.body).strip()
    return tuple(paragraph if _is_set(paragraph) else " ".join(paragraph.split()) for paragraph in text.split("\n\n"))


def _is_set(paragraph: str) -> bool:
    """Whether line ends matter in it: a list, or indented text."""
    return bool(re.search(r"^(?:\s{2,}|[-*] )", paragraph, re.MULTILINE))


def _motivation(facts: Facts) -> Iterator[str]:
    yield from reason_of(facts.patch)
    where = f"`{facts.verdict.file}`" + (f", line {facts.verdict.line}" if facts.verdict.line else "")
    if facts.verdict.file:
        yield f"Seen on `{facts.base}` in {where}."
    pr = facts.fix.upstream.pr
    if pr:
        yield f"{_STANDS[facts.fix.upstream.status]} {pr}."


_STANDS = {
    Status.MERGED: "This brings to an older branch what main has since",
    Status.SUBMITTED: "The same defect is addressed by",
    Status.REJECTED: "An earlier attempt, which was closed:",
    Status.LOCAL: "See",
}


def _modifications(facts: Facts) -> Iterator[str]:
    yield f"{title_of('', facts.patch.subject).rstrip('.')}:"
    yield ""
    for file in facts.files:
        yield f"- `{file.path}` (+{file.added} -{file.removed})"
    yield ""
    yield "What CUDA runs:"
    yield ""
    for file in facts.files:
        yield f"- `{file.path}`: **{_SHOWN[file.cuda]}** ({file.why})"
    for record in facts.evidence:
        if record.kind == "compile":
            yield from (f"- compiled: {value.what} {value.value}" for value in record.values)


_SHOWN = {
    Proof.SAME: "unchanged",
    Proof.CHANGED: "changed, please review it as such",
    Proof.UNKNOWN: "not proved",
}


def _testing(facts: Facts) -> Iterator[str]:
    yield from (f"- {hook.hook} {hook.pin}: {hook.state.value}" for hook in facts.hooks if hook.state in _JUDGED)
    if not _records(facts):
        yield f"- {_todo_mark('a run on real hardware, before and after')}"
    for record in _records(facts):
        yield f"- {record.kind}, {record.side.value} the change: {_where(record)}"


_JUDGED = (HookState.CLEAN, HookState.WOULD_CHANGE, HookState.BEFORE_TOO)


def _measurements(facts: Facts, *, is_speed: bool) -> str:
    """A table of both sides, and a visible TODO for a side that was not measured."""
    kind = "speed" if is_speed else "accuracy"
    rows = _table(facts.evidence, is_speed=is_speed)
    missing = _missing_sides(facts, is_speed=is_speed)
    lines = ["| measured | before | after |", "|---|---|---|", *rows] if rows else []
    lines += [""] if rows else []
    lines += [f"- {_todo_mark(f'{kind} {side.value} the change')}" for side in missing]
    if rows:
        lines += ["", *(f"- {record.side.value}: {_where(record)}" for record in _records(facts))]
    return "\n".join(lines).strip()


def _table(evidence: Iterable[Evidence], *, is_speed: bool) -> list[str]:
    rows: dict[str, dict[Side, Measured]] = {}
    for record in evidence:
        if record.kind != "compile":
            for value in record.values:
                if value.is_speed is is_speed:
                    rows.setdefault(value.what, {})[record.side] = value
    return [
        f"| {_cell(what)} | {_shown(by.get(Side.BEFORE))} | {_shown(by.get(Side.AFTER))} |" for what, by in rows.items()
    ]


def _shown(value: Measured | None) -> str:
    if value is None:
        return "not measured"
    verdict = f" ({value.outcome}, bound {value.bound})" if value.bound and value.outcome else ""
    return _cell(value.value + verdict)


def _cell(text: str) -> str:
    """Text from a record, harmless inside a table."""
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")


def _where(record: Evidence) -> str:
    """The image, GPU and flags of a record: without them a number is worth nothing to a reviewer."""
    known = {
        "image": record.image,
        "digest": record.digest,
        "GPU": f"{len(record.gpus)}x {', '.join(sorted(set(record.gpus)))}" if record.gpus else None,
        "sglang": record.release,
    }
    said = ", ".join(f"{name} {_cell(value)}" for name, value in known.items() if value) or "image and GPU not recorded"
    return said + "".join(f"\n  - `{' '.join(command.split())}`" for command in record.commands)


def _todo(facts: Facts) -> Iterator[str]:
    for is_speed in (False, True):
        for side in _missing_sides(facts, is_speed=is_speed):
            yield f"{'speed' if is_speed else 'accuracy'} {side.value} the change, on real hardware: {_SMOKE}"
    for record in _records(facts):
        lacks = [name for name, value in (("image", record.image), ("GPU", record.gpus)) if not value]
        if lacks:
            yield f"{record.file} does not say its {' and '.join(lacks)}"
    yield from (
        f"{hook.hook} {hook.pin} would change the files" for hook in facts.hooks if hook.state is HookState.WOULD_CHANGE
    )


def _missing_sides(facts: Facts, *, is_speed: bool) -> tuple[Side, ...]:
    there = {record.side for record in _records(facts) for value in record.values if value.is_speed is is_speed}
    return tuple(side for side in Side if side not in there)


def _records(facts: Facts) -> tuple[Evidence, ...]:
    return tuple(record for record in facts.evidence if record.kind != "compile")


def _todo_mark(what: str) -> str:
    return f"**TODO** {what}: not measured yet (image tag, GPU and flags with it)"


def _is_done(facts: Facts) -> Callable[[str], bool]:
    """Which boxes of the checklist may be ticked: those that were seen to be so, and no others."""
    ran = [hook for hook in facts.hooks if hook.state is not HookState.NO_FILES]
    formatted = bool(ran) and all(hook.state is HookState.CLEAN for hook in ran)
    tested = any(re.search(r"(^|/)tests?/", file.path) for file in facts.files)
    measured = not any(_missing_sides(facts, is_speed=is_speed) for is_speed in (False, True))

    def is_done(box: str) -> bool:
        if re.search(r"format|pre-?commit|lint|style", box, re.IGNORECASE):
            return formatted
        if re.search(r"unit test|add.*test", box, re.IGNORECASE):
            return tested
        return measured and bool(re.search(r"benchmark|accuracy|speed", box, re.IGNORECASE))

    return is_done


def _plain(parts: dict[Part, str]) -> Filled:
    sections = (f"## {part.value.capitalize()}\n\n{text}" for part, text in parts.items() if text)
    return Filled("\n\n".join(sections) + "\n", ())
