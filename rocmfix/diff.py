"""Shows a patched tree as one reviewable diff that `git apply` takes."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping

from rocmfix.tree import Tree
from rocmfix.verdict import blob_id

_NO_NEWLINE = "\\ No newline at end of file\n"


def unified(
    before: Mapping[str, bytes | None], after: Mapping[str, bytes | None], tree: Tree | None = None
) -> Iterator[str]:
    """The difference of two states of some files, in git's format, lines with their endings.

    Paths are spelt as in `tree`, or as repository paths.
    """
    for path in sorted(after):
        if before[path] != after[path]:
            yield from _file(tree.shown(path) if tree else path, before[path], after[path])


def _file(path: str, old: bytes | None, new: bytes | None) -> Iterator[str]:
    yield f"diff --git a/{path} b/{path}\n"
    if old is None:
        yield "new file mode 100644\n"
    if new is None:
        yield "deleted file mode 100644\n"
    mode = " 100644" if old is not None and new is not None else ""
    yield f"index {_id(old)}..{_id(new)}{mode}\n"
    names = (f"a/{path}" if old is not None else "/dev/null", f"b/{path}" if new is not None else "/dev/null")
    for line in difflib.unified_diff(_lines(old), _lines(new), *names):
        yield line if line.endswith("\n") else line + "\n" + _NO_NEWLINE


def _lines(data: bytes | None) -> list[str]:
    text = (data or b"").decode("utf-8", "surrogateescape")
    lines = [line + "\n" for line in text.split("\n")]
    lines[-1] = lines[-1][:-1]
    return lines if lines[-1] else lines[:-1]


def _id(data: bytes | None) -> str:
    return "0" * 40 if data is None else blob_id(data)
