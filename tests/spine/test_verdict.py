"""A fix is judged by content: the first rule that holds decides."""

from __future__ import annotations

import pytest

from rocmfix.catalog import Catalog
from rocmfix.model import How, Outcome, Verdict
from rocmfix.tree import MemoryTree
from rocmfix.verdict import Done, blob_id, judge_all
from tests.spine.catalogs import cut, make_catalog

PATH = "python/sglang/kernel.cuh"
GATE = "python/sglang/gate.py"
BROKEN = "".join(f"// line {i}\n" for i in range(1, 30)) + "#include <cuda_runtime.h>\n\nint f();\nint g();\nint h();\n"
MENDED = BROKEN.replace("#include <cuda_runtime.h>\n", "#ifndef USE_ROCM\n#include <cuda_runtime.h>\n#endif\n")
REWORDED = BROKEN.replace("#include <cuda_runtime.h>\n", "#if defined(USE_ROCM)\n#include <hip/hip_runtime.h>\n#else\n#include <cuda_runtime.h>\n#endif\n")  # fmt: skip
SERIES = """
project = "sglang"
summary = "Kernels build on ROCm"

[[fix]]
id = "guard"
why = "hipcc cannot find cuda_runtime.h"
upstream = { status = "merged", pr = "sgl-project/sglang#1", since = "0.5.15" }
relevant = [{ file = ["python/sglang/kernel.cuh", "python/sglang/moved/kernel.cuh"] }]
fixed = [{ include_guarded = "cuda_runtime.h" }]
remove_when = "the oldest release is 0.5.15"
unmended = [{ probe = [{ text = "hopeless" }], advice = "upgrade to 0.5.15", reason = "too large to patch" }]
variant = [{ file = "guard.patch", since = "0.5.10", until = "0.5.15" }]
"""


@pytest.fixture
def catalog(tmp_path) -> Catalog:
    return make_catalog(tmp_path, SERIES, {"guard.patch": cut({PATH: BROKEN}, {PATH: MENDED})})


def judge(catalog: Catalog, text: str | None, record: dict[str, Done] | None = None) -> Verdict:
    files = {} if text is None else {PATH: text.encode()}
    return judge_all(catalog, MemoryTree(files), record).verdicts[0]


def test_a_tree_without_the_file_is_not_applicable(catalog):
    verdict = judge(catalog, None)
    assert verdict.verdict is Outcome.NOT_APPLICABLE
    assert "no python/sglang/kernel.cuh" in verdict.reason


def test_a_broken_tree_needs_the_one_variant_that_applies(catalog):
    verdict = judge(catalog, BROKEN)
    assert (verdict.verdict, verdict.file, verdict.line) == (Outcome.NEEDED, PATH, 30)
    assert (verdict.variant, verdict.how, verdict.advice) == ("guard.patch", None, None)
    assert verdict.reason == "hipcc cannot find cuda_runtime.h"


def test_offsets_are_fine_and_reported(catalog):
    verdict = judge(catalog, "// new\n" * 4 + BROKEN)
    assert (verdict.verdict, verdict.line) == (Outcome.NEEDED, 34)
    assert "+4 lines off" in verdict.reason


def test_our_very_change_without_our_record_is_upstream_identical(catalog):
    verdict = judge(catalog, MENDED)
    assert (verdict.verdict, verdict.how, verdict.variant) == (Outcome.UPSTREAM, How.IDENTICAL, "guard.patch")
    assert (verdict.file, verdict.line) == (PATH, 30)


def test_a_change_in_two_places_is_seen_at_the_first(tmp_path):
    twice = MENDED.replace("// line 2\n", "// line 2, mended\n")
    catalog = make_catalog(tmp_path, SERIES, {"guard.patch": cut({PATH: BROKEN}, {PATH: twice})})
    for text, outcome in ((BROKEN, Outcome.NEEDED), (twice, Outcome.UPSTREAM)):
        verdict = judge(catalog, text)
        assert (verdict.verdict, verdict.file, verdict.line) == (outcome, PATH, 2)


def test_other_words_for_it_are_upstream_differently(catalog):
    verdict = judge(catalog, REWORDED)
    assert (verdict.verdict, verdict.how, verdict.line) == (Outcome.UPSTREAM, How.DIFFERENTLY, 33)


def test_fixed_beats_needed(catalog):
    """The include is still there once, under a guard further up: the patch could apply, and must not."""
    guarded = "#ifndef USE_ROCM\n" + BROKEN + "#endif\n"
    assert judge(catalog, guarded).verdict is Outcome.UPSTREAM


def test_a_half_mended_file_is_not_mended(catalog):
    """One of two includes is guarded."""
    verdict = judge(catalog, MENDED + "#include <cuda_runtime.h>\n")
    assert verdict.verdict is not Outcome.NEEDED
    assert not (verdict.verdict is Outcome.UPSTREAM and verdict.how is How.DIFFERENTLY)


@pytest.mark.parametrize("after", [{PATH: blob_id(MENDED.encode())}, {}])
def test_our_record_makes_it_applied(catalog, after):
    done = {"guard": Done("guard.patch", after)}
    assert judge(catalog, MENDED, done).verdict is Outcome.APPLIED


