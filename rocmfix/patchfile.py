"""Reads a `git format-patch` file and refuses whatever a patch of ours may not do."""

from __future__ import annotations

import email.header
import email.message
import email.parser
import email.utils
import hashlib
import re
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from rocmfix.errors import CatalogError
from rocmfix.hunks import FileChange, Hunk

if TYPE_CHECKING:
    from collections.abc import Sequence

    from unidiff.patch import Hunk as ParsedHunk, PatchedFile

MAX_BYTES = 1_000_000
"""A fix is small; anything larger is a mistake or an attack, and is refused before it is read."""

_REFUSED = {
    "GIT binary patch": "binary content",
    "Binary files ": "binary content",
    "rename from ": "a rename",
    "copy from ": "a copy",
    "old mode ": "a mode change",
    "new file mode 120000": "a symbolic link",
    "new file mode 160000": "a submodule",
    "new file mode 100755": "an executable file",
    "deleted file mode 120000": "a symbolic link",
}


@dataclass(frozen=True)
class Patch:
    """A change with its author and reason: one commit, at rest."""

    name: str
    author: str
    """`Name <address>`."""
    date: str
    """RFC 2822, as in the file."""
    subject: str
    body: str
    """The paragraphs between subject and diffstat, sign-off included."""
    changes: tuple[FileChange, ...]
    digest: str
    """sha256 of the file's bytes."""

    @property
    def paths(self) -> tuple[str, ...]:
        """The files it touches, as repository paths."""
        return tuple(change.path for change in self.changes)

    @property
    def message(self) -> str:
        """The commit message `git am` would make."""
        return f"{self.subject}\n\n{self.body}\n"


def parse_patch(data: bytes, name: str) -> Patch:
    """The patch in `data`, the content of the file `name`.

    Raises CatalogError when it is not one `git format-patch` commit with author, date, subject, reason and
    sign-off, or when it does what a fix never needs: paths outside the tree, links, modes, renames, binaries.
    """
    text = _text(data, name)
    head, mail = _split(text, name)
    found = re.search(r"^diff --git ", text, re.MULTILINE)
    diff = text[found.start() :].partition("\n-- \n")[0] if found else ""
    _refuse_unsafe(diff, name)
    return Patch(
        name=name,
        author=_header(mail, "From", name),
        date=_date(mail, name),
        subject=re.sub(r"^\[PATCH[^\]]*\]\s*", "", _header(mail, "Subject", name)),
        body=_body(head, name),
        changes=_changes(diff, name),
        digest=hashlib.sha256(data).hexdigest(),
    )


def safe_path(path: str) -> bool:
    """Whether `path` stays inside a tree: relative, plain, no `..`; and out of what git and rocmfix keep there."""
    parts = PurePosixPath(path).parts
    plain = bool(parts) and not path.startswith("/") and "\\" not in path and "\0" not in path
    return (
        plain
        and str(PurePosixPath(path)) == path
        and not {"..", ".", ".git", ".rocmfix"} & {part.lower() for part in parts}
    )


def _text(data: bytes, name: str) -> str:
    if len(data) > MAX_BYTES:
        raise CatalogError(f"{name}: larger than {MAX_BYTES} bytes", hint="a fix is small; split or shrink it")
    if b"\r" in data:
        raise CatalogError(f"{name}: has CR line endings", hint="save it with LF endings; trees with CRLF are handled")
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise CatalogError(f"{name}: is not UTF-8 at byte {error.start}") from error


def message_part(text: str) -> str:
    """A patch file up to its diffstat or diff: headers and message. Empty when there is neither."""
    found = re.search(r"^---$|^diff --git ", text, re.MULTILINE)
    return text[: found.start()] if found else ""


def _split(text: str, name: str) -> tuple[str, email.message.Message[str, str]]:
    head = message_part(text)
    if not head.startswith("From "):
        raise CatalogError(f"{name}: is not a `git format-patch` file", hint="export it with git format-patch -1")
    return head, email.parser.HeaderParser().parsestr(head.split("\n", 1)[1])


def _header(mail: email.message.Message[str, str], key: str, name: str) -> str:
    value = " ".join(str(mail.get(key, "")).split())
    if "=?" in value:
        value = str(email.header.make_header(email.header.decode_header(value)))
    if not value:
        raise CatalogError(f"{name}: has no {key} line", hint="export it with git format-patch -1")
    return value


