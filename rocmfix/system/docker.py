"""The Docker engine, through the Docker SDK for Python: images, throw-away containers, builds, pushes."""

from __future__ import annotations

import io
import os
import socket
import time
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import docker
import docker.errors

from rocmfix.errors import EngineError
from rocmfix.system.container import Container
from rocmfix.system.docker_errors import BuildFailedError, failed_push, translated
from rocmfix.system.reference import Reference

RUN_LABEL = "io.rocmfix.run"
"""On every container we create: which process of which host it belongs to, so that what a kill left is swept."""

_LONG = 3600
"""Seconds without a word from the engine: a large layer's commit is silent for minutes."""


@dataclass(frozen=True)
class Event:
    """Something the engine said while it worked: a line of a build, or a layer's bytes so far."""

    text: str
    layer: str | None = None
    done: int = 0
    total: int = 0


Listen = Callable[[Event], None]


@dataclass(frozen=True)
class LocalImage:
    """What the engine knows of an image it holds."""

    id: str
    digests: tuple[str, ...]
    """`name@sha256:...` for each registry it came from or went to."""
    tags: tuple[str, ...]
    labels: Mapping[str, str]
    env: tuple[tuple[str, str], ...]
    layers: tuple[str, ...]
    size: int
    platform: str

    def digest_in(self, name: str) -> str | None:
        """The digest under which the repository `name` holds it."""
        prefix = f"{name}@"
        return next((d.removeprefix(prefix) for d in self.digests if d.startswith(prefix)), None)


