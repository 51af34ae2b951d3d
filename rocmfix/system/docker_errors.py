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

_START = "start it (systemctl start docker), or point DOCKER_HOST at one; --context and --overlay need none"
_SOCKET = "this user may not use its socket: join the group docker and log in again, or use a rootless engine"
_FULL = "the engine's disk is full: docker system df, then free space or move its data-root to a larger disk"
_KEPT = "run the same command again: finished layers are not sent twice"


@dataclass(frozen=True)
class Sign:
    """A failure known by its words, and what to do about it."""

    words: re.Pattern[str]
    hint: str


def _signs(*pairs: tuple[str, str]) -> tuple[Sign, ...]:
    return tuple(Sign(re.compile(words, re.IGNORECASE), hint) for words, hint in pairs)


_UNREACHABLE = _signs(
    (r"FileNotFoundError|No such file or directory", _START),
    (r"PermissionError|Permission denied", _SOCKET),
    (r"ConnectionRefusedError|Connection refused'\)", f"nobody listens on its socket: {_START}"),
    (r"Name or service not known|Max retries exceeded", "DOCKER_HOST names a machine that does not answer: mend it"),
)

_REGISTRY = _signs(
    (
        r"manifest (for \S+ )?(not found|unknown)|repository \S+ not found|name unknown",
        "rocmfix tags resolve IMAGE  names the nearest tags that exist",
    ),
    (
        r"no basic auth credentials|authentication required|unauthorized|pull access denied|401 Unauthorized",
        "docker login REGISTRY, then the same command again",
    ),
    (r"denied|forbidden", "ask for the right to that repository, or docker login as someone who has it"),
    (r"toomanyrequests|429", "the registry limits requests: wait, or docker login (known users are limited less)"),
    (r"no such host|server misbehaving|name resolution", "check the registry's name and this machine's DNS"),
    (r"connection refused", "nothing answers there: check the registry's name and port, and that it runs"),
    (r"HTTP status: 5\d\d|unknown blob", f"the fault is the registry's; {_KEPT}"),
    (r"EOF|connection reset|broken pipe|closed network|connection lost", f"the connection was cut; {_KEPT}"),
)

_PASSING = re.compile(
    r"HTTP status: 5\d\d|EOF|connection reset|broken pipe|closed network|connection lost|toomanyrequests", re.IGNORECASE
)

_CAUSES = _signs(
    (r"no space left on device|disk quota exceeded", _FULL),
    (
        r"non-zero code: 137|exit code: 137|out of memory|OOMKilled",
        "killed for want of memory: give the build more, or fewer parallel jobs (MAX_JOBS)",
    ),
    (
        r"lookup \S+.* no such host|temporary failure in name resolution|could not resolve host",
        "a name could not be resolved in the build: its network, its DNS, or a proxy that it needs",
    ),
    (
        r"certificate signed by unknown authority|certificate verify failed",
        "a proxy re-signs TLS: add its certificate to the base, or use a mirror",
    ),
    (
        r"unknown instruction|dockerfile parse error",
        "this engine's builder cannot read the Dockerfile: Docker 23 or newer with buildx can",
    ),
    (r"requires BuildKit", "this Dockerfile needs BuildKit: docker buildx"),
    (
        r"manifest (for \S+ )?(not found|unknown)|pull access denied",
        "the base is not in its registry under that name: rocmfix tags resolve IMAGE",
    ),
    (
        r"cuda_runtime\.h|cooperative_groups\.h|cub/cub\.cuh",
        "a CUDA header was asked for on ROCm: rocmfix guards scan TREE names the unguarded includes",
    ),
)


class PushCutError(RegistryError):
    """A push that failed for no lasting reason: trying again takes it up where it broke."""


class BuildFailedError(EngineError):
    """A build ended in an error: the step, its last lines, and the probable cause where it is known."""

    @classmethod
    def of(cls, lines: Sequence[str], error: str, secrets: Sequence[str] = ()) -> BuildFailedError:
        """From what the build printed and its last word."""
        tail = tuple(redact(line.rstrip(), secrets) for line in lines if line.strip())[-_TAIL:]
        step = next((line.strip() for line in reversed(lines) if line.startswith("Step ")), None)
        word = redact(error.strip(), secrets)
        return cls(
            f"the build failed at {step}" if step else "the build failed",
            details=tail if tail and word in tail[-1] else (*tail, word),
            hint=probable_cause("\n".join((error, *lines[-_TAIL:]))) or "the lines above are the last it printed",
        )


def probable_cause(text: str) -> str | None:
    """What to do about a failure whose words are known."""
    return _hint(_CAUSES, text)


def failed_push(reference: Reference, said: str) -> RegistryError:
    """A push that its stream says has failed."""
    said = redact(said.strip())
    kind = PushCutError if _PASSING.search(said) else RegistryError
    return kind(f"{reference} was not pushed", details=(said,), hint=_hint(_REGISTRY, said) or _KEPT)


@contextmanager
def translated(doing: str) -> Iterator[None]:
    """Turn whatever the SDK lets out (its own errors, requests', urllib3's) into one of ours."""
    try:
        yield
    except RocmfixError:
        raise
    except (docker.errors.DockerException, requests.RequestException, urllib3.exceptions.HTTPError, OSError) as error:
        raise _error(doing, error) from None


def _error(doing: str, error: Exception) -> RocmfixError:
    words = _words(error)
    if not isinstance(error, docker.errors.APIError):
        return _lost_engine(doing, words)
    if hint := probable_cause(words) if "no space" in words else None:
        return EngineError(f"could not {doing}", details=(words,), hint=hint)
    if isinstance(error, docker.errors.ImageNotFound) and "No such image" in words:
        return EngineError(f"could not {doing}", details=(words,), hint="docker pull IMAGE, or check the name")
    if hint := _hint(_REGISTRY, words):
        return RegistryError(f"could not {doing}", details=(words,), hint=hint)
    return EngineError(f"could not {doing}", details=(words,), hint="docker info says how the engine is")


def _lost_engine(doing: str, words: str) -> EngineError:
    if hint := _hint(_UNREACHABLE, words):
        return EngineError(f"could not {doing}: no Docker engine answers", details=(words,), hint=hint)
    hint = "it was stopped or killed: start it (systemctl start docker) and run the same command again"
    return EngineError(f"could not {doing}: the engine went away", details=(words,), hint=hint)


def _hint(signs: tuple[Sign, ...], text: str) -> str | None:
    return next((sign.hint for sign in signs if sign.words.search(text)), None)


def _words(error: Exception) -> str:
    said = getattr(error, "explanation", None) or str(error)
    return redact(" ".join(str(said).split()))[:500]
