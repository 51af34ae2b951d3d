"""The scan and the gate on real releases, judged by the real preprocessor and the real compiler."""

from __future__ import annotations

import posixpath
import re
import subprocess
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from packaging.version import Version

from rocmfix.catalog import Variant, load
from rocmfix.guards.chain import SUFFIXES, Inclusion, Sources, inclusions
from rocmfix.guards.compile import Came, Kernels, build
from rocmfix.guards.conditionals import HIP
from rocmfix.guards.emitted import Emission, compare
from rocmfix.guards.headers import cuda_only
from rocmfix.guards.make import make
from rocmfix.guards.nvcc import Nvcc
from rocmfix.guards.reach import Reachability, Reachable
from rocmfix.guards.same import same_for_cuda
from rocmfix.guards.scan import scan
from rocmfix.guards.toolchain import ARCHITECTURES, Toolchain
from rocmfix.hunks import Applied, apply_changes
from rocmfix.patchfile import Patch
from rocmfix.system.files import Copied, write_out
from rocmfix.tree import Overlay, Tree
from tests.releases import RELEASES

pytestmark = pytest.mark.upstream
Open = Callable[[str], Tree]
Line = tuple[str, int, str]


@pytest.mark.parametrize(
    "releases", [RELEASES[:14], RELEASES[14:18], RELEASES[18:]], ids=lambda each: f"{each[0]} to {each[-1]}"
)
def test_the_scan_agrees_with_the_real_preprocessor_on_every_file(
    releases: list[str], release_tree: Open, hip: Toolchain, tmp_path: Path
) -> None:
    """Precision and recall of the include scan are one: no line more, no line less, on the device pass.

    A file that is the same, with all its headers, as in a release before is not compared twice.
    """
    compared: set[Closure] = set()
    for release in releases:
        sources, folder = Sources(release_tree(release)), tmp_path / release
        fresh = {}
        for path in sources.files:
            unit = tuple(inclusions(sources, path, dict.fromkeys(HIP)))
            closure = _closure(sources, path, unit)
            if closure not in compared:
                compared.add(closure)
                fresh[path] = unit
        write_out(folder, (Copied(path, sources.text(path).encode()) for path in sources.files))
        _stub(fresh.values(), folder)
        with ThreadPoolExecutor() as pool:
            truths = pool.map(
                lambda path: _preprocessed(path, _folders(sources, fresh[path]), hip, folder),  # noqa: B023 - used at once
                fresh,
            )
            for path, truth in zip(fresh, truths, strict=True):
                met = {
                    (each.hop.file, each.hop.line, each.name)
                    for each in inclusions(sources, path, HIP)
                    if each.found is None and each.active is not False and cuda_only(each.name)
                }
                true = {line for line in truth if sources.resolve(line[2], line[0], quoted=True) is None}
                assert met == true, f"{release}: {path}"
    assert len(compared) > 500


Closure = frozenset[tuple[str, str]]


def _closure(sources: Sources, path: str, unit: Iterable[Inclusion]) -> Closure:
    """A file and every header it may read, with their texts."""
    files = {path, *(each.found for each in unit if each.found)}
    return frozenset((file, sources.text(file)) for file in files) | {("", path)}


def _stub(units: Iterable[Iterable[Inclusion]], folder: Path) -> None:
    """Empty files for every header that is not the tree's."""
    for name in {each.name for unit in units for each in unit if each.found is None and ".." not in each.name}:
        stub = folder / "stubs" / name
        stub.parent.mkdir(parents=True, exist_ok=True)
        stub.touch()


def _folders(sources: Sources, unit: Iterable[Inclusion]) -> list[str]:
    """Where a file's headers are: the kernels' include folders, those a loader adds for it, then the stubs."""
    added = {
        each.found.removesuffix("/" + each.name): None
        for each in unit
        if each.found and each.found.endswith("/" + each.name)
    }
    return [*(f"{root}/include" for root in sources.kernel_roots), *added, "stubs"]


def _preprocessed(path: str, folders: list[str], hip: Toolchain, cwd: Path) -> set[Line]:
    argv = [
        hip.command[0], "-E", "-dI", "-x", "hip", "-std=c++20", "-DUSE_ROCM", "-D__HIP_PLATFORM_AMD__=1",
        "-DHIP_FP8_TYPE_FNUZ=1", "--offload-arch=gfx942", "--cuda-device-only",
        "-nogpuinc", "-nogpulib", "-nostdinc", "-nostdinc++", "-w",
        *(f"-I{folder}" for folder in folders), path,
    ]  # fmt: skip
    done = subprocess.run(argv, cwd=cwd, capture_output=True, text=True, errors="replace", check=False)
    assert "file not found" not in done.stderr, done.stderr
    return set(_included(done.stdout))


def _included(text: str) -> Iterator[Line]:
    file, line = "", 0
    for each in text.split("\n"):
        if marker := re.match(r'# (\d+) "([^"]+)"', each):
            line, file = int(marker[1]), posixpath.normpath(marker[2])
            continue
        found = re.match(r'#include(?:_next)? [<"]([^>"]+)[>"] /\* clang -E -dI', each)
        if found and cuda_only(found[1]) and not file.startswith("stubs/"):
            yield file, line, found[1]
        line += 1


