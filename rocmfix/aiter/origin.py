"""Where the rows of a baked table are from: what an image's manifest keeps of them."""

from __future__ import annotations

from collections.abc import Iterable

from rocmfix.model import Record


class RowSource(Record):
    """Rows of a baked table that stand on consecutive lines of one file, in the same order."""

    first: int
    """The line of the baked table where they begin; its header is line 1."""
    count: int
    file: str
    """As the user named it, as the image has it, or `repo@commit:path`."""
    line: int
    """The line of `file` where they begin."""
    sha256: str
    """Of the whole of `file`."""
    repo: str | None = None
    commit: str | None = None
    path: str | None = None

    def goes_on_with(self, other: RowSource) -> bool:
        """Whether `other` is the very next rows of the same file."""
        follows = (self.first + self.count, self.line + self.count) == (other.first, other.line)
        return follows and (self.file, self.sha256) == (other.file, other.sha256)

    def longer_by(self, other: RowSource) -> RowSource:
        """Both as one."""
        return self.model_copy(update={"count": self.count + other.count})

    def at(self, line: int) -> RowSource:
        """The single row on `line` of the baked table."""
        return self.model_copy(update={"first": line, "count": 1, "line": self.line + line - self.first})


def joined(rows: Iterable[RowSource]) -> tuple[RowSource, ...]:
    """Rows in the order of the table, those that go on with each other as one."""
    found: list[RowSource] = []
    for row in rows:
        if found and found[-1].goes_on_with(row):
            found[-1] = found[-1].longer_by(row)
        else:
            found.append(row)
    return tuple(found)


def origin_of(line: int, sources: Iterable[RowSource]) -> RowSource | None:
    """Where the row on `line` of a baked table is from."""
    return next((each.at(line) for each in sources if each.first <= line < each.first + each.count), None)
