"""What an X-ray needs of an image in a registry, without a pull: no more of each layer than it takes."""

from __future__ import annotations

import io
import json
import tarfile
import zlib
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import PurePosixPath
from typing import Any, Protocol

from rocmfix.aiter.layout import BAKED, CONFIGS, FILES, FOLDERS, named_tables
from rocmfix.errors import RegistryError, SourceError
from rocmfix.image.checkout import commit_of
from rocmfix.image.inspect import Reading, Seen
from rocmfix.image.manifest import PATH, parse
from rocmfix.image.progress import Progress
from rocmfix.image.tree import ImageTree, Layout, cache_folders
from rocmfix.system.container import File
from rocmfix.system.reference import Reference
from rocmfix.system.registry import Descriptor, Registry
from rocmfix.tree import PACKAGE

_SGLANG = "/sgl-workspace/sglang"
_AITER = "/sgl-workspace/aiter"
_PACKAGE = f"{_SGLANG}/{PACKAGE}"
_CACHE = "/root/.cache/tvm-ffi"
_ROOTS = (f"{_PACKAGE}/", f"{_AITER}/{CONFIGS}/", f"{_CACHE}/", f"{BAKED}/", PATH)
_GIT = ("HEAD", "packed-refs")
_READER = Layout(_PACKAGE, _AITER, (_CACHE,))
_LARGEST = 32 << 20
"""Bytes of one file beyond which it is no source file."""
_CHUNK = 64 << 10


@dataclass(frozen=True)
class Wants:
    """What is to be read: folders (with a slash at the end) and files."""

    roots: tuple[str, ...] = _ROOTS

    @cached_property
    def last(self) -> tuple[str, ...]:
        """Of all that is wanted, the last in the order of a walk."""
        return max(PurePosixPath(root).parts for root in self.roots)

    def takes(self, path: str, *, is_folder: bool) -> bool:
        """Whether this is wanted, or a folder above what is."""
        if "/.git/" in path:
            return path.startswith((f"{_SGLANG}/.git/", f"{_AITER}/.git/")) and (
                path.rpartition("/")[2] in _GIT or "/.git/refs/" in path
            )
        return path.startswith(self.roots) or (is_folder and any(r.startswith(f"{path}/") for r in self.roots))


EVERYTHING = Wants()


class Bytes(Protocol):
    """Anything with bytes in it, front to back."""

    def read(self, size: int, /) -> bytes | None:
        """At most so many bytes; none at the end."""


@dataclass
class Stack:
    """Files seen so far, from the top layer down: the first that names a path decides it."""

    files: dict[str, File] = field(default_factory=dict)
    gone: set[str] = field(default_factory=set)
    """Paths that a layer above removed, and everything below them."""
    opaque: set[str] = field(default_factory=set)
    """Folders of which a layer above shows all there is."""

    def hides(self, path: str) -> bool:
        """Whether what a lower layer has at `path` cannot be seen from above."""
        parents = {str(parent) for parent in PurePosixPath(path).parents}
        return path in self.files or path in self.gone or bool(parents & (self.gone | self.opaque))

    def add(self, lower: Stack) -> None:
        """Take in what a lower layer shows."""
        self.files.update(lower.files)
        self.gone |= lower.gone
        self.opaque |= lower.opaque


@dataclass(frozen=True)
class _Found:
    files: dict[str, File]
    reading: Reading

    def read(self, path: str) -> File | None:
        """The regular file at `path`, or None."""
        file = self.files.get(path)
        return None if file is None or file.is_directory else file

    def has(self, prefix: str) -> bool:
        """Whether anything lies below `prefix`."""
        return any(path.startswith(prefix) for path in self.files)


def look(reference: Reference, registry: Registry, progress: Progress, *, kernels: bool = False) -> Seen:
    """Read manifest, configuration and the needed part of the layers; with `kernels` also which ones AITER has."""
    manifest = registry.manifest(reference.version)
    config: Any = json.loads(registry.blob(manifest.config.digest))
    settings = config.get("config") or {}
    env = tuple((n, v) for n, _, v in (each.partition("=") for each in settings.get("Env") or ()))
    more = [f"{_AITER}/{path}" for path in (*FILES, *(f"{folder}/" for folder in FOLDERS))] if kernels else []
    wants = Wants((*_ROOTS, *named_tables(dict(env)), *more))
    found = _read(registry, manifest.layers, wants, _hints(config), progress)
    if not found.has(f"{_PACKAGE}/srt/"):
        raise SourceError(
            f"{reference}: its layers hold no {_PACKAGE}",
            hint=f"docker pull {reference}, then rocmfix inspect: pulled images are searched in other places too",
        )
    caches = tuple(root for root in cache_folders(dict(env)) if found.has(f"{root}/"))
    layout = Layout(_PACKAGE, _AITER if found.has(f"{_AITER}/") else None, caches)
    record = found.read(PATH)
    return Seen(
        name=str(reference),
        id=manifest.config.digest,
        digest=manifest.digest,
        size=sum(layer.size for layer in manifest.layers),
        platform=f"{config.get('os')}/{config.get('architecture')}",
        labels=settings.get("Labels") or {},
        env=env,
        layers=tuple((config.get("rootfs") or {}).get("diff_ids") or ()),
        tree=ImageTree(f"image:{reference}", layout, found.files),
        commit=commit_of(found, _SGLANG),
        aiter=commit_of(found, _AITER),
        manifest=parse(record.data) if record else None,
        reading=found.reading,
    )


