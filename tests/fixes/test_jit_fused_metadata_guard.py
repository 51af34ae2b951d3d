"""`jit-fused-metadata-guard`: what a preprocessor makes of the patched kernel, and where 0.5.9 goes on HIP."""

import re
import subprocess
from pathlib import Path

import pytest

from tests.fixes.jit import Compiler, Jit, open_jit

FIX = "jit-fused-metadata-guard"
KERNEL = "jit_kernel/csrc/elementwise/fused_metadata_copy.cuh"
GUARDED = ("0.5.10", "0.5.12.post1", "0.5.13", "0.5.14")

pytestmark = pytest.mark.upstream


def preprocess(source: Path, headers: Path, *flags: str) -> subprocess.CompletedProcess[str]:
    """The real preprocessor, with every header but those of the vendor a stand-in that says its name."""
    return subprocess.run(
        ["cpp", "-nostdinc", "-P", "-I", str(headers), *flags, str(source)], capture_output=True, text=True, check=False
    )


def headers_for(source: Path, folder: Path, *absent: str) -> Path:
    for name in {*re.findall(r"#\s*include\s*<([^>]+)>", source.read_text()), "hip/hip_runtime.h", "cuda_runtime.h"}:
        if name not in absent:
            header = folder / name
            header.parent.mkdir(parents=True, exist_ok=True)
            header.write_text(f"included_{re.sub('[^a-z]', '_', name)};\n")
    return folder


@pytest.fixture
def kernels(checkout):
    """The kernel of a release as shipped, and as mended."""

    def make(release):
        return [checkout(release, KERNEL, fix=fix).root / "sglang" / KERNEL for fix in (None, FIX)]

    return make


@pytest.mark.parametrize("release", GUARDED)
def test_rocm_needs_no_cuda_header(kernels, tmp_path, release):
    shipped, mended = kernels(release)
    headers = headers_for(shipped, tmp_path / "rocm", "cuda_runtime.h")

    before = preprocess(shipped, headers, "-DUSE_ROCM")
    after = preprocess(mended, headers, "-DUSE_ROCM")

    assert "cuda_runtime.h: No such file" in before.stderr, "the defect is no longer there to mend"
    assert after.returncode == 0, after.stderr
    assert "included_hip_hip_runtime_h" in after.stdout


@pytest.mark.parametrize("release", GUARDED)
def test_cuda_sees_the_same_text(kernels, tmp_path, release):
    shipped, mended = kernels(release)
    headers = headers_for(shipped, tmp_path / "cuda", "hip/hip_runtime.h")

    before, after = preprocess(shipped, headers), preprocess(mended, headers)

    assert (before.returncode, after.returncode) == (0, 0), after.stderr
    assert "included_cuda_runtime_h" in after.stdout
    assert before.stdout == after.stdout


@pytest.mark.parametrize("release", GUARDED)
def test_the_loader_of_each_guarded_release_defines_use_rocm(checkout, tmp_path, monkeypatch, release):
    """The guard is only as good as the flag: from 0.5.10 the JIT passes it."""
    jit = Jit(release)
    world = checkout(release, *jit.files, fix=FIX)
    open_jit(world, Compiler(tmp_path, monkeypatch), hip="7.2")

    assert "-DUSE_ROCM" in world.load(jit.utils)._get_default_target_flags()


def test_0_5_9_does_not_try_on_hip_and_copies_all_the_same(depth_5, capsys):
    shipped, compiler = depth_5("0.5.9", hip="7.2", fix=None)
    shipped.run(3)
    assert compiler.runs == 3, "the defect is no longer there to mend"
    capsys.readouterr()

    mended, compiler = depth_5("0.5.9", hip="7.2", fix=FIX)
    mended.run(3)

    assert compiler.runs == 3, "the compiler has run again"
    assert mended.copied == shipped.copied == [f"backend {step}" for step in range(4)] * 3
    assert capsys.readouterr().out == ""


def test_0_5_9_on_cuda_tries_as_before(depth_5, capsys):
    def story(fix: str | None) -> tuple[int, list[str], str]:
        replays, compiler = depth_5("0.5.9", hip=None, fix=fix)
        before = compiler.runs
        replays.run(3)
        return compiler.runs - before, replays.copied, capsys.readouterr().out

    assert story(FIX) == story(None)
    assert story(FIX)[0] == 3
