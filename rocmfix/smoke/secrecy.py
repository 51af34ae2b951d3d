"""Keeps keys and tokens out of what is shown and stored: commands, reports, logs; pure but for the logs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, TypeVar

from rocmfix.model import Record
from rocmfix.smoke.plan import SmokePlan
from rocmfix.system.files import write_atomic
from rocmfix.system.redact import MASK, names_secret, redact

FLAGS = ("--api-key", "--admin-api-key", "--ssl-keyfile-password")
SHORTEST = 4
"""A shorter value is no secret, and would star out half a report."""

R = TypeVar("R", bound=Record)


def secrets_of(plan: SmokePlan, bearer: str | None = None) -> tuple[str, ...]:
    """The values of a plan that nothing shown or stored may hold. sglang logs its arguments, its key among them."""
    given = [value for _, value in _given(plan.args, FLAGS)]
    named = [value for name, value in plan.env if names_secret(name)]
    return tuple(value for value in (*given, *named, bearer or "") if len(value) >= SHORTEST)


def key_of(args: tuple[str, ...]) -> str | None:
    """The key that a server started with these arguments wants."""
    found = [value for _, value in _given(args, ("--api-key",))]
    return found[-1] if found else None


def redacted(command: tuple[str, ...]) -> tuple[str, ...]:
    """A command with its secrets starred out."""
    starred = list(command)
    for place, value in _given(command, FLAGS):
        starred[place] = command[place].removesuffix(value) + MASK
    return tuple(starred)


def scrubbed(record: R, secrets: tuple[str, ...]) -> R:
    """The record without these secrets in any of its texts."""
    return type(record).model_validate(_scrub(record.model_dump(), secrets)) if secrets else record


def scrub_logs(logs: Iterable[Path], secrets: tuple[str, ...]) -> None:
    """Rewrite those logs that hold a secret."""
    for log in logs:
        text = log.read_text(encoding="utf-8", errors="surrogateescape")
        if any(secret in text for secret in secrets):
            write_atomic(log, redact(text, secrets).encode("utf-8", errors="surrogateescape"))


def _scrub(value: Any, secrets: tuple[str, ...]) -> Any:
    if type(value) is str:
        return redact(value, secrets)
    if isinstance(value, dict):
        return {name: _scrub(each, secrets) for name, each in value.items()}
    return tuple(_scrub(each, secrets) for each in value) if isinstance(value, tuple | list) else value


def _given(words: tuple[str, ...], flags: tuple[str, ...]) -> Iterator[tuple[int, str]]:
    """Each value of one of `flags`, with its place: `--api-key SECRET` or `--api-key=SECRET`."""
    for place, (before, word) in enumerate(zip(("", *words), words, strict=False)):
        name, _, value = word.partition("=")
        if before in flags:
            yield place, word
        elif value and name in flags:
            yield place, value
