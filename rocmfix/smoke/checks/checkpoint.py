"""Checks of the checkpoint's headers, before anything is started: /health says 200 to all of these."""

from __future__ import annotations

from rocmfix.smoke.checkpoint import mismatches, unpacked_claim
from rocmfix.smoke.checks import Scene, Stage, check, failed, passed
from rocmfix.smoke.records import Verdict


@check("mtp-tensors", stage=Stage.BEFORE)
def mtp_tensors(scene: Scene) -> Verdict | None:
    """The checkpoint holds the tensors of its MTP head: sglang loads without them, says nothing, and no draft is
    ever accepted.
    """
    if scene.checkpoint is None or scene.plan.draft_model or all(depth.is_off for depth in scene.plan.depths):
        return None
    count = len(scene.checkpoint.mtp_tensors)
    if count:
        return passed(f"{count} tensors", "at least 1", "the MTP head is in the checkpoint")
    return failed("0 tensors", "at least 1", "the server would start, and accept no draft",
                  "take the checkpoint with its MTP layer, or give --draft-model")  # fmt: skip


@check("tensor-sizes", stage=Stage.BEFORE)
def tensor_sizes(scene: Scene) -> Verdict | None:
    """Tensors are as large as the config says: sglang cuts larger ones to size without a word."""
    if scene.checkpoint is None:
        return None
    wrong = mismatches(scene.checkpoint)
    if not wrong:
        return passed("0 tensors differ", "0", "headers and config.json agree")
    return failed(f"{len(wrong)} tensors differ", "0", "; ".join(wrong[:3]),
                  "config.json and the weights are of two different checkpoints: fetch both again")  # fmt: skip


@check("tensor-types", stage=Stage.BEFORE)
def tensor_types(scene: Scene) -> Verdict | None:
    """A quantisation the config claims is in the tensors: sglang takes the config's word, and every answer is
    token 0.
    """
    if scene.checkpoint is None:
        return None
    claim = unpacked_claim(scene.checkpoint)
    method = scene.checkpoint.quant_method or "no quantisation"
    if claim is None:
        return passed(method, "tensors stored as claimed", "config.json and tensor types agree")
    return failed(claim, "tensors stored as claimed", "the server would start and answer garbage",
                  "remove quantization_config, or fetch the quantised weights")  # fmt: skip
