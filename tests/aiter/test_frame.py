"""CSVs are read as pandas reads them."""

from __future__ import annotations

import io
import math
from itertools import product

import pandas as pd  # type: ignore[import-untyped]
import pytest
from hypothesis import given, settings, strategies as st

from rocmfix.aiter.frame import Kind, UnreadableError, concat, infer, read, reread

CELL = st.one_of(
    st.integers(-(10**6), 10**6).map(str),
    st.floats(allow_nan=False).map(str),
    st.sampled_from(
        ["", "x", "True", "false", "NaN", " 1", "1 ", "Null", "None", "1e3", "+5", "0x1", "1_0", '"q"', "1.", ".5"]
    ),
)


def as_pandas(data):
    frame = pd.read_csv(io.BytesIO(data))
    cells = [[None if isinstance(x, float) and math.isnan(x) else x for x in frame[c].tolist()] for c in frame]
    return list(frame.columns), cells


@settings(max_examples=300, deadline=None)
@given(st.integers(1, 3).flatmap(lambda n: st.lists(st.lists(CELL, min_size=n, max_size=n), min_size=1, max_size=6)))
def test_types_and_values_are_those_of_pandas(rows):
    """Any table of numbers, truth values, texts and gaps has the columns, types and cells that pandas gives it."""
    names = ["a", "b", "c"][: len(rows[0])]
    data = "\n".join([",".join(names), *(",".join(row) for row in rows)]).encode()
    frame = read(data, "t.csv")
    columns, cells = as_pandas(data)
    assert list(frame.columns) == columns
    for ours, theirs in zip(frame.data, cells, strict=True):
        assert [(type(x), x) for x in ours.cells] == [(type(x), x) for x in theirs]


@settings(max_examples=100, deadline=None)
@given(st.lists(st.lists(CELL, min_size=1, max_size=4), min_size=2, max_size=3))
def test_joined_columns_have_the_types_of_pandas(parts):
    """Columns of different types, one below the other, written and read again, are what pandas makes of them."""
    texts = ["\n".join(["a,k", *(f"{cell},k" for cell in part)]) for part in parts]
    joined = pd.concat([pd.read_csv(io.StringIO(text)) for text in texts], ignore_index=True)
    again = pd.read_csv(io.StringIO(joined.to_csv(index=False)))["a"].tolist()
    ours = reread(concat([read(text.encode(), "t") for text in texts]).column("a")).cells
    theirs = [None if isinstance(x, float) and math.isnan(x) else x for x in again]
    assert len(ours) == len(theirs)
    assert all(x == y and isinstance(x, str) is isinstance(y, str) for x, y in zip(ours, theirs, strict=True))


KINDS = {"truth": "True\nFalse", "whole": "1\n2", "broken": "1.5\n2.5", "gap": "\n"}


@pytest.mark.parametrize("order", [*product(KINDS, repeat=2), *product(KINDS, repeat=3)], ids="-".join)
def test_truth_values_between_numbers_are_what_pandas_makes_of_them_in_that_order(order):
    """Truth values become text in front of fractions, and fractions behind them."""
    texts = ["a,h,k\n" + "\n".join(f"{cell},1,x" for cell in KINDS[kind].split("\n")) for kind in order]
    joined = pd.concat([pd.read_csv(io.StringIO(text)) for text in texts], ignore_index=True)["a"]
    ours = concat([read(text.encode(), "t") for text in texts]).column("a").cells
    theirs = [None if isinstance(x, float) and math.isnan(x) else x for x in joined.tolist()]
    assert [(x, type(x)) for x in ours] == [(x, type(x)) for x in theirs]


def test_truth_values_of_one_file_are_numbers_below_numbers_of_another():
    """So a file of True and False works when merged with one of 1 and 0, and a column of both does not."""
    files = [read(b"a\n1\n0\n", "x"), read(b"a\nTrue\nFalse\n", "y")]
    assert reread(concat(files).column("a")) == (Kind.INT, (1, 0, 1, 0))
    assert read(b"a\n1\nTrue\n", "z").column("a").cells == ("1", "True")


def test_one_text_makes_the_whole_column_text():
    assert infer(["1", "2", "x"]).cells == ("1", "2", "x")
    assert infer(["1", "2", "3"]).kind is Kind.INT


def test_a_gap_makes_integers_floats_and_truth_values_objects():
    assert infer(["1", "", "3"]) == (Kind.FLOAT, (1.0, None, 3.0))
    assert infer(["True", ""]) == (Kind.MIXED, (True, None))


def test_rows_longer_than_the_header_move_every_name_to_the_left():
    frame = read(b"a,b\n1,2,\n3,4,\n", "t.csv")
    assert frame.shifted
    assert frame.column("a").cells == (2, 4)


def test_line_numbers_survive_blank_lines_quotes_and_carriage_returns():
    frame = read(b'a,b\r\n\r\n1,"x\r\ny"\r\n2,z\r\n', "t.csv")
    assert [origin.line for origin in frame.origins] == [3, 5]
    assert frame.column("b").cells == ("x\ny", "z")


@pytest.mark.parametrize(
    ("data", "error", "line"),
    [
        (b"a,b\n1,2\n1,2,3\n", "ParserError", 3),
        (b'a,b\n1,"2\n', "ParserError", 2),
        (b"", "EmptyDataError", 1),
        (b"a,b\n\xff,1\n", "UnicodeDecodeError", 1),
    ],
)
def test_what_pandas_refuses_is_refused_with_its_error_and_place(data, error, line):
    with pytest.raises(UnreadableError) as caught:
        read(data, "t.csv")
    assert (caught.value.error, caught.value.at) == (error, ("t.csv", line))
    with pytest.raises((ValueError, UnicodeDecodeError)) as pandas:
        as_pandas(data)
    assert type(pandas.value).__name__ == error
