"""Says which images CI has to build: those that the target registry does not hold from these very inputs."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable

from rocmfix.catalog import Catalog
from rocmfix.errors import RegistryError
from rocmfix.image.flavour import Flavour, Gpu
from rocmfix.image.manifest import INPUTS_LABEL, BaseImage
from rocmfix.image.order import inputs_digest, order_for
from rocmfix.image.tags import missing
from rocmfix.model import Record
from rocmfix.system.reference import Reference
from rocmfix.system.registry import NotInRegistryError, Registry

BUILDER = "amd-docker-scale"
"""The label of the runners on which upstream builds its ROCm images."""
_SMOKERS = {Gpu.MI30X: "linux-mi325-gpu-8", Gpu.MI35X: "linux-mi35x-gpu-8"}
"""The labels of the self-hosted runners with GPUs, as upstream's workflows name them."""


class Job(Record):
    """One image to build: everything that the jobs after it are told."""

    flavour: str
    base: str
    """By digest: what a tag stands for can change between two jobs."""
    inputs: str
    tag: str
    """Dated; it never changes its meaning."""
    moving: str
    """Stands for the newest build of this flavour."""
    candidate: str
    """The tag under which it is passed from the building to the smoking machine."""
    builder: str
    smoker: str
    why: str


class Kept(Record):
    """One image that need not be built, and why."""

    flavour: str
    why: str


class CiPlan(Record):
    """What `strategy.matrix` takes (`include`), and what was left out: together every flavour asked for."""

    include: tuple[Job, ...]
    kept: tuple[Kept, ...]


def plan_builds(
    catalog: Catalog, flavours: Iterable[Flavour], target: Reference, day: str, base: Reference | None = None
) -> CiPlan:
    """The builds that `target` lacks, on each flavour's own base or on `base`. `day` is today as YYYYMMDD.

    Raises RegistryError when a base does not exist.
    """
    jobs: list[Job] = []
    kept: list[Kept] = []
    for flavour in flavours:
        job = _job(catalog, flavour, base or flavour.base.reference, day)
        held = _held_inputs(target, job.moving)
        if held == job.inputs:
            kept.append(Kept(flavour=flavour.name, why=f"{target.name}:{job.moving} was built from these inputs"))
        else:
            why = "never built" if held is None else "its inputs changed"
            jobs.append(job.model_copy(update={"why": why}))
    return CiPlan(include=tuple(jobs), kept=tuple(kept))


def _job(catalog: Catalog, flavour: Flavour, given: Reference, day: str) -> Job:
    base, image = _pinned(given)
    order = order_for(flavour, catalog, base=str(base))
    inputs = inputs_digest(order, BaseImage(name=str(base), digest=base.digest or ""), image)
    short = inputs.removeprefix("sha256:")[:8]
    stem = given.tag or flavour.base.tag
    return Job(
        flavour=flavour.name,
        base=str(base),
        inputs=inputs,
        tag=dated_tag(stem, short, day),
        moving=f"{stem}-rf",
        candidate=f"candidate-{flavour.name}-{short}",
        builder=BUILDER,
        smoker=_SMOKERS[flavour.gpu],
        why="",
    )


def dated_tag(stem: str, digest: str, day: str) -> str:
    """`v0.5.14-rocm720-mi35x` becomes `v0.5.14-rocm720-mi35x-rf0a1b2c3d-20261130`: appended, never reordered."""
    if not re.fullmatch(r"20\d{6}", day):
        raise ValueError(f"not a day (YYYYMMDD): {day}")
    return f"{stem}-rf{digest}-{day}"


def _pinned(reference: Reference) -> tuple[Reference, str]:
    """The base by digest, and the id that an engine gives it: the digest of its configuration."""
    registry = Registry(reference)
    version = reference.digest or reference.version
    if registry.digest(version) is None:
        raise missing(reference, registry)
    manifest = registry.manifest(version)
    return reference.with_digest(manifest.digest), manifest.config.digest


def _held_inputs(target: Reference, tag: str) -> str | None:
    """The inputs of the image that `tag` stands for, as its label says, or None when there is none."""
    registry = Registry(target)
    try:
        manifest = registry.manifest(tag)
        config = json.loads(registry.blob(manifest.config.digest))
    except NotInRegistryError:
        return None
    except (ValueError, KeyError) as error:
        raise RegistryError(f"{target.with_tag(tag)} has a configuration that cannot be read: {error}") from None
    labels = (config.get("config") or {}).get("Labels") or {}
    return labels.get(INPUTS_LABEL) or ""
