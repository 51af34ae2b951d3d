"""The reader model does what AITER's own code does: its merge and lookup, cut out and run by pandas."""

from __future__ import annotations

import random

import pytest

from rocmfix.aiter.probing import probe
from rocmfix.aiter.reader import Refusal, TableFile, key_columns, load
from rocmfix.aiter.schema import FMOE_KEY
from tests.aiter.conftest import CASES
from tests.aiter.mutations import CLASSES
from tests.aiter.oracle import Oracle, difference, same
from tests.aiter.rows import PLAIN, UNTUNED, ladder, row, table

pytestmark = pytest.mark.upstream


@pytest.fixture(scope="module")
def oracle(real_root):
    oracle = Oracle(real_root)
    yield oracle
    oracle.close()


@pytest.fixture(scope="module")
def rules(real_tree):
    return probe(real_tree)


def modelled(files, rules, gfx="gfx950"):
    tables = [TableFile(f"{number}.csv", data) for number, data in enumerate(files)]
    return load(tables, TableFile("untuned_fmoe.csv", UNTUNED), rules, gfx)


@pytest.mark.parametrize("damage", CLASSES, ids=lambda function: function.__name__)
def test_every_kind_of_damage_ends_as_in_aiter(damage, oracle, rules):
    """The same table, or the same exception, on every case."""
    for number in range(max(1, CASES)):
        files = damage(random.Random(f"{damage.__name__}{number}"))
        real = oracle.ask(files, UNTUNED, "gfx950")
        problem = difference(modelled(files, rules), real)
        assert problem is None, f"case {number}: {problem}"


def test_most_damaged_tables_still_load(oracle):
    """Otherwise the comparison above would compare exceptions only."""
    answers = [
        oracle.ask(damage(random.Random(f"{damage.__name__}{n}")), UNTUNED, "gfx950")
        for damage in CLASSES
        for n in range(4)
    ]
    assert sum("tables" in answer for answer in answers) * 2 > len(answers)


def test_the_files_a_merge_rewrites_are_the_ones_the_model_says(oracle, rules):
    """Where AITER deletes duplicates on disk, the rows it deletes are those of the model's refusal."""
    files = [table(ladder()), table([row(token=4, us=1.0), row(token=64)])]
    real = oracle.ask(files, UNTUNED, "gfx950")
    model = modelled(files, rules)
    if not isinstance(model, Refusal):
        assert [loss.row for loss in model.losses] == [("0.csv", 4)]
        assert real["after"] == [data.decode() for data in files]
        return
    lost = {loss.row for loss in model.losses}
    assert lost == {("0.csv", 4)}
    assert [len(text.splitlines()) for text in real["after"]] == [6, 3]


@pytest.mark.parametrize("is_ep", [False, True])
def test_every_lookup_ends_at_the_row_aiter_takes(oracle, rules, is_ep):
    """Tokens on every bucket edge, activations, tiers and expert parallelism."""
    tokens = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 16384, 32768)
    rows = ladder(tokens) + ladder((1, 4, 131072), act_type="ActivationType.Gelu", block_m=64) + ladder((2,), topk=8)
    rows += ladder(
        tokens,
        dtype="torch.bfloat16",
        q_dtype_a="torch.float8_e4m3fn",
        q_dtype_w="torch.float8_e4m3fn",
        q_type="QuantType.per_1x128",
    )
    files = [table(rows)]
    model = modelled(files, rules)
    assert not isinstance(model, Refusal)
    keys = [
        list(key(rows[0], token=t, act_type=act))
        for t in (1, 3, 5, 17, 1000, 1500, 20000, 40000, 131072, 200000)
        for act in ("ActivationType.Silu", "ActivationType.Gelu", "ActivationType.Swiglu")
    ]
    keys += [list(key(rows[-1], token=t)) for t in (1, 2, 8, 16, 64)]
    real = oracle.ask(files, UNTUNED, "gfx950", keys=keys, is_ep=is_ep)
    for asked, found in zip(keys, real["found"], strict=True):
        cells = dict(zip(FMOE_KEY, asked, strict=True))
        cells["token"] = rules.bucket(cells["token"])
        cells["topk"] -= int(is_ep and rules.ep_slot)
        at = model.find(tuple(cells[name] for name in key_columns(rules)))
        assert (at is None) == (found is None), asked
        if at is not None:
            ours = model.frame.row(at)
            assert all(same(ours[name], found[name]) for name in ("us", "block_m", "kernelName1")), asked


def key(cells, **changes):
    """The lookup of a row, as AITER would be asked."""
    numbers = ("cu_num", "token", "model_dim", "inter_dim", "expert", "topk", "use_g1u1", "doweight_stage1")
    values = {**cells, **changes}
    return tuple(int(values[name]) if name in numbers else values[name] for name in FMOE_KEY)


def test_the_plain_row_is_one_aiter_finds(oracle):
    """The rows the other tests build on are real: AITER's own lookup finds them."""
    found = oracle.ask([table([row(token=16)])], UNTUNED, "gfx950", keys=[list(key(PLAIN, token=16))])["found"]
    assert found[0]["kernelName1"] == PLAIN["kernelName1"]