REACHED = {
    "fused_metadata_copy.cuh": "0.5.9",
    "topk_v2.cuh": "0.5.12",
    "topk_impl.cuh": "0.5.15",
    "moe_topk_sigmoid.cuh": "0.5.16",
    "hisparse.cuh": "0.5.10",
    "runtime.cuh": "0.5.8",
}
"""Files that ROCm is known to reach (sglang#29373, sglang#30506, and the loader calls), and since which release."""


@pytest.mark.parametrize("release", RELEASES)
def test_what_rocm_is_known_to_reach_is_never_out_of_reach_and_little_cannot_be_told(
    release: str, release_tree: Open
) -> None:
    """`moe_topk_sigmoid` is there from 0.5.14 on, but nothing that can be followed calls it before 0.5.16."""
    kernels = Kernels(release_tree(release))
    climb = Reachability(kernels.program)
    answers = [(each.files, climb.of(each).reachable) for each in kernels.loaders]
    for name, since in REACHED.items():
        if any(path.endswith("/" + name) for path in kernels.sources.files):
            roots = set(kernels.named([name]))
            found = {answer for files, answer in answers if roots & set(files)}
            assert found - {Reachable.NO}, name
            assert Reachable.YES in found or Version(release) < Version(since), name
        else:
            assert Version(release) < Version(since), name
    untold = [files for files, answer in answers if answer is Reachable.UNKNOWN]
    assert len(untold) * 5 <= len(answers), untold


GATED = {
    "tp_qknorm.cuh": ("0.5.11", "0.5.23"),  # srt/models/minimax_m2.py: both callers ask for CUDA
    "custom_all_reduce_pull.cuh": ("0.5.11", "0.5.15"),  # srt/distributed/device_communicators/custom_all_reduce.py
    "custom_all_reduce_push.cuh": ("0.5.11", "0.5.15"),
    "nvfp4_quant_kernels.cuh": ("0.5.14", "0.5.14"),  # jit_kernel/nvfp4.py: its _nvfp4_arch_env raises
    "all_reduce_fusion.cuh": ("0.5.23", "0.5.23"),  # require_cluster_launch_arch raises
    "channel_rmsnorm_silu_nhwc.cuh": ("0.5.23", "0.5.23"),  # the file that patches it in returns at once on ROCm
    "fused_tma.cuh": ("0.5.23", "0.5.23"),  # capability 10
}
"""Files that ROCm never comes to, looked up by hand, with the first and the last release for which that was done."""


@pytest.mark.parametrize("release", ["0.5.11", "0.5.14", "0.5.15", "0.5.23"])
def test_what_rocm_is_known_never_to_come_to_is_not_called_reached(release: str, release_tree: Open) -> None:
    kernels = Kernels(release_tree(release))
    climb = Reachability(kernels.program)
    for name, (since, until) in GATED.items():
        if Version(since) <= Version(release) <= Version(until):
            calls = [each for each in kernels.loaders if any(path.endswith("/" + name) for path in each.files)]
            assert calls, name
            assert {climb.of(each).reachable for each in calls} == {Reachable.NO}, name


@pytest.mark.parametrize("release", ["0.5.9", "0.5.12", "0.5.15", "0.5.23"])
def test_no_dangerous_line_of_a_file_that_rocm_reaches_is_called_out_of_reach(release: str, release_tree: Open) -> None:
    for each in scan(release_tree(release)).findings:
        if not each.guarded and each.file.rpartition("/")[2] in REACHED:
            assert each.reachable is not Reachable.NO, each.file


def test_the_fused_copy_is_reached_from_depth_4_on(release_tree: Open) -> None:
    (each,) = [each for each in scan(release_tree("0.5.14")).findings if each.file.endswith("/fused_metadata_copy.cuh")]
    assert (each.line, each.include, each.guarded, each.reachable) == (38, "cuda_runtime.h", False, Reachable.YES)
    assert "depth >= 4" in str(each.condition)
    assert any("MultiStepBackend.init_forward_metadata_out_graph" in step for step in each.chain)


def _guards() -> list[tuple[Variant, Patch]]:
    """The shipped variants that change C++ files and nothing else."""
    return [
        (variant, patches.patch(variant))
        for patches, fix in load().fixes()
        for variant in fix.variant
        if all(path.endswith(SUFFIXES) for path in patches.patch(variant).paths)
    ]


