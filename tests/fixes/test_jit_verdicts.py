"""The verdicts of the JIT and top-k fixes on real releases, and on releases that were changed under their label."""

import pytest

from rocmfix.catalog import Catalog
from rocmfix.hunks import Applied, apply_changes
from rocmfix.model import How, Outcome, Verdict
from rocmfix.tree import Overlay, Tree
from rocmfix.verdict import judge
from tests.fixes.conftest import CATALOG, ReleaseTree
from tests.releases import RELEASES

pytestmark = pytest.mark.upstream

GUARD, MEMORY, TOPK = "jit-fused-metadata-guard", "jit-negative-cache", "dsa-topk-v2-off"
CUH = "python/sglang/jit_kernel/csrc/elementwise/fused_metadata_copy.cuh"
INCLUDE = "#include <cuda_runtime.h>\n"
WORDS = {
    "B": Outcome.NEEDED,
    "F": Outcome.UPSTREAM,
    "-": Outcome.NOT_APPLICABLE,
}
MATRIX = {
    GUARD: "--BBBBBBBBBFFFFFFFFFF",
    MEMORY: "BBBBBBBBBBBBBBBBBBBBB",
    TOPK: "-----------BBFFFFFFFF",
}


def judged(fix_id: str, tree: Tree, catalog: Catalog = CATALOG) -> Verdict:
    patches, fix = catalog.find(fix_id)
    return judge(patches, fix, tree.read)


def edited(tree: Tree, path: str, old: str, new: str) -> Tree:
    """`tree` with one place of one file changed."""
    data = tree.read(path)
    assert data is not None
    text = data.decode()
    assert text.count(old) == 1, f"{path} has {text.count(old)} of {old!r}"
    return Overlay(tree, {path: text.replace(old, new).encode()})


def mend(tree: Tree, fix_id: str) -> Overlay:
    """`tree` with the variant that its verdict names."""
    patches, fix = CATALOG.find(fix_id)
    wanted = judged(fix_id, tree).variant
    (variant,) = (each for each in fix.variant if each.file == wanted)
    result = apply_changes(patches.patch(variant).changes, tree.read)
    assert isinstance(result, Applied)
    return Overlay(tree, result.files)


@pytest.mark.parametrize("fix_id", MATRIX)
@pytest.mark.parametrize("column", range(len(RELEASES)), ids=RELEASES)
def test_every_release_gets_the_verdict_of_the_facts(release_tree: ReleaseTree, fix_id: str, column: int) -> None:
    verdict = judged(fix_id, release_tree(RELEASES[column]))

    assert verdict.verdict is WORDS[MATRIX[fix_id][column]], verdict.reason
    assert verdict.reason
    assert verdict.verdict is Outcome.NOT_APPLICABLE or (verdict.file and verdict.line)


@pytest.mark.parametrize("release", ["0.5.10", "0.5.14"])
def test_upstreams_guard_picked_onto_an_older_release_is_upstream(release_tree: ReleaseTree, release: str) -> None:
    picked = "#ifndef USE_ROCM\n#include <cuda_runtime.h>\n#else\n#include <hip/hip_runtime.h>\n#endif\n"
    verdict = judged(GUARD, edited(release_tree(release), CUH, INCLUDE, picked))
    assert (verdict.verdict, verdict.how) == (Outcome.UPSTREAM, How.DIFFERENTLY)


@pytest.mark.parametrize(
    "guard",
    [
        "#if !defined(USE_ROCM)\n{}#endif\n",
        "#if defined(USE_ROCM)\n#else\n{}#endif\n",
        "#ifndef __HIP_PLATFORM_AMD__\n{}#endif\n",
    ],
)
def test_a_guard_in_other_words_is_upstream(release_tree: ReleaseTree, guard: str) -> None:
    verdict = judged(GUARD, edited(release_tree("0.5.14"), CUH, INCLUDE, guard.format(INCLUDE)))
    assert (verdict.verdict, verdict.how) == (Outcome.UPSTREAM, How.DIFFERENTLY)


