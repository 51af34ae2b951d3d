"""What a build is given: each file with the owner, mode and time that keep the image as it was, and the record of it."""

from __future__ import annotations

import hashlib
import io
import tarfile

import pytest

from rocmfix.errors import ApplyError, VerifyError
from rocmfix.image import flavour as flavours
from rocmfix.image.context import FILES, TABLES, BakedTable, Ground, Past, Recipe, Tables, past_of_source, prepare
from rocmfix.image.flavour import Feature, Variable
from rocmfix.image.inspect import Seen
from rocmfix.image.manifest import PATH, BaseImage, FileRecord, FixRecord, parse, table_record
from rocmfix.image.tree import ImageTree, Layout, tree_hash
from rocmfix.model import Outcome, PatchPlan, Step, TreeReport, Upstream, Verdict
from rocmfix.patchfile import Patch
from rocmfix.plan import Change, Patched
from rocmfix.state import FileState, FixState, State
from rocmfix.system.container import File
from rocmfix.verdict import blob_id

PACKAGE = "/sgl-workspace/sglang/python/sglang"
CACHE = "/root/.cache/tvm-ffi"
SOURCE = "python/sglang/a.py"
HEADER = "python/sglang/k.cuh"
TABLE = "/etc/rocmfix/aiter/tuned_fmoe.csv"
MAY, JUNE = "Fri, 1 May 2026 00:00:00 +0000", "Mon, 1 Jun 2026 00:00:00 +0000"
IN_MAY, IN_JUNE = 1_777_593_600, 1_780_272_000
FLAVOUR = flavours.load("mi35x-rocm720")


def file(path, data=b"old", *, mode=0o640, uid=1000, gid=1001, mtime=100, **how):
    return File(path, data, mode, uid, gid, mtime, size=len(data), **how)


def folder(path, mtime=100):
    return file(path, b"", mode=0o750, mtime=mtime, is_directory=True)


def image(*files):
    held = (
        file(f"{PACKAGE}/version.py", b'__version__ = "0.5.14"\n', mtime=500),
        file(f"{PACKAGE}/a.py"),
        file(f"{PACKAGE}/b.py", mtime=900),
        folder("/etc", mtime=777),
        folder(PACKAGE, mtime=778),
        *files,
    )
    return ImageTree("image:x", Layout(PACKAGE, None, (CACHE,)), {each.path: each for each in held})


def patch(fix, date, files):
    """One step done: a patch of that date and what it leaves behind."""
    made = Patch(f"{fix}.patch", "A <a@example.com>", date, "s", "b", (), fix[0] * 64)
    step = Step(fix=fix, set="set", variant=made.name, digest=made.digest, files=tuple(files))
    return Change(step, made, files)


def patched(*changes, tree=None):
    after = {path: data for change in changes for path, data in change.files.items()}
    plan = PatchPlan(source="x", release=None, apply=tuple(change.step for change in changes), skip=())
    read = (tree or image()).read
    return Patched(plan, changes, {path: read(path) for path in after}, after)


NOTHING = patched()


def ground(tree=None, past=None, verdicts=()):
    seen = Seen("x", "sha256:1", 1, "linux/amd64", {}, (), (), tree or image(), "c" * 40, "a" * 40, None)
    report = TreeReport(source="x", release="0.5.14", verdicts=tuple(verdicts))
    return Ground(
        BaseImage(name="x", digest="sha256:" + "3" * 64), "x@sha256:" + "3" * 64, seen, report, past or Past()
    )


def baked(path=TABLE, data=b"a\n1\n"):
    return BakedTable(table_record(path, data, ()), data)


def recipe(tables=None, **how):
    return Recipe(**{
        "flavour": FLAVOUR, "features": (), "tables": tables or Tables(), "env": (), "tool": "1.0", "inputs": "i", **how,
    })  # fmt: skip


