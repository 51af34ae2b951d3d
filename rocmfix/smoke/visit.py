"""One visit to one server: wait until it works, put the questions, see how it ends. Nothing is judged here."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from rocmfix.smoke import asks
from rocmfix.smoke.client import Server
from rocmfix.smoke.diagnosis import diagnose, is_stuck
from rocmfix.smoke.launch import Launcher, Served, host_facts, script
from rocmfix.smoke.logs import accept_length, read_log
from rocmfix.smoke.plan import SmokePlan, flag_value
from rocmfix.smoke.quality import Question
from rocmfix.smoke.records import Ask, Cause, Gsm8k, Heard, HostFacts, Rung, Start
from rocmfix.smoke.view import View
from rocmfix.system.http import Peer


@dataclass(frozen=True)
class Visitor:
    """What every visit needs; `wanted` names the asks that some check reads."""

    plan: SmokePlan
    launcher: Launcher
    questions: tuple[Question, ...]
    wanted: frozenset[str]
    folder: Path
    view: View
    bearer: str | None = field(default=None, repr=False)

    def visit(self, rung: Rung, host: HostFacts | None) -> Rung:
        """Start this depth's server, wait, ask, stop, and read its log."""
        log = self._log(rung.depth.label)
        self.view.step(rung.depth.label, "starting")
        with self.launcher.start(self.plan, rung.depth, rung.command, log) as served:
            rung = _with(rung, url=served.url, log_file=log.name, start=self._await(served, log))
            mark = None
            if rung.start.is_ready:
                rung, mark = self._talk(rung, served, log)
                rung = _with(rung, ras_delta=self._ras_delta(served, host))
            self.view.step(rung.depth.label, "stopping")
            served.stop()
        if self.plan.urls:
            return rung
        text = _read(log)
        cut = len(text) if mark is None else mark
        return _with(rung, log=read_log(text[:cut], text[cut:]))

    def again(self, rung: Rung, flag: str) -> Heard | None:
        """The ask that hung, put to a server with one flag more; None when that one does not start."""
        hung = next(heard for heard in rung.heard if heard.stalled)
        log = self._log(f"{rung.depth.label}-retry")
        self.view.step(rung.depth.label, f"hung; once more with {flag}")
        with self.launcher.start(self.plan, rung.depth, (*rung.command, flag), log) as served:
            return self._server(served).hear(hung.ask) if self._await(served, log).is_ready else None

    def _await(self, served: Served, log: Path) -> Start:
        """Poll until the server is healthy, has ended, is stuck for good, or is out of time."""
        began = time.monotonic()
        server = self._server(served)
        while True:
            is_healthy = server.is_healthy()
            seconds = round(time.monotonic() - began, 2)
            end, text = served.ended(), _read(log)
            cause = diagnose(text, end) if end else is_stuck(text)
            is_late = seconds > self.plan.start_seconds
            if end or cause or is_healthy or is_late:
                is_ready = is_healthy and not end and not cause
                return Start(
                    is_ready=is_ready,
                    seconds=seconds,
                    limit=self.plan.start_seconds,
                    exit=end,
                    cause=cause or (None if is_ready else diagnose(text)),
                    warnings=served.warnings,
                )
            time.sleep(min(1.0, 0.1 + seconds / 20))

    def _talk(self, rung: Rung, served: Served, log: Path) -> tuple[Rung, int]:
        """Put all asks; after a stall nothing more is asked. Also where in the log the warm-up ended."""
        server = self._server(served)
        info = server.info()
        is_ours = bool(info and info.served_name == self.plan.served_name(rung.depth))
        rung = _with(rung, info=info, is_ours=is_ours)
        if not is_ours and not self.plan.urls:
            return rung, len(_read(log))
        effort = asks.effort(self.plan.effort, self.plan.stall_seconds)
        heard = [self._hear(rung, server, asks.warm_up(effort))]
        mark = len(_read(log))
        for ask in self._asks(rung, server, effort) if not heard[0].failed else ():
            heard.append(self._hear(rung, server, ask))
            if heard[-1].failed and (heard[-1].stalled or not server.is_healthy()):
                break
        rung = _with(rung, heard=tuple(heard))
        if heard[-1].stalled:
            return _with(rung, stacks=self._stacks(rung, served)), mark
        return _with(rung, gsm8k=self._gsm8k(rung, served, log), died=_death(server, served, log)), mark

    def _asks(self, rung: Rung, server: Server, effort: asks.Effort) -> tuple[Ask, ...]:
        """What the wanted checks read, each ask once, in the order of rising load."""
        crowds = tuple(asks.crowd(effort, streams) for streams in self.plan.crowds(rung.depth))
        named: dict[str, Callable[[], tuple[Ask, ...]]] = {
            "words": lambda: (asks.words(effort, with_gaps=rung.depth.is_off),),
            "solo": lambda: (asks.solo(effort),),
            "sampled": lambda: (asks.sampled(effort),),
            "questions": lambda: (asks.questions(effort, self.questions),),
            "long": lambda: self._long(rung, server, effort),
            "crowd": lambda: crowds,
        }
        return tuple(ask for name, make in named.items() if name in self.wanted for ask in make())

    def _long(self, rung: Rung, server: Server, effort: asks.Effort) -> tuple[Ask, ...]:
        """Long prompts, once it is known how many tokens a repeat of the filler is."""
        ruler = server.hear(asks.ruler(effort))
        if ruler.failed:  # let it fail where it is judged
            return (ruler.ask.model_copy(update={"name": "long"}),)
        lengths = (ruler.replies[0].prompt_tokens, ruler.replies[1].prompt_tokens)
        if lengths[0] >= lengths[1]:  # it does not count: no prompt of a known length can be made
            return ()
        return (asks.long(effort, lengths, rung.info, with_gaps=rung.depth.is_off),)

    def _hear(self, rung: Rung, server: Server, ask: Ask) -> Heard:
        self.view.step(rung.depth.label, f"{ask.name}: {len(ask.prompts)} prompts of {ask.tokens} tokens")
        return server.hear(ask)

    def _stacks(self, rung: Rung, served: Served) -> str:
        """Python's stacks by py-spy, or what the kernel says that each process waits for."""
        self.view.step(rung.depth.label, "hangs: collecting stacks")
        code, output = served.inside((self.plan.python, "-c", script("stacks.py")))
        if code:
            return output[-2000:]
        parts = []
        processes: list[dict[str, str]] = json.loads(output.strip().splitlines()[-1])
        for process in processes:
            code, stack = served.inside(("py-spy", "dump", "--pid", process["pid"]))
            waits = process["waits"] or "user space"
            stack = stack if code == 0 else f"no stack (pip install py-spy in the image); it waits in {waits}"
            parts.append(f"== {process['pid']} {process['command']}\n{stack}")
        return "\n".join(parts)[-20000:]

    def _gsm8k(self, rung: Rung, served: Served, log: Path) -> Gsm8k | None:
        """What the image's own test module prints, and what the server logs of its drafts meanwhile."""
        if not self.plan.gsm8k:
            return None
        mark = len(_read(log))
        self.view.step(rung.depth.label, f"GSM8K: {self.plan.gsm8k} questions")
        data = ("--data-path", self.plan.gsm8k_data) if self.plan.gsm8k_data else ()
        port = flag_value(rung.command, "--port") or "30000"
        _, output = served.inside((
            self.plan.python, "-m", "sglang.test.few_shot_gsm8k",
            "--num-questions", str(self.plan.gsm8k), "--port", port, *data,
        ))  # fmt: skip
        match = re.search(r"Accuracy: ([0-9.]+)", output)
        return Gsm8k(accuracy=float(match[1]), accept_length=accept_length(_read(log)[mark:])) if match else None

    def _ras_delta(self, served: Served, host: HostFacts | None) -> int | None:
        """How far the GPUs' error counters moved since the first probe; None without counters."""
        before = _ras(host)
        if before is None or served.ended() is not None:
            return None
        code, output = served.inside((self.plan.python, "-c", script("probe.py")))
        after = _ras(host_facts(output)) if code == 0 else None
        return None if after is None else after - before

    def _server(self, served: Served) -> Server:
        return Server(Peer(served.url, self.bearer), self.view.tokens)

    def _log(self, label: str) -> Path:
        log = self.folder / f"server-{label}.log"
        log.write_bytes(b"")
        return log


def _with(rung: Rung, **facts: object) -> Rung:
    return rung.model_copy(update=facts)


HEALTH_TRIES = 3


def _death(server: Server, served: Served, log: Path) -> Cause | None:
    """Why the server died under the questions; None when it still works.

    One late answer on a busy machine is no death: a server whose process runs is asked again.
    """
    for _ in range(HEALTH_TRIES):
        if server.is_healthy():
            return None
        if served.ended():
            break
    found = diagnose(_read(log), served.ended())
    return found or Cause(
        id="unhealthy",
        why="it no longer answers /health with a token",
        fix="read the end of its log; a scheduler that hangs makes /health answer 503 after 20 s",
    )


def _ras(host: HostFacts | None) -> int | None:
    counts = [gpu.ras_errors for gpu in host.gpus if gpu.ras_errors is not None] if host else []
    return sum(counts) if counts else None


def _read(log: Path) -> str:
    return log.read_text(encoding="utf-8", errors="replace")