def test_our_own_guard_without_a_record_is_upstream_to_the_letter(release_tree: ReleaseTree) -> None:
    ours = "#ifdef USE_ROCM\n#include <hip/hip_runtime.h>\n#else\n#include <cuda_runtime.h>\n#endif\n"
    verdict = judged(GUARD, edited(release_tree("0.5.14"), CUH, INCLUDE, ours))
    assert (verdict.verdict, verdict.how) == (Outcome.UPSTREAM, How.IDENTICAL)


@pytest.mark.parametrize(
    "half",
    [
        "#ifndef USE_ROCM\n#include <cuda_runtime.h>\n#endif\n#include <cuda_runtime.h>\n",
        "#ifdef USE_ROCM\n#include <cuda_runtime.h>\n#endif\n",
        "#ifndef USE_CUDA_12\n#include <cuda_runtime.h>\n#endif\n",
    ],
    ids=["a second include unguarded", "guarded the wrong way round", "guarded by something else"],
)
def test_half_a_guard_is_never_called_mended(release_tree: ReleaseTree, half: str) -> None:
    verdict = judged(GUARD, edited(release_tree("0.5.14"), CUH, INCLUDE, half))
    assert verdict.verdict in (Outcome.CONFLICT, Outcome.NEEDED)


def test_a_guard_does_not_mend_a_release_whose_loader_defines_no_use_rocm(release_tree: ReleaseTree) -> None:
    picked = "#ifndef USE_ROCM\n#include <cuda_runtime.h>\n#endif\n"
    verdict = judged(GUARD, edited(release_tree("0.5.9"), CUH, INCLUDE, picked))
    assert (verdict.verdict, verdict.variant) == (Outcome.NEEDED, "gate_fused_metadata_copy_0509.patch")


def test_a_kernel_without_a_loader_says_nothing(release_tree: ReleaseTree) -> None:
    tree = Overlay(release_tree("0.5.14"), {"python/sglang/jit_kernel/utils.py": None})
    assert judged(GUARD, tree).verdict is Outcome.NOT_APPLICABLE


@pytest.mark.parametrize(("release", "backend"), [("0.5.9", "nsa"), ("0.5.12", "nsa"), ("0.5.14", "dsa")])
def test_a_gate_in_python_mends_where_a_guard_would(release_tree: ReleaseTree, release: str, backend: str) -> None:
    path = f"python/sglang/srt/layers/attention/{backend}_backend.py"
    tree = edited(
        release_tree(release),
        path,
        "if self.speculative_num_steps > 3:",
        "if not _is_hip and self.speculative_num_steps > 3:",
    )
    verdict = judged(GUARD, tree)
    assert (verdict.verdict, verdict.how) == (Outcome.UPSTREAM, How.DIFFERENTLY)
    assert "off on HIP" in verdict.reason


LOADERS = {
    "0.5.8": "jit_kernel/utils.py",
    "0.5.16": "jit_kernel/utils/common.py",
    "0.5.23": "kernels/jit/utils/common.py",
}
MISS = "            result_map[key] = fn(*args, **kwargs)\n"
TRIED = "            try:\n                result_map[key] = fn(*args, **kwargs)\n            except Exception as e:\n"


@pytest.mark.parametrize("release", LOADERS)
def test_a_loader_that_remembers_failures_in_other_words_is_upstream(release_tree: ReleaseTree, release: str) -> None:
    path = f"python/sglang/{LOADERS[release]}"
    remembers = MISS.replace(
        "            result",
        "            if key in failed:\n                raise RuntimeError(failed[key])\n            result",
    )
    verdict = judged(MEMORY, edited(release_tree(release), path, MISS, remembers))
    assert (verdict.verdict, verdict.how) == (Outcome.UPSTREAM, How.DIFFERENTLY)


@pytest.mark.parametrize("release", LOADERS)
@pytest.mark.parametrize("handler", ["logger.error(e)\n                raise\n", "raise RuntimeError(str(e)) from e\n"])
def test_a_loader_that_only_reports_failures_is_not_mended(
    release_tree: ReleaseTree, release: str, handler: str
) -> None:
    path = f"python/sglang/{LOADERS[release]}"
    verdict = judged(MEMORY, edited(release_tree(release), path, MISS, f"{TRIED}                {handler}"))
    assert verdict.verdict is Outcome.NEEDED, verdict.reason


