"""Reads single files out of a zip archive, from an index that costs microseconds an entry."""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass
from pathlib import Path

# APPNOTE.TXT of the zip format, sections 4.3.7, 4.3.12 and 4.3.16. `zipfile` reads the same records into
# one object an entry and is five times slower; a matrix over releases opens 80 000 entries.
_LOCAL = struct.Struct("<4s22xHH")
_CENTRAL = struct.Struct("<4s4xHH4xLLLHHH4xLL")
_END = struct.Struct("<4s4xHHLLH")

_ENCRYPTED = 0x1
_STORED, _DEFLATED = 0, 8


class ArchiveError(ValueError):
    """The file is no zip archive, is damaged, or uses what no wheel uses."""


@dataclass(frozen=True)
class _Entry:
    flags: int
    method: int
    crc: int
    packed: int
    size: int
    attributes: int
    offset: int


@dataclass(frozen=True)
class Archive:
    """A zip archive that was indexed once; reading opens the file anew, so that threads may share it."""

    path: Path
    index: dict[str, tuple[int, ...]]

    def names(self) -> tuple[str, ...]:
        """Every file in the archive, in the archive's order."""
        return tuple(name for name in self.index if not name.endswith("/"))

    def has_folder(self, folder: str) -> bool:
        """Whether any file lies below `folder`."""
        return any(name.startswith(f"{folder}/") for name in self.index)

    def is_executable(self, name: str) -> bool:
        """Whether the file `name` was packed as a program; the upper half of its attributes is a Unix mode."""
        return bool(_Entry(*self.index[name]).attributes >> 16 & 0o111)

    def read(self, name: str) -> bytes | None:
        """The bytes of the file `name`, checked against its checksum, or None if there is none."""
        if name.endswith("/") or (fields := self.index.get(name)) is None:
            return None
        entry = _Entry(*fields)
        if entry.flags & _ENCRYPTED or entry.method not in {_STORED, _DEFLATED}:
            raise ArchiveError(f"{self.path.name}: {name} is encrypted or packed by method {entry.method}")
        data = _unpacked(self._packed(entry), entry)
        if len(data) != entry.size or zlib.crc32(data) != entry.crc:
            raise ArchiveError(f"{self.path.name}: {name} is damaged")
        return data

    def _packed(self, entry: _Entry) -> bytes:
        with self.path.open("rb") as handle:
            handle.seek(entry.offset)
            header = handle.read(_LOCAL.size)
            if len(header) != _LOCAL.size or not header.startswith(b"PK\3\4"):
                raise ArchiveError(f"{self.path.name}: no file at offset {entry.offset}")
            _, name, extra = _LOCAL.unpack(header)
            handle.seek(name + extra, 1)
            return handle.read(entry.packed)


def _unpacked(packed: bytes, entry: _Entry) -> bytes:
    if entry.method == _STORED:
        return packed
    try:
        # One byte more than promised shows a lie without unpacking a bomb.
        return zlib.decompressobj(-zlib.MAX_WBITS).decompress(packed, entry.size + 1)
    except zlib.error as error:
        raise ArchiveError(f"damaged data: {error}") from error


def open_archive(path: Path) -> Archive:
    """Index the zip archive at `path`."""
    size = path.stat().st_size
    with path.open("rb") as handle:
        tail_at = max(0, size - _END.size - 0xFFFF)
        handle.seek(tail_at)
        tail = handle.read()
        at = _end_of_index(tail)
        if at is None:
            raise ArchiveError(f"{path.name} is no zip archive, or is cut short")
        _, _, count, length, start, _ = _END.unpack_from(tail, at)
        if count == 0xFFFF or start == 0xFFFFFFFF or start + length > tail_at + at:
            raise ArchiveError(f"{path.name} is damaged, or a zip64 archive, which no wheel needs to be")
        handle.seek(start)
        return Archive(path, _index(handle.read(length), count, path.name))


def _end_of_index(tail: bytes) -> int | None:
    """Where the last record begins; its comment, which may hold anything, must end where the file ends."""
    at = len(tail)
    while (at := tail.rfind(b"PK\5\6", 0, at)) >= 0:
        if at + _END.size <= len(tail) and at + _END.size + _END.unpack_from(tail, at)[-1] == len(tail):
            return at
    return None


def _index(records: bytes, count: int, name: str) -> dict[str, tuple[int, ...]]:
    index: dict[str, tuple[int, ...]] = {}
    at = 0
    try:
        for _ in range(count):
            magic, flags, method, crc, packed, size, named, extra, comment, attributes, offset = _CENTRAL.unpack_from(
                records, at
            )
            if magic != b"PK\1\2":
                raise ArchiveError(f"{name}: damaged index")
            begin = at + _CENTRAL.size
            at = begin + named + extra + comment
            index[records[begin : begin + named].decode()] = (flags, method, crc, packed, size, attributes, offset)
    except (struct.error, UnicodeDecodeError) as error:
        raise ArchiveError(f"{name}: damaged index") from error
    return index
