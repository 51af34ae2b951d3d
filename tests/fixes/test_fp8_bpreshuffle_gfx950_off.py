"""`fp8-bpreshuffle-gfx950-off`: what the patched linear layer multiplies on gfx950."""

import ast
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.fixes.world import World

torch = pytest.importorskip("torch")

FIX = "fp8-bpreshuffle-gfx950-off"
LAYERS = "srt/layers/quantization/fp8_utils.py"
MODELS = "srt/models/deepseek_common/utils.py"
SWITCH = "_use_aiter_bpreshuffle_gfx95"
RELEASES = ["0.5.13", "0.5.13.post1", "0.5.14"]

pytestmark = [pytest.mark.upstream, pytest.mark.torch, pytest.mark.parametrize("release", RELEASES)]

ROWS, GROUPS, COLUMNS = 3, 2, 4


def switch(root: Path, path: str, *, gfx95: bool = True, hip: tuple[int, ...] = (7, 2, 0)) -> Any:
    """The value that a module gives the switch on such a machine."""
    names = {"_use_aiter_gfx95": gfx95, "get_hip_version": lambda: hip}
    tree = ast.parse((root / "sglang" / path).read_text())
    (statement,) = (
        node
        for node in tree.body
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and node.targets[0].id == SWITCH
    )
    return eval(compile(ast.Expression(statement.value), path, "eval"), names)


def test_both_copies_are_off_wherever_they_were_on(patched_files, release):
    before, after = (patched_files(release, (LAYERS, MODELS), fix) for fix in (None, FIX))
    for path in (LAYERS, MODELS):
        assert switch(before, path) is True, "the defect is no longer there to mend"
        assert switch(after, path) is False
        for machine in ({"gfx95": False}, {"hip": (7, 0, 0)}):
            assert switch(before, path, **machine) is switch(after, path, **machine) is False


def test_no_other_module_decides_by_the_rocm_version(patched_files, release_tree, release):
    """Every reader takes the switch from one of the two."""
    owners = {f"python/sglang/{path}" for path in (LAYERS, MODELS)}
    for path in release_tree(release).paths("python/sglang/srt"):
        text = release_tree(release).read(path) or b""
        if path.endswith(".py") and f"{SWITCH} =".encode() in text:
            assert path in owners, path


def dequantized(values: Any, scale: Any) -> Any:
    return values * scale.repeat_interleave(values.shape[1] // GROUPS, dim=1)


def product(q_input: Any, weight: Any, x_scale: Any, weight_scale: Any, dtype: Any) -> Any:
    """A block-scaled GEMM that reads the scales where they lie, row by row."""
    assert x_scale.is_contiguous()
    return (dequantized(q_input, x_scale) @ weight.T).to(dtype)


@pytest.mark.parametrize("given", [False, True], ids=["quantized here", "quantized by a fused norm"])
def test_the_product_is_right_whoever_quantizes(patched_files, release, given):
    """AITER's own promise: without transpose_scale the scales lie row by row, as plain CK reads them."""
    torch.manual_seed(0)
    root = patched_files(release, (LAYERS,), FIX)
    values = torch.randn(ROWS, GROUPS * 2)
    scale = torch.rand(ROWS, GROUPS) + 0.5
    weight = torch.randn(COLUMNS, GROUPS * 2)

    def quantize(_: Any, *, quant_dtype: Any, transpose_scale: bool) -> Any:
        assert transpose_scale is False, "the scales must stay row by row"
        return values, scale

    def reaches_the_broken_gemm(*_: Any, **__: Any) -> None:
        raise AssertionError("bpreshuffle")

    scope = {
        "torch": torch,
        SWITCH: switch(root, LAYERS),
        "_use_aiter_gfx95": True,
        "use_aiter_triton_gemm_w8a8_tuned_gfx950": lambda *_: False,
        "aiter": SimpleNamespace(dtypes=SimpleNamespace(fp8=None)),
        "aiter_per1x128_quant": quantize,
        "ck_gemm_a8w8_blockscale": product,
        "gemm_a8w8_blockscale_bpreshuffle": reaches_the_broken_gemm,
    }
    linear = World(root).function(f"sglang/{LAYERS}", "aiter_w8a8_block_fp8_linear", scope)
    result = linear(values, weight, [128, 128], None, input_scale=scale if given else None)

    wanted = dequantized(values, scale) @ weight.T
    assert torch.allclose(result.float(), wanted, atol=0.05 if given else 1e-5)
