"""Checks of what the server accepts of its own drafts."""

from __future__ import annotations

from itertools import pairwise

from rocmfix.smoke.checks import Scene, check, failed, not_judged, passed
from rocmfix.smoke.checks.quality import UNENDED, score
from rocmfix.smoke.checks.words import differing
from rocmfix.smoke.records import Verdict


def survival(histogram: tuple[int, ...]) -> tuple[float, ...]:
    """For each draft position, the share of verifies that kept it among those that kept the one before."""
    reached = [sum(histogram[kept:]) for kept in range(len(histogram))]
    return tuple(after / before for before, after in pairwise(reached) if before)


@check("accept-length", asks=("solo",))
def accept_length(scene: Scene) -> Verdict | None:
    """Tokens for each verify step, from the replies' own counters. A bound holds for one model and workload only;
    below the general floor a head is broken whatever the model. A good one alone proves nothing: it was 4.58 while
    the server made 6.9 instead of 227 tokens a second (sglang#29373).
    """
    heard = scene.heard("solo")
    if scene.depth.is_off or heard is None:
        return None
    if heard.failed:
        return not_judged(UNENDED)
    if not heard.verifies:
        return not_judged("the replies carry no speculation counters")
    value = heard.completion_tokens / heard.verifies
    measured = f"{value:.3f} ({heard.completion_tokens} tokens in {heard.verifies} verifies)"
    floor = scene.bounds.general("accept-length-floor", scene.depth)
    if not floor.admits(value):
        return failed(measured, str(floor), f"the drafts are not accepted; {floor.source}", _NOT_ACCEPTED)
    bound = scene.bounds.find("accept-length", scene.names, scene.depth)
    if bound is None:
        return not_judged(f"above the floor of broken heads ({floor}), but no bound is known for this model", measured)
    if bound.admits(value):
        return passed(measured, str(bound), bound.source)
    return failed(measured, str(bound), bound.source, _NOT_ACCEPTED)


_NOT_ACCEPTED = (
    "does the checkpoint hold MTP tensors, are they built with the right quantisation (rocmfix fixes: "
    "quark-glm-nextn), and is the attention backend right at this depth?"
)


@check("survival", asks=("solo", "words", "questions"))
def flat_survival(scene: Scene) -> Verdict | None:
    """Survival falls from position to position, or words and answers are right. AITER's MLA decode once returned the
    same output for every position: 0.99 accepted at each, all of it wrong (aiter#2720). A model that is easy to
    predict is flat too, so flat fails only together with wrong words or wrong answers.
    """
    heard = scene.heard("solo")
    if scene.depth.is_off or heard is None:
        return None
    if heard.failed:
        return not_judged(UNENDED)
    rates = survival(heard.histogram(scene.depth.steps))
    if not rates:
        return not_judged("the replies carry no accept histogram")
    bound = scene.bounds.general("survival", scene.depth)
    measured = "/".join(f"{rate:.2f}" for rate in rates)
    limit = f"below {bound.ceiling:g} somewhere, or right words and answers"
    if not all(rate >= (bound.ceiling or 0) for rate in rates):
        return passed(measured, limit, "survival falls as drafts get longer")
    if differing(scene) or _answers_are_wrong(scene):
        return failed(
            measured, limit, "every position is accepted, and the output is wrong",
            "choose 4 or 8 draft tokens (a power of two), or another attention backend; see aiter#2720",
        )  # fmt: skip
    return passed(measured, limit, "flat, and words and answers are right: the text is easy to predict")


def _answers_are_wrong(scene: Scene) -> bool:
    value = score(scene)
    return value is not None and not scene.bounds.general("quality", scene.depth).admits(value)
