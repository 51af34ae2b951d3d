"""Fills upstream's own pull-request template, whatever sections it has today."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum

PATHS = (
    ".github/pull_request_template.md",
    ".github/PULL_REQUEST_TEMPLATE.md",
    "PULL_REQUEST_TEMPLATE.md",
    "docs/pull_request_template.md",
)
"""Where GitHub looks for one."""


class Part(str, Enum):
    """What a section of a template asks for, told by its heading."""

    MOTIVATION = "motivation"
    MODIFICATIONS = "modifications"
    ACCURACY = "accuracy"
    SPEED = "speed"
    TESTING = "testing"
    CHECKLIST = "checklist"


# The first that matches a heading decides: "Benchmark & Profiling" is speed, "Test Plan" is testing.
_HEADINGS = (
    (Part.CHECKLIST, r"check-?list"),
    (Part.MOTIVATION, r"motivation|purpose|problem|why"),
    (Part.MODIFICATIONS, r"modification|technical details|changes|description|what"),
    (Part.ACCURACY, r"accuracy|test result"),
    (Part.SPEED, r"speed|benchmark|profil|performance|throughput"),
    (Part.TESTING, r"\btest"),
)
_PROCESS = re.compile(r"review|merge|process|ci states?", re.IGNORECASE)
_COMMENT = re.compile(r"<!--.*?-->\n?", re.DOTALL)


@dataclass(frozen=True)
class Filled:
    """The text of a pull request, and the headings of upstream's that nobody here can fill."""

    text: str
    unknown: tuple[str, ...]


def fill(template: str, parts: Mapping[Part, str], is_done: Callable[[str], bool]) -> Filled:
    """`template` with each section it has filled, in its order; what it does not ask for goes behind them.

    `is_done` is asked for each box of a checklist. Sections about the review stay as they are.
    """
    preface, *sections = re.split(r"^(?=#{1,3} )", template, flags=re.MULTILINE)
    used: set[Part] = set()
    unknown: list[str] = []
    texts = [_COMMENT.sub("", preface).strip()]
    for section in sections:
        heading, _, rest = section.partition("\n")
        part = _part(heading, used)
        if part is Part.CHECKLIST:
            texts.append(f"{heading}\n\n{_ticked(rest, is_done).strip()}")
        elif part is not None:
            texts.append(f"{heading}\n\n{parts[part]}")
        elif _PROCESS.search(heading):
            texts.append(section.strip())
        else:
            unknown.append(heading.lstrip("# "))
            texts.append(f"{heading}\n\n> **TODO** upstream's template asks for this\n\n{rest.strip()}".strip())
        used |= {part} if part else set()
    late = [part for part in parts if part not in used and parts[part] and part is not Part.TESTING]
    place = _before_checklist(texts)
    texts[place:place] = [f"## {part.value.capitalize()}\n\n{parts[part]}" for part in late]
    return Filled("\n\n".join(filter(None, texts)) + "\n", tuple(unknown))


def _part(heading: str, used: set[Part]) -> Part | None:
    if _PROCESS.search(heading):
        return None
    return next(
        (part for part, words in _HEADINGS if part not in used and re.search(words, heading, re.IGNORECASE)), None
    )


def _before_checklist(texts: list[str]) -> int:
    closing = (i for i, text in enumerate(texts) if i and re.match(r"#+ .*(check-?list|review)", text, re.IGNORECASE))
    return next(closing, len(texts))


def _ticked(checklist: str, is_done: Callable[[str], bool]) -> str:
    lines = []
    for line in _COMMENT.sub("", checklist).splitlines():
        box = re.match(r"(\s*[-*] )\[ \] (.*)", line)
        lines.append(f"{box[1]}[x] {box[2]}" if box and is_done(box[2]) else line)
    return "\n".join(lines)
