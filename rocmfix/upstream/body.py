"""Writes a pull request's title and text from what is known, and marks what is not as a TODO."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from rocmfix.catalog import Fix
from rocmfix.model import Status, Verdict
from rocmfix.patchfile import Patch
from rocmfix.upstream import measurements
from rocmfix.upstream.records import Evidence, FileProof, HookResult, HookState, Proof, Shows
from rocmfix.upstream.template import Filled, Part, fill

_TRAILER = re.compile(r"^[A-Z][A-Za-z-]+: .*$", re.MULTILINE)


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
        Part.ACCURACY: measurements.section(facts.evidence, Shows.ACCURACY),
        Part.SPEED: measurements.section(facts.evidence, Shows.SPEED),
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
    paths = [file.path for file in facts.files]
    yield from (f"- {told}" for told in measurements.for_cuda(facts.evidence, paths))
    gate = tuple(measurements.compiled(facts.evidence, paths))
    yield from ("", *gate) if gate else ()


_SHOWN = {
    Proof.SAME: "unchanged",
    Proof.CHANGED: "changed, please review it as such",
    Proof.UNKNOWN: "not proved",
}


def _testing(facts: Facts) -> Iterator[str]:
    yield from (f"- {hook.hook} {hook.pin}: {hook.state.value}" for hook in facts.hooks if hook.state in _JUDGED)
    records = measurements.served(facts.evidence)
    if not records:
        yield f"- {measurements.todo_mark('a run on real hardware, before and after')}"
    for record in records:
        yield f"- {record.kind}, {record.side.value} the change: {measurements.where(record)}"


_JUDGED = (HookState.CLEAN, HookState.WOULD_CHANGE, HookState.BEFORE_TOO)


def _todo(facts: Facts) -> Iterator[str]:
    yield from measurements.todo(facts.evidence)
    yield from (
        f"{hook.hook} {hook.pin} would change the files" for hook in facts.hooks if hook.state is HookState.WOULD_CHANGE
    )


def _is_done(facts: Facts) -> Callable[[str], bool]:
    """Which boxes of the checklist may be ticked: those that were seen to be so, and no others."""
    ran = [hook for hook in facts.hooks if hook.state is not HookState.NO_FILES]
    formatted = bool(ran) and all(hook.state is HookState.CLEAN for hook in ran)
    tested = any(re.search(r"(^|/)tests?/", file.path) for file in facts.files)
    measured = not any(measurements.missing(facts.evidence, shows) for shows in (Shows.ACCURACY, Shows.SPEED))

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
