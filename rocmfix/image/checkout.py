"""Which commit a checkout inside an image is at, read from its `.git` without git."""

from __future__ import annotations

import re
from typing import Protocol

from rocmfix.system.container import File

_COMMIT = re.compile(r"[0-9a-f]{40}")
_REF = re.compile(r"ref: (refs/[A-Za-z0-9._/+-]+)")


class Reads(Protocol):
    """Anything that gives a file by absolute path."""

    def read(self, path: str) -> File | None:
        """The regular file at `path`, or None."""


def commit_of(image: Reads, root: str | None) -> str | None:
    """The commit HEAD stands at, or None where `root` is no checkout."""
    if root is None or not (head := _text(image, f"{root}/.git/HEAD")):
        return None
    if _COMMIT.fullmatch(head):
        return head
    ref = _REF.fullmatch(head)
    if ref is None or ".." in ref[1]:
        return None
    loose = _text(image, f"{root}/.git/{ref[1]}")
    if loose and _COMMIT.fullmatch(loose):
        return loose
    packed = re.search(
        rf"^([0-9a-f]{{40}}) {re.escape(ref[1])}$", _text(image, f"{root}/.git/packed-refs"), re.MULTILINE
    )
    return packed[1] if packed else None


def _text(image: Reads, path: str) -> str:
    file = image.read(path)
    return file.data.decode("utf-8", "replace").strip() if file else ""
