"""Builds an overlay: only what changes, on the base by digest, checked before it gets its name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rocmfix import __version__
from rocmfix.errors import CatalogError, EngineError, VerifyError
from rocmfix.image import flavour as flavours
from rocmfix.image.base import FoundBase, SeenBase, find_base
from rocmfix.image.context import Context, Ground, Past, Recipe, Tables, past_of_source, prepare
from rocmfix.image.inspect import Seen
from rocmfix.image.local import look
from rocmfix.image.manifest import INPUTS_LABEL, MANIFEST_LABEL, PATH, VERSION_LABEL, BaseImage, ImageManifest, parse
from rocmfix.image.order import Order, inputs_digest, wanted_by
from rocmfix.image.progress import Progress
from rocmfix.image.tables import fetched, lay_out
from rocmfix.image.verify import Depth, verify
from rocmfix.model import PatchPlan, Record
from rocmfix.plan import Patched, carry_out, make_plan, refuse_conflicts
from rocmfix.system.docker import Engine, LocalImage
from rocmfix.verdict import judge_all

if TYPE_CHECKING:  # most builds bake no table
    from rocmfix.aiter.sources import Wanted


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
    notes: tuple[str, ...] = ()
    """What was done with the tables."""

    @property
    def is_empty(self) -> bool:
        """Nothing is needed, and no table was asked for that the base lacks."""
        return not self.patched.changes and self.context.tables is None


def build(engine: Engine, order: Order, progress: Progress) -> Built:
    """Build the image that `order` asks for, or find it already built, or find that nothing is needed."""
    engine.sweep()
    base = find_base(engine, order.flavour, order.base, progress)
    if done := _already_built(engine, base, order, progress):
        return done
    tables = fetched(order, progress)
    with progress.step(f"read {base.record.name}"):
        seen = look(engine, base.image, base.record.name, thorough=False, kernels=bool(tables))
    with progress.step("judge and patch"):
        draft = make_draft(SeenBase(base.record, base.start, seen), order, tables)
    for note in draft.notes:
        progress.note(note)
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


def make_draft(base: SeenBase, order: Order, tables: Sequence[Wanted], done: Patched | None = None) -> Draft:
    """Judge the base's tree, carry the plan out in memory, bake `tables`, and lay out the build context. Pure.

    `done` is what was already done to the source that the base was built from.
    """
    seen = base.seen
    _refuse_other_aiter(order, seen)
    past = past_of_source(seen.tree, done) if done else _past(seen.manifest)
    report = judge_all(order.catalog, seen.tree, past.state.record())
    plan = make_plan(order.catalog, report, wanted_by(order))
    refuse_conflicts(order.catalog, plan, seen.tree)
    patched = carry_out(order.catalog, plan, seen.tree)
    ground = Ground(base.record, base.start, seen, report, past)
    baked = lay_out(order, tables, seen, past.tables) if tables else Tables()
    context = prepare(_recipe(order, base.record, seen.id, baked), ground, patched, order.templates)
    return Draft(plan, patched, seen, context, baked.notes)


def _recipe(order: Order, base: BaseImage, image: str, tables: Tables) -> Recipe:
    return Recipe(
        flavour=order.flavour,
        features=flavours.features(order.flavour),
        tables=tables,
        env=order.env,
        tool=__version__,
        inputs=inputs_digest(order, base, image),
    )


def _already_built(engine: Engine, base: FoundBase, order: Order, progress: Progress) -> Built | None:
    """The image that these very inputs gave before, if the engine still has it and it is as it was."""
    inputs = inputs_digest(order, base.record, base.image.id)
    held = (engine.image(name) for name in engine.images_with(INPUTS_LABEL, inputs))
    image = next((image for image in held if image and _is_ours(engine, image, base)), None)
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


def _is_ours(engine: Engine, image: LocalImage, base: FoundBase) -> bool:
    """Whether an image is what we built, not what somebody built on top of it: labels are inherited.

    What is on top adds a layer or changes the ENV; the bytes of a layer cannot change.
    """
    below = base.image.layers
    if image.layers[: len(below)] != below:
        return False
    with engine.container(image.id) as container:
        file = container.read(PATH)
    manifest = parse(file.data) if file else None
    env = dict(image.env)
    return (
        manifest is not None
        and len(image.layers) == len(below) + manifest.layers
        and all(env.get(variable.name) == variable.value for variable in manifest.env)
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
    if manifest is None:
        return Past()
    return Past(manifest.state, manifest.files, tables=manifest.tables, env=manifest.env)


def _refuse_other_aiter(order: Order, seen: Seen) -> None:
    if order.aiter and seen.aiter and order.aiter != seen.aiter:
        raise CatalogError(
            f"{seen.name} carries AITER {seen.aiter[:12]}, and the lock says {order.aiter[:12]}",
            hint="the base was replaced under its name: pull it by the lock's digest, or make the lock anew",
        )
