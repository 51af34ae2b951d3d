"""Names why a server did not start, died, or is slow, from its log and its end; pure."""

from __future__ import annotations

import re
import sys
from collections import deque
from functools import cache
from importlib.resources import files

from rocmfix.model import Record
from rocmfix.smoke.logs import signatures
from rocmfix.smoke.records import Cause, Exit, LogFacts

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


class KnownCause(Record):
    """A cause and the text that tells it; `fatal_while_alive` marks those after which sglang does not exit."""

    id: str
    text: str
    why: str
    fix: str
    source: str
    fatal_while_alive: bool = False


class _File(Record):
    cause: tuple[KnownCause, ...]


@cache
def known_causes() -> tuple[KnownCause, ...]:
    """The shipped causes; the first that fits decides, so particular ones stand before general ones."""
    text = files("rocmfix.smoke").joinpath("causes.toml").read_text(encoding="utf-8")
    return _File.model_validate(tomllib.loads(text)).cause


@cache
def _patterns() -> tuple[tuple[KnownCause, re.Pattern[str]], ...]:
    return tuple((cause, re.compile(cause.text, re.MULTILINE)) for cause in known_causes())


def diagnose(log: str, exit: Exit | None = None) -> Cause | None:  # noqa: A002 - the field's word
    """The cause a log tells, else the one its end tells; None when neither is known."""
    log = _NOISE.sub("", log)
    for cause, pattern in _patterns():
        matches = deque(pattern.finditer(log), maxlen=1)  # the last: a traceback quotes its source first
        if matches:
            return _told(cause, _line(log, matches[0].end() - 1))
    return _from_exit(exit) if exit else None


# sglang imports every model module at start and goes on without those that fail.
_NOISE = re.compile(r"^.*(?:Ignore import error when loading|OpenAI Responses API .* disabled).*$", re.MULTILINE)


def is_stuck(log: str) -> Cause | None:
    """A cause after which the server stays alive for ever and never serves, such as a taken port."""
    for cause, pattern in _patterns():
        if cause.fatal_while_alive and (match := pattern.search(log)):
            return _told(cause, _line(log, match.end() - 1))
    return None


def advice_for(log: LogFacts | None) -> str:
    """What to do about slowness: the fix of the gravest signature in the log."""
    met = {finding.signature for finding in log.findings} if log else set()
    told = next((signature for signature in signatures() if signature.id in met and signature.is_failure), None)
    if told:
        return f"{told.why}: {told.fix}"
    return "nothing in the log tells why: look for a host sync or an eager step with a profile (/start_profile)"


def _from_exit(exit: Exit) -> Cause | None:  # noqa: A002
    if exit.out_of_memory:
        return Cause(
            id="container-memory",
            why="the kernel's OOM killer ended it: host memory, not VRAM",
            fix="give the container more memory, or load with fewer workers (--model-loader-extra-config)",
        )
    if exit.code in {137, -9}:
        return Cause(
            id="killed",
            why="SIGKILL from outside, with no error in the log",
            fix="dmesg tells an OOM kill of the host; a batch system tells its own limit",
        )
    return None


def _told(cause: KnownCause, line: str) -> Cause:
    return Cause(id=cause.id, why=cause.why, fix=cause.fix, line=line, source=cause.source)


def _line(log: str, at: int) -> str:
    start = log.rfind("\n", 0, at) + 1
    end = log.find("\n", at)
    return log[start : end if end >= 0 else None].strip()[:300]
