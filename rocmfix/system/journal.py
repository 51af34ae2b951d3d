"""Replaces many files of a tree at once: all of them or none, even when killed in the middle.

Everything is prepared in a journal folder inside the tree (the same file system): the new bytes, and a hard
link to each file as it is. Only then is the record of the plan written and each file renamed into place.
Whoever finds that record later knows that a run was killed, and puts the kept files back.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import signal
import stat
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path, PurePosixPath
from typing import Any, TypeAlias

from rocmfix.errors import ApplyError
from rocmfix.system import files

JOURNAL = ".rocmfix/journal"
"""Where the journal lies in a tree while files are being replaced."""

Reached: TypeAlias = "Callable[[str, tuple[str, ...]], bool]"
"""Asked with the goal and the paths of a run that did not end: did it get where files, once replaced, must stay?"""


@dataclass(frozen=True)
class _Step:
    """One file: whether it was there, whether it will be, and which folders have to be made for it."""

    path: str
    existed: bool
    remains: bool
    folders: tuple[str, ...]


@dataclass(frozen=True)
class _Plan:
    """Every step of a run, and what it was to reach with them; the goal is the caller's word."""

    goal: str
    steps: tuple[_Step, ...]


def replace_all(
    root: Path, changes: Mapping[str, bytes | None], *, expected: Mapping[str, bytes | None] | None = None
) -> None:
    """Give each path below `root` its new bytes, or remove it where they are None: as `replaced` does."""
    with replaced(root, changes, expected=expected):
        pass


@contextlib.contextmanager
def replaced(
    root: Path,
    changes: Mapping[str, bytes | None],
    *,
    expected: Mapping[str, bytes | None] | None = None,
    goal: str = "",
    reached: Reached | None = None,
) -> Iterator[None]:
    """Give each path below `root` its new bytes, or remove it where they are None: all of them or none.

    The block does what belongs to the same change. When it fails or is killed the files go back too, unless
    `reached` says that it got to `goal`. A file keeps its mode and owner (new files: 0644). `expected` is what the
    files must hold now, None for "not there": an edit since they were read is refused. Raises ApplyError with the
    tree as it was; links anywhere on a path, and paths that leave `root`, are refused before anything.
    """
    for path in {**changes, **(expected or {})}:
        _refuse_link_or_escape(root, path)
    try:
        with _opened(root, reached) as journal:
            _refuse_edited(root, expected or {})
            wanted = enumerate(sorted(changes))
            steps = tuple(_prepared(root, journal, number, path, changes[path]) for number, path in wanted)
            _record(journal, _Plan(goal, steps))
            _replace(root, journal, steps)
            yield
            (journal / "plan.json").unlink()
    except OSError as error:
        raise ApplyError(
            f"cannot write {error.filename or root}: {error.strerror}; the tree is as it was",
            hint="make room there, get the right to write, or write a patched copy elsewhere: --out DIR",
        ) from error
    _prune(root, [path for path, data in changes.items() if data is None])


def is_pending(root: Path) -> bool:
    """Whether a run was killed (or is at work) while it replaced files below `root`."""
    return (root / JOURNAL / "plan.json").exists()


def recover(root: Path, reached: Reached | None = None) -> tuple[str, ...]:
    """Put back what a killed run had replaced, and return the paths; () when there is nothing to undo."""
    if not (root / JOURNAL).exists():
        return ()
    _refuse_link_or_escape(root, f"{JOURNAL}/plan.json")
    with _claimed(root / JOURNAL) as journal:
        return _rolled_back(root, journal, reached)


@contextlib.contextmanager
def _opened(root: Path, reached: Reached | None) -> Iterator[Path]:
    """A new journal; it goes when the block is done or undone, and stays where undoing failed."""
    _refuse_link_or_escape(root, f"{JOURNAL}/plan.json")
    (root / JOURNAL).mkdir(parents=True, exist_ok=True)
    with _claimed(root / JOURNAL) as journal:
        if is_pending(root):
            raise ApplyError(
                f"an earlier run was interrupted while it wrote {root}",
                hint="the next apply or revert puts the files back first",
            )
        try:
            for name in ("new", "old"):
                shutil.rmtree(journal / name, ignore_errors=True)
                (journal / name).mkdir()
            yield journal
        except BaseException:
            _rolled_back(root, journal, reached)
            raise
        _discard(journal)


@contextlib.contextmanager
def _claimed(journal: Path) -> Iterator[Path]:
    """The journal, ours alone: the kernel frees the claim of a killed run, and of no other."""
    another = ApplyError(f"another run is writing {journal.parent.parent}", hint="wait until it is done")
    try:
        handle = (journal / "lock").open("wb")
    except FileNotFoundError:  # it ended just now, and its journal went
        raise another from None
    with handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise another from None
        if not os.fstat(handle.fileno()).st_nlink:
            raise another
        yield journal


def _refuse_link_or_escape(root: Path, path: str) -> None:
    if not files.is_inside(path):
        raise ApplyError(f"{path!r} leaves the tree; nothing was written")
    *folders, name = PurePosixPath(path).parts
    here = root
    for part in folders:
        here /= part
        if here.is_symlink():
            raise ApplyError(f"{here} is a symbolic link in the way; nothing was written")
    if os.path.lexists(here / name) and not files.is_regular(here / name):
        raise ApplyError(f"{here / name} is not a regular file; nothing was written")


