"""A baked table is complete, named by its variable, and every row of it has a source."""

from __future__ import annotations

import hashlib

import pytest

from rocmfix.aiter.aot import compiling
from rocmfix.aiter.bake import bake
from rocmfix.aiter.coverage import table_of
from rocmfix.aiter.layout import AiterTree
from rocmfix.aiter.lookup import answer, parse
from rocmfix.aiter.origin import origin_of
from rocmfix.aiter.reader import TableFile
from rocmfix.aiter.schema import FMOE_KEY
from rocmfix.aiter.sources import TableSource, Wanted, ask, fetched, obtain, read_index
from rocmfix.errors import CatalogError, SourceError, TableError
from rocmfix.shipped import shipped
from rocmfix.tree import Overlay
from tests.aiter.rows import HEADER, ladder, row, table
from tests.aiter.trees import tree

SHIPPED = {
    "aiter/configs/tuned_fmoe.csv": table(ladder(inter_dim=2048)),
    "aiter/configs/model_configs/glm_tuned_fmoe.csv": table(ladder()),
    "aiter/aot/flydsl/moe.py": b"",
    "aiter/aot/flydsl/mxfp4_moe.py": b"",
}
UNFUSED = table([*ladder(expert=256, topk=8), row(token=1, us=3)])


def source(data, **changes):
    entry = {
        "name": "t",
        "summary": "s",
        "repo": "ROCm/aiter",
        "commit": "a" * 40,
        "path": "x/y.csv",
        "sha256": hashlib.sha256(data).hexdigest(),
        "since": "b" * 40,
    }
    return TableSource(**{**entry, **changes})


def bake_one(shipped=SHIPPED, data=UNFUSED, pinned=None, **how):
    (baked,) = bake(tree(**how, files=shipped), [Wanted(TableFile("w.csv", data), pinned)])
    return baked


def lines_of(baked):
    """Which lines of which file the rows are from."""
    lines: dict[str, list[int]] = {}
    for part in baked.sources:
        lines.setdefault(part.file.rpartition("/")[2], []).extend(range(part.line, part.line + part.count))
    return lines


def test_the_table_has_the_shipped_rows_and_the_wanted_ones():
    """The variable replaces every shipped table, so that they must be in it."""
    baked = bake_one()
    assert (baked.family.variable, baked.path) == ("AITER_CONFIG_FMOE", "/etc/rocmfix/aiter/tuned_fmoe.csv")
    assert baked.rows == len(baked.data.splitlines()) - 1 == 18
    served = table_of(tree(files=SHIPPED), (TableFile("baked_tuned_fmoe.csv", baked.data),))
    assert len(served.exact) == 18
    assert not served.losses


def test_every_row_is_accounted_for_and_a_wanted_row_replaces_the_shipped_one():
    pinned = source(UNFUSED)
    baked = bake_one(pinned=pinned)
    assert lines_of(baked) == {
        "tuned_fmoe.csv": [2, 3, 4, 5, 6, 7],
        "w.csv": [8, 2, 3, 4, 5, 6, 7],
        "glm_tuned_fmoe.csv": [3, 4, 5, 6, 7],
    }
    assert [(gone.file.rpartition("/")[2], gone.line, by.line) for gone, by in baked.replaced] == [
        ("glm_tuned_fmoe.csv", 2, 8)
    ]
    assert {part.file: part.sha256 for part in baked.sources} == {
        file: hashlib.sha256(data).hexdigest()
        for file, data in {**SHIPPED, "w.csv": UNFUSED}.items()
        if file.endswith(".csv")
    }
    ours = baked.sources[-1]
    assert (ours.repo, ours.commit, ours.path, ours.sha256) == (pinned.repo, pinned.commit, pinned.path, pinned.sha256)


def test_the_source_of_each_row_is_the_line_that_it_stands_on():
    baked = bake_one()
    files = {**{path: data for path, data in SHIPPED.items() if path.endswith(".csv")}, "w.csv": UNFUSED}
    for line, row_of in enumerate(baked.data.splitlines()[1:], start=2):
        place = origin_of(line, baked.sources)
        assert place
        assert files[place.file].splitlines()[place.line - 1] == row_of
        assert (line in baked.asked) == (place.file == "w.csv")
    assert origin_of(1, baked.sources) is None
    assert origin_of(baked.rows + 2, baked.sources) is None


