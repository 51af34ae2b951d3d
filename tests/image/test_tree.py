"""A tree inside an image reads like any other, wherever the image keeps it."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from rocmfix.image.checkout import commit_of
from rocmfix.image.tree import ImageTree, Layout, tree_hash
from rocmfix.system.container import File

CHECKOUT = "/sgl-workspace/sglang/python/sglang"
INSTALLED = "/opt/venv/lib/python3.10/site-packages/sglang"


def tree(files: dict[str, bytes], package: str = CHECKOUT, kernels: str | None = "/sgl-workspace/aiter") -> ImageTree:
    held = {path: File(path, data, 0o644, 0, 0, 1, size=len(data)) for path, data in files.items()}
    return ImageTree("image:x", Layout(package, kernels), held)


@pytest.mark.parametrize("package", [CHECKOUT, INSTALLED])
def test_repository_paths_are_found_wherever_the_package_lies(package):
    image = tree({f"{package}/srt/a.py": b"a"}, package)
    assert image.read("python/sglang/srt/a.py") == b"a"
    assert image.shown("python/sglang/srt/a.py") == f"{package}/srt/a.py"
    assert list(image.paths("python/sglang")) == ["python/sglang/srt/a.py"]


def test_aiters_paths_are_its_own():
    image = tree({"/sgl-workspace/aiter/aiter/configs/t.csv": b"x"})
    assert image.read("aiter/configs/t.csv") == b"x"
    assert list(image.paths("aiter")) == ["aiter/configs/t.csv"]


def test_bytecode_is_no_source_and_is_found_by_its_source():
    image = tree({f"{CHECKOUT}/a.py": b"a", f"{CHECKOUT}/__pycache__/a.cpython-310.pyc": b"p",
                  f"{CHECKOUT}/__pycache__/ab.cpython-310.pyc": b"q"})  # fmt: skip
    assert list(image.paths("python/sglang")) == ["python/sglang/a.py"]
    assert image.read("python/sglang/__pycache__/a.cpython-310.pyc") is None
    assert [file.data for file in image.bytecode_of("python/sglang/a.py")] == [b"p"]


@pytest.mark.parametrize(
    ("text", "release"),
    [
        (b"__version__ = version = '0.5.14'\n", "0.5.14"),
        (b'__version__ = "0.5.15.dev3+gabc"\n', "0.5.15.dev3+gabc"),
        (b"nothing\n", None),
    ],
)
def test_the_release_is_what_the_content_claims(text, release):
    assert tree({f"{CHECKOUT}/_version.py": text}).release == release


FILES = st.dictionaries(st.sampled_from([f"{CHECKOUT}/{n}.py" for n in "abcd"]), st.binary(max_size=4), min_size=1)


@given(FILES, FILES)
def test_two_trees_have_one_hash_exactly_when_they_hold_the_same(one, other):
    assert (tree_hash(tree(one)) == tree_hash(tree(other))) is (one == other)


@given(FILES, st.binary(max_size=4))
def test_the_hash_of_a_change_is_the_hash_of_the_changed_tree(files, data):
    changed = tree_hash(tree(files), {"python/sglang/a.py": data})
    assert changed == tree_hash(tree({**files, f"{CHECKOUT}/a.py": data}))


def test_a_removed_file_is_not_in_the_hash():
    files = {f"{CHECKOUT}/a.py": b"a", f"{CHECKOUT}/b.py": b"b"}
    assert tree_hash(tree(files), {"python/sglang/b.py": None}) == tree_hash(tree({f"{CHECKOUT}/a.py": b"a"}))


class Git:
    def __init__(self, **files: str) -> None:
        self.files = {
            f"/r/.git/{name.replace('__', '/').replace('HEAD', 'HEAD')}": text for name, text in files.items()
        }

    def read(self, path: str) -> File | None:
        text = self.files.get(path)
        return None if text is None else File(path, text.encode(), 0o644, 0, 0, 1)


COMMIT, OTHER = "a" * 40, "b" * 40


@pytest.mark.parametrize(
    ("files", "commit"),
    [
        ({"HEAD": COMMIT + "\n"}, COMMIT),
        ({"HEAD": "ref: refs/heads/main\n", "refs__heads__main": COMMIT}, COMMIT),
        (
            {
                "HEAD": "ref: refs/heads/main\n",
                "packed-refs": f"# pack\n{OTHER} refs/heads/x\n{COMMIT} refs/heads/main\n",
            },
            COMMIT,
        ),
        ({"HEAD": "ref: refs/heads/../../../etc/passwd\n"}, None),
        ({"HEAD": "garbage"}, None),
        ({}, None),
    ],
)
def test_a_checkouts_commit_is_read_without_git(files, commit):
    assert commit_of(Git(**files), "/r") == commit


def test_no_checkout_has_no_commit():
    assert commit_of(Git(), None) is None
