"""The record of what was done to a plain tree: `.rocmfix/state.json`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, ValidationError, model_validator

from rocmfix import __version__
from rocmfix.errors import ApplyError
from rocmfix.model import Record
from rocmfix.patchfile import safe_path
from rocmfix.plan import Patched
from rocmfix.verdict import Done, blob_id

FOLDER = ".rocmfix"
STATE = f"{FOLDER}/state.json"


def _inside(path: str) -> str:
    if not safe_path(path):
        raise ValueError(f"{path!r} leaves the tree")
    return path


TreePath = Annotated[str, AfterValidator(_inside)]
BlobId = Annotated[str, Field(pattern=r"^[0-9a-f]{40}$")]


class FileState(Record):
    """One touched file by git blob id: as it was before rocmfix, and as rocmfix left it. None = absent."""

    path: TreePath
    before: BlobId | None
    after: BlobId | None


class FixState(Record):
    """One fix that was applied: which patch, by sha256, and the files it touched."""

    fix: str
    variant: str
    digest: str
    paths: tuple[TreePath, ...]
    merged: bool = False


class State(Record):
    """What rocmfix did to a tree, in order. Paths are repository paths."""

    version: Literal[1] = 1
    tool: str = __version__
    fixes: tuple[FixState, ...] = ()
    files: tuple[FileState, ...] = ()

    @model_validator(mode="after")
    def _whole(self) -> State:
        lost = {path for fix in self.fixes for path in fix.paths} - {file.path for file in self.files}
        if lost:
            raise ValueError(f"says nothing of {min(lost)}, which a fix touched")
        return self

    def record(self) -> dict[str, Done]:
        """This state as `rocmfix.verdict` wants it."""
        after = {file.path: file.after for file in self.files}
        return {
            fix.fix: Done(fix.variant, {path: after[path] for path in fix.paths}, merged=fix.merged)
            for fix in self.fixes
        }

    def then(self, patched: Patched) -> State:
        """This state after `patched` has been written: files keep the oldest `before`."""
        files = {file.path: file for file in self.files}
        for path, after in patched.after.items():
            first = files[path].before if path in files else _id(patched.before[path])
            files[path] = FileState(path=path, before=first, after=_id(after))
        steps = (change.step for change in patched.changes)
        added = (FixState(**s.model_dump(include={"fix", "variant", "digest", "merged"}), paths=s.files) for s in steps)
        return State(fixes=(*self.fixes, *added), files=tuple(sorted(files.values(), key=lambda file: file.path)))


def before_file(blob: str) -> str:
    """Where the bytes of a file as it was before rocmfix are kept, by blob id."""
    return f"{FOLDER}/before/{blob}"


def parse_state(data: bytes | None, where: str) -> State | None:
    """The state in `data`, or None if there is none. Raises ApplyError when it is damaged."""
    if data is None:
        return None
    try:
        return State.model_validate_json(data)
    except ValidationError as error:
        raise ApplyError(
            f"{where}/{STATE} is damaged: {error.errors()[0]['msg'].removeprefix('Value error, ')}",
            hint="restore it, or fetch the tree again; without it revert cannot know what was there",
        ) from None


def edited_since(state: State, files: Mapping[str, bytes | None]) -> tuple[str, ...]:
    """The files that are no longer as rocmfix left them."""
    return tuple(file.path for file in state.files if _id(files[file.path]) != file.after)


def _id(data: bytes | None) -> str | None:
    return None if data is None else blob_id(data)