def test_rows_that_an_earlier_build_baked_keep_their_source():
    first = bake_one()
    env = {"AITER_CONFIG_FMOE": first.path}
    again = AiterTree(Overlay(tree(files=SHIPPED).tree, {first.path: first.data}), env=env)
    more = TableFile("more.csv", table(ladder(expert=33, topk=8)))
    (second,) = bake(again, [Wanted(more)], "gfx950", {first.path: first.sources})
    assert second.sources[: len(first.sources)] == first.sources
    assert lines_of(second)["more.csv"] == [2, 3, 4, 5, 6, 7]
    assert second.rows == first.rows + 6


def test_rows_of_an_earlier_build_are_named_at_the_line_that_they_move_to():
    """The wanted row is of another activation: the first row of its shape gives way, and all below move up."""
    first = bake_one()
    env = {"AITER_CONFIG_FMOE": first.path}
    again = AiterTree(Overlay(tree(files=SHIPPED).tree, {first.path: first.data}), env=env)
    more = TableFile("more.csv", table([row(inter_dim=2048, act_type="ActivationType.Gelu")]))
    (second,) = bake(again, [Wanted(more)], "gfx950", {first.path: first.sources})
    assert [(part.first, part.count, part.file.rpartition("/")[2], part.line) for part in second.sources] == [
        (2, 5, "tuned_fmoe.csv", 3), (7, 1, "w.csv", 8), (8, 5, "glm_tuned_fmoe.csv", 3), (13, 6, "w.csv", 2),
        (19, 1, "more.csv", 2),
    ]  # fmt: skip


def test_only_the_rows_a_source_keeps_are_taken():
    baked = bake_one(pinned=source(UNFUSED, keep=("expert=256",)))
    assert lines_of(baked)["w.csv"] == [2, 3, 4, 5, 6, 7]
    assert baked.sources[-1].sha256 == hashlib.sha256(UNFUSED).hexdigest()


def test_a_row_is_taken_only_when_all_that_its_source_keeps_is_so():
    baked = bake_one(pinned=source(UNFUSED, keep=("expert=256", "token=4")))
    assert lines_of(baked)["w.csv"] == [4]


def test_what_a_source_keeps_may_hold_an_equals_sign_and_be_of_the_first_column_behind_a_byte_order_mark():
    noted = table([{**row(expert=33), "note": "a=b"}, {**row(expert=34), "note": "a"}], [*HEADER, "note"])
    marked = b"\xef\xbb\xbf" + noted
    baked = bake_one(data=marked, pinned=source(marked, keep=("note=a=b", "gfx=gfx950")))
    assert lines_of(baked)["w.csv"] == [2]


def test_line_numbers_hold_below_an_empty_line():
    gapped = UNFUSED.replace(b"\n", b"\n\n", 2)
    assert lines_of(bake_one(data=gapped, pinned=source(gapped, keep=("expert=256",))))["w.csv"] == [3, 5, 6, 7, 8, 9]


def test_a_kernel_the_image_lacks_is_refused_because_aot_would_pass_over_it():
    bad = table([row(token=1, expert=256, topk=8, kernelName1="flydsl_moe1_afp4_wfp4_bf16_t48x64x256_w2")])
    with pytest.raises(TableError, match="cannot be baked") as caught:
        bake_one(data=bad)
    assert [told.partition(": ")[0] for told in caught.value.details] == ["w.csv:2"]
    assert caught.value.hint


def test_a_pinned_table_that_is_refused_says_which_aiter_it_is_for():
    bad = table([row(token=1, expert=256, topk=8, kernelName1="flydsl_moe1_afp4_wfp4_bf16_t48x64x256_w2")])
    with pytest.raises(TableError, match="cannot be baked") as caught:
        bake_one(data=bad, pinned=source(bad))
    assert caught.value.details[1:] == ("t is for ROCm/aiter from bbbbbbbbbb on",)


def test_every_bad_row_is_counted_and_ten_are_shown():
    bad = table(
        [row(token=1 << n, expert=33, kernelName1=f"flydsl_moe1_afp4_wfp4_bf16_t48x{n}x256_w2") for n in range(11)]
    )
    with pytest.raises(TableError, match=r"^11 rows cannot be baked") as caught:
        bake_one(data=bad)
    assert len(caught.value.details) == 10


