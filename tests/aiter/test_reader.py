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


def read(*files, version=NEW, gfx="gfx950", untuned=UNTUNED):
    named = [TableFile(f"{number}.csv", data) for number, data in enumerate(files)]
    return load(named, TableFile("untuned_fmoe.csv", untuned), RULES[version], gfx)


def without(*names):
    """The columns of a table but for some."""
    return [name for name in HEADER if name not in names]


def tagged(tag, **cells):
    """A table of one row with a `_tag`."""
    return table([{**row(token=16, **cells), "_tag": tag}], [*HEADER, "_tag"])


def refusal(result):
    """The exception and the line it is about."""
    assert isinstance(result, Refusal), result
    return result.error, result.at


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
    assert (result.error, result.message) == ("RuntimeError", "Found 2 duplicate shape entries")
    assert [(loss.row, loss.winner, loss.tied) for loss in result.losses] == [
        (Origin("1.csv", 2), Origin("0.csv", 4), False)
    ]


def test_duplicates_of_a_single_file_are_first_come_since_v0_1_14_and_fatal_before():
    twice = table([*ladder(), row(token=4, us=1)])
    result = read(twice)
    assert line(result) == Origin("0.csv", 4)
    assert isinstance(result, Table)
    assert [(loss.row, loss.winner) for loss in result.losses] == [(Origin("0.csv", 8), Origin("0.csv", 4))]
    assert refusal(read(twice, version="v0.1.13")) == ("ValueError", Origin("0.csv", 8))


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


@pytest.mark.parametrize(("version", "answers"), [("v0.1.13", None), ("v0.1.18", Origin("0.csv", 2))])
def test_a_row_of_another_activation_answers_only_where_act_type_may_be_disabled(version, answers):
    """v0.1.13 looks up by the exact key alone; v0.1.18 asks again without act_type."""
    result = read(table([row(token=4, act_type="ActivationType.Gelu")]), version=version)
    assert line(result, KEY if RULES[version].key_gfx else KEY[1:]) == answers


def test_the_last_tier_falls_back_to_32768_and_no_other_bucket_does():
    result = read(table(ladder((2, 32768))))
    assert line(result, (*KEY[:2], 131072, *KEY[3:])) == Origin("0.csv", 3)
    assert line(result, (*KEY[:2], 16384, *KEY[3:])) is None
    both = read(table(ladder((32768, 131072))))
    assert line(both, (*KEY[:2], 131072, *KEY[3:])) == Origin("0.csv", 3)


def test_a_row_without_gfx_is_taken_for_the_chip_its_units_say_else_for_the_one_at_hand():
    for cu_num, gfx in ((256, "gfx950"), (304, "gfx942"), (128, "gfx1250")):
        result = read(table([row(token=4, cu_num=cu_num)], HEADER[1:]), gfx="gfx1250")
        assert line(result, (gfx, cu_num, *KEY[2:])) == Origin("0.csv", 2)


def test_files_of_different_columns_crash_the_oldest_and_are_joined_by_the_newest():
    other = table([{**row(token=8), "xbf16": "1"}], [*HEADER, "xbf16"])
    assert refusal(read(table(ladder((4,))), other, version="v0.1.11")) == ("AssertionError", Origin("1.csv", 1))
    assert refusal(read(table(ladder((4,))), other, version="v0.1.12")) == ("ValueError", Origin("1.csv", 1))
    assert line(read(table(ladder((4,))), other)) == Origin("0.csv", 2)


@pytest.mark.parametrize(
    ("version", "error"), [("v0.1.7", "AssertionError"), ("v0.1.11", "AssertionError"), ("v0.1.12", "ValueError")]
)
def test_the_columns_of_a_file_without_rows_count_too(version, error):
    """Whoever empties a table and leaves its header still has it compared with the others."""
    assert refusal(read(table(ladder()), table([], HEADER[:-1]), version=version)) == (error, Origin("1.csv", 1))
    assert refusal(read(table([], HEADER[:-1]), table(ladder()), version=version)) == (error, Origin("1.csv", 1))


@pytest.mark.parametrize(("version", "dropped"), [("v0.1.12", 0), ("v0.1.13", 6), ("v0.1.16", 6), ("v0.1.18", 0)])
def test_a_tag_column_without_rows_drops_every_row_of_the_others_from_v0_1_13_to_v0_1_16(version, dropped):
    """They get its `_tag` as 0, which is not empty: nothing is left, and nothing is said."""
    result = read(table(ladder()), table([], [*HEADER, "_tag"]), version=version)
    assert isinstance(result, Table)
    assert (len(result.untagged), len(result.exact)) == (dropped, 6 - dropped)


@pytest.mark.parametrize("version", RULES)
def test_tables_without_any_row_answer_nothing_and_v0_1_11_cannot_join_them(version):
    result = read(table([]), table([]), version=version)
    if version == "v0.1.11":
        assert refusal(result) == ("ValueError", Origin("0.csv", 1))
    else:
        assert isinstance(result, Table)
        assert (len(result.frame), dict(result.exact)) == (0, {})


