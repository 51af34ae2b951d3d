"""What an image built earlier from the files that change now: bytecode and JIT kernels, overlaid by empty files."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import PurePosixPath

from rocmfix.image.tree import ImageTree
from rocmfix.system.container import File

_KERNEL = (".cuh", ".cu", ".h", ".hpp", ".cpp", ".cc")
_TO_EMPTY = (".so", ".o", ".ninja_log", ".ninja_deps")
"""Without its log ninja holds every output for stale; an empty library fails to load, and sglang then rebuilds it."""


def bytecode(tree: ImageTree, changed: Iterable[str]) -> tuple[File, ...]:
    """The compiled forms of the changed files, whichever Python or optimisation made them.

    An empty `.pyc` is ignored by Python, also where a hash-based one would have been trusted unseen.
    """
    found = (file for path in sorted(changed) if path.endswith(".py") for file in tree.bytecode_of(path))
    return tuple(file for file in found if file.size)


def kernels(tree: ImageTree, changed: Iterable[str]) -> tuple[File, ...]:
    """The JIT builds that used one of the changed kernel files.

    tvm-ffi keeps each build in a folder of its own, named by a hash that up to sglang 0.5.13 left out the
    included headers; ninja compares times, and a patch is older than the image it mends. Both would reuse the
    library that was built from the unpatched header.
    """
    sources = {tree.shown(path) for path in changed if path.endswith(_KERNEL)}
    if not sources:
        return ()
    folders: dict[str, list[File]] = {}
    for path, file in sorted(tree.files.items()):
        if not file.is_directory and tree.layout.is_cached(path):
            folders.setdefault(str(PurePosixPath(path).parent), []).append(file)
    used = (files for files in folders.values() if _mentions(files, sources))
    return tuple(file for files in used for file in files if file.path.endswith(_TO_EMPTY) and file.size)


def _mentions(files: Iterable[File], sources: Iterable[str]) -> bool:
    """Whether a build's own record names one of `sources`: whole, or by the path it is included under."""
    names = {source.encode() for source in sources} | {PurePosixPath(s).name.encode() for s in sources}
    return any(name in file.data for file in files for name in names)
