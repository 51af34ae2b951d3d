"""Builds an overlay: only what changes, on the base by digest, checked before it gets its name."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from rocmfix import __version__
from rocmfix.catalog import Catalog
from rocmfix.errors import EngineError, VerifyError
from rocmfix.image import flavour as flavours, stale
from rocmfix.image.base import FoundBase, find_base
from rocmfix.image.checkout import commit_of
from rocmfix.image.context import Context, Facts, Recipe, Tables, changed_paths, prepare
from rocmfix.image.dockerfile import template_digest
from rocmfix.image.flavour import Variable
from rocmfix.image.layer import Entry
from rocmfix.image.manifest import INPUTS_LABEL, PATH, ImageManifest, parse
from rocmfix.image.progress import Progress
from rocmfix.image.tree import ImageTree, locate, read_tree
from rocmfix.image.verify import Depth, verify
from rocmfix.model import PatchPlan, Record
from rocmfix.plan import Patched, Wanted, carry_out, make_plan, refuse_conflicts
from rocmfix.state import State
from rocmfix.system.container import Container
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
    tree: ImageTree
    base: FoundBase
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
    draft = make_draft(engine, base, order, progress)
    if draft.is_empty and not order.env:
        return Built(image=None, is_new=False, tags=(), base=base.record.name, plan=draft.plan)
    with progress.step("build"):
        image = _run(engine, draft.context, progress)
    with progress.step("verify"):
        _check(engine, image)
    return _named(engine, image, order, draft)


def make_draft(engine: Engine, base: FoundBase, order: Order, progress: Progress) -> Draft:
    """Read the base's tree, judge it, carry the plan out in memory, and lay out the build context."""
    name = f"image:{base.record.name}"
    with engine.container(base.image.id) as container:
        with progress.step(f"read the tree of {base.record.name}"):
            layout = locate(container, dict(base.image.env), name)
            tree = read_tree(container, layout, name)
            earlier = _earlier(container)
        state = earlier.state if earlier else State()
        with progress.step("judge and patch"):
            report = judge_all(order.catalog, tree, state.record())
            plan = make_plan(order.catalog, report, _wanted(order))
            refuse_conflicts(order.catalog, plan, tree)
            patched = carry_out(order.catalog, plan, tree)
        facts = Facts(
            base=base.record,
            start=base.start,
            tree=tree,
            report=report,
            commit=commit_of(container, layout.checkout),
            aiter=commit_of(container, layout.aiter),
            state=state,
            earlier=earlier.files if earlier else (),
            bytecode=stale.bytecode(tree, patched.after),
            kernels=stale.kernels(container, tree, dict(base.image.env), patched.after),
            folders=_folders(container, tree, changed_paths(tree, patched, order.tables)),
        )
    return Draft(plan, patched, tree, base, prepare(_recipe(order, base), facts, patched, order.templates))


def inputs_digest(order: Order, base: FoundBase) -> str:
    """One digest for all that decides the image. Every stage after it is a pure function of these."""
    decided = {
        "tool": __version__,
        "template": template_digest(order.templates),
        "base": base.image.id,
        "name": base.record.name,
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


def _recipe(order: Order, base: FoundBase) -> Recipe:
    return Recipe(
        flavour=order.flavour,
        features=flavours.features(order.flavour),
        tables=order.tables,
        env=order.env,
        tool=__version__,
        inputs=inputs_digest(order, base),
    )


def _wanted(order: Order) -> Wanted:
    """The user's choice; where there is none, the flavour's."""
    wanted = order.wanted
    sets = wanted.sets or (() if wanted.fixes else order.flavour.sets)
    return Wanted(wanted.fixes, sets, wanted.gfx or order.flavour.gpu.gfx)


def _already_built(engine: Engine, base: FoundBase, order: Order, progress: Progress) -> Built | None:
    """The image that these very inputs gave before, if the engine still has it and it is as it was."""
    for image in engine.images_with(INPUTS_LABEL, inputs_digest(order, base)):
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
        base=draft.base.record.name,
        plan=draft.plan,
        manifest=draft.context.manifest.digest,
        layer_bytes=draft.context.changed_bytes,
    )


def _earlier(container: Container) -> ImageManifest | None:
    """The manifest of the rocmfix build that the base itself is, if it is one."""
    file = container.read(PATH)
    return parse(file.data) if file else None


def _folders(container: Container, tree: ImageTree, paths: tuple[str, ...]) -> Mapping[str, Entry]:
    """Owner, mode and time of every folder above `paths` that the base has."""
    names = {str(parent) for path in paths for parent in list(PurePosixPath(path).parents)[:-1]}
    found = ((name, tree.files.get(name) or container.directory(name)) for name in sorted(names))
    return {
        name: Entry(name, None, folder.mode, folder.uid, folder.gid, folder.mtime) for name, folder in found if folder
    }
