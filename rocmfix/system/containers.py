"""Runs containers by the Docker SDK: what is refused of the wishes is dropped with a word, and none is left behind."""

from __future__ import annotations

import contextlib
import glob
import os
import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import docker
import requests.exceptions
import urllib3.exceptions
from docker.types import DeviceRequest, Mount, Ulimit

FAULTS = (
    docker.errors.DockerException,
    requests.exceptions.RequestException,
    urllib3.exceptions.HTTPError,
)
"""What the SDK raises, its own and what leaks through it (a daemon that dies, a cut stream)."""

LABEL = "rocmfix.run"


class Refused(Exception):
    """The engine refused or is not there; the text is the engine's own."""


@dataclass(frozen=True)
class Wish:
    """A container as it should run."""

    image: str
    command: tuple[str, ...]
    run: str
    env: Mapping[str, str] = field(default_factory=dict)
    mounts: tuple[tuple[str, str], ...] = ()
    devices: tuple[str, ...] = ()
    groups: tuple[int, ...] = ()
    has_all_gpus: bool = False
    ipc: str | None = None
    shm_size: str | None = None
    capabilities: tuple[str, ...] = ()
    security: tuple[str, ...] = ()
    ulimits: tuple[str, ...] = ()
    port: int | None = None
    has_host_network: bool = False


@dataclass(frozen=True)
class Ended:
    """How a container ended."""

    code: int | None
    is_out_of_memory: bool


class Running:
    """A started container whose log is being written to a file."""

    def __init__(self, container: Any, log: Path, warnings: tuple[str, ...]) -> None:
        self._container = container
        self._log = log
        self.warnings = warnings
        self._writer = threading.Thread(target=self._write_log, daemon=True)
        self._writer.start()

    @property
    def host_port(self) -> int | None:
        """The loopback port that leads to the wished one."""
        self._container.reload()
        bound = [entry for entries in self._container.ports.values() for entry in entries or ()]
        return int(bound[0]["HostPort"]) if bound else None

    def ended(self) -> Ended | None:
        """How it ended, or None while it runs. OOMKilled is looked at always: a killed child leaves code 0."""
        try:
            self._container.reload()
        except FAULTS as fault:
            raise Refused(str(fault)) from fault
        state = self._container.attrs["State"]
        if state.get("Running"):
            return None
        return Ended(state.get("ExitCode"), bool(state.get("OOMKilled")))

    def execute(self, argv: tuple[str, ...]) -> tuple[int, str]:
        """Run `argv` inside and return its exit code and output."""
        try:
            code, output = self._container.exec_run(list(argv), workdir="/")
        except FAULTS as fault:
            return 126, str(fault)
        return int(code or 0), output.decode(errors="replace")

    def stop(self, grace: float) -> Ended:
        """Ask it to end, kill it after `grace` seconds, wait until its log is written."""
        with contextlib.suppress(*FAULTS):
            self._container.stop(timeout=max(1, round(grace)))
        self._writer.join(timeout=10)
        return self.ended() or Ended(None, is_out_of_memory=False)

    def remove(self) -> None:
        with contextlib.suppress(*FAULTS):
            self._container.remove(force=True, v=True)
        self._writer.join(timeout=10)

    def _write_log(self) -> None:
        """Follow standard output and error; when the daemon dies the stream just ends."""
        with self._log.open("ab", buffering=0) as file, contextlib.suppress(*FAULTS):
            for chunk in self._container.logs(stream=True, follow=True, stdout=True, stderr=True):
                file.write(chunk)