def members(data):
    """What a tar holds: mode, owner, time and bytes by path, the bytes of a folder None."""
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        found = {}
        for each in tar:
            stream = tar.extractfile(each)
            found[f"/{each.name}"] = (each.mode, each.uid, each.gid, each.mtime, stream.read() if stream else None)
        return found


def variables(**values):
    return tuple(Variable(name=name, value=value) for name, value in values.items())


def test_the_users_word_on_a_variable_beats_the_tables_theirs_the_flavours_its_own_a_features():
    feature = Feature(why="because it is so", env=variables(Z="feature", A="feature", B="feature", C="feature"))
    made = recipe(
        features=(("f", feature),),
        flavour=FLAVOUR.model_copy(update={"env": variables(A="flavour", B="flavour", C="flavour")}),
        tables=Tables(env=variables(B="tables", C="tables")),
        env=variables(C="user"),
    )
    assert made.variables == variables(A="flavour", B="tables", C="user", Z="feature")


def test_a_patched_file_keeps_owner_and_mode_and_has_the_time_of_the_newest_patch_that_touches_it():
    tree = image(file(f"{PACKAGE}/new/c.py"))
    changes = (
        patch("1", JUNE, {SOURCE: b"one"}),
        patch("2", MAY, {SOURCE: b"two", "python/sglang/b.py": b"two"}),
    )
    made = members(prepare(recipe(), ground(tree), patched(*changes)).files)
    assert made[f"{PACKAGE}/a.py"] == (0o640, 1000, 1001, IN_JUNE, b"two")
    assert made[f"{PACKAGE}/b.py"] == (0o640, 1000, 1001, IN_MAY, b"two")
    assert made[PATH][:4] == (0o644, 0, 0, IN_JUNE)
    assert f"{PACKAGE}/new/c.py" not in made


def test_a_file_that_is_as_old_as_its_patch_is_a_second_newer_so_that_it_is_not_taken_for_the_old_one():
    tree = image(
        file(f"{PACKAGE}/a.py", mtime=IN_JUNE), file(f"{PACKAGE}/__pycache__/a.cpython-310.pyc", mtime=IN_JUNE + 1)
    )
    made = members(prepare(recipe(), ground(tree), patched(patch("1", JUNE, {SOURCE: b"new"}))).files)
    assert made[f"{PACKAGE}/a.py"][3] == IN_JUNE + 1
    assert made[f"{PACKAGE}/__pycache__/a.cpython-310.pyc"] == (0o640, 1000, 1001, IN_JUNE + 2, b"")


def test_a_file_that_a_patch_makes_is_roots():
    made = members(prepare(recipe(), ground(), patched(patch("1", JUNE, {"python/sglang/new.py": b"new"}))).files)
    assert made[f"{PACKAGE}/new.py"] == (0o644, 0, 0, IN_JUNE, b"new")


def test_a_file_that_a_patch_empties_is_emptied_and_one_that_it_removes_is_refused():
    made = members(prepare(recipe(), ground(), patched(patch("1", JUNE, {SOURCE: b""}))).files)
    assert made[f"{PACKAGE}/a.py"][4] == b""
    with pytest.raises(ApplyError, match=f"{PACKAGE}/a.py is removed by a patch") as caught:
        prepare(recipe(), ground(), patched(patch("1", JUNE, {SOURCE: None})))
    assert "--from-source" in str(caught.value.hint)


