"""The source tree inside an image, as a Tree: read in one stream, nothing run, nothing written."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from rocmfix.aiter.layout import CONFIGS, is_told
from rocmfix.errors import SourceError
from rocmfix.tree import PACKAGE

if TYPE_CHECKING:  # the engine's library takes a third of a second to import, and every verb may meet an image's tree
    from rocmfix.system.container import Container, File

_CHECKOUTS = ("/sgl-workspace/sglang", "/app/sglang", "/workspace/sglang", "/opt/sglang", "/sglang")
"""Where images keep an editable checkout: upstream's own, ROCm/ATOM's, and what people choose."""
_AITER = ("/sgl-workspace/aiter", "/app/aiter", "/workspace/aiter", "/opt/aiter")
_PYTHONS = tuple(f"python3.{minor}" for minor in range(9, 15))
_VERSION = re.compile(rb"""^__version__\s*=.*?["']([^"']+)["']""", re.MULTILINE)
_BUILD_NOTES = (".d", ".ninja", ".ninja_deps", ".cu", ".cpp")
_BYTECODE = re.compile(r"(^|/)__pycache__/|\.py[co]$")


@dataclass(frozen=True)
class Layout:
    """Where an image keeps what rocmfix knows: absolute paths, links resolved."""

    package: str
    """The folder that is the Python package `sglang`."""
    aiter: str | None = None
    """The checkout of AITER."""
    caches: tuple[str, ...] = ()
    """Folders of JIT builds."""

    def is_cached(self, path: str) -> bool:
        """Whether an absolute path lies among the JIT builds."""
        return any(path.startswith(f"{cache}/") for cache in self.caches)

    def is_wanted(self, path: str) -> bool:
        """Whether a file's bytes tell anything: a source, a table, or what a JIT build says it used."""
        if self.aiter and path.startswith(f"{self.aiter}/"):
            return is_told(path)
        return path.endswith(_BUILD_NOTES) if self.is_cached(path) else is_source(path)

    @property
    def checkout(self) -> str | None:
        """The root of the git checkout, where the package is part of one."""
        suffix = f"/{PACKAGE}"
        return self.package.removesuffix(suffix) if self.package.endswith(suffix) else None

    def inside(self, path: str) -> str | None:
        """A repository path (`python/sglang/...`, `aiter/...`) as this image spells it."""
        if path == PACKAGE or path.startswith(f"{PACKAGE}/"):
            return self.package + path[len(PACKAGE) :]
        if path.startswith("aiter/") and self.aiter:
            return f"{self.aiter}/{path}"
        return f"{self.checkout}/{path}" if self.checkout else None

    def outside(self, path: str) -> str | None:
        """The reverse: an absolute path of the image as a repository path."""
        if path.startswith(f"{self.package}/"):
            return PACKAGE + path[len(self.package) :]
        if self.aiter and path.startswith(f"{self.aiter}/aiter/"):
            return path[len(self.aiter) + 1 :]
        return None


@dataclass(frozen=True)
class ImageTree:
    """Every source file of an image's sglang, and what else bears on it (AITER's tables, JIT builds), in memory."""

    source: str
    layout: Layout
    files: Mapping[str, File] = field(repr=False)
    """By absolute path. A file that was not worth its bytes (a library, bytecode) is there with its size alone."""

    @cached_property
    def release(self) -> str | None:
        """What `_version.py` claims."""
        for name in ("_version.py", "version.py"):
            file = self.files.get(f"{self.layout.package}/{name}")
            if file and (found := _VERSION.search(file.data)):
                return found[1].decode("ascii", "replace")
        return None

    def read(self, path: str) -> bytes | None:
        file = self.file(path)
        return file.data if file else None

    def file(self, path: str) -> File | None:
        """The regular file at a repository path, with owner, mode and time."""
        inside = self.layout.inside(path)
        file = self.files.get(inside) if inside else None
        return None if file is None or file.is_directory or _BYTECODE.search(file.path) else file

    def shown(self, path: str) -> str:
        return self.layout.inside(path) or path

    def paths(self, under: str) -> Iterable[str]:
        prefix = under.rstrip("/") + "/" if under else ""
        named = (self.layout.outside(file.path) for file in self.files.values() if not file.is_directory)
        return sorted(path for path in named if path and path.startswith(prefix) and not _BYTECODE.search(path))

    @cached_property
    def digests(self) -> Mapping[str, str]:
        """sha256 of every source file of the package, by repository path."""
        start = f"{self.layout.package}/"
        return {
            PACKAGE + path[len(self.layout.package) :]: hashlib.sha256(file.data).hexdigest()
            for path, file in self.files.items()
            if path.startswith(start) and not file.is_directory and is_source(path)
        }

    def bytecode_of(self, path: str) -> tuple[File, ...]:
        """The compiled forms of the Python file at a repository path, as the image holds them."""
        inside = PurePosixPath(self.layout.inside(path) or "")
        start = f"{inside.parent}/__pycache__/{inside.stem}."
        return tuple(
            file for name, file in self.files.items() if name.startswith(start) and name.endswith((".pyc", ".pyo"))
        )


