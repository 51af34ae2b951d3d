"""The sglang that this Python would import is found without importing it."""

import importlib.abc
import importlib.machinery
import importlib.util
import site
import sys
from pathlib import Path

import pytest

from rocmfix.errors import SourceError
from rocmfix.source import open_installed
from tests.source.test_trees import lay_out
from tests.source.wheelhouse import build_wheel, unpack

PATH = "python/sglang/srt/server.py"


@pytest.fixture(autouse=True)
def no_sglang(monkeypatch: pytest.MonkeyPatch) -> None:
    """A Python of its own: nothing of this test stays on the path, and sglang is never loaded."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    assert "sglang" not in sys.modules


def test_in_site_packages(tmp_path: Path) -> None:
    sys.path.insert(0, str(unpack(build_wheel(tmp_path / "dist"), tmp_path / "site")))
    tree = open_installed()
    assert tree.read(PATH) == b"serve()\r\n"
    assert (tree.root, tree.release, tree.shown(PATH)) == (tmp_path / "site", "9.9", "sglang/srt/server.py")
    assert "sglang" not in sys.modules


@pytest.mark.parametrize("is_checkout", [True, False])
def test_an_editable_install_by_a_pth_file(tmp_path: Path, *, is_checkout: bool) -> None:
    source = lay_out(tmp_path / "src", "python/sglang")
    if is_checkout:
        (source / ".git").mkdir()
    info = tmp_path / "site/sglang-9.9.dev1.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: sglang\nVersion: 9.9.dev1\n")
    (tmp_path / "site/_sglang.pth").write_text(f"{source}/python\n")
    site.addsitedir(str(tmp_path / "site"))
    tree = open_installed()
    assert tree.read(PATH) == b"serve()\r\n"
    assert tree.release == "9.9.dev1"
    assert tree.root == (source if is_checkout else source / "python")


def test_an_editable_install_by_a_finder(tmp_path: Path) -> None:
    """setuptools' newer editable installs put a finder on sys.meta_path."""
    source = lay_out(tmp_path / "src", "python/sglang")

    class Finder(importlib.abc.MetaPathFinder):
        def find_spec(
            self, fullname: str, path: object, target: object = None
        ) -> importlib.machinery.ModuleSpec | None:
            where = source / "python/sglang/__init__.py"
            return importlib.util.spec_from_file_location(fullname, where) if fullname == "sglang" else None

    sys.meta_path.insert(0, Finder())
    assert open_installed().read(PATH) == b"serve()\r\n"


def test_a_package_behind_a_link_is_read_where_it_lies(tmp_path: Path) -> None:
    lay_out(tmp_path / "real", "sglang")
    (tmp_path / "site").mkdir()
    (tmp_path / "site/sglang").symlink_to(tmp_path / "real/sglang")
    sys.path.insert(0, str(tmp_path / "site"))
    assert open_installed().read(PATH) == b"serve()\r\n"


def test_none_installed_names_the_python(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="would find no sglang") as caught:
        open_installed()
    assert sys.executable in caught.value.message
