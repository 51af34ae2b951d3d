"""What drift asks besides fixes: CUDA-only code that ROCm comes to, and tables that an AITER pin breaks."""

from __future__ import annotations

import hashlib
from functools import partial

import pytest

from rocmfix.aiter.sources import Index, TableSource
from rocmfix.catalog import load
from rocmfix.errors import RocmfixError
from rocmfix.guards.reach import Reachable
from rocmfix.guards.scan import scan
from rocmfix.source import open_tree
from rocmfix.source.gitref import GitTree
from rocmfix.source.spec import UPSTREAM
from rocmfix.tree import MemoryTree
from rocmfix.upstream import looks
from rocmfix.upstream.gather import Setting, Source, watch
from rocmfix.upstream.looks import DOCKERFILE, pins, reached_cuda
from rocmfix.upstream.watch import Line, What
from tests.aiter.rows import ladder, row, table
from tests.aiter.trees import tree as aiter_tree
from tests.upstream.conftest import KERNEL, Clone

PIN, OTHER = "c" * 40, "v0.1.11.post1"
STAGES = f"""
ARG BASE_IMAGE_950="rocm/pytorch:x"
FROM $BASE_IMAGE_942 AS gfx942
ENV AITER_COMMIT_DEFAULT="{"d" * 40}"
FROM $BASE_IMAGE_950 AS gfx950
ENV BUILD_VLLM="0"
ENV AITER_COMMIT_DEFAULT="{PIN}"
FROM $BASE_IMAGE_950_ROCM720 AS gfx950-rocm720
ENV AITER_COMMIT_DEFAULT={OTHER}
FROM gfx950-rocm720 AS final
RUN git checkout ${{AITER_COMMIT:-$AITER_COMMIT_DEFAULT}}
"""


def test_the_pin_of_each_stage_with_tables_is_read_as_the_dockerfile_says_it():
    assert pins(STAGES) == {"gfx950": PIN, "gfx950-rocm720": OTHER}
    assert pins("FROM x\nENV AITER_COMMIT_DEFAULT=abc\n") == {}


def entry(name, data=b""):
    return TableSource(
        name=name, summary="s", repo="ROCm/aiter", commit="e" * 40, path="a.csv",
        sha256=hashlib.sha256(data).hexdigest(), since="f" * 40,
    )  # fmt: skip


def asking(*tables, offline=False):
    """What this version asks about these tables."""
    _, question = looks.looks("1.0", Index(table=tables), offline=offline).questions
    return lambda dockerfile: question.ask(MemoryTree({DOCKERFILE: dockerfile.encode()} if dockerfile else {}))


@pytest.fixture
def picky(monkeypatch):
    """An AITER that cannot run one of two tables; what was asked of it."""
    asked = []

    def trouble(table, commit, *, offline):
        asked.append((table.name, commit))
        return "flydsl_x: not there" if (table.name, commit) == ("glm", PIN) else ""

    monkeypatch.setattr(looks, "_trouble", trouble)
    return asked


def test_a_table_is_named_with_the_stage_that_breaks_it(picky):
    found = asking(entry("glm"), entry("kimi"))(STAGES)
    assert found == (f"glm on gfx950: AITER {PIN[:10]} cannot run it: flydsl_x: not there",)
    assert len(picky) == 4


def test_one_pin_in_many_stages_is_asked_once(picky):
    assert len(asking(entry("glm"), entry("kimi"))(STAGES.replace(OTHER, PIN))) == 2
    assert len(picky) == 2


def test_a_tree_without_upstreams_dockerfile_says_nothing_of_aiter(picky):
    assert asking(entry("glm"))("") is None
    assert picky == []


GOOD = table([row(token=1, us=3)])
BAD = table([row(token=1, kernelName1="flydsl_moe1_afp4_wfp4_bf16_t48x64x256_w2")])


