"""Every error a user can meet: what happened, where, what to do next, and one exit code a class."""

from __future__ import annotations

from typing import IO, Any

import click

from rocmfix.shown import shown


class RocmfixError(click.ClickException):
    """Base of all user-facing errors.

    `message` says what and where; `details` are lines shown under it as they are; `hint` says what to do next.
    """

    exit_code = 1

    def __init__(self, message: str, *, details: tuple[str, ...] = (), hint: str | None = None) -> None:
        super().__init__(message)
        self.details = details
        self.hint = hint

    def show(self, file: IO[Any] | None = None) -> None:
        """Print to stderr (or `file`) in three parts."""
        lines = [f"Error: {self.message}", *(f"  {line}" for line in self.details)]
        if self.hint:
            lines.append(f"  hint: {self.hint}")
        for line in lines:
            click.echo(line, file=file, err=file is None)


class SourceError(RocmfixError):
    """The tree, release, ref or image to read cannot be had, holds no sglang, or lacks the file that was named."""

    exit_code = 3


class CatalogError(RocmfixError):
    """A patch, `series.toml`, flavour or table file is wrong: what `rocmfix lint` reports."""

    exit_code = 4


class ApplyError(RocmfixError):
    """Applying, reverting or refreshing was refused or failed; the tree is as it was."""

    exit_code = 5


class ToolMissingError(RocmfixError):
    """A program this verb needs (git, pip, docker, a compiler) is not there or too old."""

    exit_code = 6


class EngineError(RocmfixError):
    """The Docker engine is absent, refuses, or a build failed."""

    exit_code = 7


class RegistryError(RocmfixError):
    """A registry refused, lost the connection, or lacks the image."""

    exit_code = 8


class VerifyError(RocmfixError):
    """An image disagrees with its own manifest."""

    exit_code = 9


class TableError(RocmfixError):
    """AITER tables cannot be read, merged or decided."""

    exit_code = 13

    def __init__(self, message: str, *, details: tuple[str, ...] = (), hint: str | None = None) -> None:
        """Of tables that others wrote: a cell may be endless, or drive a terminal."""
        super().__init__(shown(message), details=tuple(map(shown, details)), hint=hint and shown(hint))


class SmokeError(RocmfixError):
    """The smoke test could not run (a failed check is a verdict, not an error)."""

    exit_code = 14


class GuardError(RocmfixError):
    """A guard cannot be made or proved."""

    exit_code = 15


class GiveBackError(RocmfixError):
    """A pull request was refused or could not be opened."""

    exit_code = 16


class Interrupted(RocmfixError):
    """Ctrl-C: whatever was started has been undone."""

    exit_code = 130

    def __init__(self) -> None:
        super().__init__("interrupted; nothing was left half-done")