def test_bytecode_and_jit_builds_of_what_changes_are_emptied_and_each_is_recorded_by_its_kind():
    used = f'#include "{PACKAGE}/k.cuh"'.encode()
    tree = image(
        file(f"{PACKAGE}/k.cuh"),
        file(f"{PACKAGE}/__pycache__/a.cpython-310.pyc"),
        file(f"{CACHE}/k1/cuda.cu", used),
        file(f"{CACHE}/k1/main.so"),
    )
    made = prepare(recipe(), ground(tree), patched(patch("1", JUNE, {SOURCE: b"new", HEADER: b"new"}), tree=tree))
    held = members(made.files)
    assert held[f"{PACKAGE}/__pycache__/a.cpython-310.pyc"] == (0o640, 1000, 1001, IN_JUNE, b"")
    assert held[f"{CACHE}/k1/main.so"] == (0o640, 1000, 1001, IN_JUNE, b"")
    assert [(record.path, record.kind) for record in made.manifest.files] == [
        (f"{CACHE}/k1/main.so", "cache"),
        (f"{PACKAGE}/__pycache__/a.cpython-310.pyc", "bytecode"),
        (f"{PACKAGE}/a.py", "source"),
        (f"{PACKAGE}/k.cuh", "source"),
    ]
    assert made.manifest.files[2] == FileRecord(
        path=f"{PACKAGE}/a.py", kind="source", sha256=hashlib.sha256(b"new").hexdigest(),
        mode=0o640, uid=1000, gid=1001, mtime=IN_JUNE,
    )  # fmt: skip


def test_the_folders_above_are_as_the_base_has_them_but_for_the_time_of_etc_which_is_the_engines():
    made = members(prepare(recipe(), ground(), patched(patch("1", JUNE, {SOURCE: b"new"}))).files)
    assert made[PACKAGE] == (0o750, 1000, 1001, 778, None)
    assert made["/etc"] == (0o750, 1000, 1001, IN_JUNE, None)


def test_tables_alone_are_as_old_as_the_release_and_where_that_has_no_time_as_2020():
    tables = Tables(files=(baked(),))
    made = prepare(recipe(tables), ground(), NOTHING)
    assert made.tables
    assert members(made.tables)[TABLE] == (0o644, 0, 0, 500, b"a\n1\n")
    bare = ImageTree("image:x", Layout(PACKAGE), {f"{PACKAGE}/a.py": file(f"{PACKAGE}/a.py")})
    made = prepare(recipe(tables), ground(bare), NOTHING)
    assert made.tables
    assert members(made.tables)[TABLE][3] == 1_577_836_800


def test_a_table_in_the_place_of_another_keeps_its_owner_and_mode():
    made = prepare(recipe(Tables(files=(baked(),))), ground(image(file(TABLE))), NOTHING)
    assert made.tables
    assert members(made.tables)[TABLE] == (0o640, 1000, 1001, 500, b"a\n1\n")


def test_the_context_has_a_second_archive_only_for_tables():
    one, two = prepare(recipe(), ground(), NOTHING), prepare(recipe(Tables(files=(baked(),))), ground(), NOTHING)
    assert [name for name, _ in one.members()] == ["Dockerfile", FILES]
    assert [name for name, _ in two.members()] == ["Dockerfile", FILES, TABLES]
    assert "ADD tables.tar /" not in one.dockerfile
    assert "ADD tables.tar /" in two.dockerfile
    assert list(members(one.tar())) == ["/Dockerfile", f"/{FILES}"]


@pytest.mark.parametrize(
    ("tables", "layers"),
    [
        (Tables(), 1),
        (Tables(files=(baked(), baked("/etc/rocmfix/aiter/other.csv"))), 2),
        (Tables(files=(baked(),), run="python3 -m x"), 3),
    ],
)
def test_the_manifest_counts_the_layers_that_the_dockerfile_makes(tables, layers):
    made = prepare(recipe(tables), ground(), NOTHING)
    assert made.layers == layers
    assert sum(line.startswith(("ADD ", "RUN ")) for line in made.dockerfile.splitlines()) == layers


def test_the_bytes_gained_are_those_of_files_tables_and_the_manifest():
    made = prepare(recipe(Tables(files=(baked(),))), ground(), patched(patch("1", JUNE, {SOURCE: b"new"})))
    assert made.changed_bytes == len(b"new") + len(b"a\n1\n") + len(made.manifest.to_bytes())
    assert parse(members(made.files)[PATH][4]) == made.manifest


