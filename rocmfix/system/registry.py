"""A small client of the Distribution API: manifests, tags and layers, with retries and errors one can act on."""

from __future__ import annotations

import hashlib
import json
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urljoin

import requests
from docker import auth as docker_auth

from rocmfix.errors import RegistryError
from rocmfix.system.blob import Blob
from rocmfix.system.reference import HUB, Reference
from rocmfix.system.registry_auth import Credentials, Login

INDEXES = (
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
)
MANIFESTS = (
    "application/vnd.docker.distribution.manifest.v2+json",
    "application/vnd.oci.image.manifest.v1+json",
)
_ACCEPT = ", ".join(MANIFESTS + INDEXES)
_PAUSES = (0.5, 1.0, 2.0)
"""Seconds between the tries of a request that failed for no lasting reason."""
_TIMEOUT = (10, 60)


class NotInRegistryError(RegistryError):
    """The registry answers, and has no such tag, digest or repository."""


@dataclass(frozen=True)
class Descriptor:
    """One blob that a manifest names."""

    digest: str
    size: int
    media_type: str


@dataclass(frozen=True)
class Manifest:
    """A manifest as the registry holds it: its bytes are its identity."""

    digest: str
    media_type: str
    body: bytes = field(repr=False)

    @property
    def content(self) -> Any:
        """The parsed JSON."""
        return json.loads(self.body)

    @property
    def config(self) -> Descriptor:
        """The image's configuration blob."""
        return _descriptor(self.content["config"])

    @property
    def layers(self) -> tuple[Descriptor, ...]:
        """The layers, lowest first."""
        return tuple(_descriptor(layer) for layer in self.content["layers"])

    def on_platform(self, platform: str) -> str | None:
        """In an index: the digest of the manifest for `os/architecture`."""
        for entry in self.content["manifests"]:
            where = entry.get("platform", {})
            if f"{where.get('os')}/{where.get('architecture')}" == platform:
                return str(entry["digest"])
        return None


