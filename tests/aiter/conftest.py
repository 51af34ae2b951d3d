"""The real AITER that tests use: PyPI's wheel always, checkouts named by ROCMFIX_AITER_TREES where there are any."""

from __future__ import annotations

import hashlib
import os
import zipfile
from pathlib import Path

import pytest

from rocmfix.aiter.layout import AiterTree
from rocmfix.source import open_tree
from rocmfix.system import files
from rocmfix.system.files import cache_home
from rocmfix.system.pip import Tags, download_wheel
from tests.aiter.rows import ladder, table
from tests.aiter.trees import tree

CACHE = cache_home("rocmfix")
WHEEL = "amd_aiter-0.1.7.post2.dev18-py3-none-any.whl"
DIGEST = "fe139d74438217c35e87e3b961166bac8db2d381eadccb371da2e63615f05a31"
CHECKOUTS = tuple(filter(None, os.environ.get("ROCMFIX_AITER_TREES", "").split(os.pathsep)))
TABLES = os.environ.get("ROCMFIX_AITER_TABLES", "")
CASES = int(os.environ.get("ROCMFIX_ORACLE_CASES", "200"))


@pytest.fixture(scope="session")
def wheel_path() -> Path:
    """AITER's only wheel on the package index, a v0.1.7-generation tree; downloaded once."""
    path = CACHE / WHEEL
    with files.locked(CACHE / ".lock-aiter"):
        if not path.exists():
            with files.fresh_folder(CACHE / ".part-aiter") as part:
                tags = Tags("cp311", "none", ("any",))
                got = download_wheel("amd-aiter==0.1.7.post2.dev18", tags, part, arrived=lambda _: None)
                files.move(got, path)
    assert hashlib.sha256(path.read_bytes()).hexdigest() == DIGEST
    return path


@pytest.fixture(scope="session")
def wheel_folder(wheel_path, tmp_path_factory) -> Path:
    """The wheel, unpacked but for compiled kernels."""
    folder: Path = tmp_path_factory.mktemp("aiter")
    with zipfile.ZipFile(wheel_path) as wheel:
        wheel.extractall(folder, [name for name in wheel.namelist() if not name.endswith(".co")])
    return folder


@pytest.fixture(scope="session", params=["wheel", *CHECKOUTS], ids=lambda path: path.rsplit("/", 1)[-1])
def real_root(request, wheel_folder: Path) -> Path:
    """Each real AITER tree's folder."""
    root: Path = wheel_folder if request.param == "wheel" else Path(request.param)
    return root


@pytest.fixture(scope="session")
def real_tree(real_root) -> AiterTree:
    return AiterTree(open_tree(str(real_root), project="aiter"))


@pytest.fixture
def place(tmp_path):
    """An AITER tree on disk, with one good table."""
    below = tree(files={"aiter/configs/tuned_fmoe.csv": table(ladder(tuple(1 << n for n in range(16)), tflops=0))}).tree
    for path in below.paths(""):
        target = tmp_path / "tree" / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(below.read(path) or b"")
    return tmp_path


collect_ignore = [] if TABLES else ["test_conformance.py"]
"""Tests on real tables run where ROCMFIX_AITER_TABLES names them: no upstream row is kept in this project."""