class Engine:
    """A connection to one engine. Errors come out as EngineError with what to do about them."""

    def __init__(self, client: docker.DockerClient) -> None:
        self._api: Any = client.api
        weakref.finalize(self, client.close)
        # No proxy stands before a socket of this machine, and looking for one costs more than a call to it.
        self._api.trust_env = not self._api.base_url.startswith("http+docker")

    @classmethod
    def connect(cls) -> Engine:
        """Connect to the engine that DOCKER_HOST or the usual socket names."""
        with translated("reach the engine"):
            client = docker.from_env(timeout=_LONG)
            client.ping()
        return cls(client)

    @property
    def version(self) -> str:
        """The engine's version, such as `26.1.5`."""
        with translated("ask the engine for its version"):
            return str(self._api.version()["Version"])

    @property
    def root(self) -> Path | None:
        """Where the engine keeps images, if that is on this machine."""
        with translated("ask the engine where it keeps images"):
            root = Path(str(self._api.info()["DockerRootDir"]))
        return root if self._api.base_url.startswith("http+docker") and root.is_dir() else None

    def image(self, name: str) -> LocalImage | None:
        """The image under a name or id, if the engine holds it."""
        with translated(f"look at {name}"):
            try:
                found: Any = self._api.inspect_image(name)
            except docker.errors.ImageNotFound:
                return None
            except docker.errors.APIError as error:
                if "invalid reference format" in str(error):
                    return None
                raise
        return _local_image(found)

    def images_with(self, label: str, value: str, *, dangling: bool = False) -> tuple[str, ...]:
        """Ids of the images that carry `label=value`; `dangling`: only those that nothing names."""
        filters: dict[str, Any] = {"label": f"{label}={value}"}
        if dangling:
            filters["dangling"] = True
        with translated("list images"):
            return tuple(image["Id"] for image in self._api.images(filters=filters))

    def pull(self, reference: Reference, listen: Listen) -> LocalImage:
        """Fetch an image."""
        name = f"{reference.name}@{reference.digest}" if reference.digest else reference.name
        tag = None if reference.digest else reference.version
        with translated(f"pull {reference}"):
            for said in self._api.pull(name, tag=tag, stream=True, decode=True):
                _refuse_error(said, f"pull {reference}")
                listen(_event(said))
        found = self.image(str(reference))
        if found is None:
            raise EngineError(f"{reference} was pulled and is not there", hint="docker images; then try again")
        return found

    @contextmanager
    def container(self, image: str) -> Iterator[Container]:
        """A container of `image` that is created and never started, gone at the end whatever happens."""
        name = f"rocmfix-{uuid4().hex[:12]}"
        try:
            with translated(f"create a container of {image}"):
                # The command never runs; without one the engine refuses images that set none of their own.
                self._api.create_container(image, ["/"], name=name, labels={RUN_LABEL: _run_id()})
            yield Container(self._api, name)
        except KeyboardInterrupt:
            # It may have come between our request and the engine's answer: then the container appears yet.
            self._remove_container(name, patience=10)
            raise
        finally:
            self._remove_container(name)

    def build(self, context: bytes, listen: Listen) -> str:
        """Build the context, a tar with its Dockerfile, on the classic builder and return the image's id."""
        built: str | None = None
        lines: list[str] = []
        with translated("build"):
            stream = self._api.build(
                fileobj=io.BytesIO(context), custom_context=True, decode=True, rm=True, forcerm=True,
                network_mode="none", use_config_proxy=False,
            )  # fmt: skip
            for said in stream:
                if "error" in said:
                    raise BuildFailedError.of(lines, str(said["error"]))
                # The SDK's own `build` looks for ids in the log's text; the engine says them in `aux`.
                built = said.get("aux", {}).get("ID", built)
                event = _event(said)
                lines += event.text.splitlines()
                listen(event)
        if built is None:
            raise BuildFailedError.of(lines, "the engine ended the build without naming an image")
        return built

    def tag(self, image: str, reference: Reference) -> None:
        """Name an image."""
        with translated(f"tag {reference}"):
            self._api.tag(image, reference.name, reference.version, force=True)

    def remove(self, name: str) -> None:
        """Take a name away, and the image if nothing else names it. Never more than that."""
        with translated(f"remove {name}"), suppress(docker.errors.ImageNotFound, docker.errors.APIError):
            self._api.remove_image(name, noprune=False)

    def push(self, reference: Reference, listen: Listen) -> str:
        """Push a tag and return the digest under which the registry holds it."""
        digest: str | None = None
        with translated(f"push {reference}"):
            # The SDK never raises when a push fails: the stream says so.
            for said in self._api.push(reference.name, tag=reference.version, stream=True, decode=True):
                if "error" in said:
                    raise failed_push(reference, str(said["error"]))
                digest = said.get("aux", {}).get("Digest", digest)
                listen(_event(said))
        if digest is None:
            raise failed_push(reference, "the engine ended the push without naming a digest")
        return digest

    def sweep(self) -> None:
        """Remove containers that killed runs of this host left: created, never started, their process gone."""
        with translated("list containers"):
            filters = {"label": RUN_LABEL, "status": "created"}
            left: Any = self._api.containers(all=True, filters=filters)
        for container in left:
            host, _, pid = container["Labels"][RUN_LABEL].rpartition(":")
            if host == socket.gethostname() and not Path(f"/proc/{pid}").exists():
                self._remove_container(container["Id"])

    def _remove_container(self, name: str, patience: int = 0) -> None:
        """Remove a container; with `patience`, wait for one that may be about to appear."""
        try:
            with translated(f"remove container {name}"), suppress(*([] if patience else [docker.errors.NotFound])):
                self._api.remove_container(name, force=True, v=True)
        except EngineError:
            if not patience:
                raise
            time.sleep(0.1)
            self._remove_container(name, patience - 1)


def engine_or_none() -> Engine | None:
    """The engine, or None where there is none: for what also works without."""
    try:
        return Engine.connect()
    except EngineError:
        return None


def _local_image(found: Any) -> LocalImage:
    config = found.get("Config") or {}
    return LocalImage(
        id=found["Id"],
        digests=tuple(sorted(found.get("RepoDigests") or ())),
        tags=tuple(sorted(found.get("RepoTags") or ())),
        labels=dict(config.get("Labels") or {}),
        env=tuple((n, v) for n, _, v in (each.partition("=") for each in config.get("Env") or ())),
        layers=tuple(found["RootFS"].get("Layers") or ()),
        size=int(found["Size"]),
        platform=f"{found['Os']}/{found['Architecture']}",
    )


def _event(said: Mapping[str, Any]) -> Event:
    text = str(said.get("stream") or said.get("status") or "")
    detail = said.get("progressDetail") or {}
    return Event(text, said.get("id"), int(detail.get("current") or 0), int(detail.get("total") or 0))


def _refuse_error(said: Mapping[str, Any], doing: str) -> None:
    if "error" in said:
        raise docker.errors.APIError(f"{doing}: {said['error']}")


def _run_id() -> str:
    return f"{socket.gethostname()}:{os.getpid()}"