def tree_hash(tree: ImageTree, changes: Mapping[str, bytes | None] | None = None) -> str:
    """One digest for every source file of the package: path and content, no times, no bytecode, no libraries."""
    digests = dict(tree.digests)
    for path, data in (changes or {}).items():
        if path.startswith(f"{PACKAGE}/") and is_source(path):
            digests[path] = hashlib.sha256(data).hexdigest() if data is not None else ""
    lines = (f"{path}\0{digest}\n" for path, digest in sorted(digests.items()) if digest)
    return f"sha256:{hashlib.sha256(''.join(lines).encode()).hexdigest()}"


def is_source(path: str) -> bool:
    """Whether a file of the package is worth its bytes: not a library, not bytecode."""
    return not (_BYTECODE.search(path) or path.endswith((".so", ".a", ".o", ".hsaco", ".co")))


def read_tree(container: Container, layout: Layout, source: str, *more: str) -> ImageTree:
    """Read the package, AITER's tables, the JIT builds and whatever `more` names out of a container."""
    files: dict[str, File] = {}
    tables = [f"{layout.aiter}/{CONFIGS}"] if layout.aiter else []
    for root in (layout.package, *tables, *layout.caches, *more):
        files.update({file.path: file for file in container.walk(root, layout.is_wanted)})
    return ImageTree(source, layout, files)


def locate(container: Container, env: Mapping[str, str], source: str) -> Layout:
    """Find sglang and AITER in a container. Raises SourceError when there is no sglang."""
    candidates = chain((f"{root}/{PACKAGE}" for root in _CHECKOUTS), _site_packages(container, env))
    package = next((path for path in candidates if _is_package(container, path)), None)
    if package is None:
        raise SourceError(
            f"{source}: holds no sglang",
            details=(f"looked in {', '.join(_CHECKOUTS)} and the site-packages of its Python",),
            hint="name an image of sglang (rocmfix tags resolve lmsysorg/sglang:TAG), or another base",
        )
    kernels = next((root for root in _AITER if container.stat(f"{root}/aiter")), None)
    return Layout(
        package=container.resolve(package),
        aiter=container.resolve(kernels) if kernels else None,
        caches=tuple(root for root in cache_folders(env) if container.stat(root)),
    )


def cache_folders(env: Mapping[str, str]) -> tuple[str, ...]:
    """Where tvm-ffi keeps JIT builds in an image with this ENV."""
    home = env.get("HOME", "/root")
    named = env.get("TVM_FFI_CACHE_DIR", f"{home}/.cache/tvm-ffi")
    return tuple(dict.fromkeys((named, "/root/.cache/tvm-ffi")))


def find_shadow(container: Container, env: Mapping[str, str], layout: Layout) -> str | None:
    """A second sglang, in site-packages beside a checkout: which one runs depends on the order of sys.path."""
    if layout.checkout is None:
        return None
    return next((path for path in _site_packages(container, env) if _is_package(container, path)), None)


def _is_package(container: Container, path: str) -> bool:
    found = container.stat(f"{path}/srt")
    return found is not None and (found.is_directory or found.link is not None)


def _site_packages(container: Container, env: Mapping[str, str]) -> Iterable[str]:
    roots = [env["VIRTUAL_ENV"]] if env.get("VIRTUAL_ENV") else []
    roots += [str(PurePosixPath(each).parent) for each in env.get("PATH", "").split(":") if each.endswith("/bin")]
    for root in dict.fromkeys([*roots, "/opt/venv", "/usr/local"]):
        for library in (f"{root}/lib/{python}" for python in _PYTHONS):
            if container.stat(library):
                yield from (f"{library}/site-packages/sglang", f"{library}/dist-packages/sglang")
