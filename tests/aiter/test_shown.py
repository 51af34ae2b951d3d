"""What outside text may do to whoever reads it: nothing."""

from __future__ import annotations

import json

import pytest

from rocmfix.aiter.schema import FMOE_KEY
from rocmfix.shown import END, printable, shown
from tests.aiter.rows import HEADER, PLAIN, ladder, row, table
from tests.aiter.test_cli import run

LONG = "k" * 2_000_000


def test_a_long_text_keeps_both_ends_and_says_what_is_left_out():
    text = "a" * END + "b" * 5 + "c" * END
    assert shown(text) == "a" * END + "[… 5 characters …]" + "c" * END
    assert shown(text[5:]) == text[5:]


def test_control_characters_are_escapes():
    assert (
        shown("a\x1b[2J\r\n\x9b\u202eb") == printable("a\x1b[2J\r\n\x9b\u202eb") == "a\\x1b[2J\\x0d\\x0a\\x9b\\x202eb"
    )


@pytest.mark.parametrize("column", [name for name in HEADER if name != "cu_num"])
@pytest.mark.parametrize("flags", [[], ["--json"], ["--all"]])
def test_doctor_cuts_a_cell_of_any_column(place, column, flags):
    (place / "long.csv").write_bytes(table([*ladder((1, 2)), row(**{"token": 4, column: LONG})]))
    result = run("doctor", place / "long.csv", "--for", place / "tree", *flags)
    assert result.exit_code in {0, 1}, result.output
    assert len(result.output) < 50_000
    assert len(max(result.output.splitlines(), key=len)) < 2 * END + 200


def test_doctor_cuts_a_column_name_and_a_quoted_field_of_many_lines(place):
    for text in (f"{LONG},cu_num\n1,2\n", 'a,"' + "b\n" * 100_000 + '"\n1\n', f"token,{LONG}\n1,2,3\n1,2,3,4,5\n"):
        (place / "long.csv").write_text(text)
        assert len(run("doctor", place / "long.csv", "--for", place / "tree").output) < 20_000


@pytest.mark.parametrize("flags", [[], ["--json"]])
def test_explain_cuts_what_a_row_holds(place, flags):
    cells = {"token": 4, "kernelName1": LONG, "act_type": LONG}
    (place / "long.csv").write_bytes(table([row(**cells)]))
    key = ",".join({**PLAIN, "token": "4"}[name] for name in FMOE_KEY)
    result = run("explain", key, "--in", place / "tree", "--table", place / "long.csv", *flags)
    assert result.exit_code == 0, result.output
    assert len(result.output) < 5_000
    if flags:
        assert json.loads(result.output)["keys"][0]["kernels"][0].startswith("k" * END + "[…")


@pytest.mark.parametrize("column", ["kernelName1", "us", "topk", "gfx"])
def test_merge_cuts_what_it_refuses(place, column):
    """Without gfx the chip is told from cu_num, and of both rows one must go."""
    (place / "a.csv").write_bytes(table([row(**{column: LONG + "\x1b[2J"})]))
    (place / "b.csv").write_bytes(table([row(**{column: LONG + "\x1b[2J"}, block_m=64)]))
    result = run("merge", place / "a.csv", place / "b.csv", "--for", place / "tree", "-o", place / "m.csv")
    assert result.exit_code == 13
    assert len(result.output) < 5_000
    assert "\x1b" not in result.output


def test_the_name_of_a_file_does_not_drive_the_terminal(place):
    bad = place / "a\x1b[2J.csv"
    bad.write_bytes(table([row(us=5), row(us=4)]))
    for verb in (["doctor", bad], ["merge", bad, "-o", place / "m\x1b.csv"]):
        assert "\x1b" not in run(*verb, "--for", place / "tree").output


def test_tune_cuts_what_it_refuses(place):
    (place / "u.csv").write_text(f"{LONG}\x1b\n1\n")
    result = run("tune", "--shapes", place / "u.csv", "--image", "x", "--for", place / "tree", "-o", place / "t.csv")
    assert result.exit_code == 13
    assert len(result.output) < 2_000
