"""Finds the way to the servers of a plan: an engine, a process, or URLs whose depths are asked."""

from __future__ import annotations

from dataclasses import dataclass

from rocmfix.errors import EngineError, SmokeError
from rocmfix.smoke.client import Server
from rocmfix.smoke.launch import DockerLauncher, Launcher, ProcessLauncher, UrlLauncher
from rocmfix.smoke.plan import SmokePlan
from rocmfix.smoke.records import Subject
from rocmfix.smoke.report import printable
from rocmfix.system.containers import Engine, Refused
from rocmfix.system.http import Peer


@dataclass(frozen=True)
class Reach:
    """The plan with all that had to be found out, the way to its servers, and what they are servers of."""

    plan: SmokePlan
    launcher: Launcher
    subject: Subject


def reach(plan: SmokePlan, bearer: str | None) -> Reach:
    """The way to this plan's servers."""
    subject = Subject(
        image=plan.image,
        model=plan.model,
        flavour=plan.flavour,
        device=plan.profile.name,
        runtime=plan.runtime,
        urls=plan.urls,
    )
    if plan.urls:
        plan = with_depths(plan, bearer)
        return Reach(plan, UrlLauncher(), subject.model_copy(update={"urls": plan.urls}))
    if plan.runtime == "process":
        return Reach(plan, ProcessLauncher(), subject)
    engine, image_id, digests = _engine(plan.image or "")
    return Reach(plan, DockerLauncher(engine), subject.model_copy(update={"image_id": image_id, "digests": digests}))


def _engine(image: str) -> tuple[Engine, str, tuple[str, ...]]:
    try:
        engine = Engine()
        image_id, digests = engine.image_digests(image)
    except Refused as refused:
        is_image = "No such image" in str(refused)
        hint = f"docker pull {image}" if is_image else "is the Docker engine running, and may you use it?"
        raise EngineError(f"{image}: {refused}", hint=hint) from refused
    return engine, image_id, digests


def with_depths(plan: SmokePlan, bearer: str | None) -> SmokePlan:
    """The plan with each URL at the depth its server says it has, shallow ones first."""
    found = []
    for url in plan.urls:
        server = Server(Peer(url, bearer))
        info = server.info()
        if info is None:
            raise SmokeError(
                f"{url} does not answer /get_server_info",
                details=(printable(server.silence()),),
                hint="is it an sglang server, and healthy? --api-key-env names the variable with its key",
            )
        found.append((info.depth, url))
    found.sort(key=lambda pair: (pair[0].steps, pair[0].draft_tokens))
    depths = tuple(depth for depth, _ in found)
    if len(set(depths)) < len(depths):
        raise SmokeError("two of these servers run at the same depth", hint="a ladder has one server a depth")
    return plan.model_copy(update={"depths": depths, "urls": tuple(url for _, url in found)})
