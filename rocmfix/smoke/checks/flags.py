"""Checks of flag combinations that are known to fail, before each start."""

from __future__ import annotations

from rocmfix.smoke.checks import Scene, Stage, check, failed, passed, warning
from rocmfix.smoke.plan import CUSTOM_ALL_REDUCE_OFF, flag_value
from rocmfix.smoke.records import Verdict

MLA = ("Deepseek", "Kimi")
DSA = ("GlmMoeDsa", "DeepseekV32")
CROWD_THAT_HANGS = 16


@check("known-bad-flags", stage=Stage.START)
def known_bad_flags(scene: Scene) -> Verdict | None:
    """No combination of flags is asked for that is known to abort or hang; --run-known-bad runs it all the same."""
    if scene.plan.profile.name != "amd" or scene.plan.urls:
        return None
    command = scene.rung.command
    problem, advice = _mla_fp8(scene, command) or _all_reduce(scene, command) or ("", "")
    bound = "no combination known to fail"
    if not problem:
        return passed("0 combinations", bound, "none of the flags is known to fail together")
    if scene.plan.runs_known_bad:
        return warning("1 combination", bound, f"{problem}; run all the same", advice)
    return failed("1 combination", bound, problem, advice)


def _mla_fp8(scene: Scene, command: tuple[str, ...]) -> tuple[str, str] | None:
    """AITER's MLA decode has no fp8 kernel for more than 4 query positions (aiter#2760, aiter#4752)."""
    names = scene.checkpoint.architectures if scene.checkpoint else ()
    is_mla = any(name.startswith(MLA) and not name.startswith(DSA) for name in names)
    backend = flag_value(command, "--decode-attention-backend") or flag_value(command, "--attention-backend") or "aiter"
    cache = flag_value(command, "--kv-cache-dtype") or ""
    if not (is_mla and backend == "aiter" and cache.startswith("fp8") and scene.depth.draft_tokens > 4):
        return None
    return (
        f"AITER's MLA decode with an fp8 KV cache aborts at {scene.depth.draft_tokens} draft tokens (aiter#2760)",
        "--kv-cache-dtype auto, another --attention-backend, or depth 3",
    )


def _all_reduce(scene: Scene, command: tuple[str, ...]) -> tuple[str, str] | None:
    """aiter::cross_device_reduce_2stage hangs target verify from 16 streams on (sglang#29313)."""
    crowd = max(scene.plan.crowds(scene.depth), default=0)
    if scene.depth.is_off or scene.plan.tp < 2 or crowd < CROWD_THAT_HANGS or CUSTOM_ALL_REDUCE_OFF in command:
        return None
    return (
        f"the custom all-reduce hangs EAGLE's verify at {crowd} streams (sglang#29313)",
        f"add {CUSTOM_ALL_REDUCE_OFF}, or --run-known-bad to see it",
    )
