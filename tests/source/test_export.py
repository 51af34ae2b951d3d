"""A tree is written out whole and as it is, and nothing beside it."""

import os
import stat
import zipfile
from pathlib import Path

import pytest

from rocmfix.errors import SourceError
from rocmfix.source import export, open_tree
from rocmfix.system.files import Copied, new_folder, write_out
from rocmfix.tree import MemoryTree, Overlay
from tests.source.test_trees import lay_out
from tests.source.wheelhouse import PACKAGE, build_wheel


def content(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}


@pytest.fixture
def out(tmp_path: Path) -> Path:
    (tmp_path / "out").mkdir()
    return tmp_path / "out"


def test_a_wheel_comes_out_to_the_byte(tmp_path: Path, out: Path) -> None:
    wheel = build_wheel(tmp_path)
    with zipfile.ZipFile(wheel, "a") as archive:
        program = zipfile.ZipInfo("sglang/run.sh")
        program.external_attr = 0o755 << 16
        archive.writestr(program, "#!/bin/sh\n")
        expected = {name: archive.read(name) for name in archive.namelist()}
    export(open_tree(str(wheel)), out)
    assert content(out) == expected
    assert stat.S_IMODE((out / "sglang/run.sh").stat().st_mode) == 0o755
    assert stat.S_IMODE((out / "sglang/__init__.py").stat().st_mode) == 0o644
    assert open_tree(str(out)).release == "9.9"


def test_site_packages_come_out_without_the_neighbours(tmp_path: Path, out: Path) -> None:
    root = lay_out(tmp_path / "site", "sglang")
    for name in ("torch/__init__.py", "torch-2.dist-info/METADATA", "sglang-9.9.dist-info/METADATA",
                 "sglang/__pycache__/utils.cpython-311.pyc", ".rocmfix/state.json"):  # fmt: skip
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(b"x")
    (root / "sglang/srt/server.py").chmod(0o400)
    export(open_tree(str(root)), out)
    assert set(content(out)) == {*PACKAGE, "sglang-9.9.dist-info/METADATA", ".rocmfix/state.json"}
    assert stat.S_IMODE((out / "sglang/srt/server.py").stat().st_mode) == 0o400


def test_a_checkout_comes_out_without_git_but_with_its_links(tmp_path: Path, out: Path) -> None:
    root = lay_out(tmp_path / "repo", "python/sglang")
    (root / ".git").mkdir()
    (root / ".git/config").write_text("")
    (root / "README.md").write_text("hello")
    (root / "docs").symlink_to("/etc")
    export(open_tree(str(root)), out)
    assert set(content(out)) == {*(f"python/{name}" for name in PACKAGE), "README.md"}
    assert os.readlink(out / "docs") == "/etc"  # noqa: PTH115 - the text of the link, not a path


def test_a_patched_tree_comes_out_as_patched(out: Path) -> None:
    tree = Overlay(MemoryTree({"python/sglang/a.py": b"a", "python/sglang/b.py": b"b"}), {"python/sglang/a.py": b"A"})
    export(tree, out)
    assert content(out) == {"python/sglang/a.py": b"A", "python/sglang/b.py": b"b"}


@pytest.mark.parametrize("name", ["../evil.py", "/tmp/evil.py", "sglang/../../evil.py"])
def test_a_wheel_cannot_write_outside(tmp_path: Path, out: Path, name: str) -> None:
    wheel = build_wheel(tmp_path)
    with zipfile.ZipFile(wheel, "a") as archive:
        archive.writestr(name, b"evil")
    with pytest.raises(SourceError, match="leaves the folder"):
        export(open_tree(str(wheel)), out)
    assert not (tmp_path / "evil.py").exists()


def test_a_link_written_before_is_not_followed(tmp_path: Path, out: Path) -> None:
    link = Copied("dir", os.fsencode(tmp_path), is_link=True)
    for evil in (Copied("dir/evil.py", b"evil"), Copied("dir/sub/evil.py", b"evil")):
        with pytest.raises(PermissionError, match="link"):
            write_out(out, [link, evil])
        (out / "dir").unlink()
    assert not (tmp_path / "evil.py").exists()


@pytest.mark.parametrize("there", ["nothing", "empty folder"])
def test_a_new_folder_appears_when_it_is_full(tmp_path: Path, there: str) -> None:
    path = tmp_path / "deep/new"
    if there == "empty folder":
        path.mkdir(parents=True)
    with new_folder(path) as work:
        (work / "a").write_text("a")
        assert not (path / "a").exists()
    assert content(path) == {"a": b"a"}
    assert [each.name for each in path.parent.iterdir()] == ["new"]


@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError])
def test_a_new_folder_that_fails_is_gone(tmp_path: Path, error: type[BaseException]) -> None:
    def fill() -> None:
        with new_folder(tmp_path / "new") as work:
            (work / "a").write_text("a")
            raise error

    with pytest.raises(error):
        fill()
    assert list(tmp_path.iterdir()) == []
