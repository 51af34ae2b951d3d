"""Keys from logs and hands, the row that answers, and the reason."""

from __future__ import annotations

import pytest

from rocmfix.aiter.coverage import table_of
from rocmfix.aiter.lookup import answer, heuristic, keys_in, parse
from rocmfix.aiter.schema import FMOE_KEY
from rocmfix.errors import TableError
from tests.aiter.rows import PLAIN, ladder, row, table
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
    assert found.kernels == (PLAIN["kernelName1"], PLAIN["kernelName2"])


def test_a_row_of_one_stage_has_one_kernel():
    found = answer(served(row(token=4, run_1stage=1, kernelName2="")), parse(key()))
    assert found.kernels == (PLAIN["kernelName1"],)


def test_a_whole_log_line_is_a_key():
    line = f"[2026-08-20 10:00:00 TP6] [fused_moe] using 2stage (kernelName1='a(1)', kernelName2='b') for {key()} "
    assert parse(line) == parse(key())


def test_values_in_double_quotes_and_enums_below_zero_are_read():
    assert parse(key().replace("'", '"')) == parse(key())
    assert parse(key(act="<ActivationType.No: -1>")).act_type == "ActivationType.No"


def test_a_log_names_each_key_once_whatever_the_prefix_and_outcome():
    """AITER's own lines and sglang's, a tuned row, the heuristic, the fallback warning: one key each."""
    hit = f"[aiter] [fused_moe] using 2stage (kernelName1='flydsl_a(1)', kernelName2='b') for {key()} "
    log = "\n".join(
        [
            hit,
            f"[2026-08-20 10:00:00 TP6] [fused_moe] using 2stage (kernelName1='flydsl_a', kernelName2='b') for {key()} ",
            f"[aiter] [fused_moe] using 2stage default for {key(expert=256, topk=8)} ",
            f"[aiter] [fused_moe] no tuned FlyDSL config for {key(8, 256, 8)}, using heuristic FlyDSL fallback (kn1='x', kn2='y')",
            f"[aiter] [fused_moe] tuned config found for {key(16)} but is_shuffled=False. ",
            "[aiter] start build [module_moe] under /tmp",
        ]
    )
    assert [(k.token, k.expert, k.topk) for k in keys_in(log)] == [
        (4, 257, 9), (4, 256, 8), (8, 256, 8), (16, 257, 9),
    ]  # fmt: skip


def test_two_keys_in_one_line_of_a_log_are_two_keys():
    """Ranks that write at once share lines."""
    said = "[fused_moe] using 2stage (kernelName1='a', kernelName2='b') for "
    assert [k.token for k in keys_in(f"{said}{key(4)} {said}{key(8)} ")] == [4, 8]


def test_a_key_without_gfx_is_completed_from_its_units():
    bare = key().replace("'gfx950', ", "")
    assert parse(bare).gfx == "gfx950"
    assert parse(bare.replace("256,", "304,", 1)).gfx == "gfx942"


def test_tokens_are_rounded_and_it_is_said():
    found = answer(served(*ladder()), parse(key(token=5)))
    assert (found.token, found.line) == (8, 5)
    assert "5 tokens are rounded to bucket 8" in found.why


def test_a_tier_that_another_stands_in_for_is_said_with_the_rounding():
    found = answer(served(*ladder((1, 32768))), parse(key(token=200000)))
    assert (found.token, found.line) == (131072, 3)
    assert found.why == "200000 tokens are rounded to bucket 131072; bucket 131072 has no row, 32768 stands in"


def test_a_row_of_another_activation_is_said_to_answer():
    found = answer(served(row(token=4, act_type="ActivationType.Gelu"), row(token=4)), parse(key()))
    assert found.line == 2
    assert "the row is for ActivationType.Gelu" in found.why


def test_a_miss_names_the_heuristic_its_cost_and_the_nearest_row():
    found = answer(served(*ladder()), parse(key(expert=256, topk=8)))
    assert not found.hit
    assert "aiter#3911" in found.why
    assert "the nearest row has expert=257, topk=9" in found.why


