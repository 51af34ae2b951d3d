"""Asks pip which versions of a project the user's own package index has."""

from __future__ import annotations

import re
import subprocess
import sys

from rocmfix.errors import SourceError
from rocmfix.system import process
from rocmfix.system.files import scratch_folder

_SECONDS = 60


def index_versions(project: str) -> tuple[str, ...]:
    """Every version that pip would install here. Raises SourceError when the index cannot be asked."""
    argv = (sys.executable, "-m", "pip", "index", "versions", "--disable-pip-version-check", "--no-input", project)
    # An empty working folder: `python -m` would import a `pip.py` that lies in the user's.
    with scratch_folder() as folder:
        try:
            done = process.run(argv, cwd=folder, timeout=_SECONDS)
        except subprocess.TimeoutExpired:
            raise SourceError(f"pip index versions {project} took longer than {_SECONDS} s") from None
    found = re.search(r"^Available versions: (.+)$", done.out, re.MULTILINE)
    if done.code or not found:
        raise SourceError(f"pip could not ask the package index for {project}", details=done.tail)
    return tuple(version.strip() for version in found[1].split(","))
