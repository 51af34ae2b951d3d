"""Walks the ladder: judges what can be known before a start, visits each depth's server, judges what it said."""

from __future__ import annotations

from dataclasses import dataclass

from rocmfix.smoke.bounds import Bounds
from rocmfix.smoke.checkpoint import Checkpoint
from rocmfix.smoke.checks import Check, Scene, Stage
from rocmfix.smoke.plan import CUSTOM_ALL_REDUCE_OFF
from rocmfix.smoke.records import Depth, HostFacts, Outcome, Rung, Start, Verdict
from rocmfix.smoke.secrecy import redacted, scrubbed, secrets_of
from rocmfix.smoke.visit import Visitor


@dataclass(frozen=True)
class Ladder:
    """A visitor, and what its findings are judged with."""

    visitor: Visitor
    bounds: Bounds
    checkpoint: Checkpoint | None
    checks: tuple[Check, ...]

    @property
    def secrets(self) -> tuple[str, ...]:
        """What no verdict, report or log may hold."""
        return secrets_of(self.visitor.plan, self.visitor.bearer)

    def look(self) -> tuple[HostFacts | None, tuple[Verdict, ...]]:
        """Probe the machine, and judge all that needs no server."""
        self.visitor.view.step("host", "looking at devices, environment and checkpoint")
        host = self.visitor.launcher.host(self.visitor.plan, self.visitor.folder / "probe.log")
        before = self._judge(Stage.BEFORE, self._bare(Depth(steps=0), ()), host, ())
        return host and scrubbed(host, self.secrets), tuple(scrubbed(verdict, self.secrets) for verdict in before)

    def walk(self, host: HostFacts | None) -> tuple[Rung, ...]:
        """All depths in order; a refused depth is not started, a failed one does not stop the next."""
        rungs: tuple[Rung, ...] = ()
        for depth in self.visitor.plan.depths:
            rung = scrubbed(self._climb(depth, host, rungs), self.secrets)
            rung = rung.model_copy(update={"command": redacted(rung.command)})
            self.visitor.view.judged(rung)
            rungs += (rung,)
        return rungs

    def _climb(self, depth: Depth, host: HostFacts | None, earlier: tuple[Rung, ...]) -> Rung:
        plan = self.visitor.plan
        bare = self._bare(depth, self.visitor.launcher.command(plan, depth))
        flags = self._judge(Stage.START, bare, host, earlier)
        is_refused = any(verdict.outcome is Outcome.FAILED for verdict in flags)
        if is_refused and not plan.runs_known_bad:
            return bare.model_copy(update={"verdicts": flags})
        rung = self.visitor.visit(bare, host)
        if any(heard.stalled for heard in rung.heard) and CUSTOM_ALL_REDUCE_OFF not in rung.command and not plan.urls:
            retry = self.visitor.again(rung, CUSTOM_ALL_REDUCE_OFF)
            rung = rung.model_copy(update={"retry": retry, "retry_flag": CUSTOM_ALL_REDUCE_OFF})
        verdicts = (verdict for stage in (Stage.UP, Stage.RUNG) for verdict in self._judge(stage, rung, host, earlier))
        return rung.model_copy(update={"verdicts": (*flags, *verdicts)})

    def _bare(self, depth: Depth, command: tuple[str, ...]) -> Rung:
        limit = self.visitor.plan.start_seconds
        return Rung(depth=depth, command=command, start=Start(is_ready=False, seconds=0, limit=limit))

    def _judge(
        self, stage: Stage, rung: Rung, host: HostFacts | None, earlier: tuple[Rung, ...]
    ) -> tuple[Verdict, ...]:
        visitor = self.visitor
        scene = Scene(visitor.plan, self.bounds, visitor.questions, host, self.checkpoint, rung, earlier)
        verdicts = (check(scene) for check in self.checks if check.stage is stage)
        return tuple(verdict for verdict in verdicts if verdict is not None)
