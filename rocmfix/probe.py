"""Probes: the small questions a catalogue asks of a tree's content, and how each is answered."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, TypeAlias

from pydantic import AfterValidator, BeforeValidator, Discriminator, Field, Tag, model_validator

from rocmfix.guards.conditionals import HIP, include_state
from rocmfix.hunks import Read
from rocmfix.model import Record
from rocmfix.patchfile import safe_path
from rocmfix.pattern import PatternError, compile_pattern, search


@dataclass(frozen=True)
class Answer:
    """Whether a probe holds, where that was seen (line 1-based), and in what words to say it."""

    holds: bool
    file: str | None = None
    line: int | None = None
    why: str = ""


def _as_tuple(value: object) -> object:
    return (value,) if isinstance(value, str) else value


def _checked_paths(paths: tuple[str, ...]) -> tuple[str, ...]:
    bad = [path for path in paths if not safe_path(path)]
    if bad or not paths:
        raise ValueError(f"leaves the tree: {bad[0]}" if bad else "names no path")
    return paths


def _checked_pattern(pattern: str) -> str:
    try:
        compile_pattern(pattern)
    except PatternError as error:
        raise ValueError(str(error)) from error
    return pattern


Paths: TypeAlias = Annotated[tuple[str, ...], BeforeValidator(_as_tuple), AfterValidator(_checked_paths)]
"""One repository path, or alternatives of which the first that exists is meant (files move between releases)."""
Pattern: TypeAlias = Annotated[str, AfterValidator(_checked_pattern)]
"""A Python pattern: see `rocmfix.pattern.compile_pattern`."""


class _OnFile(Record):
    note: str | None = None
    """Why this matters, in the words of the verdict's reason."""
    within: Paths | None = Field(default=None, alias="in")
    """The file asked; by default the one that the fix's first `file` probe found."""


class FileProbe(Record):
    """`{ file = PATH }`: the tree has this file (of a list: one of them)."""

    file: Paths
    note: str | None = None


class GuardProbe(_OnFile):
    """`{ include_guarded = "x.h" }`: the file includes x.h, and never when compiled as HIP with USE_ROCM."""

    include_guarded: str


class TextProbe(_OnFile):
    """`{ text = "..." }`: the file contains this text. Only for what is not Python; Python has `python`."""

    text: Annotated[str, Field(min_length=3)]


class PythonProbe(_OnFile):
    """`{ python = "Class.method", has = PATTERN }`: that scope exists, and has (or lacks) a piece of such a shape."""

    python: str
    has: Pattern | None = None
    lacks: Pattern | None = None
    under: Pattern | None = None
    """Search only bodies of `if`s with this test."""

    @model_validator(mode="after")
    def _one_question(self) -> PythonProbe:
        if self.has and self.lacks:
            raise ValueError("asks for `has` and `lacks` at once: write two probes")
        if not self.python and not (self.has or self.lacks):
            raise ValueError('the scope "" (the whole module) always exists: say what it has or lacks')
        if self.under and not (self.has or self.lacks):
            raise ValueError("`under` narrows `has` or `lacks`, and there is neither")
        return self


class NotProbe(Record):
    """`{ not = PROBE }`: the probe does not hold."""

    inner: Probe = Field(alias="not")
    note: str | None = None


class AnyProbe(Record):
    """`{ any = [...] }`: at least one of the probes holds."""

    inner: Annotated[tuple[Probe, ...], Field(min_length=2)] = Field(alias="any")
    note: str | None = None


class AllProbe(Record):
    """`{ all = [...] }`: all of the probes hold. A probe list is all-of already; this is for inside `any`."""

    inner: Annotated[tuple[Probe, ...], Field(min_length=2)] = Field(alias="all")
    note: str | None = None


_KINDS = ("file", "include_guarded", "text", "python", "not", "any", "all")


def _kind(value: Any) -> str | None:
    keys = value if isinstance(value, dict) else value.model_dump(by_alias=True, exclude_none=True)
    found = [kind for kind in _KINDS if kind in keys]
    return found[0] if len(found) == 1 else None


