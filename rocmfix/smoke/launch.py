"""Starts servers: in a container, as a process of this machine, or not at all when they run already."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Protocol

from pydantic import ValidationError

from rocmfix.errors import EngineError, SmokeError
from rocmfix.smoke.diagnosis import diagnose
from rocmfix.smoke.plan import DRAFT_IN_CONTAINER, MODEL_IN_CONTAINER, PORT_IN_CONTAINER, SmokePlan
from rocmfix.smoke.records import Depth, Exit, HostFacts
from rocmfix.system.background import Background, finished
from rocmfix.system.containers import Engine, Refused, Running, Wish, groups_of, nodes
from rocmfix.system.ports import own_port


class Served(Protocol):
    """A server that was started, or was there."""

    @property
    def url(self) -> str:
        """Where to ask it."""

    @property
    def warnings(self) -> tuple[str, ...]:
        """What was asked for and refused, in words."""

    def ended(self) -> Exit | None:
        """How it ended, or None while it runs."""

    def inside(self, argv: tuple[str, ...]) -> tuple[int, str]:
        """Run a program where the server runs."""

    def stop(self) -> Exit | None:
        """End it; how it ended."""


class Launcher(Protocol):
    """A way to get at servers."""

    def command(self, plan: SmokePlan, depth: Depth) -> tuple[str, ...]:
        """The launch command of this depth; empty when nothing is started."""

    def host(self, plan: SmokePlan, log: Path) -> HostFacts | None:
        """What a probe sees where servers will run."""

    def start(
        self, plan: SmokePlan, depth: Depth, command: tuple[str, ...], log: Path
    ) -> contextlib.AbstractContextManager[Served]:
        """Start a server; it is gone when the context ends."""


INSIDE_SECONDS = 3600.0
"""The longest that a program may run beside a server: GSM8K."""
GRACE = 10.0
"""Seconds between asking and killing: sglang drains for 4 to 8 s, and after some requests for ever."""


def script(name: str) -> str:
    """The text of a script that is sent to where the server runs."""
    return files("rocmfix.smoke").joinpath(name).read_text(encoding="utf-8")


def host_facts(output: str) -> HostFacts:
    """The probe's JSON, which is its last line: an image may print a banner first."""
    try:
        return HostFacts.model_validate(json.loads(output.strip().splitlines()[-1]))
    except (ValidationError, ValueError, IndexError) as error:
        raise SmokeError(
            "the probe could not look at the machine",
            details=tuple(output.strip().splitlines()[-5:]),
            hint="the image needs python3 on its PATH (--python PATH)",
        ) from error


@dataclass
class DockerServed:
    """A server in a container."""

    running: Running
    port: int | None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port or self.running.host_port or PORT_IN_CONTAINER}"

    @property
    def warnings(self) -> tuple[str, ...]:
        return self.running.warnings

    def ended(self) -> Exit | None:
        end = self.running.ended()
        return None if end is None else Exit(code=end.code, out_of_memory=end.is_out_of_memory)

    def inside(self, argv: tuple[str, ...]) -> tuple[int, str]:
        return self.running.execute(argv)

    def stop(self) -> Exit | None:
        end = self.running.stop(GRACE)
        return Exit(code=end.code, out_of_memory=end.is_out_of_memory)


@dataclass(frozen=True)
class DockerLauncher:
    """Servers in containers of one image."""

    engine: Engine

    def command(self, plan: SmokePlan, depth: Depth) -> tuple[str, ...]:
        port = own_port() if plan.has_host_network else PORT_IN_CONTAINER
        return plan.launch(depth, host="127.0.0.1" if plan.has_host_network else "0.0.0.0", port=port)  # noqa: S104

    def host(self, plan: SmokePlan, log: Path) -> HostFacts | None:
        wish = container(plan, (plan.python, "-c", script("probe.py")))
        with _engine_errors(plan):
            _, output = self.engine.run_once(wish, log)
        return host_facts(output)

    @contextlib.contextmanager
    def start(
        self,
        plan: SmokePlan,
        depth: Depth,  # noqa: ARG002 - the command says it
        command: tuple[str, ...],
        log: Path,
    ) -> Iterator[Served]:
        port = int(command[command.index("--port") + 1])
        wish = container(plan, command, port=port)
        with _engine_errors(plan), self.engine.run(wish, log) as running:
            yield DockerServed(running, port if plan.has_host_network else None)


def container(plan: SmokePlan, command: tuple[str, ...], port: int | None = None) -> Wish:
    """The container a plan asks for: the run profile, the model read-only, the user's environment."""
    profile = plan.profile
    mounts = [(plan.model, MODEL_IN_CONTAINER)] if plan.model else []
    if plan.draft_model:
        mounts.append((plan.draft_model, DRAFT_IN_CONTAINER))
    return Wish(
        image=plan.image or "",
        command=command,
        run=plan.run,
        env=environment(plan),
        mounts=tuple(mounts),
        devices=nodes(profile.devices, profile.device_folders),
        groups=groups_of(profile.group_of),
        has_all_gpus=profile.gpus,
        ipc=profile.ipc,
        shm_size=profile.shm_size,
        capabilities=profile.capabilities,
        security=profile.security,
        ulimits=profile.ulimits,
        port=port,
        has_host_network=plan.has_host_network,
    )


