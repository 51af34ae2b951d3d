"""Runs a program in the background: its output in a file, its whole process group ended with it."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass
class Background:
    """A started program, the leader of a process group of its own."""

    process: subprocess.Popen[bytes]

    @classmethod
    def start(cls, argv: Sequence[str], *, log: Path, env: Mapping[str, str], cwd: Path | None = None) -> Background:
        """Start `argv` with `env` added to this process's environment, output and errors both into `log`."""
        with log.open("wb") as output:
            process = subprocess.Popen(
                argv, cwd=cwd, env={**os.environ, **env}, stdin=subprocess.DEVNULL,
                stdout=output, stderr=subprocess.STDOUT, start_new_session=True,
            )  # fmt: skip
        return cls(process)

    @property
    def code(self) -> int | None:
        """The exit code, negative for a signal; None while it runs."""
        return self.process.poll()

    def wait(self, limit: float) -> int | None:
        """Wait for its end; None when it still runs after `limit` seconds."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            return self.process.wait(limit)
        return None

    def stop(self, grace: float) -> int:
        """Ask it to end, wait `grace` seconds, then kill what is left of the group."""
        self._signal(signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(grace)
        self._signal(signal.SIGKILL)
        return self.process.wait()

    def _signal(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, number)


def finished(argv: Sequence[str], *, env: Mapping[str, str], timeout: float) -> tuple[int, str]:
    """Run `argv` to its end with `env` added to this process's environment; its exit code, output and errors."""
    try:
        done = subprocess.run(
            argv, env={**os.environ, **env}, cwd="/", stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, encoding="utf-8", errors="replace", timeout=timeout, check=False,
        )  # fmt: skip
    except FileNotFoundError:
        return 127, f"{argv[0]} is not there"
    except subprocess.TimeoutExpired:
        return 124, f"{argv[0]} did not end within {timeout:g} s"
    return done.returncode, done.stdout
