"""AITER as an image has it: its source, its tables, and the tables that the image's ENV names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from rocmfix.aiter.layout import AiterTree
from rocmfix.errors import TableError
from rocmfix.image.inspect import Seen
from rocmfix.system.container import File


@dataclass(frozen=True)
class AiterFiles:
    """AITER's checkout in an image, as a tree; a path that begins with `/` is one of the image's own."""

    source: str
    root: str
    files: Mapping[str, File] = field(repr=False)
    release: str | None = None

    def read(self, path: str) -> bytes | None:
        file = self.files.get(self.shown(path))
        return None if file is None or file.is_directory else file.data

    def shown(self, path: str) -> str:
        return path if path.startswith("/") else f"{self.root}/{path}"

    def paths(self, under: str) -> Iterable[str]:
        start = f"{self.root}/{under.rstrip('/')}/" if under else f"{self.root}/"
        cut = len(self.root) + 1
        return sorted(p[cut:] for p, file in self.files.items() if p.startswith(start) and not file.is_directory)


def aiter_in(seen: Seen) -> AiterTree:
    """The AITER of an image that was read with its kernels. Raises TableError where there is none."""
    root = seen.tree.layout.aiter
    if root is None:
        raise TableError(
            f"{seen.name} holds no AITER",
            hint="tables are read by AITER: name an image of sglang that has its checkout",
        )
    return AiterTree(AiterFiles(f"image:{seen.name}", root, seen.tree.files), env=dict(seen.env))
