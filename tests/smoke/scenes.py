"""Made-up facts for checks: a rung, a scene around it, a reply."""

from __future__ import annotations

from rocmfix.smoke.bounds import load_bounds
from rocmfix.smoke.checkpoint import Checkpoint
from rocmfix.smoke.checks import Scene, all_checks
from rocmfix.smoke.plan import SmokePlan
from rocmfix.smoke.profile import load_profile
from rocmfix.smoke.quality import QUESTIONS
from rocmfix.smoke.records import (
    Acceptance,
    Ask,
    Depth,
    Heard,
    HostFacts,
    Reply,
    Rung,
    Score,
    ServerInfo,
    Start,
    Verdict,
)

INFO = ServerInfo(
    version="0.5.14", model_path="/model", served_name="s", algorithm="EAGLE", steps=4, topk=1, draft_tokens=5
)
HOST = HostFacts(kfd="usable", dri="usable")


def plan(device: str = "amd", **changes: object) -> SmokePlan:
    return SmokePlan(run="r", profile=load_profile(device), image="i", model="/m").model_copy(update=changes)


def rung(depth: str = "4", *heard: Heard, **changes: object) -> Rung:
    ready = Start(is_ready=True, seconds=1, limit=60)
    return Rung(depth=Depth.parse(depth), start=ready, info=INFO, heard=heard).model_copy(update=changes)


def reply(text: str = "abcd", *, scores: tuple[Score, ...] = (), **facts: object) -> Reply:
    tokens = tuple(map(ord, text))
    return Reply(
        prompt=0, text=text, tokens=tokens, completion_tokens=len(tokens), finish="length", scores=scores
    ).model_copy(update=facts)


def heard(name: str, *replies: Reply, tokens: int = 4) -> Heard:
    ask = Ask(name=name, prompts=("p",) * len(replies), tokens=tokens)
    return Heard(ask=ask, replies=replies, seconds=1.0)


def drafted(*histogram: int, seconds: float = 1.0) -> Reply:
    """A reply whose verifies kept as many drafts as the histogram says."""
    verifies = sum(histogram)
    kept = sum(count * place for place, count in enumerate(histogram))
    accepted = Acceptance(verifies=verifies, correct=kept, histogram=histogram)
    return reply("a" * (verifies + kept), acceptance=accepted, seconds=seconds)


def judge(
    name: str,
    at: Rung,
    *earlier: Rung,
    host: HostFacts | None = None,
    checkpoint: Checkpoint | None = None,
    asked: SmokePlan | None = None,
) -> Verdict | None:
    """The verdict of one check."""
    check = next(check for check in all_checks() if check.id == name)
    return check(Scene(asked or plan(), load_bounds(), QUESTIONS, host, checkpoint, at, earlier))
