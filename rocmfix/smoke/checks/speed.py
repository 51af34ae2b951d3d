"""Checks of speed across depths, in one stream."""

from __future__ import annotations

from rocmfix.smoke.checks import Scene, check, failed, not_judged, passed, warning
from rocmfix.smoke.checks.quality import UNENDED
from rocmfix.smoke.diagnosis import advice_for
from rocmfix.smoke.records import Heard, Rung, Verdict

NOT_HERE = "time on a CPU says nothing of a GPU"


def rate(heard: Heard) -> float:
    """Tokens a second in one stream, the best of the prompts: the first one may pay for a compilation."""
    return max((reply.completion_tokens / reply.seconds for reply in heard.replies if reply.seconds), default=0.0)


def step_seconds(heard: Heard) -> float | None:
    """Seconds of a verify step, the best of the prompts; of a decode step when speculation is off."""
    steps = [
        reply.seconds / (reply.acceptance.verifies if reply.acceptance else reply.completion_tokens)
        for reply in heard.replies
        if (reply.acceptance.verifies if reply.acceptance else reply.completion_tokens)
    ]
    return min(steps, default=None)


def _pair(scene: Scene) -> tuple[Heard, Rung, Heard] | str:
    """This depth and the one to hold it against, or why there is none."""
    heard = scene.heard("solo")
    if heard is None or heard.failed:
        return UNENDED
    if scene.plan.profile.name == "cpu":
        return NOT_HERE
    reference = scene.reference
    if reference is None:
        return "no shallower depth was asked to hold this one against"
    other = reference.answer("solo")
    return (heard, reference, other) if other and not other.failed else "the reference depth did not answer"


@check("speed", asks=("solo",))
def speed(scene: Scene) -> Verdict | None:
    """Tokens a second in one stream at depth 4 and deeper, against depth 3: the headline defect had a good accept
    length and a thirtieth of the speed.
    """
    if scene.depth.steps <= 3:
        return None
    pair = _pair(scene)
    if isinstance(pair, str):
        return not_judged(pair)
    heard, reference, other = pair
    bound = scene.bounds.general("speed", scene.depth)
    ratio = rate(heard) / max(rate(other), 1e-9)
    measured = f"{rate(heard):.1f} tok/s, {ratio:.2f} of the {rate(other):.1f} at {reference.depth.label}"
    limit = f"{bound} of depth {reference.depth.steps}"
    if bound.admits(ratio):
        return passed(measured, limit, "no collapse at this depth")
    return failed(measured, limit, f"speed collapses at this depth; {bound.source}", advice_for(scene.rung.log))


@check("step-time", asks=("solo",))
def step_time(scene: Scene) -> Verdict | None:
    """The time of one verify step grows a little with depth. A jump means that something is done again on each."""
    if scene.depth.steps <= 3:
        return None
    pair = _pair(scene)
    if isinstance(pair, str):
        return not_judged(pair)
    heard, reference, other = pair
    now, before = step_seconds(heard), step_seconds(other)
    if now is None or not before:
        return not_judged("the replies carry no step counts")
    bound = scene.bounds.general("step-time", scene.depth)
    measured = f"{now * 1000:.2f} ms, {now / before:.2f} times the {before * 1000:.2f} at {reference.depth.label}"
    limit = f"{bound} times depth {reference.depth.steps}"
    if bound.admits(now / before):
        return passed(measured, limit, "a step costs what a deeper draft has to")
    return failed(measured, limit, f"each step does something extra; {bound.source}", advice_for(scene.rung.log))


@check("worth-it", asks=("solo",))
def worth_it(scene: Scene) -> Verdict | None:
    """Speculation is faster than none, in one stream; below that it only costs memory."""
    heard = scene.heard("solo")
    if scene.depth.is_off or heard is None or scene.plan.profile.name == "cpu" or heard.failed:
        return None
    other = scene.off and scene.off.answer("solo")
    if not other or other.failed:
        return None
    gain = rate(heard) / max(rate(other), 1e-9)
    measured = f"{gain:.2f} times the speed without speculation"
    if gain >= 1:
        return passed(measured, "at least 1", f"{rate(heard):.1f} against {rate(other):.1f} tok/s")
    return warning(measured, "at least 1", f"{rate(heard):.1f} against {rate(other):.1f} tok/s",
                   "serve this model without speculation, or at another depth")  # fmt: skip
