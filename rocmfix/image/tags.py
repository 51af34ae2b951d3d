"""Tags: what one stands for now, and which come nearest to one that does not exist."""

from __future__ import annotations

import difflib
import re

from rocmfix.errors import RegistryError
from rocmfix.model import Record
from rocmfix.system.reference import Reference
from rocmfix.system.registry import Registry

_DATE = re.compile(r"20\d{6}$")


class Resolved(Record):
    """A tag and what it stood for when it was asked."""

    image: str
    digest: str
    pinned: str
    """The same image by digest: what a Dockerfile or a lock should name."""


def resolve(reference: Reference, registry: Registry) -> Resolved:
    """The digest behind a tag. Raises RegistryError naming the nearest tags when there is none."""
    digest = registry.digest(reference.version)
    if digest is None:
        raise missing(reference, registry)
    return Resolved(image=str(reference), digest=digest, pinned=str(reference.with_digest(digest)))


def missing(reference: Reference, registry: Registry) -> RegistryError:
    """What to say of a tag that does not exist."""
    tags = registry.tags()
    near = nearest(reference.version, tags)
    details = [f"nearest: {', '.join(near)}"] if near else ["the repository has no tags"]
    if tags and all(_DATE.search(tag) for tag in tags):
        details.append(f"every tag of {reference.name} ends in a date")
    hint = f"rocmfix tags resolve {reference.with_tag(near[0])}" if near else "check the repository's name"
    return RegistryError(f"{reference.name} has no tag {reference.version}", details=tuple(details), hint=hint)


def nearest(wanted: str, tags: tuple[str, ...], count: int = 5) -> tuple[str, ...]:
    """Tags that share most parts of `wanted` (release, ROCm line, GPU family), then most letters; newest first."""
    parts = set(wanted.split("-"))

    def closeness(tag: str) -> tuple[int, float, str]:
        undated = _DATE.sub("", tag).rstrip("-")
        likeness = difflib.SequenceMatcher(None, wanted, undated).ratio()
        return len(parts & set(tag.split("-"))), round(likeness, 2), tag

    near = sorted((tag for tag in tags if closeness(tag)[1] > 0.3), key=closeness, reverse=True)
    return tuple(near[:count])
