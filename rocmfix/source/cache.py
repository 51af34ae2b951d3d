"""Keeps release wheels: fetched once, checked against the index's hash, shared by processes."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_EXCEPTION, CancelledError, ThreadPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path

from packaging.utils import parse_wheel_filename

from rocmfix.errors import SourceError
from rocmfix.releases import Release, Wheel
from rocmfix.system import files, terminal
from rocmfix.system.pip import Tags, download_wheel

AT_ONCE = 2
"""Downloads side by side: more gain nothing on one connection and are impolite to an index."""


def wheel_of(project: str, release: Release, cache: Path, *, offline: bool) -> Path:
    """A wheel of `release` in `cache`, fetched if need be."""
    return wheels_of(project, (release,), cache, offline=offline)[0]


def wheels_of(project: str, releases: Iterable[Release], cache: Path, *, offline: bool) -> tuple[Path, ...]:
    """A wheel of each release, those that are missing fetched two at a time."""
    wanted = tuple(releases)
    found = {release.version: _cached(release, cache) for release in wanted}
    missing = [release for release in wanted if found[release.version] is None]
    if missing and offline:
        raise _offline(project, missing, cache)
    if missing:
        found.update(_fetched(project, missing, cache))
    return tuple(path for release in wanted if (path := found[release.version]) is not None)


def _fetched(project: str, missing: list[Release], cache: Path) -> dict[str, Path]:
    stop = threading.Event()
    with terminal.progress() as tasks, ThreadPoolExecutor(AT_ONCE) as pool:
        fetch = _Fetch(project, cache, tasks, stop)
        futures = {release.version: pool.submit(fetch, release) for release in missing}
        try:
            wait(futures.values(), return_when=FIRST_EXCEPTION)
        finally:
            stop.set()  # Ctrl-C, or one that failed: the others would only make the user wait
            pool.shutdown(cancel_futures=True)
    for future in futures.values():
        error = None if future.cancelled() else future.exception()
        if error and not isinstance(error, CancelledError):
            raise error
    return {version: future.result() for version, future in futures.items()}


@dataclass(frozen=True)
class _Fetch:
    """Fetches one release after the other, in whatever thread."""

    project: str
    cache: Path
    tasks: terminal.Progress
    stop: threading.Event

    def __call__(self, release: Release) -> Path:
        """Fetch one release under its lock: whoever waited for the lock finds the wheel there."""
        mark = f"{self.project}-{release.version}"
        try:
            return self._under_lock(release, mark)
        except BaseException:
            self.stop.set()
            raise

    def _under_lock(self, release: Release, mark: str) -> Path:
        if self.stop.is_set():
            raise CancelledError
        with files.locked(self.cache / f".lock-{mark}"):
            if path := _cached(release, self.cache):
                return path
            with files.fresh_folder(self.cache / f".part-{mark}") as part:
                return self._download(release, part)

    def _download(self, release: Release, part: Path) -> Path:
        """Ask for the wheels of one Python after the other: a mirror may hold only some."""
        size = max(wheel.size for wheel in release.wheels.values())
        with self.tasks.task(f"{self.project} {release.version}", size) as arrived:
            tries = (self._try(release, tags, part, self._while_wanted(arrived)) for tags in _tags(release))
            failures: list[SourceError] = []
            for result in tries:
                if isinstance(result, Path):
                    return result
                failures.append(result)
        raise failures[0]

    def _try(self, release: Release, tags: Tags, part: Path, told: Callable[[int], None]) -> Path | SourceError:
        try:
            with files.fresh_folder(part / tags.python) as into:
                path = download_wheel(f"{self.project}=={release.version}", tags, into, arrived=told)
                return _accepted(path, release, self.cache)
        except SourceError as error:
            return error

    def _while_wanted(self, arrived: Callable[[int], None]) -> Callable[[int], None]:
        def told(size: int) -> None:
            if self.stop.is_set():
                raise CancelledError
            arrived(size)

        return told


def _accepted(path: Path, release: Release, cache: Path) -> Path:
    """Move a downloaded wheel into the cache if it is, to the byte, the one that the index promised."""
    promised = release.wheels.get(path.name)
    digest = files.sha256(path)
    if promised is None or digest != promised.sha256:
        expected = promised.sha256 if promised else "of a wheel that is listed for this release"
        raise SourceError(
            f"the downloaded {path.name} is not the file that the package index published",
            details=(f"expected sha256 {expected}", f"got      sha256 {digest}"),
            hint="ask whoever runs your index or proxy; nothing was kept",
        )
    kept = cache / path.name
    files.move(path, kept)
    _vouch(kept, promised)
    return kept


def _tags(release: Release) -> Iterator[Tags]:
    """The Pythons that wheels of this release are made for, each with its platforms; newest first."""
    platforms: dict[tuple[str, str], list[str]] = {}
    for name in sorted(release.wheels, reverse=True):
        for tag in parse_wheel_filename(name)[3]:
            platforms.setdefault((tag.interpreter, tag.abi), []).append(tag.platform)
    for (python, abi), names in platforms.items():
        yield Tags(python, abi, tuple(names))


def _cached(release: Release, cache: Path) -> Path | None:
    """The first wheel of the release that is in the cache and whole."""
    return next((cache / name for name, wheel in release.wheels.items() if _is_whole(cache / name, wheel)), None)


def _is_whole(path: Path, wheel: Wheel) -> bool:
    """Whether the file is the promised one; hashed once, then vouched for by its size and time."""
    try:
        if _voucher(path).read_text(encoding="utf-8") == _words(path, wheel):
            return True
    except OSError:
        pass
    if not path.is_file() or path.stat().st_size != wheel.size or files.sha256(path) != wheel.sha256:
        return False
    _vouch(path, wheel)
    return True


def _vouch(path: Path, wheel: Wheel) -> None:
    with contextlib.suppress(OSError):  # a cache that others fill may be read-only; then it is hashed each time
        files.write_atomic(_voucher(path), _words(path, wheel).encode())


def _voucher(path: Path) -> Path:
    return path.with_name(f"{path.name}.whole")


def _words(path: Path, wheel: Wheel) -> str:
    state = path.stat()
    return f"{wheel.sha256} {state.st_size} {state.st_mtime_ns}\n"


def _offline(project: str, missing: list[Release], cache: Path) -> SourceError:
    names = [f"{release.version}: none of its wheels, such as {min(release.wheels)}" for release in missing]
    return SourceError(
        f"offline, and not in the cache {cache}: {project} {', '.join(release.version for release in missing)}",
        details=tuple(names),
        hint="run once without --offline, or put a wheel of each there; a damaged one counts as missing",
    )