def test_a_loader_with_half_of_our_fix_is_not_mended(release_tree: ReleaseTree) -> None:
    """cache_once remembers JitBuildError, but nothing raises it."""
    wrapped = "    result_map = {}\n\n    @functools.wraps(fn)\n"
    tree = edited(
        release_tree("0.5.23"),
        "python/sglang/kernels/jit/utils/common.py",
        wrapped,
        "    fn = _fail_once(fn)\n" + wrapped,
    )
    assert judged(MEMORY, tree).verdict in (Outcome.CONFLICT, Outcome.NEEDED)


ENVIRON, ARGS = "python/sglang/srt/environ.py", "python/sglang/srt/server_args.py"
SWITCH = "SGLANG_OPT_USE_TOPK_V2 = EnvBool(True)"
HIP_ARM = (
    "            if is_hip():\n                if not self._resolved().enable_dp_attention and self.nnodes == 1:\n"
)


def test_upstreams_hip_arm_picked_onto_0_5_15_is_upstream(release_tree: ReleaseTree) -> None:
    arm = "                if is_deepseek_dsa(hf_config):\n                    envs.SGLANG_OPT_USE_TOPK_V2.set(False)\n"
    lines = HIP_ARM.splitlines(keepends=True)
    verdict = judged(TOPK, edited(release_tree("0.5.15"), ARGS, HIP_ARM, lines[0] + arm + lines[1]))
    assert (verdict.verdict, verdict.how) == (Outcome.UPSTREAM, How.DIFFERENTLY)


@pytest.mark.parametrize(
    ("value", "how"), [("False", How.DIFFERENTLY), ("lambda: not _default_hip()", How.DIFFERENTLY)]
)
def test_a_switch_off_by_default_is_upstream(release_tree: ReleaseTree, value: str, how: How) -> None:
    tree = edited(release_tree("0.5.15"), ENVIRON, SWITCH, SWITCH.replace("True", value))
    assert (judged(TOPK, tree).verdict, judged(TOPK, tree).how) == (Outcome.UPSTREAM, how)


def test_an_arm_for_another_platform_says_nothing_about_hip(release_tree: ReleaseTree) -> None:
    """Upstream turned the kernel off for DSA on XPU too (model_hook.py from 0.5.20)."""
    arm = "            if is_xpu():\n                if is_deepseek_dsa(hf_config):\n                    envs.SGLANG_OPT_USE_TOPK_V2.set(False)\n"
    verdict = judged(TOPK, edited(release_tree("0.5.15"), ARGS, HIP_ARM, arm + HIP_ARM))
    assert verdict.verdict is Outcome.NEEDED


@pytest.mark.parametrize(
    ("release", "fix_id"), [(r, f) for f in MATRIX for r, cell in zip(RELEASES, MATRIX[f], strict=True) if cell == "B"]
)
def test_what_is_needed_applies_once_and_is_then_mended(release_tree: ReleaseTree, release: str, fix_id: str) -> None:
    """The one variant that applies leaves Python that compiles and a tree that is judged mended, to the letter."""
    mended = mend(release_tree(release), fix_id)

    again = judged(fix_id, mended)

    assert (again.verdict, again.how) == (Outcome.UPSTREAM, How.IDENTICAL)
    for path, data in mended.changes.items():
        if data is not None and path.endswith(".py"):
            compile(data, path, "exec", dont_inherit=True)


@pytest.mark.parametrize("release", RELEASES)
def test_our_memory_is_known_where_the_lines_around_it_have_changed(release_tree: ReleaseTree, release: str) -> None:
    mended = mend(release_tree(release), MEMORY)
    (path,) = (path for path, data in mended.changes.items() if b"def _fail_once" in (data or b""))

    verdict = judged(MEMORY, edited(mended, path, "So we manually implement", "So we implement"))

    assert (verdict.verdict, verdict.how) == (Outcome.UPSTREAM, How.DIFFERENTLY)