@contextlib.contextmanager
def _engine_errors(plan: SmokePlan) -> Iterator[None]:
    """Turn the engine's words into an error with a way on."""
    try:
        yield
    except Refused as refused:
        text = str(refused)
        cause = diagnose(text)
        if cause:
            raise SmokeError(f"{cause.id}: {cause.why}", details=(text[:300],), hint=cause.fix) from refused
        raise EngineError(f"{plan.image}: {text[:300]}", hint=_engine_hint(text, plan)) from refused


def _engine_hint(text: str, plan: SmokePlan) -> str:
    hints = (
        ("No such image", f"docker pull {plan.image}"),
        (
            "bind source path does not exist",
            "--model wants a folder of this machine; the engine runs elsewhere?",
        ),
        (
            "could not select device driver",
            "install the NVIDIA container toolkit, or choose another --device",
        ),
        ("No such file or directory", "is the Docker engine running? (systemctl start docker)"),
        ("Permission denied", "join the docker group, or use sudo"),
    )
    return next((hint for part, hint in hints if part in text), "docker info tells whether the engine is well")


@dataclass
class ProcessServed:
    """A server as a process group of this machine."""

    background: Background
    url: str
    env: Mapping[str, str]
    warnings: tuple[str, ...] = ()

    def ended(self) -> Exit | None:
        code = self.background.code
        return None if code is None else Exit(code=code)

    def inside(self, argv: tuple[str, ...]) -> tuple[int, str]:
        return finished(argv, env=self.env, timeout=INSIDE_SECONDS)

    def stop(self) -> Exit | None:
        return Exit(code=self.background.stop(GRACE))


@dataclass(frozen=True)
class ProcessLauncher:
    """Servers as processes here: for use inside the image, as in a pod."""

    def command(self, plan: SmokePlan, depth: Depth) -> tuple[str, ...]:
        return plan.launch(depth, host="127.0.0.1", port=own_port())

    def host(self, plan: SmokePlan, log: Path) -> HostFacts | None:
        probe = _process(plan, (plan.python, "-c", script("probe.py")), log)
        probe.wait(120)
        probe.stop(0)
        return host_facts(log.read_text(encoding="utf-8", errors="replace"))

    @contextlib.contextmanager
    def start(
        self,
        plan: SmokePlan,
        depth: Depth,  # noqa: ARG002 - the command says it
        command: tuple[str, ...],
        log: Path,
    ) -> Iterator[Served]:
        port = command[command.index("--port") + 1]
        env = {**dict(plan.profile.env), **dict(plan.env)}
        try:
            background = Background.start(command, log=log, env=env)
        except FileNotFoundError as error:
            raise SmokeError(f"{plan.python} is not there", hint="--python names the one with sglang") from error
        try:
            yield ProcessServed(background, f"http://127.0.0.1:{port}", environment(plan))
        finally:
            background.stop(GRACE)


def environment(plan: SmokePlan) -> dict[str, str]:
    """What the run profile and the user set, the user's last."""
    return {**dict(plan.profile.env), **dict(plan.env)}


def _process(plan: SmokePlan, command: tuple[str, ...], log: Path) -> Background:
    """Start a program from a neutral folder: a checkout in the current one would shadow packages."""
    try:
        return Background.start(command, log=log, env=environment(plan), cwd=Path("/"))
    except FileNotFoundError as error:
        raise SmokeError(f"{plan.python} is not there", hint="--python names the one with sglang") from error


@dataclass
class UrlServed:
    """A server that somebody else runs."""

    url: str
    warnings: tuple[str, ...] = ()

    def ended(self) -> Exit | None:
        return None

    def inside(self, argv: tuple[str, ...]) -> tuple[int, str]:  # noqa: ARG002
        return 127, "the server runs elsewhere"

    def stop(self) -> Exit | None:
        return None


@dataclass(frozen=True)
class UrlLauncher:
    """Servers that run already; each depth of the plan has its URL."""

    def command(self, plan: SmokePlan, depth: Depth) -> tuple[str, ...]:  # noqa: ARG002
        return ()

    def host(self, plan: SmokePlan, log: Path) -> HostFacts | None:  # noqa: ARG002
        return None

    @contextlib.contextmanager
    def start(
        self,
        plan: SmokePlan,
        depth: Depth,
        command: tuple[str, ...],  # noqa: ARG002
        log: Path,  # noqa: ARG002
    ) -> Iterator[Served]:
        yield UrlServed(plan.urls[plan.depths.index(depth)])