def test_a_bad_row_of_any_family_is_refused():
    gemm = "gfx,cu_num,M,N,K,libtype,kernelId,splitK,us,kernelName,tflops,bw,errRatio\n"
    good = (gemm + "gfx950,256,1,64,64,ck,0,0,5,a8w8_blockscale_16x64,1,1,0\n").encode()
    shipped = {**SHIPPED, "aiter/configs/a8w8_blockscale_tuned_gemm.csv": good}
    bad = table([row(kernelName1="flydsl_moe1_afp4_wfp4_bf16_t48x64x256_w2")])
    files = [TableFile("my_a8w8_blockscale_tuned_gemm.csv", good), TableFile("w.csv", bad)]
    with pytest.raises(TableError, match=r"^1 rows cannot be baked"):
        bake(tree(files=shipped), [Wanted(file) for file in files])


@pytest.mark.parametrize(
    ("gfx", "cells"), [("gfx950", {}), ("gfx942", {"gfx": "gfx942", "cu_num": 304})], ids=["gfx950", "gfx942"]
)
def test_kernels_are_looked_for_on_the_chip_that_the_image_is_for(gfx, cells):
    """The stand-in compiles tiles of 64 rows for gfx950 alone."""
    name = "moe_ck2stages_gemm1_256x64x64x128_1x4_TypeCast_v1_Nswizzle0_Quant2_MulRoutedWeight0_silu_F8_F8_B16"
    fp8 = {"q_dtype_a": "torch.float8_e4m3fn", "q_dtype_w": "torch.float8_e4m3fn", "q_type": "QuantType.per_Token"}
    rows = [Wanted(TableFile("w.csv", table([row(kernelName1=name, block_m=64, **fp8, **cells)])))]
    if gfx == "gfx950":
        assert bake(tree(files=SHIPPED), rows, gfx)[0].asked == (14,)
    else:
        with pytest.raises(TableError, match="cannot be baked"):
            bake(tree(files=SHIPPED), rows, gfx)


def test_a_shipped_row_that_gives_way_to_a_shipped_one_was_not_replaced_by_a_wanted_one():
    twice = {**SHIPPED, "aiter/configs/model_configs/x_tuned_fmoe.csv": table([row(token=4, us=99)])}
    assert bake_one(twice, table([row(expert=33)])).replaced == ()


@pytest.mark.parametrize(
    ("kind", "cells"),
    [
        ("table-off", {"token": "one"}),
        ("no-compiled-shape", {"expert": 33, "kernelName1": "flydsl_mxmoe_g1_a4w4_16x256x256_nt"}),
        ("known-bad-kernel", {
            "gfx": "gfx942", "cu_num": 304, "run_1stage": 1, "kernelName2": "",
            "kernelName1": "_ZN5aiter_fmoe_bf16_a16_blockscaleFp8_g1u1_vs_silu_1tg_16x256E",
        }),
    ],
)  # fmt: skip
def test_a_row_that_stops_the_server_or_answers_garbage_is_refused(kind, cells):
    with pytest.raises(TableError, match="cannot be baked") as caught:
        bake_one(data=table([row(**cells)]))
    assert kind in " ".join(caught.value.details)


def test_of_two_wanted_rows_of_one_key_none_took_a_shipped_rows_place():
    two = table([row(expert=33, us=5), row(expert=33, us=4)])
    baked = bake_one(data=two)
    assert (baked.replaced, lines_of(baked)["w.csv"]) == ((), [3])


@pytest.mark.parametrize(("version", "gone"), [("v0.1.20", 1), ("v0.1.18", 0)])
def test_where_act_type_is_ignored_a_wanted_row_is_not_left_behind_another_activations(version, gone):
    """The first row of a shape would answer, and that is the shipped one."""
    gelu = {**SHIPPED, "aiter/configs/tuned_fmoe.csv": table([row(act_type="ActivationType.Gelu", expert=256, topk=8)])}
    baked = bake_one(gelu, table([row(expert=256, topk=8)]), version=version)
    assert len(baked.replaced) == gone
    served = table_of(tree(version, files=gelu), (TableFile("baked_tuned_fmoe.csv", baked.data),))
    found = answer(served, parse(",".join(str(row(expert=256, topk=8)[name]) for name in FMOE_KEY)))
    assert (found.hit, found.line) == (True, baked.asked[0])


