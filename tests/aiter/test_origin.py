"""Rows in a baked table are followed back to the very line that they were taken from."""

from __future__ import annotations

import pytest

from rocmfix.aiter.origin import RowSource, joined, origin_of


def rows(first=2, count=1, line=2, file="a.csv", sha256="1" * 64):
    return RowSource(first=first, count=count, file=file, line=line, sha256=sha256)


def test_rows_that_follow_each_other_in_both_files_are_one():
    assert joined([rows(2, 3, 10), rows(5, 2, 13), rows(7, 1, 15)]) == (rows(2, 6, 10),)


@pytest.mark.parametrize(
    "other",
    [
        rows(4, 1, 12),
        rows(3, 1, 11),
        rows(4, 1, 11, file="b.csv"),
        rows(4, 1, 11, sha256="2" * 64),
        rows(3, 1, 12, file="b.csv"),
    ],
    ids=["a line left out", "a place left out", "another file", "the file changed meanwhile", "nothing alike"],
)
def test_what_does_not_follow_stays_apart(other):
    """An image built on another may hold rows of two states of one file: a digest alone tells them apart."""
    first = rows(2, 2, 9)
    assert joined([first, other]) == (first, other)


def test_the_order_of_the_table_is_kept():
    parts = [rows(2, 1, 30), rows(3, 1, 20), rows(4, 1, 21), rows(5, 1, 2)]
    assert joined(parts) == (rows(2, 1, 30), rows(3, 2, 20), rows(5, 1, 2))


def test_each_line_leads_to_its_own_and_lines_outside_to_none():
    sources = (rows(2, 3, 10), rows(5, 2, 2, file="b.csv"))
    found = [origin_of(line, sources) for line in range(1, 8)]
    assert found == [
        None,
        rows(2, 1, 10),
        rows(3, 1, 11),
        rows(4, 1, 12),
        rows(5, 1, 2, file="b.csv"),
        rows(6, 1, 3, file="b.csv"),
        None,
    ]
