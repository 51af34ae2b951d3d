"""One source, many layouts: each tree answers for the same repository paths with the same bytes."""

import contextlib
import os
import threading
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from rocmfix.errors import SourceError
from rocmfix.source import open_tree
from rocmfix.source.layout import PROJECTS, Layout, layout_of
from tests.source.wheelhouse import PACKAGE, build_wheel, unpack

REPOSITORY = {f"python/{name}": data for name, data in PACKAGE.items()}


def lay_out(root: Path, where: str) -> Path:
    """The package in folder `root`, spelt as a checkout, a packages folder, or the package itself."""
    for name, data in PACKAGE.items():
        path = root / where / name.removeprefix("sglang/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return root


@pytest.fixture(params=["checkout", "site-packages", "python/", "package", "wheel", "unpacked wheel"])
def spec(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    root = tmp_path / "with spaces"
    match request.param:
        case "checkout":
            return str(lay_out(root, "python/sglang"))
        case "site-packages":
            (root / "docker").mkdir(parents=True)
            (root / "docker/api.py").write_text("another distribution")
            return str(lay_out(root, "sglang"))
        case "python/":
            return str(lay_out(root, "python/sglang") / "python")
        case "package":
            return str(lay_out(root, "sglang") / "sglang")
        case "wheel":
            return str(build_wheel(root))
        case _:
            return str(unpack(build_wheel(root / "dist"), root / "tree"))


def test_reads_repository_paths_in_every_layout(spec: str) -> None:
    tree = open_tree(spec)
    assert {path: tree.read(path) for path in REPOSITORY} == REPOSITORY


def test_lists_repository_paths_in_every_layout(spec: str) -> None:
    tree = open_tree(spec)
    assert list(tree.paths("python/sglang")) == sorted(REPOSITORY)
    assert list(tree.paths("python/sglang/srt/")) == [
        "python/sglang/srt/models/glm.py",
        "python/sglang/srt/server.py",
    ]
    assert set(tree.paths("")) >= set(REPOSITORY)
    assert list(tree.paths("python/sglang/sr")) == []
    assert list(tree.paths("aiter")) == []


def test_claims_the_release_in_every_layout(spec: str) -> None:
    assert open_tree(spec).release == "9.9"


@pytest.mark.parametrize("path", ["python/sglang/absent.py", "python/sglang/srt", "python/sglang/srt/server.py/x", "docker/api.py",
                                  "python/sglang/../sglang/__init__.py", "/etc/passwd", "", "python/sglang/a\0b"])  # fmt: skip
def test_a_path_that_is_no_file_of_the_project_reads_as_none(spec: str, path: str) -> None:
    assert open_tree(spec).read(path) is None


def test_shows_paths_as_the_tree_spells_them(tmp_path: Path) -> None:
    path = "python/sglang/srt/server.py"
    wheel = build_wheel(tmp_path)
    assert open_tree(str(wheel)).shown(path) == "sglang/srt/server.py"
    assert open_tree(str(lay_out(tmp_path / "repo", "python/sglang"))).shown(path) == path
    assert open_tree(str(lay_out(tmp_path, "sglang") / "sglang")).shown(path) == "srt/server.py"


def test_a_tree_with_only_some_files_opens(tmp_path: Path) -> None:
    (tmp_path / "python/sglang/srt").mkdir(parents=True)
    (tmp_path / "python/sglang/srt/one.py").write_bytes(b"1")
    tree = open_tree(str(tmp_path))
    assert list(tree.paths("python/sglang")) == ["python/sglang/srt/one.py"]
    assert tree.release is None


def test_a_folder_without_the_project_says_what_was_looked_for(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="holds no sglang") as caught:
        open_tree(str(tmp_path))
    assert [line.removeprefix(f"not there: {tmp_path}/") for line in caught.value.details] == [
        "python/sglang",
        "sglang",
        "srt",
    ]


def test_a_link_inside_the_tree_is_followed(tmp_path: Path) -> None:
    root = lay_out(tmp_path, "python/sglang")
    (root / "python/sglang/alias.py").symlink_to("srt/server.py")
    assert open_tree(str(root)).read("python/sglang/alias.py") == b"serve()\r\n"


@pytest.mark.parametrize("link", ["python/sglang/secret.py", "python/sglang/vendor"])
def test_a_link_that_leaves_the_tree_is_refused(tmp_path: Path, link: str) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/secret.py").write_text("token")
    root = lay_out(tmp_path / "tree", "python/sglang")
    is_file = link.endswith(".py")
    (root / link).symlink_to(tmp_path / "outside/secret.py" if is_file else tmp_path / "outside")
    with pytest.raises(SourceError, match="leaves the tree"):
        open_tree(str(root)).read(link if is_file else f"{link}/secret.py")


def test_a_tree_reached_through_a_link_is_read(tmp_path: Path) -> None:
    lay_out(tmp_path / "real", "sglang")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    assert open_tree(str(tmp_path / "link")).read("python/sglang/srt/server.py") == b"serve()\r\n"


def test_an_unreadable_file_is_an_error_not_an_absence(tmp_path: Path) -> None:
    root = lay_out(tmp_path, "sglang")
    (root / "sglang/loop.py").symlink_to("loop.py")
    with pytest.raises(SourceError, match="cannot read"):
        open_tree(str(root)).read("python/sglang/loop.py")


def test_aiter_trees_open_too(tmp_path: Path) -> None:
    (tmp_path / "aiter/jit").mkdir(parents=True)
    (tmp_path / "aiter/jit/core.py").write_bytes(b"core")
    for root in (tmp_path, tmp_path / "aiter"):
        assert open_tree(str(root), project="aiter").read("aiter/jit/core.py") == b"core"


def test_the_checkout_goes_before_the_other_layouts() -> None:
    """Upstream's repository holds python/sglang; a folder called sglang beside it must not win."""
    present = {"python/sglang", "sglang", "srt"}
    assert layout_of(PROJECTS["sglang"], present.__contains__) == Layout()


@pytest.mark.parametrize("layout", [Layout(), Layout("python/sglang/", "sglang/"), Layout("python/sglang/", "")])
@given(path=st.from_regex(r"python/sglang(/[a-z]{1,3}){1,4}", fullmatch=True))
def test_translation_there_and_back_is_the_identity(layout: Layout, path: str) -> None:
    located = layout.locate(path)
    assert located is not None
    assert layout.restore(located) == path


@pytest.mark.parametrize("spec", ["nonsense", "no/such/folder", "gone.whl", "0.5.14.whl", ""])
def test_what_names_no_tree_lists_the_forms_or_says_what_is_missing(spec: str) -> None:
    with pytest.raises(SourceError) as caught:
        open_tree(spec)
    assert caught.value.exit_code == 3
    assert caught.value.hint


def test_a_release_goes_before_a_folder_of_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lay_out(tmp_path / "0.5.14", "sglang")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SourceError, match="offline"):
        open_tree("0.5.14", offline=True)
    assert open_tree("./0.5.14").read("python/sglang/srt/server.py") == b"serve()\r\n"


def test_an_image_name_that_is_none_is_refused() -> None:
    with pytest.raises(SourceError, match="names no image"):
        open_tree("image:Not A Name")


def _write_late(path: Path) -> None:
    with contextlib.suppress(BrokenPipeError):
        path.write_text("late")


@pytest.mark.parametrize("kind", ["pipe", "link to a device"])
def test_what_is_no_regular_file_is_never_waited_for(tmp_path: Path, kind: str) -> None:
    """A named pipe blocks who opens it; a device never ends."""
    root = lay_out(tmp_path, "sglang")
    path = root / "sglang/odd.py"
    if kind == "pipe":
        os.mkfifo(path)
        # Somebody writes at last, so that a reader who waited shows as one.
        threading.Thread(target=_write_late, args=(path,), daemon=True).start()
        assert open_tree(str(root)).read("python/sglang/odd.py") is None
        return
    path.symlink_to("/dev/zero")
    with pytest.raises(SourceError, match="leaves the tree"):
        open_tree(str(root)).read("python/sglang/odd.py")


@pytest.mark.parametrize("spec", ["", "~nobody-is-called-so/sglang", "x" * 300])
def test_a_source_that_cannot_be_a_path_is_no_source(
    spec: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(lay_out(tmp_path, "sglang"))
    with pytest.raises(SourceError, match="is no release, folder or wheel"):
        open_tree(spec)
