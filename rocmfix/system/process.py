"""Runs programs: a list of arguments, no shell, and the last lines of output when one fails."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Ran:
    """A finished process."""

    code: int
    out: str
    err: str

    @property
    def tail(self) -> tuple[str, ...]:
        """The last twenty lines of what it said, errors last: what a person needs to see of a failure."""
        return tuple((self.out + self.err).splitlines()[-20:])


def run(
    argv: Sequence[str],
    *,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    timeout: float | None = None,
) -> Ran:
    """Run `argv` to its end and return what it said.

    Raises FileNotFoundError when the program is missing and subprocess.TimeoutExpired after `timeout` seconds.
    """
    done = subprocess.run(
        argv, cwd=cwd, env=env, timeout=timeout, capture_output=True, encoding="utf-8", errors="replace", check=False
    )
    return Ran(done.returncode, done.stdout, done.stderr)


def stream(argv: Sequence[str], *, cwd: Path | None = None, env: Mapping[str, str] | None = None) -> int:
    """Run `argv` with its output on our stderr, live, and return its exit code."""
    return subprocess.run(argv, cwd=cwd, env=env, stdout=2, check=False).returncode
