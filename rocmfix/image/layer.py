"""Files as the bytes of one layer: the same files give the same bytes, with nothing that was not asked for."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath


@dataclass(frozen=True)
class Entry:
    """One file (or folder, without data) of a layer. `mtime` is whole seconds."""

    path: str
    data: bytes | None = field(repr=False)
    mode: int = 0o644
    uid: int = 0
    gid: int = 0
    mtime: int = 0


def archive(files: Iterable[Entry], folders: Mapping[str, Entry], mtime: int) -> bytes:
    """A tar of `files` below `/`, sorted, each with the folders above it.

    `folders` are those that the base has, as it has them: a layer that names a folder sets its owner, mode and
    time anew. Folders the base lacks are root's, and as old as `mtime`.
    """
    chosen = {entry.path: entry for entry in files}
    for path in sorted(chosen):
        for parent in list(PurePosixPath(path).parents)[:-1]:
            name = str(parent)
            chosen.setdefault(name, folders.get(name) or Entry(name, None, 0o755, mtime=mtime))
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for path in sorted(chosen, key=lambda name: PurePosixPath(name).parts):
            _add(tar, chosen[path])
    return out.getvalue()


def _add(tar: tarfile.TarFile, entry: Entry) -> None:
    info = tarfile.TarInfo(entry.path.lstrip("/"))
    info.mode, info.uid, info.gid, info.mtime = entry.mode, entry.uid, entry.gid, entry.mtime
    if entry.data is None:
        info.type = tarfile.DIRTYPE
    info.size = len(entry.data or b"")
    tar.addfile(info, io.BytesIO(entry.data or b""))


def plain_tar(members: Iterable[tuple[str, bytes]]) -> bytes:
    """A build context: named bytes, nothing of when or by whom."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for name, data in members:
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return out.getvalue()
