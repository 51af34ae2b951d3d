"""How much room there is."""

from __future__ import annotations

import shutil
from pathlib import Path


def free_bytes(path: Path) -> int:
    """Bytes that can still be written on the file system of `path`."""
    return shutil.disk_usage(path).free