class Registry:
    """One registry, spoken to as the user of `docker login` would be."""

    def __init__(
        self,
        reference: Reference,
        credentials: Credentials | None = None,
        *,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        self._reference = reference
        self._base = f"{'http' if reference.is_local else 'https'}://{reference.host}"
        self._session = requests.Session()
        weakref.finalize(self, self._session.close)
        self._login = Login(self._session, credentials or stored_credentials(reference.registry))
        self.pause = pause

    @property
    def has_credentials(self) -> bool:
        """Whether a login for this registry is stored."""
        return self._login.credentials is not None

    def manifest(self, version: str, *, platform: str | None = "linux/amd64") -> Manifest:
        """The manifest under a tag or digest; of an index, the one for `platform` (None: the index itself)."""
        answer = self._ask("GET", f"manifests/{version}", headers={"Accept": _ACCEPT})
        digest = f"sha256:{hashlib.sha256(answer.content).hexdigest()}"
        self._check_digest(version, digest)
        found = Manifest(digest, answer.headers.get("Content-Type", "").partition(";")[0], answer.content)
        if platform is None or found.media_type not in INDEXES:
            return found
        chosen = found.on_platform(platform)
        if chosen is None:
            raise NotInRegistryError(
                f"{self._reference}: has no image for {platform}",
                hint="ROCm images are built for linux/amd64 only; check the tag",
            )
        return self.manifest(chosen, platform=None)

    def digest(self, version: str) -> str | None:
        """The digest a tag stands for now, or None when there is no such tag."""
        try:
            # Without Accept a registry answers the digest of a converted schema 1 manifest, which nobody else sees.
            answer = self._ask("HEAD", f"manifests/{version}", headers={"Accept": _ACCEPT})
        except NotInRegistryError:
            return None
        return answer.headers.get("Docker-Content-Digest") or self.manifest(version, platform=None).digest

    def put_manifest(self, tag: str, manifest: Manifest) -> None:
        """Give `manifest`, whose blobs the repository already holds, another tag."""
        headers = {"Content-Type": manifest.media_type}
        self._ask("PUT", f"manifests/{tag}", headers=headers, data=manifest.body)

    def tags(self, page: int = 1000) -> tuple[str, ...]:
        """Every tag of the repository, so many a page."""
        found: list[str] = []
        url: str | None = f"{self._base}/v2/{self._reference.repository}/tags/list?n={page}"
        while url:
            answer = self._ask("GET", url)
            found += answer.json().get("tags") or []
            url = _next_page(answer, self._base)
        return tuple(found)

    def blob(self, digest: str) -> bytes:
        """A small blob, whole, checked against its digest."""
        answer = self._ask("GET", f"blobs/{digest}")
        if f"sha256:{hashlib.sha256(answer.content).hexdigest()}" != digest:
            raise RegistryError(
                f"{self._reference}: blob {digest} arrived damaged",
                hint="a proxy or mirror in between changes content; ask the registry directly",
            )
        return answer.content

    def put_blob(self, data: bytes) -> str:
        """Store a small blob; its digest. One that is there already is not sent again."""
        digest = f"sha256:{hashlib.sha256(data).hexdigest()}"
        if not self._has_blob(digest):
            begun = self._ask("POST", "blobs/uploads/")
            url = urljoin(f"{self._base}/", begun.headers["Location"])
            if not url.startswith(f"{self._base}/"):
                raise RegistryError(f"{self._reference}: the registry sends uploads elsewhere, and a login with them")
            sign = "&" if "?" in url else "?"
            headers = {"Content-Type": "application/octet-stream"}
            self._ask("PUT", f"{url}{sign}digest={digest}", data=data, headers=headers)
        return digest

    def _has_blob(self, digest: str) -> bool:
        try:
            self._ask("HEAD", f"blobs/{digest}")
        except NotInRegistryError:
            return False
        return True

    def referrers(self, digest: str) -> Any:
        """The index of what refers to the image of that digest, or None where the registry keeps none."""
        try:
            return self._ask("GET", f"referrers/{digest}").json()
        except NotInRegistryError:
            return None

    @contextmanager
    def open_blob(self, layer: Descriptor) -> Iterator[Blob]:
        """A layer as a stream: read as far as needed; a cut connection is taken up where it broke."""

        def open_at(offset: int) -> requests.Response:
            headers = {"Range": f"bytes={offset}-"} if offset else {}
            return self._ask("GET", f"blobs/{layer.digest}", headers=headers, stream=True)

        blob = Blob(open_at, layer.size, self.pause)
        try:
            yield blob
        finally:
            blob.close()

    def _check_digest(self, asked: str, got: str) -> None:
        if asked.startswith("sha256:") and asked != got:
            raise RegistryError(
                f"{self._reference}: asked for {asked}, was given {got}",
                hint="a proxy or mirror in between changes content; ask the registry directly",
            )

    def _ask(self, method: str, path: str, *, stream: bool = False, **more: Any) -> requests.Response:
        url = path if path.startswith("http") else f"{self._base}/v2/{self._reference.repository}/{path}"
        for pause in (*_PAUSES, None):
            try:
                answer = self._login.request(method, url, stream=stream, timeout=_TIMEOUT, **more)
            except requests.RequestException as error:
                if pause is None:
                    raise self._unreachable(error) from None
            else:
                if answer.status_code < 400:
                    return answer
                if pause is None or (answer.status_code != 429 and answer.status_code < 500):
                    raise self._refusal(answer, method)
            self.pause(pause)
        raise AssertionError("unreachable: the last try returns or raises")

    def _unreachable(self, error: requests.RequestException) -> RegistryError:
        return RegistryError(
            f"registry {self._reference.registry} does not answer",
            details=(reason_of(error),),
            hint="check the name, the network and the proxy; nothing was changed there",
        )

    def _refusal(self, answer: requests.Response, method: str) -> RegistryError:
        what, hint = _REFUSALS.get(answer.status_code, ("failed", "try again; what was done already is kept"))
        if answer.status_code == 401 and self.has_credentials:
            what, hint = (
                "refused the stored login",
                "docker login {registry}  (the stored one is wrong or expired)",
            )
        kind = NotInRegistryError if answer.status_code == 404 else RegistryError
        return kind(
            f"{self._reference}: the registry {what} ({answer.status_code} on {method})",
            details=_said(answer),
            hint=hint.format(registry=self._reference.registry, repository=self._reference.repository),
        )


_REFUSALS = {
    401: ("wants a login", "docker login {registry}"),
    403: (
        "denied access",
        "ask for the right to {repository}, or docker login {registry} as someone who has it",
    ),
    404: ("has no such image", "rocmfix tags resolve {registry}/{repository}:TAG  names the nearest tags"),
    429: ("is limiting requests", "wait, or docker login {registry}: known users are limited less"),
    500: ("failed inside", "the fault is the registry's; try again, finished layers are kept"),
}


def stored_credentials(registry: str) -> Credentials | None:
    """What `docker login` stored for `registry`, in its file or in a credential helper."""
    config = docker_auth.load_config()
    found = docker_auth.resolve_authconfig(config, None if registry == HUB else registry)
    if not found or not (found.get("username") or found.get("Username")):
        return None
    return Credentials(found.get("username") or found["Username"], found.get("password") or found.get("Password") or "")


def reason_of(error: Exception) -> str:
    """The innermost words of a chain of connection errors: what a person can act on."""
    text = str(error)
    for sign in ("Connection refused", "Name or service not known", "certificate verify failed", "timed out"):
        if sign in text:
            return sign
    return text.rsplit("Caused by ", 1)[-1][:200]


def _descriptor(entry: dict[str, Any]) -> Descriptor:
    return Descriptor(str(entry["digest"]), int(entry["size"]), str(entry.get("mediaType", "")))


def _said(answer: requests.Response) -> tuple[str, ...]:
    try:
        errors = answer.json().get("errors", [])
        return tuple(f"{e.get('code', '')}: {e.get('message', '')}" for e in errors)[:5]
    except (ValueError, AttributeError):
        return tuple(answer.text.strip().splitlines()[:2])


def _next_page(answer: requests.Response, base: str) -> str | None:
    link = answer.links.get("next", {}).get("url")
    if not link:
        return None
    # A page may only lead to the same registry: credentials go with the request.
    return link if link.startswith(base + "/") else base + link if link.startswith("/") else None
