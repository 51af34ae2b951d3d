"""Reads and writes files without trusting paths, and keeps a cache that processes may share."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import glob
import hashlib
import itertools
import os
import shutil
import stat
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath


def cache_home(app: str) -> Path:
    """The folder where `app` keeps what it can fetch again: `$APP_CACHE`, else the XDG cache folder."""
    if own := os.environ.get(f"{app.upper()}_CACHE"):
        return Path(own).expanduser().absolute()
    # The XDG base directory specification: a relative path there is to be ignored.
    xdg = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(xdg) if xdg.startswith("/") else Path.home() / ".cache") / app


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock file `path`, waiting for whoever has it; the kernel frees it when a holder is killed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


@contextlib.contextmanager
def alone_in(folder: Path) -> Iterator[bool]:
    """Whether no other process is in such a block with this folder. Where it cannot be locked (NFS), everybody is."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield _lock_now(handle)
    finally:
        os.close(handle)


def _lock_now(handle: int) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return True
    return True


@contextlib.contextmanager
def fresh_folder(path: Path) -> Iterator[Path]:
    """A new folder called `path` and a random end, for the time of the block; what a killed run left goes first.

    The caller holds a lock that makes the name its own. The end is random because a process that the killed
    run had started may still be writing to the old folder. It begins with what no release has in its name: `0.5.8.*`
    is also that of 0.5.8.post1, which another thread may be fetching.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    for left in path.parent.glob(f"{glob.escape(path.name)}~*"):
        shutil.rmtree(left, ignore_errors=True)
    work = Path(tempfile.mkdtemp(dir=path.parent, prefix=f"{path.name}~"))
    try:
        yield work
    finally:
        shutil.rmtree(work, ignore_errors=True)


@contextlib.contextmanager
def new_folder(path: Path) -> Iterator[Path]:
    """A folder to fill, which becomes `path` when the block ends well and is gone when it does not.

    `path` may not exist, or be an empty folder; not the one that this runs in, which would be lost under its feet.
    """
    path = path.absolute()
    if path.exists() and path.samefile("."):
        raise OSError(errno.EBUSY, "it is the folder that this runs in", str(path))
    path.parent.mkdir(parents=True, exist_ok=True)
    work = Path(tempfile.mkdtemp(dir=path.parent, prefix=f".{path.name}."))
    try:
        work.chmod(0o755)
        yield work
        work.replace(path)
    except BaseException:
        shutil.rmtree(work, ignore_errors=True)
        raise


def make_folder(path: Path) -> None:
    """The folder `path`, so that what takes long to make is not refused at its end. Raises OSError."""
    path.mkdir(parents=True, exist_ok=True)
    if not os.access(path, os.W_OK | os.X_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))


def write_atomic(path: Path, data: bytes) -> None:
    """Write `path` so that a reader sees the old bytes or the new ones, never a part.

    What is there and is no file, such as /dev/stdout or a pipe, is written to and not replaced. Raises OSError, also
    for a link that leads nowhere.
    """
    if path.exists() and not path.is_file():
        path.write_bytes(data)
        return
    if path.is_symlink() and not path.exists():
        raise FileNotFoundError(errno.ENOENT, "a link that leads nowhere", str(path))
    path.parent.mkdir(parents=True, exist_ok=True)
    temp = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        temp.write_bytes(data)
        temp.replace(path)
    finally:
        temp.unlink(missing_ok=True)


@dataclass(frozen=True)
class Copied:
    """One file of a tree that is to be written out: a regular file, or a link with its target as `data`."""

    path: str
    data: bytes
    mode: int = 0o644
    is_link: bool = False


def write_out(into: Path, copies: Iterable[Copied]) -> None:
    """Write files into the new folder `into`; a path that leaves it, or leads through a link, is refused."""
    real, made = Path(os.path.realpath(into)), {"."}
    for copy in copies:
        if not is_inside(copy.path):
            raise PermissionError(f"{copy.path!r} leaves the folder it is to be written to")
        target, folder = into / copy.path, str(PurePosixPath(copy.path).parent)
        if folder not in made:
            target.parent.mkdir(parents=True, exist_ok=True)
            if Path(os.path.realpath(target.parent)) != real / folder:
                raise PermissionError(f"{copy.path!r} leads through a link")
            made.add(folder)
        _write_new(target, copy)


def _write_new(target: Path, copy: Copied) -> None:
    if copy.is_link:
        target.symlink_to(os.fsdecode(copy.data))
        return
    with target.open("xb") as handle:  # `x` follows no link
        handle.write(copy.data)
    target.chmod(copy.mode)


def read_all(root: Path, paths: Iterable[str]) -> Iterator[Copied]:
    """The files and links at `paths` below `root`, as they are."""
    for path in paths:
        state = (root / path).lstat()
        if stat.S_ISLNK(state.st_mode):
            yield Copied(path, os.fsencode((root / path).readlink()), is_link=True)
        else:
            yield Copied(path, (root / path).read_bytes(), stat.S_IMODE(state.st_mode))


def move(source: Path, target: Path) -> None:
    """Move a file to `target` in one step, over what is there."""
    source.replace(target)


def sha256(path: Path) -> str:
    """The SHA-256 of a file, read in pieces."""
    digest = hashlib.sha256()
    with path.open("rb", buffering=0) as handle:
        while piece := handle.read(1 << 20):
            digest.update(piece)
    return digest.hexdigest()


def size_of(folder: Path) -> int:
    """How many bytes the files below `folder` hold now, while others may add and remove some."""
    total = 0
    for where, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(FileNotFoundError):
                total += Path(where, name).lstat().st_size
    return total


def is_inside(path: str) -> bool:
    """Whether `path`, by its spelling alone, names something below the folder it is relative to."""
    if not path or path.startswith("/") or "\0" in path or "\\" in path:
        return False
    return ".." not in path.split("/") and PurePosixPath(path).parts != ()


def read_inside(root: Path, path: str) -> bytes | None:
    """The bytes of the regular file `path` below `root`, or None if there is none.

    Raises PermissionError when a symbolic link on the way leaves `root`: what it points to is not of this tree.
    """
    if not is_inside(path):
        return None
    try:
        with open(root / path, "rb", opener=_open_at_once) as stream:
            real, base = os.path.realpath(root / path), os.path.realpath(root)
            if not real.startswith(base.rstrip("/") + "/"):
                link = _first_link(root, path)
                raise PermissionError(f"{link} is a symbolic link that leaves the tree: it points to {link.resolve()}")
            return stream.read() if stat.S_ISREG(os.fstat(stream.fileno()).st_mode) else None
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        return None


def _first_link(root: Path, path: str) -> Path:
    """The first symbolic link on the way from `root` to `path`."""
    steps = [root / PurePosixPath(*parts) for parts in itertools.accumulate((p,) for p in PurePosixPath(path).parts)]
    return next(step for step in steps if step.is_symlink())


def _open_at_once(path: str, flags: int) -> int:
    """Open without waiting: a named pipe would keep its reader until somebody writes, perhaps for ever."""
    return os.open(path, flags | os.O_NONBLOCK)


def walk(root: Path, under: str = "", *, links: bool = False) -> Iterator[str]:
    """Every regular file below `root/under`, relative to `root`; links are not followed, `.git` is not entered.

    With `links`, links are named too.
    """
    if under and not is_inside(under):
        return
    pending = [under.strip("/")]
    while pending:
        folder = pending.pop()
        with contextlib.suppress(FileNotFoundError, NotADirectoryError), os.scandir(root / folder) as entries:
            for entry in entries:
                path = f"{folder}/{entry.name}" if folder else entry.name
                if entry.is_dir(follow_symlinks=False):
                    if entry.name != ".git":
                        pending.append(path)
                elif entry.is_file(follow_symlinks=False) or (links and entry.is_symlink()):
                    yield path


def is_regular(path: Path) -> bool:
    """Whether `path` itself is a regular file: no link, folder or device."""
    try:
        return stat.S_ISREG(path.lstat().st_mode)
    except (FileNotFoundError, NotADirectoryError):
        return False


@contextlib.contextmanager
def scratch_folder() -> Iterator[Path]:
    """A temporary folder that is gone after the block."""
    with tempfile.TemporaryDirectory(prefix="rocmfix-") as folder:
        yield Path(folder)
