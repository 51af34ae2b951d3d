"""Downloads one wheel with pip: the user's own index, proxy and certificates, whatever Python runs here."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from rocmfix.errors import SourceError, ToolMissingError
from rocmfix.system import files

_TICK = 0.2  # seconds between two looks at how much has arrived


@dataclass(frozen=True)
class Tags:
    """For which Python a wheel is made: `cp311`, `cp311` and the platforms that will do."""

    python: str
    abi: str
    platforms: tuple[str, ...]

    @property
    def flags(self) -> tuple[str, ...]:
        implementation, digits = self.python[:2], self.python[2:]
        version = f"{digits[0]}.{digits[1:]}" if len(digits) > 1 else "3.10"
        platforms = (flag for platform in self.platforms for flag in ("--platform", platform))
        return (
            "--implementation", implementation,
            "--python-version", version,
            "--abi", self.abi,
            *platforms,
        )  # fmt: skip


def download_wheel(requirement: str, tags: Tags, into: Path, *, arrived: Callable[[int], None]) -> Path:
    """Download the wheel of `requirement` for `tags` into the empty folder `into`; `arrived` hears of progress.

    Everything pip writes on the way goes into `into` too, so that whoever removes it leaves nothing.
    """
    argv = [
        sys.executable, "-m", "pip", "download",
        "--no-deps", "--only-binary", ":all:",
        "--no-cache-dir",  # ours is the cache; pip's would hold every wheel twice
        "--disable-pip-version-check", "--no-input", "--progress-bar", "off",
        "--dest", str(into / "wheel"),
        *tags.flags,
        requirement,
    ]  # fmt: skip
    (into / "wheel").mkdir()
    log = into / "pip.log"
    # pip's own folder as the working folder: `python -m` would import a `pip.py` that lies in the user's.
    env = {**os.environ, "TMPDIR": str(into)}
    with log.open("wb") as out, subprocess.Popen(argv, cwd=into, env=env, stdout=out, stderr=out) as pip:
        _follow(pip, into, arrived)
    said = tuple(log.read_text("utf-8", "replace").splitlines()[-20:])
    _refuse_failure(pip.returncode, requirement, said)
    wheels = list((into / "wheel").glob("*.whl"))
    if len(wheels) != 1:
        raise SourceError(f"pip downloaded {len(wheels)} wheels of {requirement}", details=said)
    return wheels[0]


def _follow(pip: subprocess.Popen[bytes], into: Path, arrived: Callable[[int], None]) -> None:
    try:
        while pip.poll() is None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                pip.wait(_TICK)
            arrived(files.size_of(into))
    except BaseException:
        pip.kill()
        raise


def _refuse_failure(code: int, requirement: str, said: tuple[str, ...]) -> None:
    if code == 0:
        return
    if any("No module named pip" in line for line in said):
        raise ToolMissingError(
            f"{sys.executable} has no pip, which downloads {requirement}",
            hint="install pip, or download the wheel elsewhere and give the file",
        )
    raise SourceError(
        f"pip could not download {requirement}",
        details=said,
        hint="pip uses your own settings (index, proxy, certificates): pip config list; "
        "or download the wheel elsewhere and give the file",
    )
