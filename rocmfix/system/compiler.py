"""Runs compilers on text: a folder of its own, gone afterwards, and the time it took."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from rocmfix.system.process import Ran, run


@dataclass(frozen=True)
class Compiled:
    """A finished compiler run."""

    ran: Ran
    seconds: float

    @property
    def ok(self) -> bool:
        """Whether the compiler was content."""
        return self.ran.code == 0


def find_program(*names: str) -> str | None:
    """The first of `names` that can be run: a path as it is, a bare name by PATH."""
    return next((found for name in names if (found := shutil.which(name))), None)


@contextlib.contextmanager
def workspace() -> Iterator[Path]:
    """An empty folder that is gone when the block ends."""
    folder = Path(tempfile.mkdtemp(prefix="rocmfix-compile-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def compile_file(
    argv: Sequence[str], *, cwd: Path, timeout: float = 900, image: str | None = None, reads: Sequence[Path] = ()
) -> Compiled:
    """Run one compiler command in English, so that its messages can be read; with `image`, in a container of it.

    What it keeps for itself while it works lies in `cwd`, and goes with it also when it is killed.
    """
    started = time.monotonic()
    command = _contained(image, argv, cwd, reads) if image else argv
    try:
        ran = run(command, cwd=cwd, env={**os.environ, "LC_ALL": "C", "TMPDIR": str(cwd)}, timeout=timeout)
    except subprocess.TimeoutExpired:
        ran = Ran(-signal.SIGKILL, "", f"the compiler was not done after {timeout:.0f} s")
    return Compiled(ran, time.monotonic() - started)


def _contained(image: str, argv: Sequence[str], cwd: Path, reads: Sequence[Path]) -> list[str]:
    """`argv` in a container without a network or a GPU that is gone afterwards; folders keep their names."""
    mounts = [f"--volume={cwd}:{cwd}", *(f"--volume={folder}:{folder}:ro" for folder in reads)]
    return [
        "docker", "run", "--rm", "--init", "--pull=never", "--network=none", "--user=0:0", "--env=LC_ALL=C",
        f"--workdir={cwd}", *mounts, f"--entrypoint={argv[0]}", image, *argv[1:],
    ]  # fmt: skip


def processors() -> int:
    """How many compilers may run at once."""
    return len(os.sched_getaffinity(0))
