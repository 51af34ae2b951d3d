"""What counts as dangerous, and as the same line in another release."""

from __future__ import annotations

import pytest

from rocmfix.guards.findings import Finding, Scan, drift, unmoved
from rocmfix.guards.reach import Reachable

CSRC = "python/sglang/jit_kernel/csrc"


def finding(
    name: str, include: str = "cuda.h", *, guarded: bool = False, reachable: Reachable = Reachable.YES, line: int = 1
) -> Finding:
    return Finding(file=f"{CSRC}/{name}", line=line, include=include, guarded=guarded, reachable=reachable, chain=())


def scanned(*findings: Finding) -> Scan:
    return Scan(source="small", findings=findings)


@pytest.mark.parametrize(
    ("guarded", "reachable", "dangerous"),
    [
        (False, Reachable.YES, True),
        (False, Reachable.UNKNOWN, True),
        (False, Reachable.NO, False),
        (True, Reachable.YES, False),
        (True, Reachable.UNKNOWN, False),
    ],
)
def test_what_rocm_may_compile_is_dangerous(*, guarded: bool, reachable: Reachable, dangerous: bool) -> None:
    assert finding("k.cuh", guarded=guarded, reachable=reachable).is_dangerous is dangerous


@pytest.mark.parametrize(
    ("path", "kept"),
    [
        ("python/sglang/jit_kernel/csrc/moe/k.cuh", "moe/k.cuh"),
        ("python/sglang/kernels/jit/csrc/moe/k.cuh", "moe/k.cuh"),
        ("python/sglang/jit_kernel/include/sgl_kernel/b.cuh", "sgl_kernel/b.cuh"),
        ("python/sglang/jit_kernel/csrc/cutlass/include/csrc/k.cuh", "cutlass/include/csrc/k.cuh"),
        ("python/sglang/srt/layers/k.cu", "k.cu"),
    ],
)
def test_a_file_is_known_by_what_a_move_leaves(path: str, kept: str) -> None:
    assert unmoved(path) == kept


def test_a_line_is_the_same_wherever_it_stands_in_its_file() -> None:
    assert finding("k.cuh", "CUDA call: cudaMalloc").key == finding("k.cuh", "CUDA call: cudaFree", line=9).key
    assert finding("k.cuh").key != finding("other.cuh").key
    assert finding("k.cuh").key != finding("k.cuh", "cub/cub.cuh").key


OPEN, SHUT = finding("k.cuh"), finding("k.cuh", guarded=True)
AWAY = finding("k.cuh", reachable=Reachable.NO)


@pytest.mark.parametrize("harmless", [(), (SHUT,), (AWAY,), (SHUT, AWAY)])
def test_what_was_harmless_and_is_dangerous_is_added_and_gone_the_other_way(harmless: tuple[Finding, ...]) -> None:
    worse, better = drift(scanned(*harmless), scanned(OPEN)), drift(scanned(OPEN), scanned(*harmless))
    assert (worse.added, worse.gone) == ((OPEN,), ())
    assert (better.added, better.gone) == ((), (OPEN,))


@pytest.mark.parametrize("after", [(OPEN,), (finding("k.cuh", line=7), SHUT)])
def test_what_stays_dangerous_is_neither(after: tuple[Finding, ...]) -> None:
    changed = drift(scanned(SHUT, OPEN), scanned(*after))
    assert (changed.added, changed.gone) == ((), ())


def test_what_comes_and_goes_harmless_is_no_drift() -> None:
    changed = drift(scanned(finding("a.cuh", guarded=True)), scanned(finding("b.cuh", reachable=Reachable.NO)))
    assert (changed.added, changed.gone) == ((), ())
