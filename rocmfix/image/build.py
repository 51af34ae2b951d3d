"""Builds an overlay: only what changes, on the base by digest, checked before it gets its name."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from pathlib import Path

from rocmfix import __version__
from rocmfix.catalog import Catalog
from rocmfix.errors import CatalogError, EngineError, VerifyError
from rocmfix.image import flavour as flavours
from rocmfix.image.base import FoundBase, find_base
from rocmfix.image.context import Context, Ground, Past, Recipe, Tables, past_of_source, prepare
from rocmfix.image.dockerfile import template_digest
from rocmfix.image.flavour import Variable
from rocmfix.image.inspect import Seen
from rocmfix.image.local import look
from rocmfix.image.manifest import INPUTS_LABEL, MANIFEST_LABEL, VERSION_LABEL, BaseImage, ImageManifest
from rocmfix.image.progress import Progress
from rocmfix.image.verify import Depth, verify
from rocmfix.model import PatchPlan, Record
from rocmfix.plan import Patched, Wanted, carry_out, make_plan, refuse_conflicts
from rocmfix.system.docker import Engine, LocalImage
from rocmfix.system.reference import Reference
from rocmfix.verdict import judge_all


@dataclass(frozen=True)
class Order:
    """What the user asked for."""

    flavour: flavours.Flavour
    catalog: Catalog
    base: str | None = None
    """Instead of the flavour's own."""
    wanted: Wanted = field(default_factory=Wanted)
    tables: Tables = field(default_factory=Tables)
    env: tuple[Variable, ...] = ()
    tags: tuple[Reference, ...] = ()
    aiter: str | None = None
    """The AITER commit that a lock expects in the base."""
    templates: Path | None = None


class Built(Record):
    """What came of it. `image` is None when there was nothing to do."""

    image: str | None
    is_new: bool
    tags: tuple[str, ...]
    base: str
    plan: PatchPlan
    manifest: str | None = None
    layer_bytes: int = 0
    """Content the image gains over its base."""


@dataclass(frozen=True)
class Draft:
    """Everything up to the engine's work: what `--dry-run`, `--context` and `--overlay` show."""

    plan: PatchPlan
    patched: Patched
    seen: Seen
    context: Context

    @property
    def is_empty(self) -> bool:
        """Nothing is needed, and no table was asked for."""
        return not self.patched.changes and self.context.tables is None


def build(engine: Engine, order: Order, progress: Progress) -> Built:
    """Build the image that `order` asks for, or find it already built, or find that nothing is needed."""
    engine.sweep()
    base = find_base(engine, order.flavour, order.base, progress)
    if done := _already_built(engine, base, order, progress):
        return done
    with progress.step(f"read {base.record.name}"):
        seen = look(engine, base.image, base.record.name, thorough=False)
    with progress.step("judge and patch"):
        draft = make_draft(base.record, base.start, seen, order)
    if draft.is_empty and not order.env:
        return Built(image=None, is_new=False, tags=(), base=base.record.name, plan=draft.plan)
    return finish(engine, order, draft, progress)


def finish(engine: Engine, order: Order, draft: Draft, progress: Progress) -> Built:
    """Build the draft's context, check what came out, and only then name it."""
    with progress.step("build"):
        image = _run(engine, draft.context, progress)
    with progress.step("verify"):
        _check(engine, image)
    return _named(engine, image, order, draft)


def make_draft(base: BaseImage, start: str, seen: Seen, order: Order, done: Patched | None = None) -> Draft:
    """Judge the base's tree, carry the plan out in memory, and lay out the build context. Pure.

    `done` is what was already done to the source that the base was built from.
    """
    _refuse_other_aiter(order, seen)
    past = past_of_source(seen.tree, done) if done else _past(seen.manifest)
    report = judge_all(order.catalog, seen.tree, past.state.record())
    plan = make_plan(order.catalog, report, wanted_by(order))
    refuse_conflicts(order.catalog, plan, seen.tree)
    patched = carry_out(order.catalog, plan, seen.tree)
    ground = Ground(base, start, seen, report, past)
    context = prepare(_recipe(order, base, seen.id), ground, patched, order.templates)
    return Draft(plan, patched, seen, context)