def _date(mail: email.message.Message[str, str], name: str) -> str:
    value = _header(mail, "Date", name)
    try:
        email.utils.parsedate_to_datetime(value)
    except ValueError as error:
        raise CatalogError(f"{name}: has a Date that is none: {value}") from error
    return value


def _body(head: str, name: str) -> str:
    body = head.partition("\n\n")[2].strip()
    why = re.sub(r"^[A-Z][A-Za-z-]+: .*$", "", body, flags=re.MULTILINE).strip()
    if not why:
        raise CatalogError(f"{name}: says no reason", hint="write a paragraph of why in the commit message")
    if not re.search(r"^Signed-off-by: .+ <.+>$", body, re.MULTILINE):
        raise CatalogError(f"{name}: has no Signed-off-by line", hint="commit with git commit -s")
    return body


def _refuse_unsafe(diff: str, name: str) -> None:
    """Look at the header lines of each file's part: lines inside hunks never start with `diff`."""
    for part in re.split(r"^(?=diff --git )", diff, flags=re.MULTILINE)[1:]:
        header = part.partition("\n@@ ")[0].splitlines()
        for line in header:
            for start, what in _REFUSED.items():
                if line.startswith(start):
                    hint = "a fix only edits, adds or removes text files"
                    raise CatalogError(f"{name}: holds {what} ({line})", hint=hint)
        _refuse_disagreeing(header, name)


def _refuse_disagreeing(header: list[str], name: str) -> None:
    """The three places that name a file must agree: git goes by one of them, other readers by another."""
    named = re.fullmatch(r"diff --git a/(\S+) b/(\S+)", header[0])
    if not named or named[1] != named[2]:
        raise CatalogError(f"{name}: holds a rename, or a path with blanks: {header[0]}")
    for mark, prefix in (("--- ", "a/"), ("+++ ", "b/")):
        for line in header:
            if line.startswith(mark) and line[4:] not in ("/dev/null", prefix + named[1]):
                raise CatalogError(f"{name}: names {line[4:]} in a part about {named[1]}")


def _changes(diff: str, name: str) -> tuple[FileChange, ...]:
    from unidiff.errors import UnidiffParseError
    from unidiff.patch import PatchSet

    try:
        parsed = PatchSet(diff.splitlines(keepends=True))
    except UnidiffParseError as error:
        raise CatalogError(f"{name}: is damaged: {str(error).strip()}", hint="export it again") from error
    changes = tuple(_change(file, name) for file in parsed)
    if not changes or len({change.path for change in changes}) != len(changes):
        raise CatalogError(f"{name}: changes no file, or one twice")
    return changes


def _change(file: PatchedFile, name: str) -> FileChange:
    source, target = file.source_file, file.target_file
    path = (source if target == "/dev/null" else target).partition("/")[2]
    if not safe_path(path):
        raise CatalogError(f"{name}: leaves the tree: {path}")
    if not len(file):
        raise CatalogError(f"{name}: {path} has no hunk")
    hunks = tuple(_hunk(hunk) for hunk in file)
    return FileChange(path, hunks, before=source != "/dev/null", after=target != "/dev/null")


def _hunk(hunk: ParsedHunk) -> Hunk:
    kinds: list[str] = []
    old: list[bytes] = []
    new: list[bytes] = []
    for line in hunk:
        if line.line_type == "\\":
            _drop_newline(kinds[-1], old, new)
            continue
        kinds.append(line.line_type)
        if line.line_type in " -":
            old.append(line.value.encode())
        if line.line_type in " +":
            new.append(line.value.encode())
    leading, trailing = _context(kinds), _context(kinds[::-1])
    return Hunk(hunk.source_start, tuple(old), hunk.target_start, tuple(new), leading, trailing)


def _drop_newline(kind: str, old: list[bytes], new: list[bytes]) -> None:
    for side, kinds in ((old, " -"), (new, " +")):
        if kind in kinds:
            side[-1] = side[-1].removesuffix(b"\n")


def _context(kinds: Sequence[str]) -> int:
    return next((i for i, kind in enumerate(kinds) if kind != " "), len(kinds))
