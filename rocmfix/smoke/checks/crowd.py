"""Checks of many streams at once."""

from __future__ import annotations

from rocmfix.smoke.checks import Scene, check, failed, not_judged, passed
from rocmfix.smoke.records import Heard, Verdict


@check("concurrency", asks=("crowd",))
def concurrency(scene: Scene) -> Verdict | None:
    """All streams end, 16 and 32 at once. A hang is caught by a watchdog, the stacks are kept, and the server is
    started once more without the custom all-reduce, to name its owner (sglang#29313).
    """
    if not scene.rung.start.is_ready:
        return None
    crowds = [heard for heard in scene.rung.heard if heard.ask.name.startswith("crowd-")]
    if not crowds:
        is_left_out = scene.plan.concurrency and not scene.plan.crowds(scene.depth)
        return not_judged("not asked at this depth") if is_left_out else None
    hung = next((heard for heard in crowds if heard.stalled), None)
    if hung:
        return failed(f"{len(hung.stalled)} of {hung.ask.streams} streams hang", "0", *owner(scene, hung))
    broken = next((heard for heard in crowds if heard.failed), None)
    if broken:
        return failed(f"{len(broken.failed)} of {broken.ask.streams} streams failed", "0",
                      str(broken.failed[0].error), "read the server's log")  # fmt: skip
    short = [reply for heard in crowds for reply in heard.replies if reply.completion_tokens != heard.ask.tokens]
    if short:
        return failed(f"{len(short)} streams ended early", "0", f"finish reason {short[0].finish}",
                      "read the server's log")  # fmt: skip
    rates = ", ".join(f"{heard.completion_tokens / max(heard.seconds, 1e-9):.0f} tok/s at {heard.ask.streams}"
                      for heard in crowds)  # fmt: skip
    return passed(f"0 hang; {rates}", "0", "every stream ended with all its tokens")


def owner(scene: Scene, hung: Heard) -> tuple[str, str]:
    """Why these streams hang, as far as the same ask without the custom all-reduce tells, and what to do."""
    silence = f"no token for {hung.ask.stall_seconds:g} s"
    retry = scene.rung.retry
    if retry is None:
        return silence, f"see the stacks in the report; try {scene.rung.retry_flag or 'fewer streams'}"
    if retry.stalled or retry.failed:
        return (
            f"{silence}, with and without {scene.rung.retry_flag}",
            "it is not the all-reduce: see the stacks",
        )
    return (
        f"{silence}; with {scene.rung.retry_flag} all streams end: AITER's custom all-reduce is the owner",
        f"serve with {scene.rung.retry_flag} (sglang#29313)",
    )