def test_the_oldest_merges_leave_the_rows_by_time_and_those_without_one_last():
    untimed, timed = (
        table([row(token=32, us=""), row(token=16, us="")]),
        table([row(token=16, us=7), row(token=64, us=3)]),
    )
    result = read(untimed, timed, version="v0.1.8")
    assert isinstance(result, Table)
    assert result.frame.origins == (Origin("1.csv", 3), Origin("1.csv", 2), Origin("0.csv", 2))
    assert result.losses[0].row == Origin("0.csv", 3)
    distinct = read(table([row(token=16, us=7)]), table([row(token=64, us=3)]), version="v0.1.8")
    assert isinstance(distinct, Table)
    assert distinct.frame.origins == (Origin("1.csv", 2), Origin("0.csv", 2))


def test_a_merge_that_raises_leaves_the_rows_as_they_come():
    result = read(table([row(token=16, us=7)]), table([row(token=64, us=3)]))
    assert isinstance(result, Table)
    assert result.frame.origins == (Origin("0.csv", 2), Origin("1.csv", 2))


@pytest.mark.parametrize("version", ["v0.1.8", NEW])
def test_a_word_among_the_times_cannot_be_sorted_and_is_named(version):
    assert refusal(read(table([row(token=16)]), table([row(token=16, us="fast")]), version=version)) == (
        "TypeError",
        Origin("1.csv", 2),
    )


def test_words_sort_where_every_time_is_one_and_a_gap_is_none_of_them():
    result = read(
        table([row(token=16, us="b"), row(token=32, us="")]), table([row(token=16, us="a")]), version="v0.1.8"
    )
    assert isinstance(result, Table)
    assert result.frame.origins == (Origin("1.csv", 2), Origin("0.csv", 3))


@pytest.mark.parametrize(("version", "error"), [("v0.1.8", "KeyError"), (NEW, "RuntimeError")])
def test_duplicates_without_a_us_column_are_refused_by_each_merge_in_its_own_way(version, error):
    untimed = table([row(token=16)], without("us"))
    assert refusal(read(untimed, untimed, version=version)) == (error, None)
    assert len(read(untimed, table([row(token=32)], without("us"))).exact) == 2


def test_a_tag_tells_rows_of_one_shape_apart_since_v0_1_11_and_not_before():
    """So a fallback row is dropped beside its tuned one, and is no duplicate that stops the server."""
    result = read(table([row(token=16)]), tagged("flydsl_fallback", us=1))
    assert isinstance(result, Table)
    assert (list(result.exact.values()), result.untagged) == ([0], (Origin("1.csv", 2),))
    before = read(tagged("a", us=9), tagged("b", us=5), version="v0.1.8")
    assert isinstance(before, Table)
    assert before.frame.origins == (Origin("1.csv", 2),)


@pytest.mark.parametrize(
    ("version", "tag", "dropped"),
    [
        ("v0.1.8", "flydsl_fallback", False),
        ("v0.1.13", "flydsl_fallback", True),
        ("v0.1.13", "other", True),
        ("v0.1.13", "", False),
        (NEW, "flydsl_fallback", True),
        (NEW, "other", False),
    ],
)
def test_each_reader_drops_the_tags_it_knows(version, tag, dropped):
    result = read(tagged(tag), version=version)
    assert isinstance(result, Table)
    assert result.untagged == ((Origin("0.csv", 2),) if dropped else ())
    assert len(result.exact) == (not dropped)


@pytest.mark.parametrize(("version", "error"), [("v0.1.12", "RuntimeError"), ("v0.1.12.post2", "ValueError")])
def test_rows_of_two_chips_with_as_many_units_are_duplicates_to_the_merge_until_gfx_counts(version, error):
    """v0.1.12.post2 merges them, and then its lookup, which has no gfx, meets two rows of one key."""
    assert refusal(read(table([row(token=16)]), table([row(token=16, gfx="gfx942")]), version=version))[0] == error


def test_a_row_without_gfx_is_the_same_shape_as_one_with_it_only_where_gfx_is_guessed():
    """v0.1.14 fills the gap with 0, and takes the first row; v0.1.16 guesses, sees two of one shape and raises."""
    files = table([row(token=16, us=9)]), table([row(token=16, us=5)], without("gfx"))
    assert line(read(*files, version="v0.1.14"), (256, 16, *KEY[3:])) == Origin("0.csv", 2)
    assert refusal(read(*files, version="v0.1.16")) == ("RuntimeError", Origin("0.csv", 2))


def test_files_without_gfx_are_merged_by_every_reader_since_v0_1_13():
    files = table([row(token=4)], without("gfx")), table([row(token=8)], without("gfx"))
    assert line(read(*files, version="v0.1.13"), KEY[1:]) == Origin("0.csv", 2)
    assert line(read(*files)) == Origin("0.csv", 2)


