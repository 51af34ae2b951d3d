"""The checks: one decorated function each, pure, whose docstring is the report's explanation.

A check is found by being in a module of this package. It names the asks it needs; the ladder puts each ask once.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from rocmfix.smoke.bounds import Bounds
from rocmfix.smoke.checkpoint import Checkpoint
from rocmfix.smoke.plan import SmokePlan
from rocmfix.smoke.quality import Question
from rocmfix.smoke.records import Depth, Heard, HostFacts, Outcome, Rung, Verdict


class Stage(Enum):
    """When a check is judged."""

    BEFORE = "before anything is started"
    START = "before each start; a failure refuses the depth"
    UP = "after each start"
    RUNG = "after each depth has answered"


@dataclass(frozen=True)
class Scene:
    """Everything a check may look at."""

    plan: SmokePlan
    bounds: Bounds
    questions: tuple[Question, ...]
    host: HostFacts | None
    checkpoint: Checkpoint | None
    rung: Rung
    earlier: tuple[Rung, ...] = ()

    @property
    def depth(self) -> Depth:
        return self.rung.depth

    @property
    def names(self) -> tuple[str, ...]:
        """What bounds know the model by: where it lies, and its architecture."""
        info = self.rung.info
        paths = (self.plan.model, info.model_path if info else None, info.served_name if info else None)
        architectures = self.checkpoint.architectures if self.checkpoint else ()
        return (*(path for path in paths if path), *architectures)

    @property
    def off(self) -> Rung | None:
        """The rung without speculation."""
        return next((rung for rung in self.earlier if rung.depth.is_off and rung.start.is_ready), None)

    @property
    def reference(self) -> Rung | None:
        """What a depth's speed is held against: depth 3, else the deepest shallower one."""
        shallower = [
            rung for rung in self.earlier
            if rung.start.is_ready and 0 < rung.depth.steps <= 3 and rung.depth.steps < self.depth.steps
        ]  # fmt: skip
        return max(shallower, key=lambda rung: rung.depth.steps, default=None)

    def heard(self, name: str) -> Heard | None:
        return self.rung.answer(name)

    def unasked(self, names: tuple[str, ...]) -> tuple[str, ...]:
        """Which of these asks a server that came up was never put."""
        if not self.rung.start.is_ready:
            return ()
        put = {heard.ask.name.partition("-")[0] for heard in self.rung.heard}  # crowd-16
        planned = {"crowd"} if self.plan.crowds(self.depth) else set()
        return tuple(name for name in names if name not in put and (name != "crowd" or name in planned))


Judge = Callable[[Scene], Verdict | None]


@dataclass(frozen=True)
class Check:
    """A named judgement; None as its verdict means that the check has no say at this depth."""

    id: str
    judge: Judge
    stage: Stage
    asks: tuple[str, ...]

    @property
    def explanation(self) -> str:
        return " ".join((self.judge.__doc__ or "").split())

    def __call__(self, scene: Scene) -> Verdict | None:
        verdict = self.judge(scene)
        if verdict is None and (unasked := scene.unasked(self.asks)):
            verdict = not_judged(f"not asked: {', '.join(unasked)}; see what failed before it")
        return verdict and verdict.model_copy(update={"check": self.id})


_REGISTRY: dict[str, Check] = {}


def check(id: str, *, stage: Stage = Stage.RUNG, asks: tuple[str, ...] = ()) -> Callable[[Judge], Judge]:  # noqa: A002
    """Make a function a check."""

    def register(judge: Judge) -> Judge:
        if id in _REGISTRY:
            raise ValueError(f"two checks are called {id}")
        if not judge.__doc__:
            raise ValueError(f"{id} has no explanation")
        _REGISTRY[id] = Check(id, judge, stage, asks)
        return judge

    return register


def all_checks() -> tuple[Check, ...]:
    """Every check of every module in this package: by stage, then by the files' names."""
    for module in sorted(pkgutil.iter_modules(__path__), key=lambda module: module.name):
        importlib.import_module(f"{__name__}.{module.name}")
    stages = list(Stage)
    return tuple(sorted(_REGISTRY.values(), key=lambda each: (stages.index(each.stage), each.judge.__module__)))


def passed(measured: str, bound: str, reason: str) -> Verdict:
    return Verdict(outcome=Outcome.PASSED, measured=measured, bound=bound, reason=reason)


def failed(measured: str, bound: str, reason: str, advice: str) -> Verdict:
    return Verdict(outcome=Outcome.FAILED, measured=measured, bound=bound, reason=reason, advice=advice)


def warning(measured: str, bound: str, reason: str, advice: str) -> Verdict:
    return Verdict(outcome=Outcome.WARNING, measured=measured, bound=bound, reason=reason, advice=advice)


def not_judged(reason: str, measured: str = "") -> Verdict:
    return Verdict(outcome=Outcome.NOT_JUDGED, measured=measured, reason=reason)