Probe: TypeAlias = Annotated[
    Annotated[FileProbe, Tag("file")]
    | Annotated[GuardProbe, Tag("include_guarded")]
    | Annotated[TextProbe, Tag("text")]
    | Annotated[PythonProbe, Tag("python")]
    | Annotated[NotProbe, Tag("not")]
    | Annotated[AnyProbe, Tag("any")]
    | Annotated[AllProbe, Tag("all")],
    Discriminator(
        _kind,
        custom_error_type="probe",
        custom_error_message="a probe has exactly one of the keys " + ", ".join(_KINDS),
    ),
]


def subject_of(probes: tuple[Probe, ...]) -> Paths:
    """The file that probes mean when they name none: that of the first `file` probe."""
    for probe in probes:
        if isinstance(probe, FileProbe):
            return probe.file
        if isinstance(probe, (AnyProbe, AllProbe)) and (inner := subject_of(probe.inner)):
            return inner
    return ()


def ask_all(probes: tuple[Probe, ...], read: Read, subject: Paths) -> Answer:
    """Whether all of `probes` hold; the answer of the first that does not, else of the first with a line."""
    answers: list[Answer] = []
    for probe in probes:
        answers.append(ask(probe, read, subject))
        if not answers[-1].holds:
            return answers[-1]
    return next((answer for answer in answers if answer.line), answers[0] if answers else Answer(holds=True))


def ask(probe: Probe, read: Read, subject: Paths) -> Answer:
    """Answer one probe from the files `read` gives."""
    answer = _answer(probe, read, subject)
    return Answer(answer.holds, answer.file, answer.line, probe.note) if probe.note else answer


def _answer(probe: Probe, read: Read, subject: Paths) -> Answer:
    match probe:
        case FileProbe():
            return _file(probe, read)
        case NotProbe():
            inner = ask(probe.inner, read, subject)
            return Answer(not inner.holds, inner.file, inner.line, inner.why)
        case AnyProbe():
            first = ask(probe.inner[0], read, subject)
            others = (ask(each, read, subject) for each in probe.inner[1:])
            return first if first.holds else next((each for each in others if each.holds), first)
        case AllProbe():
            return ask_all(probe.inner, read, subject)
        case GuardProbe() | TextProbe() | PythonProbe():
            return _in_file(probe, read, probe.within or subject)


def _file(probe: FileProbe, read: Read) -> Answer:
    for path in probe.file:
        if read(path) is not None:
            return Answer(True, path, None, "the file is there")
    return Answer(False, None, None, f"no {' or '.join(probe.file)}")


def _in_file(probe: GuardProbe | TextProbe | PythonProbe, read: Read, paths: Paths) -> Answer:
    for path in paths:
        data = read(path)
        if data is not None:
            text = data.decode("utf-8", "replace").replace("\r\n", "\n")
            return _ASKED[type(probe)](probe, path, text)
    return Answer(False, None, None, f"no {' or '.join(paths)}")


def _guarded(probe: GuardProbe, path: str, text: str) -> Answer:
    states = include_state(text, probe.include_guarded, HIP)
    if not states:
        return Answer(False, path, None, f"no include of {probe.include_guarded}")
    open_ones = [state for state in states if state.active is not False]
    why = f"{probe.include_guarded} is included {'unguarded' if open_ones else 'for CUDA only'}"
    return Answer(not open_ones, path, (open_ones or states)[0].line, why)


def _text(probe: TextProbe, path: str, text: str) -> Answer:
    at = text.find(probe.text)
    if at < 0:
        return Answer(False, path, None, f"no {probe.text!r}")
    return Answer(True, path, text.count("\n", 0, at) + 1, f"has {probe.text!r}")


def _python(probe: PythonProbe, path: str, text: str) -> Answer:
    found = search(text, probe.python, probe.has or probe.lacks, probe.under)
    scope = probe.python or "the module"
    if found.scope_line is None:
        return Answer(False, path, None, f"no {scope}")
    what = probe.has or probe.lacks
    if what is None:
        return Answer(True, path, found.scope_line, f"{scope} is there")
    seen = found.match_line is not None
    words = f"{scope} {'has' if seen else 'has no'} `{what}`" + (f" under `{probe.under}`" if probe.under else "")
    return Answer(seen == bool(probe.has), path, found.match_line or found.scope_line, words)


_ASKED: dict[type, Callable[[Any, str, str], Answer]] = {
    GuardProbe: _guarded,
    TextProbe: _text,
    PythonProbe: _python,
}
