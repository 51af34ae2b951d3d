"""Puts an image into a registry under tags that never change their meaning."""

from __future__ import annotations

import json
from dataclasses import dataclass

from rocmfix.errors import EngineError, RegistryError, VerifyError
from rocmfix.image.manifest import PATH, ImageManifest, parse
from rocmfix.image.progress import Progress
from rocmfix.image.verify import Depth, verify
from rocmfix.model import Record
from rocmfix.system.docker import Engine, LocalImage
from rocmfix.system.docker_errors import PushCutError
from rocmfix.system.reference import Reference
from rocmfix.system.registry import Manifest, Registry

_TRIES = 3


class Published(Record):
    """Where an image can be had now."""

    image: str
    digest: str
    tags: tuple[str, ...]
    moved: tuple[str, ...] = ()
    """Tags that stood for another image before, with that image's digest."""
    pushed: bool
    """False when the registry had everything already."""


@dataclass(frozen=True)
class Target:
    """Where to, under which names. `fixed` tags are refused when taken; `moving` ones are set anew."""

    repository: Reference
    fixed: tuple[str, ...] = ()
    moving: tuple[str, ...] = ()


def publish(engine: Engine, image: str, target: Target, registry: Registry, progress: Progress) -> Published:
    """Push an image that agrees with its manifest. Nothing is tagged unless all of it has arrived."""
    local, manifest = _sound(engine, image)
    fixed = target.fixed or (release_tag(manifest),)
    first = target.repository.with_tag(fixed[0])
    with progress.step(f"look at {target.repository.name}"):
        present = {tag: _held(registry, tag, local.id) for tag in fixed}
        _refuse_taken(target.repository, registry, present)
    pushed = not any(present.values())
    if pushed:
        with progress.step(f"push {first}"):
            _push(engine, local, first, registry, progress)
    remote = registry.manifest(next((tag for tag, held in present.items() if held), fixed[0]))
    _check(first, remote, local)
    for tag in fixed:
        if not present[tag] and tag != fixed[0]:
            registry.put_manifest(tag, remote)
    moved = tuple(note for tag in target.moving if (note := _move(registry, tag, remote)))
    return Published(
        image=local.id,
        digest=remote.digest,
        tags=tuple(str(target.repository.with_tag(tag)) for tag in (*fixed, *target.moving)),
        moved=moved,
        pushed=pushed,
    )


def release_tag(manifest: ImageManifest) -> str:
    """A tag for exactly this content: release, ROCm line, GPU family, and what rocmfix made of it."""
    line = "rocm" + manifest.rocm.replace(".", "")
    release = (manifest.content.release or "unknown").replace("+", "_")
    return f"v{release}-{line}-{manifest.gpu}-rf{manifest.digest.removeprefix('sha256:')[:8]}"


def _sound(engine: Engine, image: str) -> tuple[LocalImage, ImageManifest]:
    local = engine.image(image)
    if local is None:
        raise EngineError(f"the engine has no image {image[:200]}", hint="docker images; rocmfix build makes one")
    with engine.container(local.id) as container:
        problems = verify(container, local, image, Depth.OURS).problems
        file = container.read(PATH)
    if problems or file is None:
        raise VerifyError(
            f"{image} disagrees with its manifest in {len(problems)} places, and was not pushed",
            details=tuple(f"{problem.what} {problem.where}" for problem in problems[:10]),
            hint=f"rocmfix verify {image}  says what; rocmfix build makes it anew",
        )
    return local, parse(file.data)


def _held(registry: Registry, tag: str, image: str) -> bool:
    """Whether the tag already stands for this very image."""
    if registry.digest(tag) is None:
        return False
    return _config(registry.manifest(tag)) == image


def _config(manifest: Manifest) -> str:
    return str(json.loads(manifest.body)["config"]["digest"])


def _refuse_taken(repository: Reference, registry: Registry, present: dict[str, bool]) -> None:
    for tag, held in present.items():
        digest = None if held else registry.digest(tag)
        if digest:
            raise RegistryError(
                f"{repository.with_tag(tag)} is taken: it stands for {digest}",
                details=("a release tag never changes its meaning; nothing was pushed",),
                hint="leave --tag out for a tag made of the image's own content, or use --moving for one that may move",
            )


def _push(engine: Engine, local: LocalImage, first: Reference, registry: Registry, progress: Progress) -> None:
    """Push under one tag, which the registry sets last of all; the engine's own name for it is only borrowed."""
    borrowed = str(first) not in local.tags
    engine.tag(local.id, first)
    try:
        _push_stubbornly(engine, first, registry, progress, tries=_TRIES)
    finally:
        if borrowed:
            engine.remove(str(first))


def _push_stubbornly(engine: Engine, first: Reference, registry: Registry, progress: Progress, *, tries: int) -> None:
    try:
        engine.push(first, progress.listen)
    except PushCutError as error:
        if tries == 1:
            raise
        progress.note(f"cut off ({'; '.join(error.details)}); trying again, finished layers are kept")
        registry.pause(2.0)
        _push_stubbornly(engine, first, registry, progress, tries=tries - 1)


def _check(reference: Reference, remote: Manifest, local: LocalImage) -> None:
    """What the registry now says under that tag must be what was pushed."""
    config = _config(remote)
    if config != local.id:
        raise RegistryError(
            f"{reference} stands for another image than the one pushed",
            details=(f"pushed {local.id}", f"found  {config} as {remote.digest}"),
            hint="somebody pushed the same tag at the same time: publish again under another --tag",
        )


def _move(registry: Registry, tag: str, remote: Manifest) -> str | None:
    before = registry.digest(tag)
    if before == remote.digest:
        return None
    registry.put_manifest(tag, remote)
    return f"{tag} was {before}" if before else None
