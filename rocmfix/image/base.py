"""Finds the image to build on: in the engine if it is there, else in its registry, always by digest."""

from __future__ import annotations

from dataclasses import dataclass

from rocmfix.errors import EngineError, SourceError
from rocmfix.image import local, remote
from rocmfix.image.flavour import Flavour
from rocmfix.image.inspect import Seen
from rocmfix.image.manifest import BaseImage
from rocmfix.image.progress import Progress, size
from rocmfix.system.disk import free_bytes
from rocmfix.system.docker import Engine, LocalImage, engine_or_none
from rocmfix.system.reference import Reference, is_digest, parse_reference
from rocmfix.system.registry import Registry

_PLATFORM = "linux/amd64"


@dataclass(frozen=True)
class FoundBase:
    """A base that the engine holds."""

    image: LocalImage
    record: BaseImage
    start: str
    """What FROM names."""


def find_base(engine: Engine, flavour: Flavour, given: str | None, progress: Progress) -> FoundBase:
    """The image that `given` names, or the flavour's own; pulled when the engine lacks it."""
    if given and is_digest(given):
        return _local(engine, given)
    reference = _parse(given) if given else flavour.base.reference
    image = engine.image(str(reference)) or _pulled(engine, reference, progress)
    if image.platform != _PLATFORM:
        raise SourceError(f"{reference} is for {image.platform}", hint=f"ROCm images are for {_PLATFORM}")
    digest = image.digest_in(reference.name)
    if digest is None:
        # Built or imported here and never pushed: only this engine can name it, by its id.
        return FoundBase(image, BaseImage(name=str(reference), digest=image.id), image.id)
    return FoundBase(image, BaseImage(name=str(reference), digest=digest), f"{reference.name}@{digest}")


def _local(engine: Engine, name: str) -> FoundBase:
    image = engine.image(name)
    if image is None:
        raise EngineError(f"the engine has no image {name[:80]}", hint="docker images --digests lists what it has")
    return FoundBase(image, BaseImage(name=name, digest=image.id), name)


def _parse(text: str) -> Reference:
    try:
        return parse_reference(text)
    except ValueError as error:
        raise SourceError(f"{text[:200]!r} names no image: {error}", hint="such as lmsysorg/sglang:TAG") from None


def _pulled(engine: Engine, reference: Reference, progress: Progress) -> LocalImage:
    with progress.step(f"pull {reference}"):
        _refuse_too_large(engine, reference)
        return engine.pull(reference, progress.listen)


def _refuse_too_large(engine: Engine, reference: Reference) -> None:
    """Say before the download that it cannot fit: a full disk stops everything else on the machine too."""
    manifest = Registry(reference).manifest(reference.version)
    packed = sum(layer.size for layer in manifest.layers)
    root = engine.root
    free = free_bytes(root) if root else None
    if free is not None and packed > free:
        raise EngineError(
            f"{reference} needs more than the {size(free)} that are free in {root}",
            details=(f"its layers are {size(packed)} packed, and two to three times that unpacked",),
            hint="docker system df; docker image prune; or move the engine's data-root to a larger disk",
        )


@dataclass(frozen=True)
class SeenBase:
    """A base and what is in it."""

    record: BaseImage
    start: str
    """What FROM names."""
    seen: Seen


def peek_base(flavour: Flavour, given: str | None, progress: Progress, *, kernels: bool = False) -> SeenBase:
    """A base for a draft: read in the engine where it is there, else in its registry. Nothing is pulled."""
    engine = engine_or_none()
    name = given or str(flavour.base.reference)
    if engine and engine.image(name):
        base = find_base(engine, flavour, given, progress)
        with progress.step(f"read {name}"):
            seen = local.look(engine, base.image, base.record.name, thorough=False, kernels=kernels)
            return SeenBase(base.record, base.start, seen)
    reference = _parse(name)
    with progress.step(f"read {name} in its registry"):
        seen = remote.look(reference, Registry(reference), progress, kernels=kernels)
    digest = seen.digest or ""
    return SeenBase(BaseImage(name=str(reference), digest=digest), f"{reference.name}@{digest}", seen)
