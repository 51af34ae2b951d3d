"""Image references: `registry/repository:tag@digest`, taken apart the way Docker does it and refused when malformed."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass

HUB = "docker.io"
_TAG = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}")
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_COMPONENT = re.compile(r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*")
_HOST = re.compile(r"(?:[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?|\[[0-9A-Fa-f:]+\])(?::[0-9]{1,5})?")


@dataclass(frozen=True)
class Reference:
    """One image name. `tag` is `latest` only when the text said neither tag nor digest."""

    registry: str
    repository: str
    tag: str | None = None
    digest: str | None = None

    @property
    def name(self) -> str:
        """Registry and repository, as Docker shows them: the hub's own prefix is left out."""
        if self.registry != HUB:
            return f"{self.registry}/{self.repository}"
        return self.repository.removeprefix("library/")

    @property
    def version(self) -> str:
        """What to ask the registry for: the digest when there is one, else the tag."""
        return self.digest or self.tag or "latest"

    @property
    def host(self) -> str:
        """The machine that answers for this registry: the hub's API lives under another name."""
        return "registry-1.docker.io" if self.registry == HUB else self.registry

    @property
    def is_local(self) -> bool:
        """On this very machine, where registries speak plain HTTP (Docker's own rule: 127.0.0.0/8 and ::1)."""
        host = self.registry.rsplit(":", 1)[0] if not self.registry.endswith("]") else self.registry
        if host == "localhost":
            return True
        try:
            return ipaddress.ip_address(host.strip("[]")).is_loopback
        except ValueError:
            return False

    def with_tag(self, tag: str) -> Reference:
        """The same repository under another tag."""
        return Reference(self.registry, self.repository, tag)

    def with_digest(self, digest: str) -> Reference:
        """The same repository by digest alone."""
        return Reference(self.registry, self.repository, None, digest)

    def __str__(self) -> str:
        tag = f":{self.tag}" if self.tag else ""
        digest = f"@{self.digest}" if self.digest else ""
        return f"{self.name}{tag}{digest}"


def parse_reference(text: str) -> Reference:
    """Take `text` apart; raise ValueError with the reason when it is no image reference."""
    rest, _, digest = text.partition("@")
    if digest and not _DIGEST.fullmatch(digest):
        raise ValueError(f"not a sha256 digest: {digest[:80]}")
    head, slash, last = rest.rpartition("/")
    last, colon, tag = last.partition(":")
    if colon and not _TAG.fullmatch(tag):
        raise ValueError(f"not a tag: {tag[:140]!r}")
    registry, repository = _split(head + slash + last)
    if not _HOST.fullmatch(registry):
        raise ValueError(f"not a registry: {registry[:80]!r}")
    if len(repository) > 255 or not all(_COMPONENT.fullmatch(part) for part in repository.split("/")):
        raise ValueError(f"not a repository: {repository[:80]!r} (lower case, digits, and single . _ - within)")
    return Reference(registry, repository, tag or (None if digest else "latest"), digest or None)


def is_tag(text: str) -> bool:
    """Whether a registry would take `text` as a tag."""
    return _TAG.fullmatch(text) is not None


def is_digest(text: str) -> bool:
    """Whether `text` is `sha256:` and 64 hex digits: also how an engine names its images."""
    return _DIGEST.fullmatch(text) is not None


def _split(name: str) -> tuple[str, str]:
    first, slash, rest = name.partition("/")
    if slash and ("." in first or ":" in first or first == "localhost" or first.startswith("[")):
        return (HUB if first in {"index.docker.io", "registry-1.docker.io"} else first), rest
    return HUB, name if slash else f"library/{name}"
