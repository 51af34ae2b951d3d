"""A baked table is complete, named by its variable, and every row of it has a source."""

from __future__ import annotations

import hashlib
import http.server
import threading

import pytest

from rocmfix.aiter.bake import Wanted, bake
from rocmfix.aiter.coverage import table_of
from rocmfix.aiter.reader import TableFile
from rocmfix.aiter.sources import TableSource, fetched, read_index
from rocmfix.errors import CatalogError, SourceError, TableError
from rocmfix.shipped import shipped
from rocmfix.system import fetch as web
from tests.aiter.rows import ladder, row, table
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


def test_the_table_has_the_shipped_rows_and_the_wanted_ones():
    """The variable replaces every shipped table, so that they must be in it."""
    baked, files = bake(tree(files=SHIPPED), [Wanted(TableFile("w.csv", UNFUSED))])
    data = files[baked.path]
    assert baked.env == {"AITER_CONFIG_FMOE": baked.path}
    assert baked.rows == len(data.splitlines()) - 1 == 18
    served = table_of(tree(files=SHIPPED), (TableFile("baked_tuned_fmoe.csv", data),))
    assert len(served.exact) == 18
    assert not served.losses


def test_every_row_is_accounted_for_and_a_wanted_row_replaces_the_shipped_one():
    pinned = source(UNFUSED)
    baked, _ = bake(tree(files=SHIPPED), [Wanted(TableFile("w.csv", UNFUSED), pinned)])
    lines = {part.file.rpartition("/")[2]: part.lines for part in baked.sources}
    assert lines == {
        "tuned_fmoe.csv": (2, 3, 4, 5, 6, 7),
        "glm_tuned_fmoe.csv": (3, 4, 5, 6, 7),
        "w.csv": (2, 3, 4, 5, 6, 7, 8),
    }
    ours = baked.sources[-1]
    assert (ours.repo, ours.commit, ours.path, ours.sha256) == (pinned.repo, pinned.commit, pinned.path, pinned.sha256)


def test_only_the_rows_a_source_keeps_are_taken():
    baked, _ = bake(tree(files=SHIPPED), [Wanted(TableFile("w.csv", UNFUSED), source(UNFUSED, keep=("expert=256",)))])
    assert baked.sources[-1].lines == (2, 3, 4, 5, 6, 7)
    assert baked.sources[-1].sha256 == hashlib.sha256(UNFUSED).hexdigest()


def test_a_kernel_the_image_lacks_is_refused_because_aot_would_pass_over_it():
    bad = table([row(token=1, expert=256, topk=8, kernelName1="flydsl_moe1_afp4_wfp4_bf16_t48x64x256_w2")])
    with pytest.raises(TableError, match="cannot be baked") as caught:
        bake(tree(files=SHIPPED), [Wanted(TableFile("w.csv", bad))])
    assert "w.csv:2: unknown-kernel" in caught.value.details[0]


def test_the_wanted_flydsl_rows_are_compiled_by_both_modules_and_the_shipped_ones_are_not():
    """Each module passes over the other's names; the base image has compiled its own rows."""
    baked, files = bake(tree(files=SHIPPED), [Wanted(TableFile("w.csv", UNFUSED))])
    assert [command[2] for command in baked.aot] == ["aiter.aot.flydsl.moe", "aiter.aot.flydsl.mxfp4_moe"]
    (compiled,) = {command[-1] for command in baked.aot}
    assert len(files[compiled].splitlines()) == 8
    assert baked.aot_env == {"AITER_AOT_IMPORT": "1", "GPU_ARCHS": "gfx950", "CU_NUM": "256"}
    nothing, alone = bake(tree(files=SHIPPED), [])
    assert (nothing.aot, set(alone)) == ((), {nothing.path})


def test_baking_is_the_same_every_time():
    again = [bake(tree(files=SHIPPED), [Wanted(TableFile("w.csv", UNFUSED))]) for _ in range(2)]
    assert again[0] == again[1]


def test_an_unknown_reader_is_not_baked_for():
    with pytest.raises(TableError, match="not seen before"):
        bake(tree(files={"aiter/fused_moe.py": b""}), [])


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


@pytest.fixture
def server():
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200 if self.path == "/t.csv" else 404)
            self.end_headers()
            self.wfile.write(b"x" * 100)

        def log_message(self, *_):
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Handler) as httpd:
        thread = threading.Thread(target=httpd.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{httpd.server_port}"
        httpd.shutdown()
        thread.join()


@pytest.mark.upstream  # talks to a server of its own on this machine
def test_a_file_is_fetched_whole_or_not_at_all(server):
    assert web.get(f"{server}/t.csv") == b"x" * 100
    with pytest.raises(SourceError, match="larger"):
        web.get(f"{server}/t.csv", limit=50)
    with pytest.raises(SourceError, match="404"):
        web.get(f"{server}/other")
    with pytest.raises(SourceError, match="not a web address"):
        web.get("file:///etc/passwd")
