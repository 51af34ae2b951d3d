"""Keys from logs and hands, the row that answers, and the reason."""

from __future__ import annotations

import pytest

from rocmfix.aiter.coverage import table_of
from rocmfix.aiter.lookup import answer, keys_in, parse
from rocmfix.errors import TableError
from tests.aiter.rows import ladder, row, table
from tests.aiter.trees import tree

TUPLE = (
    "('gfx950', 256, {token}, 6144, 512, {expert}, {topk}, {act}, 'torch.bfloat16', 'torch.float4_e2m1fn_x2', "
    "'torch.float4_e2m1fn_x2', 'QuantType.per_1x32', True, False)"
)
ENUM, TEXT = "<ActivationType.Silu: 0>", "'ActivationType.Silu'"


def key(token=4, expert=257, topk=9, act=ENUM):
    return TUPLE.format(token=token, expert=expert, topk=topk, act=act)


def served(*rows):
    return table_of(tree(files={"aiter/configs/tuned_fmoe.csv": table(list(rows))}))


@pytest.mark.parametrize("act", [ENUM, TEXT])
def test_a_log_line_of_either_form_finds_its_row(act):
    """v0.1.13 and v0.1.18 print the activation as text, the others as the enum."""
    found = answer(served(*ladder()), parse(key(act=act)))
    assert (found.hit, found.file, found.line) == (True, "aiter/configs/tuned_fmoe.csv", 4)
    assert found.why == "every key column matches"


def test_a_log_names_each_key_once_whatever_the_prefix_and_outcome():
    """AITER's own lines and sglang's, a tuned row, the heuristic, the fallback warning: one key each."""
    hit = f"[aiter] [fused_moe] using 2stage (kernelName1='flydsl_a(1)', kernelName2='b') for {key()} "
    log = "\n".join(
        [
            hit,
            f"[2026-08-20 10:00:00 TP6] [fused_moe] using 2stage (kernelName1='flydsl_a', kernelName2='b') for {key()} ",
            f"[aiter] [fused_moe] using 2stage default for {key(expert=256, topk=8)} ",
            f"[aiter] [fused_moe] no tuned FlyDSL config for {key(8, 256, 8)}, using heuristic FlyDSL fallback (kn1='x', kn2='y')",
            "[aiter] start build [module_moe] under /tmp",
        ]
    )
    assert [(k.token, k.expert, k.topk) for k in keys_in(log)] == [(4, 257, 9), (4, 256, 8), (8, 256, 8)]


def test_a_key_without_gfx_is_completed_from_its_units():
    bare = key().replace("'gfx950', ", "")
    assert parse(bare).gfx == "gfx950"
    assert parse(bare.replace("256,", "304,", 1)).gfx == "gfx942"


def test_tokens_are_rounded_and_it_is_said():
    found = answer(served(*ladder()), parse(key(token=5)))
    assert (found.token, found.line) == (8, 5)
    assert "5 tokens are rounded to bucket 8" in found.why


def test_a_row_of_another_activation_is_said_to_answer():
    found = answer(served(row(token=4, act_type="ActivationType.Gelu"), row(token=4)), parse(key()))
    assert found.line == 2
    assert "the row is for ActivationType.Gelu" in found.why


def test_a_miss_names_the_heuristic_its_cost_and_the_nearest_row():
    found = answer(served(*ladder()), parse(key(expert=256, topk=8)))
    assert not found.hit
    assert "aiter#3911" in found.why
    assert "the nearest row has expert=257, topk=9" in found.why


@pytest.mark.parametrize("text", ["1,2,3", "('gfx950', 'x'" + ", 1" * 12 + ")", ""])
def test_what_is_no_key_is_refused_in_words(text):
    with pytest.raises(TableError, match="not a fused-MoE key"):
        parse(text)


def test_a_table_the_server_would_die_of_is_refused_at_its_line():
    twice = {
        "aiter/configs/tuned_fmoe.csv": table(ladder()),
        "aiter/configs/model_configs/x_tuned_fmoe.csv": table([row(token=4, us=99)]),
    }
    with pytest.raises(TableError, match=r"x_tuned_fmoe.csv:2: RuntimeError"):
        table_of(tree(files=twice))
