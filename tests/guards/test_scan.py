"""A whole scan: findings, what changed between two trees, and what the verb prints."""

from __future__ import annotations

import json
import textwrap
from pathlib import Path

import pytest
from click.testing import CliRunner

from rocmfix.cli import main
from rocmfix.guards.findings import drift
from rocmfix.guards.reach import Reachable
from rocmfix.guards.report import drift_lines, scan_lines
from rocmfix.guards.scan import scan
from rocmfix.tree import MemoryTree
from tests.guards.kernels import CALLER, FILE, LOADER, ROOT, tree

HEADER = f"{ROOT}/include/sgl_kernel/b.cuh"
KERNEL = """\
#include <sgl_kernel/b.cuh>
#ifndef USE_ROCM
#include <cuda_fp16.h>
#endif
#include <cuda_runtime.h>
"""


def small(kernel: str = KERNEL, **more: str) -> MemoryTree:
    return tree(kernel, **({"include__sgl_kernel__b.cuh": "#include <cub/cub.cuh>\n"} | more))


def test_every_cuda_only_include_is_found_with_its_state_and_its_way() -> None:
    found = scan(small()).findings
    assert [(each.file, each.line, each.include, each.guarded, each.reachable.value) for each in found] == [
        (FILE, 3, "cuda_fp16.h", True, "yes"),
        (FILE, 5, "cuda_runtime.h", False, "yes"),
        (HEADER, 1, "cub/cub.cuh", False, "yes"),
    ]
    assert found[2].chain[:2] == (FILE, f"{ROOT}/k.py:11 module")


def test_a_constructs_finding_says_what_it_is() -> None:
    found = scan(small("cudaFuncSetAttribute(f);\n")).findings
    assert [(each.line, each.include) for each in found if each.file == FILE] == [
        (1, "CUDA call: cudaFuncSetAttribute")
    ]


def test_a_file_that_nobody_loads_cannot_be_told() -> None:
    (each,) = [
        each for each in scan(small(**{"csrc__alone.cuh": "#include <cuda.h>\n"})).findings if "alone" in each.file
    ]
    assert (each.reachable, each.gate) == (Reachable.UNKNOWN, "no loader call names a file that includes it")


BROKEN = "from sglang.jit_kernel.k import module\ndef f(:\n    module(0, True, None)\n"
CALLED = "python/sglang/srt/models/m.py"
GATED = CALLER.replace("return module", "return _is_cuda and module").replace(
    "class M", "_is_cuda = is_cuda()\n    class M"
)


def with_python(kernel: str = "#include <cuda.h>\n", **more: str) -> MemoryTree:
    """The small tree with other Python below `srt`, its own caller aside."""
    files = dict(tree(kernel).files)
    del files[CALLED]
    python = {f"python/sglang/srt/{name.replace('__', '/')}.py": textwrap.dedent(text) for name, text in more.items()}
    return MemoryTree(files | {path: text.encode() for path, text in python.items()}, source="small")


@pytest.mark.parametrize(
    ("python", "reachable", "unread"),
    [
        ({}, "no", []),
        ({"models__m": BROKEN}, "unknown", ["python/sglang/srt/models/m.py:2: "]),
        ({"layers__m": BROKEN}, "unknown", ["python/sglang/srt/layers/m.py:2: "]),
        ({"layers__m": BROKEN.replace("module", "other")}, "no", []),
        ({"models__m": CALLER, "models__n": BROKEN}, "yes", None),
        ({"models__m": GATED, "models__n": BROKEN}, "unknown", ["python/sglang/srt/models/n.py:2: "]),
        ({"models__m": GATED}, "no", []),
        ({"models__m": "\ufeff" + textwrap.dedent(CALLER)}, "yes", []),
        ({"models__m": "\0" + textwrap.dedent(BROKEN)}, "unknown", ["python/sglang/srt/models/m.py:1: "]),
        ({"models__m": BROKEN + "x = " + "(" * 5000}, "unknown", ["python/sglang/srt/models/m.py:"]),
    ],
)
def test_a_file_that_is_no_python_is_named_and_makes_no_answer_a_no(
    python: dict[str, str], reachable: str, unread: list[str] | None
) -> None:
    """It had nothing in it, so that nobody called the kernel; a byte order mark did the same."""
    found = scan(with_python(**python))
    assert [each.reachable.value for each in found.findings if each.file == FILE] == [reachable]
    if unread is not None:
        assert [told[: len(start)] for told, start in zip(found.unread, unread, strict=True)] == unread
    lines = list(scan_lines(found, everything=True))
    assert all(f"  {each}" in lines for each in found.unread)


def test_a_loader_that_cannot_be_read_may_load_what_another_does() -> None:
    broken = f"{LOADER}\ndef f():\n    pass\n"
    nobodys = LOADER.replace("def module", "def nobodys")
    files = dict(tree("#include <cuda.h>\n", nobodys, **{"b.py": broken}).files) | {CALLED: b""}
    found = scan(MemoryTree(files))
    assert [(each.reachable.value, "no valid Python" in str(each.gate)) for each in found.findings] == [
        ("unknown", True)
    ]


