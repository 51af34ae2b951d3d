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
from rocmfix.image.manifest import INPUTS_LABEL, PATH, BaseImage, ImageManifest, parse
from rocmfix.image.progress import Progress
from rocmfix.image.verify import Depth, verify
from rocmfix.model import PatchPlan, Record
from rocmfix.plan import Patched, Wanted, carry_out, make_plan, refuse_conflicts
from rocmfix.system.docker import Engine
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
    for image in engine.images_with(INPUTS_LABEL, inputs_digest(order, base.record, base.image.id)):
        manifest = _sound(engine, image, base)
        if manifest:
            progress.note("nothing changed since this image was built")
            for tag in order.tags:
                engine.tag(image, tag)
            return Built(
                image=image,
                is_new=False,
                tags=tuple(map(str, order.tags)),
                base=base.record.name,
                plan=PatchPlan(source=base.record.name, release=manifest.content.release, apply=(), skip=()),
                manifest=manifest.digest,
            )
    return None


def _sound(engine: Engine, image: str, base: FoundBase) -> ImageManifest | None:
    """Its manifest, if an image is one of ours and not one that somebody built on top of it: labels are inherited."""
    found = engine.image(image)
    if found is None or found.layers[: len(base.image.layers)] != base.image.layers:
        return None
    with engine.container(image) as container:
        try:
            manifest = parse(file.data) if (file := container.read(PATH)) else None
            if manifest is None or verify(container, found, image, Depth.OURS).problems:
                return None
        except VerifyError:
            return None
    ours = 2 if any(f.kind == "table" for f in manifest.files) else 1
    return manifest if len(found.layers) == len(base.image.layers) + ours else None


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
