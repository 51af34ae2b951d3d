"""Reads files out of a container that was created and never started: nothing in it runs."""

from __future__ import annotations

import io
import posixpath
import tarfile
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any

import docker.errors
from docker.utils import decode_json_header

from rocmfix.system.docker_errors import translated

_DIRECTORY, _SYMLINK = 1 << 31, 1 << 27
"""Bits of Go's os.FileMode, which the engine's stat header carries."""
_CHUNK = 1 << 20
_BUFFER = 16 << 10
"""tarfile copies the rest of its buffer at every read: with a large one a tree of small files takes twice as long."""


@dataclass(frozen=True)
class Stat:
    """What the engine says of a path without reading it."""

    is_directory: bool
    link: str | None
    """Where a symbolic link leads, resolved inside the container."""


@dataclass(frozen=True)
class File:
    """One entry of an image: a regular file with its bytes, or a directory."""

    path: str
    data: bytes = field(repr=False)
    mode: int
    uid: int
    gid: int
    mtime: int
    is_directory: bool = False
    size: int = 0


class Container:
    """One container's file system."""

    def __init__(self, api: Any, name: str) -> None:
        self._api = api
        self._name = name

    def stat(self, path: str) -> Stat | None:
        """What `path` is, or None if there is nothing. A symbolic link is not followed at its last component."""
        with translated(f"look at {path}"):
            # A HEAD: the SDK's own get_archive would begin to send the whole folder.
            url = self._api._url("/containers/{0}/archive", self._name)  # noqa: SLF001
            answer = self._api.head(url, params={"path": path})
            if answer.status_code == 404:
                return None
            answer.raise_for_status()
        said = decode_json_header(answer.headers["X-Docker-Container-Path-Stat"])
        mode = int(said["mode"])
        return Stat(bool(mode & _DIRECTORY), said["linkTarget"] if mode & _SYMLINK else None)

    def resolve(self, path: str) -> str:
        """`path` with every symbolic link in its folders followed, as the layers below name it."""
        done = ""
        for part in PurePosixPath(path).parts[1:]:
            done = f"{done}/{part}"
            found = self.stat(done)
            if found and found.link:
                done = found.link.rstrip("/")
        return done

    def read(self, path: str) -> File | None:
        """The regular file at `path`, or None."""
        found = next(iter(self.walk(path)), None)
        return None if found is None or found.is_directory else found

    def directory(self, path: str) -> File | None:
        """The owner, mode and time of the folder at `path`, or None."""
        found = next(iter(self.walk(path)), None)
        return found if found and found.is_directory else None

    def walk(self, path: str, wants: Callable[[str], bool] = lambda _: True) -> Iterator[File]:
        """Every folder and regular file from `path` down, in one stream; the bytes only of those it `wants`.

        Nothing is written to disk, and stopping early hangs up.
        """
        with translated(f"read {path}"):
            try:
                chunks, _ = self._api.get_archive(self._name, path, chunk_size=_CHUNK)
            except docker.errors.NotFound:
                return
            parent = str(PurePosixPath(path).parent)
            with closing(chunks), tarfile.open(fileobj=_Chunks(chunks), mode="r|", bufsize=_BUFFER) as tar:
                for member in tar:
                    name = posixpath.join(parent, member.name)
                    if member.isdir() or member.isreg():
                        yield _file(tar, member, name, wanted=wants(name))


def _file(tar: tarfile.TarFile, member: tarfile.TarInfo, name: str, *, wanted: bool) -> File:
    stream = tar.extractfile(member) if wanted and member.isreg() else None
    data = stream.read() if stream else b""
    return File(
        name,
        data,
        member.mode & 0o7777,
        member.uid,
        member.gid,
        int(member.mtime),
        member.isdir(),
        member.size,
    )


class _Chunks(io.RawIOBase):
    """An iterator of bytes as the file that tarfile reads."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks = chunks
        self._rest = memoryview(b"")

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        parts = []
        while size > 0:
            if not self._rest:
                chunk = next(self._chunks, b"")
                if not chunk:
                    break
                self._rest = memoryview(chunk)
            part, self._rest = self._rest[:size], self._rest[size:]
            parts.append(part)
            size -= len(part)
        return b"".join(parts)
