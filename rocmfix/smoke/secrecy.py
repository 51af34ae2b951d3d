"""Keeps keys and tokens out of what is shown and stored: commands, reports, logs; pure but for the logs."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any, TypeVar

from rocmfix.model import Record
from rocmfix.smoke.plan import SmokePlan
from rocmfix.system.files import write_atomic
from rocmfix.system.redact import MASK, redact

FLAGS = ("--api-key", "--admin-api-key", "--ssl-keyfile-password")
NAME = re.compile(r"(?:^|_)(?:KEY|TOKEN|SECRET|PASSWORD|PASSPHRASE)$", re.IGNORECASE)
"""The end of a secret variable's name: HF_TOKEN, but not TOKENIZERS_PARALLELISM."""
SHORTEST = 4
"""A shorter value is no secret, and would star out half a report."""

R = TypeVar("R", bound=Record)


def secrets_of(plan: SmokePlan, bearer: str | None = None) -> tuple[str, ...]:
    """The values of a plan that nothing shown or stored may hold. sglang logs its arguments, its key among them."""
    words = zip(("", *plan.args), plan.args, strict=False)
    given = [word if before in FLAGS else _inline(word) for before, word in words]
    named = [value for name, value in plan.env if NAME.search(name)]
    return tuple(value for value in (*given, *named, bearer or "") if len(value) >= SHORTEST)


def key_of(args: tuple[str, ...]) -> str | None:
    """The key that a server started with these arguments wants."""
    pairs = zip(("", *args), args, strict=False)
    found = [word if before == "--api-key" else word.partition("=")[2] for before, word in pairs
             if before == "--api-key" or word.startswith("--api-key=")]  # fmt: skip
    return found[-1] if found else None


def redacted(command: tuple[str, ...]) -> tuple[str, ...]:
    """A command with its secrets starred out."""
    return tuple(
        MASK if place and command[place - 1] in FLAGS
        else f"{word.partition('=')[0]}={MASK}" if _inline(word)
        else word
        for place, word in enumerate(command)
    )  # fmt: skip


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


def _inline(word: str) -> str:
    """The secret in `--api-key=SECRET`."""
    name, _, value = word.partition("=")
    return value if name in FLAGS else ""
