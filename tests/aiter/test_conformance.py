"""Real tables, named by ROCMFIX_AITER_TABLES: a commit's `configs` and public candidates beside it."""

from __future__ import annotations

import io
import math
from pathlib import Path

import pandas as pd  # type: ignore[import-untyped]
import pytest

from rocmfix.aiter.coverage import cover, table_of
from rocmfix.aiter.doctor import examine
from rocmfix.aiter.findings import Kind
from rocmfix.aiter.frame import read
from rocmfix.aiter.launch import Launch, Model
from rocmfix.aiter.merging import merge_tables
from rocmfix.aiter.reader import TableFile
from rocmfix.aiter.schema import FMOE
from rocmfix.errors import TableError
from tests.aiter.conftest import TABLES
from tests.aiter.trees import RULES, tree

FILES = sorted(Path(TABLES).rglob("*.csv"))
CONFIGS = next(Path(TABLES).glob("*/configs"))
CANDIDATE = next(Path(TABLES).glob("candidates/*.csv"))
GLM = Model(name="glm", hidden=6144, inter=2048, experts=256, topk=8, shared=1, fuses=True)
DEEPSEEK = GLM.model_copy(update={"hidden": 7168})
KIMI = DEEPSEEK.model_copy(update={"experts": 384})


@pytest.fixture(scope="module")
def shipped():
    files = {f"aiter/configs/{path.relative_to(CONFIGS)}": path.read_bytes() for path in CONFIGS.rglob("*.csv")}
    return tree("v0.1.20", files)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_every_real_file_is_read_as_pandas_reads_it(path):
    frame, theirs = read(path.read_bytes(), path.name), pd.read_csv(io.BytesIO(path.read_bytes()))
    assert list(frame.columns) == list(theirs.columns)
    for name in frame.columns:
        cells = [None if isinstance(x, float) and math.isnan(x) else x for x in theirs[name].tolist()]
        assert [(type(x), x) for x in frame.column(name).cells] == [(type(x), x) for x in cells]


@pytest.mark.parametrize(
    ("model", "flags", "hit"),
    [
        (GLM, {"tp": 4}, 16),
        (GLM, {"tp": 4, "shared_fusion": False}, 0),
        (GLM, {"tp": 8}, 16),
        (GLM, {"tp": 8, "ep": 8}, 0),
        (DEEPSEEK, {"tp": 8}, 16),
        (DEEPSEEK, {"tp": 8, "shared_fusion": False}, 16),
        (DEEPSEEK, {"tp": 2}, 0),
        (DEEPSEEK, {"tp": 8, "ep": 8}, 16),
        (KIMI, {"tp": 8}, 16),
        (KIMI, {"tp": 2, "shared_fusion": False}, 0),
    ],
)
def test_coverage_of_what_images_ship_is_as_measured(shipped, model, flags, hit):
    found = cover(table_of(shipped), model, Launch(chunk=32768, **flags))
    assert (found.hit, found.total) == (hit, 16)


def test_the_public_candidate_fills_the_unfused_shapes(shipped):
    served = table_of(shipped, (TableFile("x_tuned_fmoe.csv", CANDIDATE.read_bytes()),))
    for tp in (4, 8):
        found = cover(served, GLM, Launch(tp=tp, shared_fusion=False, chunk=32768))
        assert (found.hit, found.total) == (16, 16)


def test_adding_the_candidate_beside_the_shipped_file_would_kill_the_server(shipped):
    below = {**dict(shipped.tree.files), "aiter/configs/model_configs/new_tuned_fmoe.csv": CANDIDATE.read_bytes()}
    with pytest.raises(TableError, match="RuntimeError"):
        table_of(tree("v0.1.20", below))


def test_merging_the_candidate_is_refused_where_times_do_not_compare_and_done_by_preference():
    own = TableFile("own.csv", (CONFIGS / "model_configs/glm5_fp4_tuned_fmoe.csv").read_bytes())
    new = TableFile("new.csv", CANDIDATE.read_bytes())
    with pytest.raises(TableError, match="whole pipeline"):
        merge_tables([own, new], FMOE, RULES["v0.1.20"])
    assert len(merge_tables([own], FMOE, RULES["v0.1.20"], preferred=[new]).origins) == 96


def test_the_kinds_of_real_defects_are_many(shipped):
    kinds = {f.kind for f in examine(shipped, families=(FMOE,)).findings}
    assert {
        Kind.HIGH_ERROR, Kind.HOLE, Kind.ACT_SHADOWED, Kind.NEVER_TIMED, Kind.COPIED_TIME, Kind.IMPOSSIBLE_SPEED,
        Kind.SPEED_CONTRADICTS_TIME, Kind.UNREACHABLE_TOKEN, Kind.SHIFTED_VALUES, Kind.DROPPED_TAG,
    } <= kinds  # fmt: skip
