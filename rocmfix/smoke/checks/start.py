"""Checks that the server came up, is ours, and runs at the asked depth."""

from __future__ import annotations

from rocmfix.smoke.checks import Scene, Stage, check, failed, not_judged, passed, warning
from rocmfix.smoke.records import Verdict


@check("starts", stage=Stage.UP)
def starts(scene: Scene) -> Verdict | None:
    """The server becomes healthy within the limit and really generates; a failed start is diagnosed from its log."""
    start = scene.rung.start
    bound = f"healthy and generating within {start.limit:g} s"
    if not start.is_ready:
        measured = _ending(scene)
        if start.cause is None:
            return failed(measured, bound, "its log names no cause that is known", f"read {scene.rung.log_file}")
        line = f": {start.cause.line}" if start.cause.line else ""
        return failed(measured, bound, f"{start.cause.id}: {start.cause.why}{line}", start.cause.fix)
    warm = scene.heard("warm-up")
    if warm is None or warm.failed or not warm.completion_tokens:
        problem = warm.failed[0].error if warm and warm.failed else "no token came"
        return failed(f"healthy after {start.seconds:.1f} s, {problem}", bound, "/health is not a proof of work",
                      f"read {scene.rung.log_file or 'the server log'}")  # fmt: skip
    return passed(f"{start.seconds:.1f} s", bound, f"{warm.completion_tokens} tokens generated")


@check("container-limits", stage=Stage.UP)
def container_limits(scene: Scene) -> Verdict | None:
    """The container got every limit and capability that the run profile asks for; one the engine refused is dropped,
    so that the same path runs on a small virtual machine too.
    """
    refused = scene.rung.start.warnings
    if scene.plan.runtime != "docker" or not scene.rung.start.is_ready:
        return None
    if not refused:
        return passed("0 refused", "0", "the run profile holds as it is written")
    return warning(
        f"{len(refused)} refused", "0", "; ".join(refused), "run the Docker engine as root, not in a container"
    )


@check("is-ours", stage=Stage.UP)
def is_ours(scene: Scene) -> Verdict | None:
    """What answers is the server that was started: on a taken port sglang never exits, and /health is somebody
    else's.
    """
    if scene.plan.urls or not scene.rung.start.is_ready:
        return None
    wanted = scene.plan.served_name(scene.depth)
    found = (scene.rung.info and scene.rung.info.served_name) or "no name"
    if scene.rung.is_ours:
        return passed(found, wanted, "the answering server bears the name it was started with")
    return failed(found, wanted, "another server answers on this port", "free the port, or leave out --host-network")


@check("stays-up", stage=Stage.UP)
def stays_up(scene: Scene) -> Verdict | None:
    """The server lives through all questions: when a fault ends the scheduler, /v1/models goes on saying 200."""
    if not scene.rung.start.is_ready:
        return None
    if any(heard.stalled for heard in scene.rung.heard):
        return not_judged("it hangs: see the question it did not answer")
    died = scene.rung.died
    if died is None:
        return passed("alive", "alive to the end", "it answered /health after the last question")
    line = f": {died.line}" if died.line else ""
    return failed("dead", "alive to the end", f"{died.id}: {died.why}{line}", died.fix)


@check("depth", stage=Stage.UP)
def depth(scene: Scene) -> Verdict | None:
    """Speculation is on, and at the asked depth, by the server's own word: flags are corrected silently."""
    info = scene.rung.info
    if not scene.rung.start.is_ready or scene.plan.urls:
        return None
    if info is None:
        return not_judged("the server did not answer /get_server_info")
    found, wanted = info.depth, scene.depth
    if found == wanted:
        return passed(found.label, wanted.label, f"speculative_algorithm is {info.algorithm or 'off'}")
    return failed(found.label, wanted.label, "the server changed or ignored the speculation flags",
                  "with topk 1, draft tokens are steps + 1; see the server's log for the correction")  # fmt: skip


def _ending(scene: Scene) -> str:
    start = scene.rung.start
    if start.exit is None:
        return f"not ready after {start.seconds:.0f} s"
    memory = ", out of memory" if start.exit.out_of_memory else ""
    return f"exit code {start.exit.code} after {start.seconds:.0f} s{memory}"