@pytest.mark.parametrize(("gone", "outcome"), [(True, Outcome.APPLIED), (False, Outcome.CONFLICT)])
def test_our_record_knows_what_was_removed(catalog, gone, outcome):
    """By the record alone: this shape, merged in three ways, is none that the patch reverses on."""
    text = BROKEN.replace("// line 28", "// changed 28")
    done = {"guard": Done("guard.patch", {PATH: blob_id(text.encode()), GATE: None}, merged=True)}
    files = {PATH: text.encode()} if gone else {PATH: text.encode(), GATE: b"x = 1\n"}
    assert judge_all(catalog, MemoryTree(files), done).verdicts[0].verdict is outcome


def test_our_record_does_not_outweigh_the_content(catalog):
    """Recorded, but the file was restored since."""
    done = {"guard": Done("guard.patch", {PATH: blob_id(MENDED.encode())})}
    assert judge(catalog, BROKEN, done).verdict is Outcome.NEEDED


def test_a_shape_that_no_patch_covers_is_unmended_with_advice(catalog):
    verdict = judge(catalog, "#include <cuda_runtime.h>\nhopeless\n")
    assert (verdict.verdict, verdict.advice) == (Outcome.UNMENDED, "upgrade to 0.5.15")
    assert (verdict.reason, verdict.line) == ("too large to patch", 2)


def test_any_other_shape_is_a_conflict_that_shows_both_lines(catalog):
    verdict = judge(catalog, BROKEN.replace("// line 28", "// changed 28"))
    assert (verdict.verdict, verdict.file, verdict.line) == (Outcome.CONFLICT, PATH, 28)
    assert "expects `// line 28`, the tree has `// changed 28`" in verdict.reason
    assert "rocmfix refresh sglang/test-set" in (verdict.advice or "")


def test_two_variants_that_apply_are_a_conflict(tmp_path):
    other = BROKEN.replace("int g();\nint h();\n", "int g();\nint i();\n")
    series = SERIES.replace('until = "0.5.15" }', 'until = "0.5.12" }, { file = "other.patch", since = "0.5.12" }')
    patches = {"guard.patch": cut({PATH: BROKEN}, {PATH: MENDED}), "other.patch": cut({PATH: BROKEN}, {PATH: other})}
    verdict = judge(make_catalog(tmp_path, series, patches), BROKEN)
    assert verdict.verdict is Outcome.CONFLICT
    assert "guard.patch and other.patch" in verdict.reason
    assert verdict.advice == "give each variant a `relevant` probe of its own: patches/README.md"


def test_a_variant_may_say_when_it_is_meant(tmp_path):
    """0.5.9 needs a Python gate where 0.5.10 needs a guard, and the guard would apply to both."""
    series = SERIES.replace(
        'variant = [{ file = "guard.patch", since = "0.5.10", until = "0.5.15" }]',
        """
[[fix.variant]]
file = "gate.patch"
since = "0.5.9"
until = "0.5.10"
relevant = [{ not = { python = "build", has = "flags.append('-DUSE_ROCM')", in = "python/sglang/gate.py" } }]
fixed = [{ python = "use_it", has = "x and not _is_hip", in = "python/sglang/gate.py" }]

[[fix.variant]]
file = "guard.patch"
since = "0.5.10"
until = "0.5.15"
relevant = [{ python = "build", has = "flags.append('-DUSE_ROCM')", in = "python/sglang/gate.py" }]
""",
    )
    old = "def build():\n    pass\n\n\ndef use_it(x):\n    return x\n"
    gated = old.replace("return x", "return x and not _is_hip")
    new = old.replace("pass", "flags.append('-DUSE_ROCM')")
    patches = {"gate.patch": cut({GATE: old}, {GATE: gated}), "guard.patch": cut({PATH: BROKEN}, {PATH: MENDED})}
    catalog = make_catalog(tmp_path, series, patches)

    def verdict(gate: str) -> Verdict:
        return judge_all(catalog, MemoryTree({PATH: BROKEN.encode(), GATE: gate.encode()})).verdicts[0]

    assert verdict(old).variant == "gate.patch"
    assert verdict(new).variant == "guard.patch"
    assert verdict(gated).how is How.IDENTICAL
    assert verdict(gated.replace("return x and not _is_hip", "return not _is_hip and x and 1")).how is How.DIFFERENTLY


def test_a_probe_of_the_whole_module_says_so(tmp_path):
    relevant = 'relevant = [{ file = "python/sglang/kernel.cuh" }, { python = "", has = "gate(_)", in = "python/sglang/gate.py" }]'
    series = "\n".join(relevant if line.startswith("relevant") else line for line in SERIES.splitlines())
    catalog = make_catalog(tmp_path, series, {"guard.patch": cut({PATH: BROKEN}, {PATH: MENDED})})
    tree = MemoryTree({PATH: BROKEN.encode(), GATE: b"x = 1\n"})
    verdict = judge_all(catalog, tree).verdicts[0]
    assert (verdict.verdict, verdict.reason) == (Outcome.NOT_APPLICABLE, "the module has no `gate(_)`")
    assert (verdict.file, verdict.line) == (GATE, 1)


def test_a_crlf_tree_gets_the_same_verdicts(catalog):
    for text, outcome in ((BROKEN, Outcome.NEEDED), (MENDED, Outcome.UPSTREAM), (REWORDED, Outcome.UPSTREAM)):
        assert judge(catalog, text.replace("\n", "\r\n")).verdict is outcome


def test_the_label_of_a_tree_changes_nothing(catalog):
    trees = [MemoryTree({PATH: BROKEN.encode()}, release=release) for release in ("0.5.12", "0.5.99", None)]
    assert len({judge_all(catalog, tree).verdicts for tree in trees}) == 1