def inputs_digest(order: Order, base: BaseImage, image: str) -> str:
    """One digest for all that decides the image. Every stage after it is a pure function of these."""
    decided = {
        "tool": __version__,
        "template": template_digest(order.templates),
        "base": image,
        "name": base.name,
        "flavour": order.flavour.model_dump(mode="json"),
        "features": [feature.model_dump(mode="json") for _, feature in flavours.features(order.flavour)],
        "catalog": [
            (patches.name, fix.model_dump_json(), [patches.patch(variant).digest for variant in fix.variant])
            for patches, fix in order.catalog.fixes()
        ],
        "wanted": [order.wanted.fixes, order.wanted.sets, order.wanted.gfx],
        "tables": [
            (t.path, hashlib.sha256(t.data).hexdigest(), t.rows, t.source) for t in order.tables.files
        ],
        "env": [(v.name, v.value) for v in (*order.tables.env, *order.env)],
    }  # fmt: skip
    text = json.dumps(decided, sort_keys=True, separators=(",", ":"))
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"


def _recipe(order: Order, base: BaseImage, image: str) -> Recipe:
    return Recipe(
        flavour=order.flavour,
        features=flavours.features(order.flavour),
        tables=order.tables,
        env=order.env,
        tool=__version__,
        inputs=inputs_digest(order, base, image),
    )


def wanted_by(order: Order) -> Wanted:
    """The user's choice; where there is none, the flavour's."""
    wanted = order.wanted
    sets = wanted.sets or (() if wanted.fixes else order.flavour.sets)
    return Wanted(wanted.fixes, sets, wanted.gfx or order.flavour.gpu.gfx)


def _already_built(engine: Engine, base: FoundBase, order: Order, progress: Progress) -> Built | None:
    """The image that these very inputs gave before, if the engine still has it and it is as it was."""
    recipe = _recipe(order, base.record, base.image.id)
    held = (engine.image(name) for name in engine.images_with(INPUTS_LABEL, recipe.inputs))
    image = next((image for image in held if image and _is_ours(image, base, recipe)), None)
    if image is None:
        return None
    progress.note("nothing changed since this image was built")
    for tag in order.tags:
        engine.tag(image.id, tag)
    return Built(
        image=image.id,
        is_new=False,
        tags=tuple(map(str, order.tags)),
        base=base.record.name,
        plan=PatchPlan(source=base.record.name, release=image.labels.get(VERSION_LABEL), apply=(), skip=()),
        manifest=image.labels.get(MANIFEST_LABEL),
    )


def _is_ours(image: LocalImage, base: FoundBase, recipe: Recipe) -> bool:
    """Whether an image is what we built, not what somebody built on top of it: labels are inherited.

    What is on top adds a layer or changes the ENV; the bytes of a layer cannot change.
    """
    ours = 2 if recipe.tables.files else 1
    below = base.image.layers
    env = dict(image.env)
    return (
        image.layers[: len(below)] == below
        and len(image.layers) == len(below) + ours
        and all(env.get(variable.name) == variable.value for variable in recipe.variables)
    )


def _run(engine: Engine, context: Context, progress: Progress) -> str:
    try:
        return engine.build(context.tar(), progress.listen)
    except BaseException:
        # The classic builder leaves the steps it finished; they carry our label because LABEL comes first.
        for left in engine.images_with(INPUTS_LABEL, context.manifest.inputs, dangling=True):
            engine.remove(left)
        raise


def _check(engine: Engine, image: str) -> None:
    """An engine that reports success and did not do the work is caught here, before the image has a name."""
    found = engine.image(image)
    if found is None:
        raise EngineError("the engine says it built an image and does not have it", hint="docker info; then try again")
    with engine.container(image) as container:
        problems = verify(container, found, image, Depth.OURS).problems
    if problems:
        engine.remove(image)
        raise VerifyError(
            f"the engine says the build succeeded, and the image is not what was built ({len(problems)} differences)",
            details=tuple(f"{p.what} {p.where}: {p.holds} instead of {p.says}" for p in problems[:10]),
            hint="report this with `docker version`; the image was removed",
        )


def _named(engine: Engine, image: str, order: Order, draft: Draft) -> Built:
    for tag in order.tags:
        engine.tag(image, tag)
    return Built(
        image=image,
        is_new=True,
        tags=tuple(map(str, order.tags)),
        base=draft.context.manifest.base.name,
        plan=draft.plan,
        manifest=draft.context.manifest.digest,
        layer_bytes=draft.context.changed_bytes,
    )


def _past(manifest: ImageManifest | None) -> Past:
    """What rocmfix did to this base before, if it is itself a rocmfix build."""
    return Past(manifest.state, manifest.files) if manifest else Past()


def _refuse_other_aiter(order: Order, seen: Seen) -> None:
    if order.aiter and seen.aiter and order.aiter != seen.aiter:
        raise CatalogError(
            f"{seen.name} carries AITER {seen.aiter[:12]}, and the lock says {order.aiter[:12]}",
            hint="the base was replaced under its name: pull it by the lock's digest, or make the lock anew",
        )