@pytest.mark.parametrize(
    ("far", "near", "said"),
    [
        ({"gfx": "gfx942"}, {"model_dim": 7168, "inter_dim": 256}, "model_dim=7168, inter_dim=256"),
        ({"cu_num": 304}, {"model_dim": 7168, "inter_dim": 256}, "model_dim=7168, inter_dim=256"),
        ({"model_dim": 7168}, {"inter_dim": 256, "expert": 33}, "inter_dim=256, expert=33"),
        ({"inter_dim": 256}, {"expert": 33, "topk": 8}, "expert=33, topk=8"),
        ({"expert": 33}, {"expert": 65}, "expert=33"),
    ],
)
def test_the_nearest_row_is_of_this_chip_and_model_first_and_the_first_of_equals(far, near, said):
    """Another expert count is a smaller step than another model, and that than another chip."""
    found = answer(served(row(token=4, **far), row(token=4, **near)), parse(key()))
    assert found.why.endswith(f"; the nearest row has {said}")


def test_an_empty_table_has_no_nearest_row():
    assert answer(served(), parse(key())).why == f"no row: {heuristic(parse(key()))}; the table has no row"


@pytest.mark.parametrize(
    ("token", "tile"),
    [(1, 32), (2047, 32), (2048, 64), (4095, 64), (4096, 128), (16383, 128), (16384, 64), (131072, 64)],
)
def test_the_flydsl_heuristic_takes_its_tile_by_the_tokens(token, tile):
    assert heuristic(parse(key(token))).startswith(f"the FlyDSL heuristic runs (tile {tile}x128x256), ")


def test_only_fp4_weights_in_blocks_of_32_have_the_flydsl_heuristic():
    """The activations may be of another type; both the weights' type and the scheme decide."""
    plain = parse(key())
    fp8 = {"q_dtype_a": "torch.float8_e4m3fn"}
    assert "FlyDSL" in heuristic(plain.model_copy(update=fp8))
    for other in ({"q_dtype_w": "torch.float8_e4m3fn"}, {"q_type": "QuantType.per_1x128"}):
        assert heuristic(plain.model_copy(update=other)) == "AITER's default heuristic runs"


@pytest.mark.parametrize("text", ["1,2,3", "('gfx950', 'x'" + ", 1" * 12 + ")", ""])
def test_what_is_no_key_is_refused_in_words(text):
    with pytest.raises(TableError, match="not a fused-MoE key"):
        parse(text)


def test_the_columns_of_a_key_are_told_to_whoever_typed_too_few():
    with pytest.raises(TableError, match="3 values where 14 are needed") as caught:
        parse("1,2,3")
    assert caught.value.details == (", ".join(FMOE_KEY),)


def test_a_table_the_server_would_die_of_is_refused_at_its_line():
    twice = {
        "aiter/configs/tuned_fmoe.csv": table(ladder()),
        "aiter/configs/model_configs/x_tuned_fmoe.csv": table([row(token=4, us=99)]),
    }
    with pytest.raises(TableError, match=r"x_tuned_fmoe.csv:2: RuntimeError"):
        table_of(tree(files=twice))


@pytest.mark.parametrize(
    ("token", "neighbours", "said"),
    [
        (512, (256, 1024), "this shape has rows at 256 and 1024, none at 512"),
        (300, (256, 1024), "this shape has rows at 256 and 1024, none at 512"),
        (16384, (1024,), "this shape has rows at 1024, none at 16384"),
        (1, (2,), "this shape has rows at 2, none at 1"),
    ],
)
def test_a_hole_is_told_by_the_buckets_beside_it(token, neighbours, said):
    """A row at 40 tokens answers nothing and is no neighbour; one for another activation is, where it would answer."""
    rows = [*ladder((2, 256, 40)), row(token=1024, act_type="ActivationType.Gelu", us=77)]
    found = answer(served(*rows), parse(key(token=token)))
    assert (found.hit, found.neighbours) == (False, neighbours)
    assert found.why.endswith(f"; {said}")


def test_a_key_that_is_none_is_told_by_the_cells_that_are_wrong():
    cells = {**PLAIN, "token": "many", "expert": "x" * 1000}
    with pytest.raises(TableError) as refused:
        parse(",".join(cells[name] for name in FMOE_KEY))
    assert refused.value.message.startswith("not a fused-MoE key: token is many, expert is xxx")
    assert len(refused.value.message) < 700