def test_a_gemm_table_is_baked_under_its_own_variable():
    header = "gfx,cu_num,M,N,K,libtype,kernelId,splitK,us,kernelName,tflops,bw,errRatio\n"
    line = "gfx950,256,{m},64,64,ck,0,0,{us},a8w8_blockscale_16x64,1,1,0\n"
    shipped = {"aiter/configs/a8w8_blockscale_tuned_gemm.csv": (header + line.format(m=1, us=9)).encode()}
    wanted = (header + line.format(m=1, us=10) + line.format(m=2, us=5)).encode()
    files = {**SHIPPED, **shipped}
    gemm, moe = bake(
        tree(files=files),
        [Wanted(TableFile("my_a8w8_blockscale_tuned_gemm.csv", wanted)), Wanted(TableFile("w.csv", UNFUSED))],
    )
    assert gemm.family.variable == "AITER_CONFIG_GEMM_A8W8_BLOCKSCALE"
    assert gemm.data.splitlines()[1:] == wanted.splitlines()[1:]
    assert moe.rows == 18
    with pytest.raises(TableError, match="several families"):
        bake(tree(files=files), [Wanted(TableFile("my_gemm.csv", wanted))])


def test_a_table_that_this_aiter_does_not_read_is_refused():
    named = Wanted(TableFile("tuned_fhmoe.csv", UNFUSED))
    with pytest.raises(TableError, match="family tuned_fhmoe are not merged"):
        bake(tree(files=SHIPPED), [named])
    header = "gfx,cu_num,M,N,K,kernelId,splitK,us,kernelName,tflops,bw,errRatio\n"
    gemm = Wanted(TableFile("a4w4_blockscale_tuned_gemm.csv", f"{header}gfx950,256,1,64,64,0,0,9,x,1,1,0\n".encode()))
    with pytest.raises(TableError, match="has no table of the family a4w4") as caught:
        bake(tree(files=SHIPPED), [gemm])
    assert caught.value.details == ("asked for by a4w4_blockscale_tuned_gemm.csv",)


def test_the_wanted_flydsl_rows_are_compiled_by_both_modules_and_the_shipped_ones_are_not():
    """Each module passes over the other's names; the base image has compiled its own rows."""
    assembled = table(
        [
            *ladder(expert=256, topk=8),
            row(expert=33, run_1stage=1, kernelName1="_ZN5aiter4fooE", kernelName2="", flat=1),
        ]
    )
    baked = bake_one(data=assembled)
    compiled = compiling(tree(files=SHIPPED), "/aiter", [baked], "gfx950")
    assert compiled
    assert [command[:3] for command in compiled.commands] == [
        ("python3", "-m", "aiter.aot.flydsl.moe"), ("python3", "-m", "aiter.aot.flydsl.mxfp4_moe"),
    ]  # fmt: skip
    assert {command[3:] for command in compiled.commands} == {("--csv", "/etc/rocmfix/aiter/tuned_fmoe.compiled.csv")}
    assert compiled.data.splitlines()[1:] == table(ladder(expert=256, topk=8)).splitlines()[1:]
    assert [(part.file, part.line, part.first, part.count) for part in compiled.sources] == [("w.csv", 2, 2, 6)]
    assert dict(compiled.env) == {
        "AITER_AOT_IMPORT": "1", "GPU_ARCHS": "gfx950", "CU_NUM": "256", "PYTHONDONTWRITEBYTECODE": "1",
        "FLYDSL_RUNTIME_CACHE_DIR": "/aiter/aiter/jit/flydsl_cache",
    }  # fmt: skip


def test_what_cannot_be_compiled_is_said_and_what_need_not_be_is_not():
    old = {path: data for path, data in SHIPPED.items() if "aot" not in path}
    with pytest.raises(TableError, match="compiles no FlyDSL kernels"):
        compiling(tree(files=old), "/aiter", [bake_one(old)], "gfx950")
    plain = bake_one(data=table([row(expert=33, run_1stage=1, kernelName1="_ZN5aiter4fooE", kernelName2="", flat=1)]))
    assert compiling(tree(files=old), "/aiter", [plain], "gfx950") is None
    assert compiling(tree(files=old), "/aiter", [], "gfx950") is None