def _read(
    registry: Registry, layers: tuple[Descriptor, ...], wants: Wants, hints: tuple[str, ...], progress: Progress
) -> _Found:
    stack = Stack()
    total = sum(layer.size for layer in layers)
    read = opened = 0
    missing = {_SGLANG, _AITER}
    for index in reversed(range(len(layers))):
        with registry.open_blob(layers[index]) as blob:
            missing -= read_layer(blob, stack, wants)
            read += blob.count
        opened += 1
        progress.bytes(read, total)
        if not missing or (_SGLANG not in missing and not any("aiter" in hint.lower() for hint in hints[:index])):
            break
    return _Found(stack.files, Reading(bytes=read, of=total, layers=opened, of_layers=len(layers)))


def _hints(config: Any) -> tuple[str, ...]:
    """What made each layer, lowest first, as the history tells it."""
    history = config.get("history") or []
    return tuple(str(step.get("created_by", "")) for step in history if not step.get("empty_layer"))


def read_layer(blob: Bytes, stack: Stack, wants: Wants = EVERYTHING) -> set[str]:
    """Take what a layer has of the wanted files; return the checkouts it made, of which no lower one has anything.

    Layers are written in the order of a walk. As long as one is, nothing wanted follows the last wanted path,
    and the rest of it is never asked for.
    """
    found = Stack()
    heads = set[str]()
    last: tuple[str, ...] = ()
    in_order = True
    try:
        with tarfile.open(fileobj=Unpacked(blob), mode="r|") as tar:
            for member in tar:
                path = "/" + member.name.removeprefix("./").strip("/")
                parts = PurePosixPath(path).parts
                in_order = in_order and parts >= last
                last = parts
                if in_order and parts > wants.last and parts[: len(wants.last)] != wants.last:
                    break
                if path.endswith("/.git/HEAD"):
                    heads.add(path.removesuffix("/.git/HEAD"))
                if wants.takes(path, is_folder=member.isdir()) or parts[-1].startswith(".wh."):
                    _take(tar, member, path, stack, found)
    except (tarfile.TarError, zlib.error, EOFError) as error:
        raise RegistryError(
            f"a layer cannot be read: {error}", hint="docker pull IMAGE, then inspect it: the engine checks every byte"
        ) from None
    stack.add(found)
    return heads


def _take(tar: tarfile.TarFile, member: tarfile.TarInfo, path: str, above: Stack, found: Stack) -> None:
    folder, _, name = path.rpartition("/")
    if name == ".wh..wh..opq":
        found.opaque.add(folder)
    elif name.startswith(".wh."):
        found.gone.add(f"{folder}/{name.removeprefix('.wh.')}")
    elif above.hides(path):
        return
    elif member.islnk():
        target = found.files.get("/" + member.linkname.removeprefix("./").strip("/"))
        if target:
            found.files[path] = replace(target, path=path)
    elif member.isreg() or member.isdir():
        wanted = ("/.git/" in path or _READER.is_wanted(path)) and member.size <= _LARGEST
        stream = tar.extractfile(member) if member.isreg() and wanted else None
        found.files[path] = File(
            path, stream.read() if stream else b"", member.mode & 0o7777, member.uid, member.gid,
            int(member.mtime), member.isdir(), member.size,
        )  # fmt: skip
    else:
        # A link or device hides what lower layers have there, and is no source file itself.
        found.gone.add(path)


class Unpacked(io.RawIOBase):
    """A layer's tar, whatever it is packed with."""

    def __init__(self, blob: Bytes) -> None:
        self._blob = blob
        self._zip: Any = None
        self._ready = b""
        self._plain: bool | None = None

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        while len(self._ready) < size:
            packed = self._blob.read(_CHUNK) or b""
            if not packed:
                break
            self._ready += self._unpack(packed)
        taken, self._ready = self._ready[:size], self._ready[size:]
        return taken

    def _unpack(self, packed: bytes) -> bytes:
        if self._plain is None:
            if packed.startswith(b"\x28\xb5\x2f\xfd"):
                raise RegistryError(
                    "a layer is packed with zstd, which this Python cannot unpack",
                    hint="docker pull IMAGE, then rocmfix inspect IMAGE reads it from the engine",
                )
            self._plain = not packed.startswith(b"\x1f\x8b")
        return packed if self._plain else self._gunzip(packed)

    def _gunzip(self, packed: bytes) -> bytes:
        out = b""
        while packed:
            self._zip = self._zip or zlib.decompressobj(31)
            out += self._zip.decompress(packed)
            packed = self._zip.unused_data
            if self._zip.eof:
                self._zip = None
        return out
