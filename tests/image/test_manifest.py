"""What an image's record says of itself: by digest, the same bytes every time, and in its labels the same in short."""

from __future__ import annotations

import hashlib

import pytest

from rocmfix.aiter.origin import RowSource
from rocmfix.errors import VerifyError
from rocmfix.image.manifest import (
    BaseImage,
    Content,
    FixRecord,
    ImageManifest,
    TableRecord,
    labels,
    parse,
    row_digests,
    table_record,
)
from rocmfix.model import Outcome
from rocmfix.state import FileState, FixState, State

DATA = b"a,b\n1,2\n3,4\n"
CONTENT = Content(
    package="/p/sglang", release="0.5.14", commit="c" * 40, before="sha256:" + "4" * 64, after="sha256:" + "5" * 64
)


def rows(first: int, count: int, file: str) -> RowSource:
    return RowSource(first=first, count=count, file=file, line=2, sha256="d" * 64)


def state(*fixes: str) -> State:
    return State(
        fixes=tuple(FixState(fix=f, variant="x.patch", digest="6" * 64, paths=("a.py",)) for f in fixes),
        files=(FileState(path="a.py", before="1" * 40, after="2" * 40),),
    )


def manifest(**changed) -> ImageManifest:
    values = {
        "tool": "1.0",
        "inputs": "sha256:" + "2" * 64,
        "flavour": "mi35x-rocm720",
        "gpu": "mi35x",
        "rocm": "7.2.0",
        "base": BaseImage(name="lmsysorg/sglang:v1", digest="sha256:" + "3" * 64),
        "content": CONTENT,
        "aiter": None,
        "layers": 2,
        "fixes": tuple(FixRecord(fix=f, verdict=Outcome.NEEDED, reason="r") for f in ("z", "b", "c")),
        "state": state("z", "b"),
        "files": (),
        "tables": (table_record("/t.csv", DATA, (rows(2, 2, "x.csv"),)),),
    }
    return ImageManifest(**{**values, **changed})


def test_a_table_is_known_by_its_bytes_and_each_row_by_eight_digits():
    """The header has none: a change of it alone is said of the file."""
    digests = [hashlib.sha256(line).hexdigest()[:8] for line in (b"1,2", b"3,4")]
    assert row_digests(DATA) == digests
    assert table_record("/t.csv", DATA, (rows(2, 2, "x.csv"),)) == TableRecord(
        path="/t.csv",
        sha256=hashlib.sha256(DATA).hexdigest(),
        rows=2,
        sources=(rows(2, 2, "x.csv"),),
        digests=" ".join(digests),
    )


def test_the_source_of_a_table_names_the_files_by_their_rows_the_most_first_and_equals_by_name():
    parts = (rows(2, 3, "b.csv"), rows(5, 4, "c.csv"), rows(9, 1, "d.csv"), rows(10, 1, "a.csv"), rows(11, 2, "b.csv"))
    assert table_record("/t.csv", DATA, parts).source == "5 of b.csv, 4 of c.csv, 1 of a.csv, 1 of d.csv"


def test_a_manifest_is_read_as_it_was_written_and_its_digest_is_of_those_very_bytes():
    made = manifest()
    data = made.to_bytes()
    assert data.startswith(b"{\n")
    assert data.endswith(b"}\n")
    assert parse(data) == made
    assert made.digest == f"sha256:{hashlib.sha256(data).hexdigest()}"


def test_what_is_no_manifest_is_refused_with_the_first_five_faults():
    with pytest.raises(VerifyError, match="cannot be read") as caught:
        parse(b"{}")
    assert caught.value.details == tuple(
        f"{name}: Field required" for name in ("tool", "inputs", "flavour", "gpu", "rocm")
    )
    with pytest.raises(VerifyError) as caught:
        parse(manifest().to_bytes().replace(b"{", b'{"later": 1,', 1))
    assert caught.value.details == ("later: Extra inputs are not permitted",)


def test_the_fixes_applied_are_those_that_its_state_records_in_their_order():
    assert manifest().applied == ("z", "b")


def test_the_labels_say_what_the_manifest_says():
    made = manifest()
    assert labels(made) == {
        "org.opencontainers.image.title": "sglang for ROCm",
        "org.opencontainers.image.description": (
            "sglang 0.5.14 for mi35x on ROCm 7.2.0, 2 fixes applied by rocmfix 1.0"
        ),
        "org.opencontainers.image.source": "https://github.com/sgl-project/sglang",
        "org.opencontainers.image.licenses": "Apache-2.0",
        "org.opencontainers.image.base.name": "lmsysorg/sglang:v1",
        "org.opencontainers.image.base.digest": "sha256:" + "3" * 64,
        "org.opencontainers.image.version": "0.5.14",
        "org.opencontainers.image.revision": "c" * 40,
        "io.rocmfix.tool": "1.0",
        "io.rocmfix.flavour": "mi35x-rocm720",
        "io.rocmfix.inputs": "sha256:" + "2" * 64,
        "io.rocmfix.manifest": made.digest,
        "io.rocmfix.fixes": "z b",
        "io.rocmfix.tree": "sha256:" + "5" * 64,
        "io.rocmfix.tables": "1",
    }


def test_a_tree_of_unknown_release_or_commit_has_no_label_that_claims_one():
    """An empty version label would be one that every image of that base disagrees with."""
    said = labels(manifest(content=CONTENT.model_copy(update={"release": None})))
    assert "org.opencontainers.image.version" not in said
    assert said["org.opencontainers.image.revision"] == "c" * 40
    assert said["org.opencontainers.image.description"].startswith("sglang of unknown release for mi35x ")
    said = labels(manifest(content=CONTENT.model_copy(update={"commit": None})))
    assert "org.opencontainers.image.revision" not in said
    assert said["org.opencontainers.image.version"] == "0.5.14"