def test_baking_is_the_same_every_time():
    assert bake_one() == bake_one()


def test_an_unknown_reader_is_not_baked_for():
    with pytest.raises(TableError, match="not seen before"):
        bake(tree(files={"aiter/fused_moe.py": b""}), [])
    lookup = tree("v0.1.20").read("aiter/fused_moe.py")
    assert lookup
    with pytest.raises(TableError, match="not seen before"):
        bake(tree("v0.1.11", files={"aiter/fused_moe.py": lookup}), [])


def test_the_shipped_index_loads_and_names_the_models():
    index = read_index(shipped("dockerfiles") / "aiter/index.toml")
    assert {s.name for s in index.table} == {"glm5-fp4", "glm5-fp4-256x8", "dsv3-fp4", "kimik2-fp4"}
    with pytest.raises(TableError, match="no table is called"):
        index.find("glm")


@pytest.mark.parametrize(
    "change",
    [
        {"commit": "main"}, {"sha256": "x"}, {"repo": "../x"}, {"path": "../../etc/passwd.csv"}, {"path": "/x.csv"},
        {"path": "a/../b.csv"}, {"name": "A b"}, {"path": "x.txt"}, {"colour": "red"},
    ],
)  # fmt: skip
def test_a_wrong_entry_does_not_load(tmp_path, change):
    good = source(b"x").model_dump() | {"keep": []}
    text = "[[table]]\n" + "".join(f"{k} = {v!r}\n" for k, v in (good | change).items())
    (tmp_path / "index.toml").write_text(text)
    with pytest.raises(CatalogError, match=r"index\.toml"):
        read_index(tmp_path / "index.toml")


def test_two_entries_of_one_name_do_not_load(tmp_path):
    good = source(b"x").model_dump() | {"keep": []}
    (tmp_path / "index.toml").write_text(("[[table]]\n" + "".join(f"{k} = {v!r}\n" for k, v in good.items())) * 2)
    with pytest.raises(CatalogError, match="two tables"):
        read_index(tmp_path / "index.toml")


def test_a_pinned_file_is_fetched_once_and_checked_each_time(tmp_path):
    asked = []

    def get(url):
        asked.append(url)
        return UNFUSED

    pinned = source(UNFUSED)
    for _ in range(2):
        assert fetched(pinned, tmp_path, get).data == UNFUSED
    assert asked == [f"https://raw.githubusercontent.com/ROCm/aiter/{'a' * 40}/x/y.csv"]
    (tmp_path / "tables" / f"{pinned.sha256}.csv").write_bytes(b"changed")
    with pytest.raises(TableError, match="not the pinned file"):
        fetched(pinned, tmp_path, get)


def test_another_file_than_the_pinned_one_is_refused_and_not_kept(tmp_path):
    with pytest.raises(TableError, match="not the pinned file"):
        fetched(source(UNFUSED), tmp_path, lambda _: b"something else")
    assert not list(tmp_path.rglob("*.csv"))


def test_a_table_is_asked_for_by_path_or_by_name_and_its_digest_is_known_before_it_is_fetched(tmp_path):
    path = tmp_path / "mine.csv"
    path.write_bytes(UNFUSED)
    mine, pinned = ask([str(path), "glm5-fp4-256x8", str(path)])
    assert (mine.name, mine.sha256, mine.keep) == (str(path), hashlib.sha256(UNFUSED).hexdigest(), ())
    assert (pinned.sha256[:8], pinned.keep) == ("40fb601f", ("expert=256",))
    with pytest.raises(TableError, match="no table is called glm"):
        ask(["glm"])
    with pytest.raises(TableError, match=r"gone\.csv cannot be read: No such file") as caught:
        ask([str(tmp_path / "gone.csv")])
    assert "index.toml" in str(caught.value.hint)


def test_a_table_that_cannot_be_fetched_says_what_where_and_how_else(tmp_path):
    def get(url):
        raise SourceError(f"{url} cannot be fetched: no route")

    with pytest.raises(TableError, match="the table glm5-fp4 is not here, and cannot be fetched") as caught:
        obtain(ask(["glm5-fp4"]), tmp_path, get)
    assert "no route" in caught.value.details[0]
    assert str(tmp_path / "tables") in str(caught.value.hint)
