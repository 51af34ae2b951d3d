"""Tampering with an image is caught, and each thing that was tampered with is named."""

from __future__ import annotations

import json
import re

import pytest

from rocmfix.image.manifest import PATH, parse
from tests.aiter import rows
from tests.image.conftest import BYTECODE, JIT, OTHER_BYTECODE, PATCHED, PATCHED_PY, rebuilt, remove_images, rocmfix
from tests.image.standin import PACKAGE

pytestmark = [pytest.mark.docker, pytest.mark.upstream]

TABLE = "/etc/rocmfix/aiter/tuned_fmoe.csv"


@pytest.fixture(scope="module")
def whole(base, client, run_id, tmp_path_factory):
    """An image with everything in it that can be tampered with: fixes, a table, ENV."""
    name = f"rocmfix-test/full-{run_id}:tag"
    path = tmp_path_factory.mktemp("table") / "mine.csv"
    path.write_bytes(rows.table(rows.ladder(tokens=(1, 2), expert=256, topk=8)))
    result = rocmfix(
        "build", "--base", base, "--flavour", "mi35x-rocm720", "-t", name,
        "--table", path, "--env", "NCCL_MIN_NCHANNELS=64",
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    yield name
    remove_images(client, f"rocmfix-test/full-{run_id}")


def problems(client, image: str, dockerfile: str, files: dict[str, bytes] | None = None) -> list[tuple[str, str]]:
    """What `verify` says of `image` after a change by hand."""
    changed = rebuilt(client, image, dockerfile, files)
    try:
        result = rocmfix("verify", changed, "--json")
        assert (result.exit_code == 0) is not bool(json.loads(result.stdout)["problems"])
        return [(problem["what"], problem["where"]) for problem in json.loads(result.stdout)["problems"]]
    finally:
        client.images.remove(changed, force=True)


def test_an_untouched_image_is_as_its_manifest_says(whole):
    result = rocmfix("verify", whole)
    assert result.exit_code == 0
    assert "is as its manifest says" in result.stdout
    assert "1 table," in result.stdout


def test_tables_and_their_env_are_in_the_image_and_in_the_manifest(whole, files, client):
    manifest = parse(files(whole).read(PATH))
    (table,) = manifest.tables
    assert (table.path, table.rows, len(table.digests.split())) == (TABLE, 14, 14)
    assert [(part.file.rpartition("/")[2], part.first, part.line, part.count) for part in table.sources] == [
        ("tuned_fmoe.csv", 2, 2, 6), ("glm5_tuned_fmoe.csv", 8, 2, 6), ("mine.csv", 14, 2, 2),
    ]  # fmt: skip
    assert f"AITER_CONFIG_FMOE={TABLE}" in client.api.inspect_image(whole)["Config"]["Env"]
    assert files(whole).read(TABLE).count(b"\n") == 15


def test_one_byte_of_a_patched_file(client, whole, files):
    data = files(whole).read(PATCHED)
    found = problems(client, whole, f"COPY x {PATCHED}", {"x": data[:-1] + b"\t"})
    assert ("source", PATCHED) in found
    assert ("tree", PACKAGE) in found


def test_one_byte_of_any_other_file_of_the_package(client, whole, files):
    path = f"{PACKAGE}/srt/server_args.py"
    found = problems(client, whole, f"COPY x {path}", {"x": files(whole).read(path) + b"#"})
    assert found == [("tree", PACKAGE)]


def test_stale_bytecode_put_back(client, whole):
    found = problems(client, whole, f"COPY x {BYTECODE}", {"x": b"compiled before the patch"})
    assert found == [("bytecode", BYTECODE)]


def test_bytecode_of_a_patched_file_from_another_python(client, whole):
    path = BYTECODE.replace("310", "312")
    assert problems(client, whole, f"COPY x {path}", {"x": b"compiled"}) == [("bytecode", path)]


def test_bytecode_of_other_files_is_not_ours_to_judge(client, whole):
    assert problems(client, whole, f"COPY x {OTHER_BYTECODE}", {"x": b"compiled anew"}) == []


def test_a_jit_build_put_back(client, whole):
    assert problems(client, whole, f"COPY x {JIT}/main.so", {"x": b"\x7fELF"}) == [("cache", f"{JIT}/main.so")]


def test_a_table_row_is_named_by_its_line_and_where_it_was_from(client, whole, files):
    data = files(whole).read(TABLE).replace(b",2,6144,512,256,", b",4,6144,512,256,")
    changed = rebuilt(client, whole, f"COPY x {TABLE}", {"x": data})
    (problem,) = json.loads(rocmfix("verify", changed, "--json").stdout)["problems"]
    client.images.remove(changed, force=True)
    assert (problem["what"], problem["where"]) == ("table", f"{TABLE}:15")
    assert re.fullmatch(r"line 15, from .*/mine\.csv:3", problem["says"])
    assert problem["holds"].startswith("gfx950,256,4,6144,512,256,8,")


def test_a_row_taken_out_and_a_row_put_in(client, whole, files):
    lines = files(whole).read(TABLE).splitlines(keepends=True)
    data = b"".join([*lines[:3], *lines[4:], lines[1].replace(b",1,", b",64,", 1)])
    changed = rebuilt(client, whole, f"COPY x {TABLE}", {"x": data})
    found = json.loads(rocmfix("verify", changed, "--json").stdout)["problems"]
    client.images.remove(changed, force=True)
    assert [(p["where"].rpartition(":")[2], p["says"].split(",")[0], p["holds"][:13]) for p in found] == [
        ("4", "line 4", "no such row"), ("15", "no such row", "gfx950,256,64"),
    ]  # fmt: skip


def test_a_table_whose_rows_alone_are_as_they_were(client, whole, files):
    data = files(whole).read(TABLE).replace(b"cu_num", b"cu_numb", 1)
    assert problems(client, whole, f"COPY x {TABLE}", {"x": data}) == [("table", TABLE)]


def test_the_variable_that_selects_the_table(client, whole):
    assert problems(client, whole, "ENV AITER_CONFIG_FMOE=/other.csv") == [("env", "AITER_CONFIG_FMOE")]


def test_owner_and_mode(client, whole, files):
    data = files(whole).read(PATCHED_PY)
    assert problems(client, whole, f"COPY x {PATCHED_PY}", {"x": data}) == [("source", PATCHED_PY)]


def test_a_label(client, whole):
    assert problems(client, whole, 'LABEL io.rocmfix.fixes="none"') == [("label", "io.rocmfix.fixes")]


def test_a_standard_label(client, whole):
    name = "org.opencontainers.image.version"
    assert problems(client, whole, f"LABEL {name}=9.9.9") == [("label", name)]


def test_env(client, whole):
    assert problems(client, whole, "ENV NCCL_MIN_NCHANNELS=112") == [("env", "NCCL_MIN_NCHANNELS")]


def test_the_manifest_itself(client, whole, files):
    """A manifest that was changed to agree with a changed file still disagrees with the label."""
    data = files(whole).read(PATH).replace(b'"rows": 14', b'"rows": 15')
    assert problems(client, whole, f"COPY x {PATH}", {"x": data}) == [("manifest", PATH)]


def test_people_read_what_the_manifest_says_and_what_the_image_holds(client, whole):
    changed = rebuilt(client, whole, "ENV NCCL_MIN_NCHANNELS=112")
    result = rocmfix("verify", changed)
    client.images.remove(changed, force=True)
    assert result.exit_code == 9
    assert "disagrees with its manifest in 1 places" in result.stderr
    assert "manifest says  64" in result.stderr
    assert "image holds    112" in result.stderr
    assert "hint: " in result.stderr


def test_a_manifest_that_is_none(client, whole):
    changed = rebuilt(client, whole, f"COPY x {PATH}", {"x": b"{}"})
    result = rocmfix("verify", changed)
    client.images.remove(changed, force=True)
    assert result.exit_code == 9
    assert "cannot be read" in result.stderr


def test_an_image_without_a_manifest(base):
    result = rocmfix("verify", base)
    assert result.exit_code == 9
    assert f"has no {PATH}" in result.stderr
    assert "hint: rocmfix inspect" in result.stderr


def test_a_changed_image_is_not_published(client, whole, registry):
    changed = rebuilt(client, whole, "ENV NCCL_MIN_NCHANNELS=112")
    result = rocmfix("publish", changed, "--to", f"{registry}/me/sglang")
    client.images.remove(changed, force=True)
    assert result.exit_code == 9
    assert "was not pushed" in result.stderr
