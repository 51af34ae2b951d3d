"""A tree in a wheel, read out of the archive without unpacking it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from rocmfix.errors import SourceError
from rocmfix.source.folder import version_of_metadata
from rocmfix.source.layout import PROJECTS, Layout, layout_of
from rocmfix.system.archive import Archive, ArchiveError, open_archive
from rocmfix.system.files import Copied


@dataclass(frozen=True)
class WheelTree:
    """The package inside a wheel; the archive is indexed once, each file is unpacked when it is read."""

    archive: Archive
    layout: Layout
    source: str

    @cached_property
    def release(self) -> str | None:
        for name in self.archive.names():
            if name.endswith(".dist-info/METADATA") and name.count("/") == 1:
                return version_of_metadata(self._read(name) or b"")
        return None

    def read(self, path: str) -> bytes | None:
        located = self.layout.locate(path)
        return None if located is None else self._read(located)

    def shown(self, path: str) -> str:
        return self.layout.locate(path) or path

    def paths(self, under: str) -> tuple[str, ...]:
        folder = self.layout.folder(under)
        if folder is None:
            return ()
        inside = (name for name in self.archive.names() if name.startswith(f"{folder}/"))
        return tuple(sorted(path for path in map(self.layout.restore, inside) if path is not None))

    def copies(self) -> Iterator[Copied]:
        """Everything in the wheel, as an installer would unpack it."""
        for name in self.archive.names():
            mode = 0o755 if self.archive.is_executable(name) else 0o644
            yield Copied(name, self._read(name) or b"", mode)

    def _read(self, name: str) -> bytes | None:
        try:
            return self.archive.read(name)
        except (ArchiveError, OSError) as error:
            raise SourceError(f"cannot read {self.source}: {error}") from error


def open_wheel(path: Path, *, source: str, project: str = "sglang") -> WheelTree:
    """The tree in the wheel at `path`."""
    try:
        archive = open_archive(path)
    except FileNotFoundError as error:
        raise SourceError(f"there is no wheel {path}", hint="check the name, or give a release (0.5.14)") from error
    except (ArchiveError, OSError) as error:
        raise SourceError(f"cannot read the wheel {path}: {error}", hint="download it again") from error
    layout = layout_of(PROJECTS[project], archive.has_folder)
    if layout is None:
        raise SourceError(f"the wheel {path} holds no {project}")
    return WheelTree(archive, layout, source)