@pytest.mark.parametrize(("version", "answers"), [("v0.1.18", None), (NEW, Origin("0.csv", 4))])
def test_a_shape_column_that_no_table_has_stops_the_merge_until_v0_1_20(version, answers):
    files = table(ladder()), table(ladder(inter_dim=1024))
    result = read(*files, version=version, untuned=UNTUNED.replace(b"token,", b"token,layout,", 1))
    if answers is None:
        assert refusal(result) == ("KeyError", None)
    else:
        assert line(result) == answers


@pytest.mark.parametrize(("cu_num", "cell"), [("many", "many"), ("", None)])
def test_units_that_say_nothing_are_taken_for_the_chip_at_hand(cu_num, cell):
    result = read(table([row(token=4, cu_num=cu_num)], without("gfx")), gfx="gfx942")
    assert line(result, ("gfx942", cell, *KEY[2:])) == Origin("0.csv", 2)


@pytest.mark.parametrize("gfx", ["0", "", "nan", "None"])
def test_a_gfx_that_says_nothing_is_guessed_beside_rows_that_have_one(gfx):
    result = read(table([row(token=8, gfx="gfx942"), row(token=4, gfx=gfx)]), gfx="gfx942")
    assert line(result) == Origin("0.csv", 3)


def test_a_file_that_cannot_be_read_is_refused_at_its_line():
    bad = table(ladder()) + b"1," * 60 + b"\n"
    assert refusal(read(table(ladder(inter_dim=1024)), bad)) == ("ParserError", Origin("1.csv", 8))


def test_small_block_scale_lookups_pass_the_table_by_in_v0_1_9_to_v0_1_12():
    fp8 = {"q_dtype_a": "torch.float8_e4m3fn", "q_dtype_w": "torch.float8_e4m3fn", "q_type": "QuantType.per_1x128"}
    rows = table(ladder((8, 64), **fp8))
    key = (256, 8, *KEY[3:9], *fp8.values(), 1, 0)
    assert line(read(rows, version="v0.1.11"), key) is None
    assert line(read(rows, version="v0.1.11"), (256, 64, *key[2:])) == Origin("0.csv", 3)
    assert line(read(rows, version="v0.1.13"), key) == Origin("0.csv", 2)


FP8 = "torch.float8_e4m3fn"
BLOCKS: dict[str, Any] = {"q_dtype_a": FP8, "q_dtype_w": FP8, "q_type": "QuantType.per_1x128", "topk": 8}


@pytest.mark.parametrize(
    ("cells", "answers"),
    [
        ({"token": 16}, False),
        ({"token": 16, "topk": 9}, True),
        ({"q_dtype_a": "torch.int8"}, True),
        ({"q_dtype_w": "torch.int8"}, True),
        ({"q_type": "QuantType.per_1x32"}, True),
        ({"act_type": "ActivationType.Gelu"}, True),
        ({"dtype": "torch.float16"}, True),
    ],
)
def test_the_table_is_passed_by_for_fp8_blocks_of_silu_in_bf16_at_128_slots_and_nothing_else(cells, answers):
    asked = row(**{**BLOCKS, "token": 8, **cells})
    key = tuple(int(cell) if cell.isdecimal() else cell for cell in (asked[name] for name in HEADER[1:14]))
    assert line(read(table([asked]), version="v0.1.11"), key) == (Origin("0.csv", 2) if answers else None)


def test_a_missing_key_column_is_a_key_error():
    assert refusal(read(table(ladder(), without("topk")))) == ("KeyError", Origin("0.csv", 1))
    assert refusal(read(table([], without("topk")))) == ("KeyError", None)


def test_without_units_a_table_is_refused_by_its_header_and_sooner_where_they_tell_the_chip():
    """The guess of a missing gfx asks for cu_num by itself, before any key column is looked for."""
    assert refusal(read(table(ladder(), without("cu_num")))) == ("KeyError", Origin("0.csv", 1))
    assert refusal(read(table([row(gfx="")], without("cu_num")))) == ("KeyError", Origin("0.csv", 1))
    assert refusal(read(table(ladder(), without("cu_num", "gfx")))) == ("KeyError", None)
    merged = table([row()], without("cu_num")), table([row(token=2)], without("cu_num", "gfx"))
    assert refusal(read(*merged)) == ("KeyError", Origin("0.csv", 1))


def test_an_infinite_cu_num_stops_the_reader_only_where_a_chip_must_be_guessed():
    """AITER catches a word in cu_num and not infinity; a row with its own gfx is never guessed."""
    with_gfx, without = table([row(token=4, cu_num="inf"), *ladder()]), table([row(token=4, cu_num="inf")], HEADER[1:])
    assert line(read(with_gfx)) == Origin("0.csv", 5)
    stopped = read(without)
    assert isinstance(stopped, Refusal)
    assert stopped.error == "OverflowError"
