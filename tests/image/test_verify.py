"""Tampering with an image is caught, and each thing that was tampered with is named."""

from __future__ import annotations

import json

import pytest

from rocmfix.image.build import Order, build
from rocmfix.image.context import BakedTable, Tables
from rocmfix.image.flavour import Variable, load as load_flavour
from rocmfix.image.manifest import PATH, parse
from tests.image.conftest import BYTECODE, JIT, OTHER_BYTECODE, PATCHED, PATCHED_PY, rebuilt, remove_images, rocmfix
from tests.image.standin import AITER, FMOE_HEADER, FMOE_ROW, PACKAGE

pytestmark = [pytest.mark.docker, pytest.mark.upstream]

TABLE = f"{AITER}/aiter/configs/model_configs/rocmfix_tuned_fmoe.csv"


@pytest.fixture(scope="module")
def whole(base, engine, client, run_id):
    """An image with everything in it that can be tampered with: fixes, a table, ENV."""
    import io

    from rocmfix.catalog import load
    from rocmfix.image.progress import Progress
    from rocmfix.system.reference import parse_reference

    name = f"rocmfix-test/full-{run_id}:tag"
    data = (FMOE_HEADER + FMOE_ROW.format(token=32) + FMOE_ROW.format(token=64)).encode()
    tables = Tables((BakedTable(TABLE, data, 2, "a test"),), (Variable(name="AITER_CONFIG_FMOE", value=TABLE),))
    order = Order(
        load_flavour("mi35x-rocm720"), load(), base=base, tables=tables,
        env=(Variable(name="NCCL_MIN_NCHANNELS", value="64"),), tags=(parse_reference(name),),
    )  # fmt: skip
    build(engine, order, Progress(io.StringIO()))
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
    assert "1 tables" in result.stdout


def test_tables_and_their_env_are_in_the_image_and_in_the_manifest(whole, files, client):
    manifest = parse(files(whole).read(PATH))
    assert [(t.path, t.rows, t.source) for t in manifest.tables] == [(TABLE, 2, "a test")]
    assert f"AITER_CONFIG_FMOE={TABLE}" in client.api.inspect_image(whole)["Config"]["Env"]
    assert files(whole).read(TABLE).count(b"\n") == 3


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


def test_a_table_row(client, whole, files):
    data = files(whole).read(TABLE).replace(b",64,", b",65,")
    assert problems(client, whole, f"COPY x {TABLE}", {"x": data}) == [("table", TABLE)]


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
    data = files(whole).read(PATH).replace(b'"rows": 2', b'"rows": 3')
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
