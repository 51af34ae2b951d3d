"""Tables that a build bakes: complete, selected by ENV, known by row, and checked against the image's own AITER."""

from __future__ import annotations

import json

import pytest

from rocmfix.catalog import load
from rocmfix.image import flavour as flavours
from rocmfix.image.manifest import PATH, BaseImage, parse
from rocmfix.image.order import inputs_digest, order_for
from tests.aiter import rows
from tests.image.conftest import import_image, new_layers, rebuilt, rocmfix
from tests.image.standin import AITER, Rootfs, host_python, upstream_layout

FLAVOUR = ("--flavour", "mi35x-rocm720")
TABLE = "/etc/rocmfix/aiter/tuned_fmoe.csv"
BUCKETS = tuple(1 << n for n in range(16))
UNFUSED = rows.table(rows.ladder(BUCKETS, expert=256, topk=8, tflops=""))


@pytest.fixture
def mine(tmp_path):
    """A table of the user's own: GLM without shared-expert fusion."""
    path = tmp_path / "mine.csv"
    path.write_bytes(UNFUSED)
    return path


@pytest.fixture
def pinned(tmp_path, monkeypatch):
    """A pinned table of that name, as the index would list it, and where the cache would keep it."""
    import hashlib

    digest = hashlib.sha256(UNFUSED).hexdigest()
    folder = tmp_path / "dockerfiles/aiter"
    folder.mkdir(parents=True)
    entry = {"name": "unfused", "summary": "a test", "repo": "ROCm/aiter", "commit": "a" * 40, "path": "x/u.csv"}
    entry |= {"sha256": digest, "since": "b" * 40}
    (folder / "index.toml").write_text("[[table]]\n" + "".join(f"{k} = {v!r}\n" for k, v in entry.items()))
    monkeypatch.setattr("rocmfix.aiter.sources.shipped", lambda name: tmp_path / name)
    monkeypatch.setenv("ROCMFIX_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache/tables" / f"{digest}.csv"


def findings(image: str) -> dict[tuple[str, str], str]:
    """What the doctor says of an image, by kind and key, with the place."""
    result = rocmfix("aiter", "doctor", image, "--json")
    assert result.exit_code in {0, 1}, result.output
    return {
        (f["kind"], f["key"]): f"{f['file']}:{f['line']}" for f in json.loads(result.stdout)["findings"]
    }  # fmt: skip


def digest_of(*tables, flavour="mi35x-rocm720", **changed):
    chosen = flavours.load(flavour).model_copy(update=changed)
    order = order_for(chosen, load(), tables)
    return inputs_digest(order, BaseImage(name="x", digest="sha256:" + "1" * 64), "sha256:" + "2" * 64)


def test_the_digest_of_all_inputs_has_the_tables_without_fetching_them(tmp_path, mine):
    """By it `ci plan` tells whether an image must be built; it has no table at hand."""
    plain = digest_of()
    assert digest_of(str(mine)) != plain
    assert digest_of("glm5-fp4") not in {plain, digest_of("dsv3-fp4")}
    first = digest_of(str(mine))
    mine.write_bytes(UNFUSED + b"\n")
    assert digest_of(str(mine)) != first


def test_the_tables_of_a_flavour_are_asked_for_with_those_named_beside_it():
    chosen = flavours.load("mi35x-rocm720").model_copy(update={"tables": ("glm5-fp4",)})
    assert [table.name for table in order_for(chosen, load(), ["dsv3-fp4", "glm5-fp4"]).tables] == [
        "glm5-fp4", "dsv3-fp4",
    ]  # fmt: skip


@pytest.mark.docker
@pytest.mark.upstream
def test_the_doctor_of_an_image_reads_what_its_env_names_and_finds_nothing_new(base, tag, mine, client):
    assert rocmfix("build", "--base", base, *FLAVOUR, "-t", tag, "--table", mine).exit_code == 0
    assert len(new_layers(client, tag, base)) == 2
    before, after = findings(base), findings(tag)
    assert after.keys() <= before.keys()
    assert not [place for place in after.values() if int(place.rpartition(":")[2].replace("None", "0")) > 13]
    result = rocmfix("aiter", "doctor", f"image:{tag}")
    assert "28 rows, reader v0.1.15+#3377: kernels known 28, unknown 0" in result.stdout
    key = f"256,1,6144,512,256,8,ActivationType.Silu,torch.bfloat16,{rows.FP4},{rows.FP4},QuantType.per_1x32,1,0"
    found = json.loads(rocmfix("aiter", "explain", key, "--in", tag, "--json").stdout)["keys"][0]
    assert (found["hit"], found["file"], found["line"]) == (True, TABLE, 14)
    assert not json.loads(rocmfix("aiter", "explain", key, "--in", base, "--json").stdout)["keys"][0]["hit"]


@pytest.mark.docker
@pytest.mark.upstream
def test_a_bad_choice_of_tables_by_env_is_found(base, client):
    """aiter#1327: a variable replaces every shipped table."""
    one = rows.table(rows.ladder())
    lone = rebuilt(client, base, "COPY one.csv /t/one.csv\nENV AITER_CONFIG_FMOE=/t/one.csv", {"one.csv": one})
    gone = rebuilt(client, base, "ENV AITER_CONFIG_FMOE=/t/none.csv")
    try:
        result = rocmfix("aiter", "doctor", f"image:{lone}")
        assert "replaced-table" in result.stdout
        assert "6 of 12 lookups miss now" in result.stdout
        result = rocmfix("aiter", "doctor", f"image:{gone}")
        assert result.exit_code == 1
        assert "missing-file" in result.stdout
        result = rocmfix("inspect", gone)
        assert "UNTRUE    ENV says AITER reads /t/none.csv; the image holds no such file" in result.stdout
        result = rocmfix("aiter", "coverage", "--in", f"image:{gone}", "--tp", "4", "--hidden", "6144",
                         "--inter", "2048", "--experts", "256", "--topk", "8")  # fmt: skip
        assert result.exit_code == 13
        assert "AITER_CONFIG_FMOE names /t/none.csv, which is not there" in result.stderr
    finally:
        for image in (lone, gone):
            client.images.remove(image, force=True)


@pytest.mark.docker
@pytest.mark.upstream
def test_inspect_and_compare_show_the_table_and_what_selects_it(base, tag, mine):
    assert rocmfix("build", "--base", base, *FLAVOUR, "-t", tag, "--table", mine).exit_code == 0
    assert f"table     {TABLE}  28 rows  AITER_CONFIG_FMOE\n" in rocmfix("inspect", tag).stdout
    said = rocmfix("compare", base, tag).stdout
    assert f"env       AITER_CONFIG_FMOE: absent -> {TABLE}\n" in said
    assert f"table     {TABLE}: absent -> 28 rows" in said


@pytest.mark.docker
@pytest.mark.upstream
def test_a_published_image_is_asked_without_a_pull(base, tag, mine, registry):
    assert rocmfix("build", "--base", base, *FLAVOUR, "-t", tag, "--table", mine).exit_code == 0
    published = rocmfix("publish", tag, "--to", f"{registry}/me/sglang", "--tag", "v1")
    assert published.exit_code == 0, published.output
    remote = rocmfix("aiter", "doctor", f"{registry}/me/sglang:v1", "--json")
    local = rocmfix("aiter", "doctor", f"image:{tag}", "--json")
    assert json.loads(remote.stdout) == json.loads(local.stdout)


@pytest.mark.docker
@pytest.mark.upstream
def test_a_row_that_this_aiter_cannot_run_is_refused(base, tmp_path):
    path = tmp_path / "bad.csv"
    path.write_bytes(rows.table([rows.row(kernelName1="flydsl_moe1_afp4_wfp4_bf16_t48x64x256_w2")]))
    result = rocmfix("build", "--base", base, *FLAVOUR, "--table", path)
    assert result.exit_code == 13
    assert f"1 rows cannot be baked into image:{base}" in result.stderr
    assert f"{path}:2: unknown-kernel" in result.stderr
    assert "hint: " in result.stderr


@pytest.mark.docker
@pytest.mark.upstream
def test_a_pinned_table_comes_from_the_cache_and_the_error_without_one_has_three_parts(base, tag, pinned, files):
    result = rocmfix("build", "--base", base, *FLAVOUR, "-t", tag, "--table", "unfused", "--offline")
    assert result.exit_code == 13
    assert "the table unfused is not here, and cannot be fetched" in result.stderr
    assert f"https://raw.githubusercontent.com/ROCm/aiter/{'a' * 40}/x/u.csv" in result.stderr
    assert f"hint: fetch it once with a network, or put the file at {pinned}" in result.stderr
    pinned.parent.mkdir(parents=True)
    pinned.write_bytes(UNFUSED)
    result = rocmfix("build", "--base", base, *FLAVOUR, "-t", tag, "--table", "unfused", "--offline")
    assert result.exit_code == 0, result.stderr
    source = parse(files(tag).read(PATH)).tables[0].sources[-1]
    assert (source.repo, source.commit, source.path, source.line) == ("ROCm/aiter", "a" * 40, "x/u.csv", 2)


@pytest.mark.docker
@pytest.mark.upstream
def test_a_rebuild_needs_the_table_no_more(base, tag, pinned):
    pinned.parent.mkdir(parents=True)
    pinned.write_bytes(UNFUSED)
    again = ("build", "--base", base, *FLAVOUR, "-t", tag, "--table", "unfused", "--offline", "--json")
    assert json.loads(rocmfix(*again).stdout)["is_new"] in {True, False}
    pinned.unlink()
    assert json.loads(rocmfix(*again).stdout)["is_new"] is False


@pytest.mark.docker
@pytest.mark.upstream
def test_dry_run_context_and_overlay_know_the_table(base, tag, mine, tmp_path, client):
    with_table = ("build", "--base", base, *FLAVOUR, "--table", mine)
    said = rocmfix(*with_table, "--dry-run").stdout
    assert "ADD tables.tar /" in said
    assert f'AITER_CONFIG_FMOE="{TABLE}"' in said
    assert f"table     {TABLE}" in said
    assert f"{TABLE}: 16 of {mine}, 6 of {AITER}/aiter/configs/model_configs/glm5_tuned_fmoe.csv" in said
    assert "AITER_CONFIG_FMOE: 28 rows, 16 of them asked for, 0 in place of others" in said
    assert rocmfix(*with_table, "--overlay", tmp_path / "overlay").exit_code == 0
    assert (tmp_path / f"overlay/root{TABLE}").read_bytes().count(b"\n") == 29
    flags = (tmp_path / "overlay/docker.flags").read_text()
    assert f"--env=AITER_CONFIG_FMOE={TABLE}\n" in flags
    assert f":{TABLE}:ro\n" in flags
    assert rocmfix(*with_table, "--context", tmp_path / "context").exit_code == 0
    client.images.build(path=str(tmp_path / "context"), tag=tag, rm=True)
    assert rocmfix("verify", tag).exit_code == 0


@pytest.mark.docker
@pytest.mark.upstream
def test_a_lock_pins_the_table_and_builds_with_it(base, tag, mine, registry, client):
    to = f"{registry}/up/sglang"
    client.api.tag(base, to, "v0.5.14-rocm720-mi35x")
    client.api.push(to, tag="v0.5.14-rocm720-mi35x")
    path = mine.with_name("rocmfix.lock")
    assert (
        rocmfix("lock", *FLAVOUR, "--base", f"{to}:v0.5.14-rocm720-mi35x", "--table", mine, "-o", path).exit_code == 0
    )
    assert rocmfix("build", "--lock", path, "-t", tag).exit_code == 0
    assert f"table     {TABLE}  28 rows" in rocmfix("inspect", tag).stdout
    mine.write_bytes(UNFUSED + b"\n")
    result = rocmfix("build", "--lock", path, "-t", tag)
    assert result.exit_code == 4
    assert f"table {mine}: differs" in result.stderr
    client.images.remove(f"{to}:v0.5.14-rocm720-mi35x")


@pytest.mark.docker
@pytest.mark.upstream
def test_what_is_built_on_an_image_with_a_table_keeps_it_and_its_sources(base, tag, mine, tmp_path, files):
    first, second = tag.replace(":tag", ":one"), tag.replace(":tag", ":two")
    only = ("--fix", "jit-fused-metadata-guard")
    assert rocmfix("build", "--base", base, *FLAVOUR, "-t", first, *only, "--table", mine).exit_code == 0
    assert rocmfix("build", "--base", first, *FLAVOUR, "-t", second).exit_code == 0
    assert rocmfix("verify", second).exit_code == 0
    assert parse(files(second).read(PATH)).tables == parse(files(first).read(PATH)).tables
    again = rocmfix("build", "--base", second, *FLAVOUR, "--table", mine)
    assert "lacks no table that was asked for: nothing was built" in again.stdout
    assert "the base has this very table" in again.stderr
    other = tmp_path / "other.csv"
    other.write_bytes(rows.table(rows.ladder(expert=33, topk=8)))
    assert rocmfix("build", "--base", second, *FLAVOUR, "-t", tag, "--table", other).exit_code == 0
    assert rocmfix("verify", tag).exit_code == 0
    sources = parse(files(tag).read(PATH)).tables[0].sources
    assert [(part.file.rpartition("/")[2], part.first, part.count) for part in sources] == [
        ("tuned_fmoe.csv", 2, 6), ("glm5_tuned_fmoe.csv", 8, 6), ("mine.csv", 14, 16), ("other.csv", 30, 6),
    ]  # fmt: skip


@pytest.mark.docker
@pytest.mark.upstream
def test_kernels_are_compiled_in_the_image_on_request(client, few_files, tag, mine, files):
    rootfs = Rootfs()
    host_python(rootfs)
    upstream_layout(rootfs, few_files)
    base = import_image(client, rootfs, tag.replace(":tag", "-aot:tag"))
    result = rocmfix("build", "--base", base, *FLAVOUR, "-t", tag, "--table", mine, "--aot")
    assert result.exit_code == 0, result.output
    kernel = rows.PLAIN["kernelName1"]
    assert files(tag).read(f"{AITER}/aiter/jit/flydsl_cache/{kernel}") == b"gfx950 256 1"
    assert len(new_layers(client, tag, base)) == 3
    assert rocmfix("verify", tag).exit_code == 0
    again = rocmfix("build", "--base", base, *FLAVOUR, "-t", tag, "--table", mine, "--aot", "--json")
    assert json.loads(again.stdout)["is_new"] is False
    client.images.remove(tag, force=True)
    client.images.remove(base)
