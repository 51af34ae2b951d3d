"""What the engine's failures mean, and what a person can do about each."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import docker.errors
import requests
import urllib3

from rocmfix.errors import EngineError, RegistryError, RocmfixError
from rocmfix.system.redact import redact
from rocmfix.system.reference import Reference

_TAIL = 20
"""Lines of a failed build that are shown."""


class BuildFailedError(EngineError):
    """A build ended in an error: the step, its last lines, and the probable cause where it is known."""

    @classmethod
    def of(cls, lines: Sequence[str], error: str) -> BuildFailedError:
        """From what the build printed and its last word."""
        step = next((line for line in reversed(lines) if line.startswith("Step ")), None)
        cause = cause_of(error + "\n" + "\n".join(lines[-_TAIL:]))
        said = tuple(redact(line.rstrip()) for line in lines[-_TAIL:] if line.strip())
        return cls(
            f"the build failed{f' at {step.strip()}' if step else ''}: {redact(error.strip())}",
            details=said,
            hint=cause.hint if cause else "the lines above are the last it printed",
        )


@dataclass(frozen=True)
class Cause:
    """A failure that is known by its words."""

    sign: re.Pattern[str]
    hint: str


_CAUSES = tuple(
    Cause(re.compile(sign, re.IGNORECASE), hint)
    for sign, hint in (
        (
            r"no space left on device|disk quota exceeded",
            "the engine's disk is full: docker system df, then free space or move its data-root to a larger disk",
        ),
        (r"returned a non-zero code: 137|exit code: 137|out of memory|OOMKilled", "killed for want of memory: give the build more, or fewer parallel jobs (MAX_JOBS)"),
        (r"lookup \S+.* no such host|temporary failure in name resolution", "a name could not be resolved: network or DNS of the build; a proxy is passed with --build-arg"),
        (r"certificate signed by unknown authority|certificate verify failed", "a proxy re-signs TLS: add its certificate to the base, or use a mirror"),
        (r"unknown instruction|dockerfile parse error", "this engine's builder cannot read the Dockerfile: Docker 23 or newer with buildx can"),
        (r"the --mount option requires BuildKit|--chmod option requires BuildKit", "this Dockerfile needs BuildKit: docker buildx"),
        (r"manifest (for \S+ )?(not found|unknown)|pull access denied", "the base is not in its registry under that name: rocmfix tags resolve IMAGE"),
        (r"hipcc|cuda_runtime\.h", "a kernel did not compile for ROCm: rocmfix guards scan on the tree names unguarded CUDA includes"),
    )
)  # fmt: skip


def cause_of(text: str) -> Cause | None:
    """The known cause that `text` shows, if any."""
    return next((cause for cause in _CAUSES if cause.sign.search(text)), None)


@contextmanager
def translated(doing: str) -> Iterator[None]:
    """Turn whatever the SDK lets out (its own errors, requests', urllib3's) into an EngineError."""
    try:
        yield
    except RocmfixError:
        raise
    except docker.errors.ImageNotFound as error:
        raise EngineError(
            f"could not {doing}: the engine has no such image",
            details=(_words(error),),
            hint="rocmfix tags resolve IMAGE says what the registry has; docker pull IMAGE fetches it",
        ) from None
    except (
        docker.errors.DockerException,
        requests.RequestException,
        urllib3.exceptions.HTTPError,
        OSError,
    ) as error:
        raise _engine_error(doing, error) from None


def _engine_error(doing: str, error: Exception) -> RocmfixError:
    text = str(error)
    for sign, hint in _UNREACHABLE:
        if sign in text:
            return EngineError(f"could not {doing}: no Docker engine", details=(sign,), hint=hint)
    words = _words(error)
    for pattern, kind, hint in _REGISTRY_SIGNS:
        if pattern.search(words):
            return kind(f"could not {doing}", details=(words,), hint=hint)
    if isinstance(error, (requests.RequestException, urllib3.exceptions.HTTPError)):
        return EngineError(
            f"could not {doing}: the engine went away",
            details=(words,),
            hint="it was stopped or killed: start it (systemctl start docker) and run the same command again",
        )
    cause = cause_of(words)
    return EngineError(
        f"could not {doing}", details=(words,), hint=cause.hint if cause else "docker info; then try again"
    )


_UNREACHABLE = (
    ("FileNotFoundError", "start it (systemctl start docker), or point DOCKER_HOST at one; --dry-run and --context need none"),
    ("No such file or directory", "start it (systemctl start docker), or point DOCKER_HOST at one; --dry-run and --context need none"),
    ("PermissionError", "this user may not use its socket: join the group docker (then log in again), or use a rootless engine"),
    ("Permission denied", "this user may not use its socket: join the group docker (then log in again), or use a rootless engine"),
    ("ConnectionRefusedError", "its socket is there and nobody listens: start it (systemctl start docker)"),
    ("Connection refused')", "nobody listens where DOCKER_HOST points: start the engine, or mend DOCKER_HOST"),
)  # fmt: skip

_REGISTRY_SIGNS = tuple(
    (re.compile(sign, re.IGNORECASE), kind, hint)
    for sign, kind, hint in (
        (r"no space left on device", EngineError, "the engine's disk is full: docker system df, then free space or move its data-root to a larger disk"),
        (r"manifest (for \S+ )?(not found|unknown)|not found: manifest unknown|repository \S+ not found", RegistryError, "rocmfix tags resolve IMAGE  names the nearest tags that exist"),
        (r"no basic auth credentials|authentication required|unauthorized|pull access denied|401", RegistryError, "docker login REGISTRY, then the same command again"),
        (r"denied|forbidden|403", RegistryError, "ask for the right to that repository, or docker login as someone who has it"),
        (r"toomanyrequests|429", RegistryError, "the registry limits requests: wait, or docker login (known users are limited less)"),
        (r"no such host|server misbehaving|name resolution", RegistryError, "check the registry's name and this machine's DNS"),
        (r"connection refused", RegistryError, "nothing answers there: check the registry's name and port, and that it runs"),
        (r"unexpected HTTP status: 5\d\d|unknown blob|internal server error.*registry", RegistryError, "the fault is the registry's: try again, finished layers are kept"),
        (r"unexpected EOF|connection reset|closed network connection|broken pipe|use of closed|http2: client connection lost|EOF$", RegistryError, "the connection was cut: run the same command again, finished layers are not sent twice"),
    )
)  # fmt: skip


def failed_push(reference: Reference, said: str) -> RegistryError:
    """A push that its stream says has failed."""
    for pattern, _, hint in _REGISTRY_SIGNS:
        if pattern.search(said):
            return RegistryError(f"{reference} was not pushed", details=(redact(said.strip()),), hint=hint)
    return RegistryError(
        f"{reference} was not pushed",
        details=(redact(said.strip()),),
        hint="run the same command again: finished layers are not sent twice",
    )


def _words(error: Exception) -> str:
    said = getattr(error, "explanation", None) or str(error)
    return redact(" ".join(str(said).split()))[:500]