@pytest.mark.parametrize(("variant", "patch"), _guards(), ids=lambda each: getattr(each, "file", ""))
def test_a_shipped_guard_turns_the_real_error_into_a_build(
    variant: Variant, patch: Patch, release_tree: Open, hip: Toolchain, nvcc: Nvcc
) -> None:
    """Unpatched: hipcc's own error. Patched: every instantiation builds. CUDA: the same text, and the same PTX."""
    tree = release_tree(variant.since)
    applied = apply_changes(patch.changes, tree.read)
    assert isinstance(applied, Applied)
    before = Kernels(tree)
    files = before.named(patch.paths)
    broken = build(before, files, ARCHITECTURES[:1], hip)
    assert {(each.came, each.error) for each in broken.built} == {(Came.FAILED, "'cuda_runtime.h' file not found")}
    after = Kernels(Overlay(tree, applied.files), like=before)
    mended = build(after, files, ARCHITECTURES, hip)
    assert {(each.came, each.error) for each in mended.built} == {(Came.COMPILED, None)}
    assert {each.kernels for each in mended.built} == {12, 4}
    for path in patch.paths:
        assert same_for_cuda(before.sources.text(path), (applied.files[path] or b"").decode())
    emitted = compare(before, after, patch.paths, nvcc)
    assert [(each.came, each.kernels, each.why) for each in emitted] == [
        (Emission.SAME, 12, None),
        (Emission.SAME, 4, None),
    ]


@pytest.mark.parametrize(("variant", "patch"), _guards(), ids=lambda each: getattr(each, "file", ""))
def test_make_finds_a_guard_equal_in_effect_to_the_shipped_one(
    variant: Variant, patch: Patch, release_tree: Open, hip: Toolchain, tmp_path: Path
) -> None:
    """Both come to the same text on ROCm and to the same on CUDA, on the last release that the shipped one is for."""
    until = Version(variant.until or "99")
    tree = release_tree([each for each in RELEASES if Version(each) < until][-1])
    kernels = Kernels(tree)
    (file,) = kernels.named(["fused_metadata_copy.cuh"])
    made = make(kernels, file, ["gfx950"], hip)
    assert made.patch
    assert {each.came for each in made.built} == {Came.COMPILED}
    added = [line for line in made.patch.splitlines() if line.startswith(("+", "-")) and line[:3] not in {"+++", "---"}]
    assert added == ["+#ifndef USE_ROCM", "+#endif"]
    ours = kernels.sources.text(file).replace(
        "#include <cuda_runtime.h>", "#ifndef USE_ROCM\n#include <cuda_runtime.h>\n#endif"
    )
    applied = apply_changes(patch.changes, tree.read)
    assert isinstance(applied, Applied)
    shipped = (applied.files[file] or b"").decode()
    assert same_for_cuda(ours, shipped)
    device = [_device_text(kernels, file, each, hip, tmp_path / name) for name, each in (("a", ours), ("b", shipped))]
    assert device[0] == device[1]


def _device_text(kernels: Kernels, file: str, text: str, hip: Toolchain, folder: Path) -> list[str]:
    """What the device compiler reads of a unit, without line marks; `folder` is made."""
    folder.mkdir()
    write_out(folder, (Copied(path, kernels.sources.text(path).encode()) for path in kernels.sources.files))
    (folder / file).write_text(text)
    (unit, *_) = [job.unit for job in kernels.jobs([file], ["gfx950"]) if job.unit]
    (folder / "unit.hip").write_text(unit.text)
    argv = hip.argv("unit.hip", "gfx950", unit.flags, (*unit.includes, str(hip.tvm_ffi[-1])))
    subprocess.run(["-E" if each == "-c" else each for each in argv], cwd=folder, check=True)
    lines = (folder / "unit.hip.gfx950.o").read_text(errors="replace").split("\n")
    return [line for line in lines if line.strip() and not line.startswith("#")]


@pytest.mark.parametrize(
    ("release", "file", "why"),
    [
        ("0.5.9", "fused_metadata_copy.cuh", "a flag for nvcc that hipcc does not take"),
        ("0.5.10", "hisparse.cuh", "inline PTX, which hipcc has not"),
        ("0.5.10", "sgl_kernel/runtime.cuh", "a CUDA name that no header of the tree turns into HIP's"),
        ("0.5.14", "gemm/nvfp4/nvfp4_quant.cuh", "a CUDA intrinsic that HIP has not under this name"),
    ],
)
def test_make_refuses_with_what_really_stands_in_the_way(
    release: str, file: str, why: str, release_tree: Open, hip: Toolchain
) -> None:
    kernels = Kernels(release_tree(release))
    (path,) = kernels.spelled(file)
    made = make(kernels, path, ["gfx950"], hip)
    assert made.patch is None
    assert why in str(made.refusal)


@pytest.mark.parametrize("release", ["0.5.14", "0.5.23"])
def test_make_finds_a_file_that_a_guard_alone_mends(release: str, release_tree: Open, hip: Toolchain) -> None:
    """`qknorm.cuh`, which models of every platform come to, includes two headers that it does not need on ROCm."""
    kernels = Kernels(release_tree(release))
    (path,) = kernels.spelled("elementwise/qknorm.cuh")
    assert path in kernels.guardable()
    made = make(kernels, path, ["gfx950"], hip)
    assert {each.came for each in made.built} == {Came.COMPILED}
    assert sum(line == "+#ifndef USE_ROCM" for line in (made.patch or "").splitlines()) == 1
