"""Checks that sampling samples."""

from __future__ import annotations

import math

from rocmfix.smoke.checks import Scene, check, failed, not_judged, passed
from rocmfix.smoke.records import Heard, Verdict


def evidence(heard: Heard) -> tuple[int, float, float, int]:
    """Argmax hits, the sum of top probabilities, its variance, and the number of tokens after each first one.

    Prefill samples the first token of a reply, so it tells nothing of the verify step.
    """
    hits, expected, variance, count = 0, 0.0, 0.0, 0
    for reply in heard.replies:
        for score in reply.scores[1:]:
            if not score.top:
                continue
            token, logprob = score.top[0]
            p = math.exp(min(0.0, logprob))
            hits += score.token == token
            expected += p
            variance += p * (1 - p)
            count += 1
    return hits, expected, variance, count


@check("temperature", asks=("sampled",))
def temperature(scene: Scene) -> Verdict | None:
    """Temperature is obeyed. Up to 0.5.20 EAGLE's verify took the argmax on HIP at any temperature, silently
    (sglang#37134). Different texts prove nothing, since prefill samples the first token; so the argmax hits after it
    are held against the sum of the top probabilities.
    """
    heard = scene.heard("sampled")
    if heard is None:
        return None
    if heard.failed:
        return failed(f"{len(heard.failed)} of {len(heard.replies)} failed", "0", str(heard.failed[0].error),
                      "read the server's log")  # fmt: skip
    hits, expected, variance, count = evidence(heard)
    floor = scene.bounds.general("temperature-evidence", scene.depth)
    if not floor.admits(count - expected):
        return not_judged(f"the texts are too certain to tell: the sum of 1 - p is {count - expected:.1f}, {floor}")
    bound = scene.bounds.general("temperature", scene.depth)
    z = (hits - expected) / math.sqrt(variance) if variance else math.inf
    measured = f"z = {z:.1f} ({hits} of {count} tokens are the best one, {expected:.1f} expected)"
    if bound.admits(z):
        return passed(measured, f"z {bound}", "tokens are drawn, not picked")
    return failed(
        measured, f"z {bound}", "the server picks the best token at temperature 1",
        "upgrade to 0.5.21, or apply the fix spec-sampling-hip; without it serve with temperature 0 only",
    )  # fmt: skip
