"""Tables are merged the same way every time, and what cannot be decided is refused."""

from __future__ import annotations

import itertools

import pytest

from rocmfix.aiter.frame import Origin
from rocmfix.aiter.merging import merge_tables
from rocmfix.aiter.reader import Table, TableFile, load
from rocmfix.aiter.schema import FMOE
from rocmfix.errors import TableError
from tests.aiter.rows import HEADER, ladder, row, table
from tests.aiter.trees import RULES

RULES_NEW = RULES["v0.1.20"]


def merged(*files, preferred=(), rules=RULES_NEW):
    named = [TableFile(f"{n}.csv", data) for n, data in enumerate(files)]
    wanted = [TableFile(f"p{n}.csv", data) for n, data in enumerate(preferred)]
    return merge_tables(named, FMOE, rules, preferred=wanted)


def test_the_lower_us_wins_whatever_the_order_of_files():
    files = [table(ladder()), table([row(token=4, us=1.5)]), table([row(token=4, us=99)])]
    results = {frozenset(merged(*order).data.splitlines()) for order in itertools.permutations(files)}
    assert len(results) == 1
    assert any(b",1.5," in line for line in results.pop())


def test_rows_that_gave_way_are_named():
    result = merged(table(ladder()), table([row(token=4, us=1.5)]))
    assert result.dropped == ((Origin("0.csv", 4), Origin("1.csv", 2)),)
    assert result.origins[2] == Origin("1.csv", 2)


def test_merging_a_merged_table_changes_nothing():
    once = merged(table(ladder()), table(ladder(inter_dim=1024))).data
    assert merged(once).data == once


def test_cells_keep_their_text():
    assert b",1.3%," in merged(table([row(us="19.0000")])).data
    assert b",19.0000," in merged(table([row(us="19.0000")])).data


def test_columns_are_joined_and_gaps_filled_as_aiter_fills_them():
    wide = table([{**row(token=8), "xbf16": "1", "_tag": ""}], [*HEADER, "xbf16", "_tag"])
    lines = merged(table([row()]), wide).data.decode().splitlines()
    assert lines[0].split(",") == [*HEADER, "xbf16"]
    assert [line.split(",")[-1] for line in lines[1:]] == ["0", "1"]


def test_a_missing_gfx_is_written_down_and_not_left_to_the_chip_at_hand():
    assert merged(table([row(cu_num=304)], HEADER[1:])).data.splitlines()[1].startswith(b"gfx942,304,")
    with pytest.raises(TableError, match="do not tell which"):
        merged(table([row(cu_num=128)], HEADER[1:]))


@pytest.mark.parametrize(
    ("other", "why"),
    [
        (row(us="0", block_m=64), "never timed"),
        (row(us="19.0", block_m=64), "equal"),
        (row(us="5", kernelName1="flydsl_mxmoe_g1_a4w4_32x256x256"), "whole pipeline"),
    ],
)
def test_what_the_times_do_not_decide_is_refused_and_a_preference_decides(other, why):
    with pytest.raises(TableError, match=why) as caught:
        merged(table([row()]), table([other]))
    assert "--prefer" in str(caught.value.hint)
    assert merged(table([row()]), preferred=[table([other])]).origins == (Origin("p0.csv", 2),)


def test_equal_rows_are_one_row():
    assert len(merged(table([row()]), table([row()])).origins) == 1


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (table(ladder()) + (",".join(HEADER) + "\n").encode(), "second header"),
        (table(ladder()).replace(b"125258.21\n", b"125258.21,\n"), "longer than the header"),
        (table([row(token="x")]), "token is 'x'"),
        (table(ladder()) + b"1," * 60 + b"\n", "Expected 26 fields"),
        (b"", "No columns"),
    ],
)
def test_a_table_that_would_be_switched_off_is_refused_at_its_line(data, why):
    with pytest.raises(TableError, match=why):
        merged(data, table(ladder(inter_dim=1024)))


@pytest.mark.parametrize("name", ["token", "topk", "use_g1u1", "doweight_stage1"])
def test_a_word_in_a_column_of_numbers_is_refused_at_its_own_line(name):
    """The cells around it are read as text too, and it alone is to be mended."""
    rows = [row(), row(token=2, **({} if name == "token" else {name: "x"})), row(token="x" if name == "token" else 4)]
    with pytest.raises(TableError, match=rf"^0.csv:{4 if name == 'token' else 3}: {name} is 'x'"):
        merged(table(rows), table(ladder(inter_dim=1024)))


@pytest.mark.parametrize(("version", "why"), [("v0.1.20", "a row would be lost"), ("v0.1.13", "ValueError: ")])
def test_rows_that_differ_in_writing_alone_are_refused(version, why):
    """4 and 04 are two keys as text and one as numbers: AITER would take the first, or die of them."""
    rows = table([row(token=4)]), table([row(token="04", us=5)])
    with pytest.raises(TableError, match=f"not one this AITER reads: {why}"):
        merged(*rows, rules=RULES[version])


@pytest.mark.parametrize("version", RULES)
def test_the_result_is_read_whole_by_every_generation(version):
    tokens = RULES[version].ladder[:4]
    result = merged(table(ladder(tokens)), table(ladder(tokens, inter_dim=1024)), rules=RULES[version])
    loaded = load([TableFile("m.csv", result.data)], None, RULES[version], "gfx950")
    assert isinstance(loaded, Table)
    assert len(loaded.exact) == 8
    assert not loaded.losses
