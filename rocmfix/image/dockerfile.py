"""The Dockerfile of an overlay: one strict template, and a check that every builder reads it alike."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from rocmfix.errors import CatalogError
from rocmfix.image.flavour import Feature, Flavour, Variable, default_folder

_TEMPLATE = "overlay.Dockerfile.j2"

_LATE_OPTIONS = "chmod|link|parents|exclude|keep-git-dir|checksum"
_NOT_EVERYWHERE = tuple(
    (re.compile(sign, re.IGNORECASE), what)
    for sign, what in (
        # Docker 23 to 28 without BuildKit report success for a heredoc in RUN and never run its body.
        (r"^\s*(RUN|COPY|ADD)\b.*<<-?[\"']?\w", "a heredoc, which the classic builder drops silently"),
        (r"^\s*RUN\b.*\s--(mount|network|security)\b", "a RUN option, which needs BuildKit"),
        (rf"^\s*(COPY|ADD)\b.*\s--({_LATE_OPTIONS})\b", "a COPY or ADD option, which needs BuildKit"),
        (r"^#\s*syntax\s*=", "a syntax line, which fetches a frontend from a hub"),
    )
)


@dataclass(frozen=True)
class Page:
    """What a template is given, and all it is given."""

    base: str
    """What FROM names: by digest, or by id where only the engine has the image."""
    flavour: Flavour
    features: tuple[tuple[str, Feature], ...]
    env: tuple[Variable, ...]
    labels: Mapping[str, str]
    has_tables: bool
    run: str
    """What compiles the kernels of the tables' rows; mostly empty."""
    tool: str


def render(page: Page, folder: Path | None = None) -> str:
    """The Dockerfile for these values, checked. Raises CatalogError when the template is wrong."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined, TemplateError

    environment = Environment(
        loader=FileSystemLoader(folder or default_folder()),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,  # noqa: S701 - a Dockerfile is not HTML; every value goes through `quoted`
    )
    environment.filters["quoted"] = quoted
    environment.globals.clear()
    try:
        text = environment.get_template(_TEMPLATE).render(vars(page))
    except TemplateError as error:
        raise CatalogError(
            f"{_TEMPLATE} cannot be rendered: {error}", hint="dockerfiles/README.md lists what a template is given"
        ) from None
    if faults := lint(text):
        raise CatalogError(
            f"{_TEMPLATE} would not build alike everywhere", details=faults, hint="use plain ADD, COPY, ENV and LABEL"
        )
    return text


def template_digest(folder: Path | None = None) -> str:
    """One digest for the template and its partials."""
    root = folder or default_folder()
    digest = hashlib.sha256()
    for path in sorted(root.rglob("*.j2")):
        digest.update(path.relative_to(root).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()


def quoted(value: str) -> str:
    """A value in double quotes that a Dockerfile takes literally: nothing in it is expanded or ends the line."""
    if any(ord(char) < 32 or ord(char) == 127 for char in value):
        raise CatalogError(f"not one line of printable text: {value[:60]!r}", hint="values are single lines")
    escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("$", "\\$")
    return f'"{escaped}"'


def lint(dockerfile: str) -> tuple[str, ...]:
    """What in a Dockerfile some builder would refuse, or worse, would skip while it says success."""
    return tuple(
        f"line {number}: {what}"
        for number, line in _instructions(dockerfile)
        for sign, what in _NOT_EVERYWHERE
        if sign.search(line)
    )


def _instructions(text: str) -> list[tuple[int, str]]:
    """Logical lines: continuations joined, numbered by their first line."""
    found: list[tuple[int, str]] = []
    parts: list[str] = []
    start = 1
    for number, line in enumerate(text.splitlines(), 1):
        if not parts:
            start = number
        if line.rstrip().endswith("\\") and not line.lstrip().startswith("#"):
            parts.append(line.rstrip()[:-1])
            continue
        if parts and line.lstrip().startswith("#"):  # a comment within a continuation is skipped by every builder
            continue
        found.append((start, " ".join([*parts, line])))
        parts = []
    return found if not parts else [*found, (start, " ".join(parts))]
