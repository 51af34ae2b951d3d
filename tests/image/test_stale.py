"""What was built from a file before it was patched: found, and proven harmless by the programs that would use it."""

from __future__ import annotations

import os
import py_compile
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from rocmfix.image.stale import bytecode, kernels
from rocmfix.image.tree import ImageTree, Layout
from rocmfix.system.container import File

PACKAGE = "/sgl-workspace/sglang/python/sglang"
CACHE = "/root/.cache/tvm-ffi"
HEADER = "python/sglang/jit_kernel/csrc/elementwise/fused.cuh"


def tree(*files: tuple[str, bytes]) -> ImageTree:
    layout = Layout(PACKAGE, None, (CACHE,))
    held = {
        path: File(path, data if layout.is_wanted(path) else b"", 0o644, 0, 0, 1, size=len(data))
        for path, data in files
    }
    return ImageTree("image:x", layout, held)


def test_bytecode_of_changed_files_is_found_whichever_python_made_it():
    folder = f"{PACKAGE}/srt/__pycache__"
    names = ("a.cpython-310.pyc", "a.cpython-312.opt-2.pyc", "b.cpython-310.pyc", "a_test.cpython-310.pyc")
    found = bytecode(tree(*((f"{folder}/{name}", b"x") for name in names)), ["python/sglang/srt/a.py", HEADER])
    assert [file.path.rpartition("/")[2] for file in found] == list(names[:2])


def test_bytecode_that_is_empty_already_is_left_alone():
    assert bytecode(tree((f"{PACKAGE}/__pycache__/a.cpython-310.pyc", b"")), ["python/sglang/a.py"]) == ()


@pytest.mark.parametrize("note", ["cuda.cu", "build.ninja", ".ninja_deps", "cuda.o.d"])
def test_a_jit_build_is_found_by_whatever_says_that_it_used_the_file(note):
    said = f"/sgl-workspace/sglang/{HEADER}".encode()
    one = [
        (f"{CACHE}/k1/{note}", b"\x00" + said + b"\x00"),
        (f"{CACHE}/k1/main.so", b"x"),
        (f"{CACHE}/k1/.ninja_log", b"x"),
    ]
    other = [(f"{CACHE}/k2/{note}", b"norm.cuh"), (f"{CACHE}/k2/main.so", b"x")]
    found = {file.path for file in kernels(tree(*one, *other), [HEADER])}
    assert {f"{CACHE}/k1/main.so", f"{CACHE}/k1/.ninja_log"} <= found
    assert not [path for path in found if path.startswith(f"{CACHE}/k2")]


def test_python_files_have_no_jit_build():
    used = [(f"{CACHE}/k1/build.ninja", b"a.py"), (f"{CACHE}/k1/main.so", b"x")]
    assert kernels(tree(*used), ["python/sglang/a.py"]) == ()


MODES = [py_compile.PycInvalidationMode.TIMESTAMP, py_compile.PycInvalidationMode.UNCHECKED_HASH]


@pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.name)
@pytest.mark.parametrize("emptied", [False, True])
def test_python_runs_the_patched_source_once_its_bytecode_is_empty(tmp_path, mode, emptied):
    """Same time, same size: what a patch date equal to the base's would make. Without the empty file the old code runs."""
    source = tmp_path / "m.py"
    source.write_text("print('old')\n")
    os.utime(source, (1, 1))
    compiled = py_compile.compile(str(source), invalidation_mode=mode)
    assert compiled
    source.write_text("print('new')\n")
    os.utime(source, (1, 1))
    if emptied:
        (tmp_path / compiled).write_bytes(b"")
    said = subprocess.run([sys.executable, "-c", "import m"], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert said.stdout.strip() == ("new" if emptied else "old")


@pytest.mark.parametrize("emptied", [False, True])
def test_ninja_builds_anew_once_its_log_is_empty(tmp_path, emptied):
    """The header is patched with a date before the build: ninja alone keeps the old output."""
    ninja = shutil.which("ninja", path=f"{Path(sys.executable).parent}:{os.environ.get('PATH', '')}")
    if not ninja:
        pytest.skip("no ninja (pip install ninja)")
    rules = (
        "rule cc\n  command = cat $in > $out && printf '%s: head.cuh' $out > $out.d\n  depfile = $out.d\n  deps = gcc\n"
    )
    (tmp_path / "build.ninja").write_text(rules + "build main.so: cc head.cuh\n")
    (tmp_path / "head.cuh").write_text("old")
    subprocess.run([ninja], cwd=tmp_path, check=True, capture_output=True)
    (tmp_path / "head.cuh").write_text("new")
    os.utime(tmp_path / "head.cuh", (1_700_000_000, 1_700_000_000))
    if emptied:
        for name in (".ninja_log", ".ninja_deps", "main.so"):
            (tmp_path / name).write_bytes(b"")
    subprocess.run([ninja], cwd=tmp_path, check=True, capture_output=True)
    assert (tmp_path / "main.so").read_text() == ("new" if emptied else "old")