def verdict(fix, outcome):
    return Verdict(fix=fix, verdict=outcome, reason="because", upstream=Upstream(status="local"))


def test_every_verdict_is_recorded_and_the_patch_with_those_that_were_applied():
    on = ground(verdicts=[verdict("1", Outcome.NEEDED), verdict("2", Outcome.UPSTREAM)])
    assert prepare(recipe(), on, patched(patch("1", JUNE, {SOURCE: b"new"}))).manifest.fixes == (
        FixRecord(fix="1", verdict=Outcome.NEEDED, reason="because", patch="1" * 64),
        FixRecord(fix="2", verdict=Outcome.UPSTREAM, reason="because"),
    )


def test_what_an_earlier_build_did_is_still_in_the_record_and_gives_way_where_this_one_did_it_anew():
    """The base holds a.py and b.py as an earlier build left them; this one changes a.py again."""
    old = [
        FileRecord(path=f"{PACKAGE}/{name}", kind="source", sha256="0" * 64, mode=0o640, uid=1, gid=2, mtime=3)
        for name in ("b.py", "a.py")
    ]
    earlier = State(
        fixes=(FixState(fix="0", variant="0.patch", digest="0" * 64, paths=(SOURCE,)),),
        files=(FileState(path=SOURCE, before="1" * 40, after=blob_id(b"old")),),
    )
    past = Past(
        state=earlier,
        files=tuple(old),
        before={SOURCE: b"at first"},
        tables=(baked(data=b"a\n0\n").record, baked("/etc/rocmfix/aiter/a.csv").record),
        env=variables(NCCL_MIN_NCHANNELS="1", ZZ="kept"),
    )
    again = recipe(Tables(files=(baked(),)), env=variables(NCCL_MIN_NCHANNELS="2"))
    made = prepare(again, ground(past=past), patched(patch("1", JUNE, {SOURCE: b"new"}))).manifest
    assert [(each.path, each.sha256) for each in made.files] == [
        (TABLE, hashlib.sha256(b"a\n1\n").hexdigest()),
        (f"{PACKAGE}/a.py", hashlib.sha256(b"new").hexdigest()),
        (f"{PACKAGE}/b.py", "0" * 64),
    ]
    assert made.applied == ("0", "1")
    assert made.state.files == (FileState(path=SOURCE, before="1" * 40, after=blob_id(b"new")),)
    assert made.tables == (baked("/etc/rocmfix/aiter/a.csv").record, baked().record)
    assert {each.name: each.value for each in made.env}["NCCL_MIN_NCHANNELS"] == "2"
    assert made.env[-1] == variables(ZZ="kept")[0]
    assert [each.name for each in made.env] == sorted(each.name for each in made.env)
    assert made.content.before == tree_hash(image(file(f"{PACKAGE}/a.py", b"at first")))
    assert made.content.after == tree_hash(image(file(f"{PACKAGE}/a.py", b"new")))


def test_an_image_built_from_a_patched_source_has_its_past_from_that_source():
    before = image()
    done = patched(patch("1", JUNE, {SOURCE: b"new"}), tree=before)
    past = past_of_source(image(file(f"{PACKAGE}/a.py", b"new")), done)
    assert [(each.path, each.kind, each.sha256) for each in past.files] == [
        (f"{PACKAGE}/a.py", "source", hashlib.sha256(b"new").hexdigest())
    ]
    assert past.state.fixes[0].fix == "1"
    assert past.before == {SOURCE: b"old"}


def test_an_image_that_does_not_hold_the_patched_source_is_refused_by_the_files_it_lost():
    done = patched(patch("1", JUNE, {SOURCE: b"new", "python/sglang/b.py": b"old"}))
    with pytest.raises(VerifyError, match="does not hold the patched source") as caught:
        past_of_source(image(), done)
    assert caught.value.details == (f"{PACKAGE}/a.py",)
