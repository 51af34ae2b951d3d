"""The zip reader agrees with `zipfile` on what is sound, and refuses what is not."""

import random
import struct
import tracemalloc
import zipfile
from pathlib import Path

import pytest

from rocmfix.errors import SourceError
from rocmfix.source import open_tree
from rocmfix.system.archive import ArchiveError, open_archive
from tests.source.wheelhouse import PACKAGE, build_wheel


@pytest.mark.parametrize("packed", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_agrees_with_zipfile(tmp_path: Path, packed: int) -> None:
    path = build_wheel(tmp_path, packed=packed)
    archive = open_archive(path)
    with zipfile.ZipFile(path) as reference:
        assert {name: archive.read(name) for name in archive.names()} == {
            name: reference.read(name) for name in reference.namelist()
        }


def test_folders_comments_and_empty_files_are_read_right(tmp_path: Path) -> None:
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.comment = b"a comment with PK\5\6 in it" + b"x" * 300
        archive.mkdir("folder") if hasattr(archive, "mkdir") else archive.writestr("folder/", b"")
        archive.writestr("folder/empty", b"")
    read = open_archive(path)
    assert read.names() == ("folder/empty",)
    assert (read.read("folder/empty"), read.read("folder/"), read.read("folder")) == (b"", None, None)


@pytest.mark.parametrize("packed", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_refuses_other_packings(tmp_path: Path, packed: int) -> None:
    archive = open_archive(build_wheel(tmp_path, packed=packed))
    with pytest.raises(ArchiveError, match="packed by method"):
        archive.read("sglang/srt/server.py")


@pytest.mark.parametrize("at", ["data", "index", "end", "cut", "empty", "text"])
def test_damage_is_an_error_that_names_the_wheel(tmp_path: Path, at: str) -> None:
    path = build_wheel(tmp_path, packed=zipfile.ZIP_STORED)
    data = bytearray(path.read_bytes())
    match at:
        case "data":
            spot = data.index(b"serve()")
            data[spot] ^= 0xFF
        case "index":
            data[data.index(b"PK\1\2") + 1] ^= 0xFF
        case "end":
            data[data.index(b"PK\5\6")] ^= 0xFF
        case "cut":
            del data[len(data) // 2 :]
        case "empty":
            data.clear()
        case _:
            data[:] = b"<html>proxy error</html>"
    path.write_bytes(data)
    with pytest.raises(SourceError, match=r"sglang-9\.9-py3-none-any\.whl"):
        open_tree(str(path)).read("python/sglang/srt/server.py")


def test_a_file_that_unpacks_to_more_than_it_promised_is_refused(tmp_path: Path) -> None:
    """A bomb: the index promises ten bytes, the data would unpack to five million."""
    path = tmp_path / "bomb.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("bomb", b"\0" * 5_000_000)
    data = bytearray(path.read_bytes())
    struct.pack_into("<L", data, data.index(b"PK\1\2") + 24, 10)
    path.write_bytes(data)
    bomb = open_archive(path)
    tracemalloc.start()
    try:
        with pytest.raises(ArchiveError, match="damaged"):
            bomb.read("bomb")
        assert tracemalloc.get_traced_memory()[1] < 1_000_000, "it was unpacked before it was refused"
    finally:
        tracemalloc.stop()


def test_random_damage_never_gives_wrong_bytes(tmp_path: Path) -> None:
    """Whatever single byte is wrong: an error, an absence, or the right bytes; never others."""
    path = build_wheel(tmp_path)
    sound = path.read_bytes()
    dice = random.Random(20261130)
    for _ in range(400):
        data = bytearray(sound)
        data[dice.randrange(len(data))] ^= 1 << dice.randrange(8)
        path.write_bytes(data)
        try:
            archive = open_archive(path)
            read = {name: archive.read(name) for name in PACKAGE}
        except ArchiveError:
            continue
        assert all(data is None or data == PACKAGE[name] for name, data in read.items())
