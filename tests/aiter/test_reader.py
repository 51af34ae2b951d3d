"""What each generation's reader does with damaged and duplicate rows: the facts behind the findings."""

from __future__ import annotations

from typing import Any

import pytest

from rocmfix.aiter.frame import Origin
from rocmfix.aiter.reader import Refusal, Table, TableFile, load
from tests.aiter.rows import HEADER, UNTUNED, ladder, row, table
from tests.aiter.trees import RULES

NEW, OLD = "v0.1.20", "v0.1.7"
KEY: tuple[Any, ...] = ("gfx950", 256, 4, 6144, 512, 257, 9, "ActivationType.Silu", "torch.bfloat16")
KEY += ("torch.float4_e2m1fn_x2",) * 2 + ("QuantType.per_1x32", 1, 0)


def read(*files, version=NEW, gfx="gfx950"):
    named = [TableFile(f"{number}.csv", data) for number, data in enumerate(files)]
    return load(named, TableFile("untuned_fmoe.csv", UNTUNED), RULES[version], gfx)


def line(result, key=KEY):
    """Where the row that answers `key` was written."""
    assert isinstance(result, Table), result
    found = result.find(key)
    return None if found is None else result.frame.origins[found]


def test_a_good_row_answers():
    assert line(read(table(ladder()))) == Origin("0.csv", 4)


@pytest.mark.parametrize(
    "bad", [",".join(HEADER), ",".join(row(token="x").values()), ",".join(row(use_g1u1="True").values())]
)
def test_one_bad_line_turns_every_row_off(bad):
    """A stray header, a word among numbers, a truth value among ones: no error, and nothing matches."""
    text = table(ladder()).decode() + bad + "\n"
    assert line(read(text.encode())) is None


def test_one_bad_line_turns_off_the_files_it_is_merged_with():
    """The column is text after the merge, whichever file the line is in."""
    bad = table([row(token="x", inter_dim=1024)])
    assert line(read(table(ladder()), bad)) is None


def test_duplicates_in_merged_files_raise_and_name_the_row_that_is_deleted():
    slow = table([row(token=4, us=99)])
    result = read(table(ladder()), slow)
    assert isinstance(result, Refusal)
    assert result.error == "RuntimeError"
    assert [(loss.row, loss.winner) for loss in result.losses] == [(Origin("1.csv", 2), Origin("0.csv", 4))]


def test_duplicates_of_a_single_file_are_first_come_since_v0_1_14_and_fatal_before():
    twice = table([*ladder(), row(token=4, us=1)])
    assert line(read(twice)) == Origin("0.csv", 4)
    before = read(twice, version="v0.1.13")
    assert isinstance(before, Refusal)
    assert before.error == "ValueError"


def test_the_oldest_merge_lets_one_chip_delete_another():
    """v0.1.7's deduplication key has no cu_num: the MI300X row goes because an MI355X row is faster."""
    here, there = table([row(token=16, us=10)]), table([row(token=16, us=99, cu_num=304)])
    key = (304, 16, *KEY[3:])
    assert line(read(here, there, version=OLD), key) is None
    assert line(read(there, version=OLD), key) == Origin("0.csv", 2)


def test_equal_times_are_said_to_be_undecided():
    result = read(table([row(token=16, us=5)]), table([row(token=16, us=5, block_m=64)]), version=OLD)
    assert isinstance(result, Table)
    assert [loss.tied for loss in result.losses] == [True]


def test_files_without_a_tag_column_are_dropped_by_v0_1_13_when_others_have_one():
    """The missing _tag is filled with 0, which is not empty: the whole file is gone, silently."""
    tagged = table([{**row(token=8), "_tag": ""}], [*HEADER, "_tag"])
    result = read(table(ladder((4,))), tagged, version="v0.1.13")
    assert isinstance(result, Table)
    assert result.untagged == (Origin("0.csv", 2),)
    assert line(result, KEY[1:]) is None
    assert line(read(table(ladder((4,))), tagged)) == Origin("0.csv", 2)


@pytest.mark.parametrize(("version", "answers"), [("v0.1.18", 3), ("v0.1.20", 2)])
def test_act_type_counts_where_the_key_holds_its_text(version, answers):
    """v0.1.18 finds the Silu row; v0.1.20 takes the first row whatever its activation (ROCm/aiter#4394)."""
    rows = table([row(token=4, act_type="ActivationType.Gelu"), row(token=4)])
    assert line(read(rows, version=version)) == Origin("0.csv", answers)


def test_the_last_tier_falls_back_to_32768_and_no_other_bucket_does():
    result = read(table(ladder((2, 32768))))
    assert line(result, (*KEY[:2], 131072, *KEY[3:])) == Origin("0.csv", 3)
    assert line(result, (*KEY[:2], 16384, *KEY[3:])) is None


def test_a_row_without_gfx_is_taken_for_the_chip_its_units_say_else_for_the_one_at_hand():
    for cu_num, gfx in ((256, "gfx950"), (304, "gfx942"), (128, "gfx1250")):
        result = read(table([row(token=4, cu_num=cu_num)], HEADER[1:]), gfx="gfx1250")
        assert line(result, (gfx, cu_num, *KEY[2:])) == Origin("0.csv", 2)


def test_files_of_different_columns_crash_the_oldest_and_are_joined_by_the_newest():
    other = table([{**row(token=8), "xbf16": "1"}], [*HEADER, "xbf16"])
    old = read(table(ladder((4,))), other, version="v0.1.11")
    assert isinstance(old, Refusal)
    assert old.error == "AssertionError"
    assert line(read(table(ladder((4,))), other)) == Origin("0.csv", 2)


def test_small_block_scale_lookups_pass_the_table_by_in_v0_1_9_to_v0_1_12():
    fp8 = {"q_dtype_a": "torch.float8_e4m3fn", "q_dtype_w": "torch.float8_e4m3fn", "q_type": "QuantType.per_1x128"}
    rows = table(ladder((8, 64), **fp8))
    key = (256, 8, *KEY[3:9], *fp8.values(), 1, 0)
    assert line(read(rows, version="v0.1.11"), key) is None
    assert line(read(rows, version="v0.1.11"), (256, 64, *key[2:])) == Origin("0.csv", 3)
    assert line(read(rows, version="v0.1.13"), key) == Origin("0.csv", 2)


def test_a_missing_key_column_is_a_key_error():
    result = read(table(ladder(), [name for name in HEADER if name != "topk"]))
    assert isinstance(result, Refusal)
    assert result.error == "KeyError"


def test_an_infinite_cu_num_stops_the_reader_only_where_a_chip_must_be_guessed():
    """AITER catches a word in cu_num and not infinity; a row with its own gfx is never guessed."""
    with_gfx, without = table([row(token=4, cu_num="inf"), *ladder()]), table([row(token=4, cu_num="inf")], HEADER[1:])
    assert line(read(with_gfx)) == Origin("0.csv", 5)
    stopped = read(without)
    assert isinstance(stopped, Refusal)
    assert stopped.error == "OverflowError"