class Engine:
    """A Docker engine."""

    def __init__(self) -> None:
        try:
            self._client = docker.from_env(timeout=120)
            self._client.ping()
        except FAULTS as fault:
            raise Refused(str(fault)) from fault

    def image_digests(self, reference: str) -> tuple[str, tuple[str, ...]]:
        """An image's id and its registry digests; the image has to be here: nothing is pulled unasked."""
        try:
            image = self._client.images.get(reference)
        except FAULTS as fault:
            raise Refused(str(fault)) from fault
        return str(image.id), tuple(image.attrs.get("RepoDigests") or ())

    @contextlib.contextmanager
    def run(self, wish: Wish, log: Path) -> Iterator[Running]:
        """Start a container; it is removed whatever happens, Ctrl-C included."""
        try:
            container, warnings = self._start(wish)
            running = Running(container, log, warnings)
            try:
                yield running
            finally:
                running.remove()
        finally:
            self.sweep(wish.run)

    def run_once(self, wish: Wish, log: Path) -> tuple[Ended, str]:
        """Run a container to its end and return its output."""
        with self.run(wish, log) as running, contextlib.suppress(*FAULTS):
            running._container.wait(timeout=120)  # noqa: SLF001 - same module
            running._writer.join(timeout=10)  # noqa: SLF001
            return running.ended() or Ended(None, is_out_of_memory=False), log.read_text(
                encoding="utf-8", errors="replace"
            )
        return Ended(None, is_out_of_memory=False), log.read_text("utf-8", "replace")

    def sweep(self, run: str) -> None:
        """Remove every container of this run, one too whose id nobody was told."""
        with contextlib.suppress(*FAULTS):
            # sparse: the SDK would inspect each of them, and fail on one that goes meanwhile.
            for container in self._client.containers.list(all=True, sparse=True, filters={"label": f"{LABEL}={run}"}):
                container.remove(force=True, v=True)

    def _start(self, wish: Wish, warnings: tuple[str, ...] = ()) -> tuple[Any, tuple[str, ...]]:
        """Create and start, giving up refused limits one at a time: a small VM may not raise memlock."""
        try:
            container = self._create(wish)
            container.start()
        except FAULTS as fault:
            self.sweep(wish.run)
            smaller = _without_refused(wish, str(fault))
            if smaller is None:
                raise Refused(str(fault)) from fault
            return self._start(smaller[0], (*warnings, f"the engine refused {smaller[1]}: {_short(fault)}"))
        return container, warnings

    def _create(self, wish: Wish) -> Any:
        """Create a container from another thread, which Ctrl-C does not reach.

        The engine goes on creating what we stop waiting for, and would tell its id to nobody. Leaving the pool waits.
        """
        with ThreadPoolExecutor(1) as pool:
            return pool.submit(self._client.containers.create, wish.image, **_options(wish)).result()


def _without_refused(wish: Wish, fault: str) -> tuple[Wish, str] | None:
    """The wish without the limit that was refused, and its name; None when nothing can be given up."""
    if "rlimit" in fault and wish.ulimits:
        return replace(wish, ulimits=wish.ulimits[1:]), f"--ulimit {wish.ulimits[0]}"
    if "unable to apply caps" in fault and wish.capabilities:
        return replace(wish, capabilities=wish.capabilities[1:]), f"--cap-add {wish.capabilities[0]}"
    return None


def _options(wish: Wish) -> dict[str, Any]:
    network: dict[str, Any] = {"network_mode": "host"} if wish.has_host_network else {}
    if wish.port is not None and not wish.has_host_network:
        network["ports"] = {f"{wish.port}/tcp": ("127.0.0.1", None)}
    return {
        "command": list(wish.command),
        "entrypoint": [],
        "environment": dict(wish.env),
        # A bind mount by Mount refuses a missing folder; by volumes= the engine would create it, empty.
        "mounts": [Mount(target, source, type="bind", read_only=True) for source, target in wish.mounts],
        "devices": [f"{path}:{path}:rwm" for path in wish.devices],
        "device_requests": [DeviceRequest(count=-1, capabilities=[["gpu"]])] if wish.has_all_gpus else [],
        "group_add": [str(group) for group in wish.groups],
        "ipc_mode": wish.ipc,
        # With the host's IPC namespace /dev/shm is the host's too, and the engine refuses a size.
        "shm_size": None if wish.ipc == "host" else wish.shm_size,
        "cap_add": list(wish.capabilities),
        "security_opt": list(wish.security),
        "ulimits": [_ulimit(text) for text in wish.ulimits],
        "labels": {LABEL: wish.run},
        "working_dir": "/",
        "init": True,
        "detach": True,
        **network,
    }


def _ulimit(text: str) -> Ulimit:
    name, _, value = text.partition("=")
    return Ulimit(name=name, soft=int(value), hard=int(value))


def nodes(patterns: tuple[str, ...], folders: tuple[str, ...] = ()) -> tuple[str, ...]:
    """The device nodes there are: those that match, and all in these folders."""
    found = [path for pattern in patterns for path in sorted(glob.glob(pattern)) or [pattern]]  # noqa: PTH207
    for folder in folders:
        inside = sorted(glob.glob(f"{folder}/*"))  # noqa: PTH207
        found += [path for path in inside if not os.path.isdir(path)] or [folder]  # noqa: PTH112
    return tuple(found)


def groups_of(patterns: tuple[str, ...]) -> tuple[int, ...]:
    """The numeric groups that own these nodes: an image may not know the host's group names."""
    paths = [path for pattern in patterns for path in glob.glob(pattern)]  # noqa: PTH207
    return tuple(sorted({os.stat(path).st_gid for path in paths} - {0}))  # noqa: PTH116


def _short(fault: BaseException) -> str:
    return str(fault).splitlines()[0][-160:]