def test_a_header_is_as_reachable_as_the_best_of_its_includers() -> None:
    gated = LOADER.replace("k.cuh", "other.cuh").replace("def module", "def other")
    more = {"other.py": gated, "csrc__other.cuh": "#include <sgl_kernel/b.cuh>\n"}
    found = [each for each in scan(small("int a;\n", **more)).findings if each.file == HEADER]
    assert [each.reachable for each in found] == [Reachable.NO]


def test_drift_is_what_became_dangerous_wherever_it_moved() -> None:
    before, after = scan(small()), scan(small(KERNEL.replace("#ifndef USE_ROCM", "#if 1")))
    changed = drift(before, after)
    assert [(each.file, each.include) for each in changed.added] == [(FILE, "cuda_fp16.h")]
    assert changed.gone == ()
    moved = MemoryTree({path.replace("jit_kernel", "kernels/jit"): data for path, data in small().files.items()})
    again = drift(before, scan(moved))
    assert not again.added


def test_a_line_that_is_guarded_now_is_gone() -> None:
    mended = KERNEL.replace("#endif\n", "").replace("cuda_runtime.h>\n", "cuda_runtime.h>\n#endif\n")
    changed = drift(scan(small()), scan(small(mended)))
    assert [each.include for each in changed.gone] == ["cuda_runtime.h"]
    assert "no longer dangerous: k.cuh" in "\n".join(drift_lines(changed))


def test_what_is_guarded_is_counted_and_shown_on_demand() -> None:
    found = scan(small())
    assert "cuda_fp16.h" not in "\n".join(scan_lines(found, everything=False))
    assert "3: cuda_fp16.h (guarded)" in "\n".join(scan_lines(found, everything=True))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The small tree on disk."""
    for path, data in (
        dict(small().files)
        | {
            "python/sglang/version.py": b'__version__ = "0.5.14"\n',
            "python/sglang/__init__.py": b"",
            "python/sglang/srt/server_args.py": b"",
        }
    ).items():
        target = tmp_path / "tree" / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data)
    return tmp_path / "tree"


def test_json_is_findings_with_every_field(folder: Path) -> None:
    done = CliRunner().invoke(main, ["guards", "scan", str(folder), "--json"], catch_exceptions=False)
    told = json.loads(done.stdout)
    assert (set(told), told["unread"]) == ({"findings", "unread"}, [])
    findings = told["findings"]
    assert set(findings[0]) == {"file", "line", "include", "guarded", "reachable", "chain", "gate", "condition"}
    assert {each["reachable"] for each in findings} <= {"yes", "no", "unknown"}


def test_scan_against_itself_has_nothing_new(folder: Path) -> None:
    done = CliRunner().invoke(main, ["guards", "scan", str(folder), "--against", str(folder)], catch_exceptions=False)
    assert done.exit_code == 0
    assert "  nothing\n" in done.stdout


def test_compile_without_a_compiler_exits_6_and_says_not_compiled(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "")
    done = CliRunner().invoke(main, ["guards", "compile", str(folder)])
    assert done.exit_code == 6
    assert "not compiled" in done.stderr
    assert "ci/hip-toolchain" in done.stderr


@pytest.mark.parametrize(
    ("argv", "code", "said"),
    [
        (["compile", "no-such-tree"], 3, "'no-such-tree' is no release"),
        (["make", "--in", "no-such-tree"], 3, "'no-such-tree' is no release"),
        (["compile", "{}", "kk.cuh"], 3, "it has python/sglang/jit_kernel/csrc/k.cuh"),
        (["compile", "{}", "kk.cuh", "--patched"], 3, "it has python/sglang/jit_kernel/csrc/k.cuh"),
        (["make", "kk.cuh", "--in", "{}"], 3, "it has python/sglang/jit_kernel/csrc/k.cuh"),
    ],
)
def test_a_slip_in_what_was_typed_is_said_where_there_is_no_compiler(
    argv: list[str], code: int, said: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The compiler was looked for first: without one nobody learnt that SOURCE was wrong."""
    monkeypatch.setenv("PATH", "")
    author = ["--author", "A <a@example.org>"] if argv[0] == "make" else []
    done = CliRunner().invoke(main, ["guards", *(each.format(folder) for each in argv), *author])
    assert done.exit_code == code
    assert said in done.stderr
    assert "hint: " in done.stderr


def test_nothing_to_guard_is_said(tmp_path: Path) -> None:
    """`guards make` of a tree without an open include ended with 0 and without a word."""
    for path, data in tree("int a;\n").files.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_bytes(data)
    done = CliRunner().invoke(main, ["guards", "make", "--in", str(tmp_path), "--author", "A <a@example.org>"])
    assert (done.exit_code, done.stdout) == (0, "")
    assert "nothing to guard" in done.stderr


def test_the_caller_in_these_tests_is_what_makes_it_reachable() -> None:
    files = dict(small().files)
    del files["python/sglang/srt/models/m.py"]
    assert CALLER
    assert {each.reachable for each in scan(MemoryTree(files)).findings} == {Reachable.NO}


def test_check_compile_without_a_compiler_is_not_ok(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    done = CliRunner().invoke(main, ["check", str(folder), "--compile"])
    assert done.exit_code == 6
    assert "not compiled" in done.stderr


def test_check_compile_has_no_json(folder: Path) -> None:
    done = CliRunner().invoke(main, ["check", str(folder), "--compile", "--json"])
    assert done.exit_code == 2
    assert "rocmfix guards compile" in done.stderr