def _refuse_edited(root: Path, expected: Mapping[str, bytes | None]) -> None:
    for path, data in expected.items():
        if files.read_inside(root, path) != data:
            raise ApplyError(f"{root / path} changed since it was read; nothing was written", hint="run it again")


def _prepared(root: Path, journal: Path, number: int, path: str, data: bytes | None) -> _Step:
    """Lay out the new bytes and keep the old file: a full disk or a missing right fails here."""
    target = root / path
    existed = os.path.lexists(target)
    if not existed and data is None:
        raise ApplyError(f"{target} cannot be removed: it is not there; nothing was written")
    if existed:
        _keep(target, journal / "old" / str(number))
    if data is not None:
        _write(journal / "new" / str(number), data, target.lstat() if existed else None)
    missing = [folder for folder in PurePosixPath(path).parents if not (root / folder).exists()]
    return _Step(path, existed, data is not None, tuple(map(str, missing)))


def _keep(target: Path, kept: Path) -> None:
    """A hard link costs no space and keeps times, owner and attributes; a copy where links are not to be had."""
    try:
        os.link(target, kept, follow_symlinks=False)
    except OSError:
        shutil.copy2(target, kept, follow_symlinks=False)


def _write(path: Path, data: bytes, before: os.stat_result | None) -> None:
    with path.open("xb") as handle:
        handle.write(data)
        handle.flush()
        os.fsync(handle.fileno())
    if before is not None and (before.st_uid, before.st_gid) != (os.geteuid(), os.getegid()):
        with contextlib.suppress(PermissionError):  # only root may give files away
            os.chown(path, before.st_uid, before.st_gid)
    path.chmod(stat.S_IMODE(before.st_mode) if before else 0o644)


def _record(journal: Path, plan: _Plan) -> None:
    files.write_atomic(journal / "plan.json", json.dumps(asdict(plan)).encode())
    for folder in (journal / "old", journal / "new", journal):
        _sync(folder)


def _recorded(root: Path, journal: Path) -> _Plan:
    """The plan as recorded. A tree from outside may bring its own: no path in it may leave the tree."""
    try:
        fields = json.loads((journal / "plan.json").read_bytes())
        plan = _Plan(str(fields["goal"]), tuple(map(_step, fields["steps"])))
    except FileNotFoundError:
        return _Plan("", ())
    except (ValueError, TypeError, KeyError) as error:
        raise ApplyError(
            f"{journal / 'plan.json'} is damaged", hint=f"the kept files are in {journal / 'old'}"
        ) from error
    for step in plan.steps:
        for path in (step.path, *(f"{folder}/-" for folder in step.folders)):
            _refuse_link_or_escape(root, path)
    return plan


def _step(fields: dict[str, Any]) -> _Step:
    folders = tuple(map(str, fields["folders"]))
    return _Step(str(fields["path"]), bool(fields["existed"]), bool(fields["remains"]), folders)


def _replace(root: Path, journal: Path, steps: tuple[_Step, ...]) -> None:
    for number, step in enumerate(steps):
        target = root / step.path
        if step.remains:
            target.parent.mkdir(parents=True, exist_ok=True)
            (journal / "new" / str(number)).replace(target)
        else:
            target.unlink()
    for folder in {(root / step.path).parent for step in steps}:
        _sync(folder)


def _rolled_back(root: Path, journal: Path, reached: Reached | None) -> tuple[str, ...]:
    """Undo what the journal records, and the journal itself; where that fails, both stay for the next run."""
    try:
        with _interrupts_held():
            plan = _recorded(root, journal)
            paths = tuple(step.path for step in plan.steps)
            stays = reached is not None and bool(plan.goal) and reached(plan.goal, paths)
            if not stays:
                _undo(root, journal, plan.steps)
            _discard(journal)
    except OSError as error:
        raise ApplyError(
            f"cannot restore {error.filename or root}: {error.strerror}",
            hint=f"mend that and run again; the kept files are in {journal / 'old'}",
        ) from error
    return () if stays else paths


def _undo(root: Path, journal: Path, steps: tuple[_Step, ...]) -> None:
    """Put every kept file back. Safe to repeat: a kept file that is back already is the same link."""
    for step in steps:
        if not step.existed:
            (root / step.path).unlink(missing_ok=True)
            for folder in step.folders:
                with contextlib.suppress(OSError):
                    (root / folder).rmdir()
    for number, step in enumerate(steps):
        kept = journal / "old" / str(number)
        if step.existed and kept.exists():
            kept.replace(root / step.path)


def _discard(journal: Path) -> None:
    """The plan goes first: without it there is nothing to undo, whatever else is left."""
    (journal / "plan.json").unlink(missing_ok=True)
    shutil.rmtree(journal)
    with contextlib.suppress(OSError):  # it holds the tree's own record
        journal.parent.rmdir()


def _prune(root: Path, gone: list[str]) -> None:
    """Remove the folders that are empty now that these files are gone."""
    for path in gone:
        for folder in (root / path).parents:
            if folder == root:
                break
            try:
                folder.rmdir()
            except OSError:
                break


def _sync(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextlib.contextmanager
def _interrupts_held() -> Iterator[None]:
    """A second Ctrl-C waits until the files are back."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM, signal.SIGHUP})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