@pytest.fixture
def pinned(tmp_path, monkeypatch):
    """A repository of AITER that serves clones without blobs, as upstream's does, and both tables in the cache."""
    root = tmp_path / "aiter"
    root.mkdir()
    repository = Clone(root)
    repository.git("init", "-q", "-b", "main")
    for name, value in (("user.name", "Jo"), ("user.email", "jo@example.com"), ("uploadpack.allowFilter", "true"),
                        ("uploadpack.allowAnySHA1InWant", "true")):  # fmt: skip
        repository.git("config", name, value)
    memory = aiter_tree(files={"aiter/configs/tuned_fmoe.csv": table(ladder(inter_dim=2048))})
    repository.write({path: (memory.read(path) or b"").decode() for path in memory.paths("")}, "aiter")
    monkeypatch.setitem(UPSTREAM, "aiter", f"file://{root}")
    monkeypatch.setenv("ROCMFIX_CACHE", str(tmp_path / "cache"))
    folder = tmp_path / "cache/tables"
    folder.mkdir(parents=True)
    for data in (GOOD, BAD):
        (folder / f"{hashlib.sha256(data).hexdigest()}.csv").write_bytes(data)
    return f'FROM x AS gfx950\nENV AITER_COMMIT_DEFAULT="{repository.git("rev-parse", "HEAD")}"\n'


def test_the_aiter_that_is_pinned_is_fetched_and_asked(pinned, capsys):
    (found,) = asking(entry("good", GOOD), entry("bad", BAD))(pinned)
    assert found.startswith("bad on gfx950: AITER ")
    assert "unknown-kernel: flydsl_moe1_afp4_wfp4_bf16_t48x64x256_w2" in found
    assert capsys.readouterr().err.count("fetching") == 2, "once for the commit, once for all files that are read"


def test_an_aiter_that_cannot_be_had_is_an_error_and_no_broken_table(pinned):
    with pytest.raises(RocmfixError, match="offline"):
        asking(entry("good", GOOD), offline=True)(pinned)
    assert asking(entry("good", GOOD))(pinned) == ()
    with pytest.raises(RocmfixError, match="offline"):
        asking(entry("other", b"x"), offline=True)(pinned)


def test_a_remote_branch_is_fetched_at_once_and_not_file_by_file(clone, monkeypatch, capsys, tmp_path):
    monkeypatch.setenv("ROCMFIX_CACHE", str(tmp_path / "cache"))
    clone.git("config", "uploadpack.allowFilter", "true")
    clone.git("config", "uploadpack.allowAnySHA1InWant", "true")
    tree = open_tree(f"git:file://{clone.root.parent}/a clone@main")
    assert isinstance(tree, GitTree)
    assert tree.read(KERNEL)
    capsys.readouterr()
    assert tree.read("python/sglang/loader.py")
    assert "fetching" not in capsys.readouterr().err


@pytest.mark.upstream
def test_a_new_release_says_what_the_scan_says_by_file(release_tree, monkeypatch):
    """The same as `guards scan 0.5.8 --against 0.5.8.post1`, but for what cannot be told."""
    scans = {name: scan(release_tree(name)) for name in ("0.5.8", "0.5.8.post1")}
    monkeypatch.setattr(looks, "scan", lambda tree: scans[tree.source])
    setting = Setting("today", "0.5.8", looks.looks("1.0", Index(table=()), offline=True))
    sources = [Source(name, Line.RELEASE, partial(release_tree, name)) for name in scans]
    last = watch(load(), sources[:1], None, setting)
    now = watch(load(), sources, last, setting)
    before, after = (
        {each.key for each in found.findings if not each.guarded and each.reachable is Reachable.YES}
        for found in scans.values()
    )
    said = {event.text.partition(": ")[0] for event in now.events if event.what is What.INCLUDE}
    assert said == {file for file, _ in after - before}
    assert reached_cuda(release_tree("0.5.8")) == tuple(sorted(": ".join(key) for key in before))
    assert before
