"""Chooses what to apply and says why for the rest; then applies it in memory, all or nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from rocmfix.catalog import Catalog, PatchSet
from rocmfix.errors import ApplyError
from rocmfix.hunks import Applied, Misfit, Read, apply_changes
from rocmfix.model import Outcome, PatchPlan, Skip, Step, TreeReport, Verdict
from rocmfix.patchfile import Patch
from rocmfix.probe import ask_all
from rocmfix.tree import Overlay, Tree
from rocmfix.verdict import mended, nearest_misfit


@dataclass(frozen=True)
class Wanted:
    """Which fixes the user asked for; empty fields ask for all."""

    fixes: tuple[str, ...] = ()
    sets: tuple[str, ...] = ()
    gfx: str | None = None

    def refusal(self, patches: PatchSet, fix_id: str) -> str | None:
        """Why this fix was not asked for, or None if it was."""
        if self.fixes and fix_id not in self.fixes:
            return "not asked for (--fix)"
        if self.sets and not {patches.name, patches.folder.name} & set(self.sets):
            return "not asked for (--set)"
        if self.gfx and patches.series.gfx and self.gfx not in patches.series.gfx:
            return f"its set is for {', '.join(patches.series.gfx)}, not {self.gfx}"
        return None


@dataclass(frozen=True)
class Change:
    """One step done in memory: the files it leaves behind (None = removed), as repository paths."""

    step: Step
    patch: Patch
    files: Mapping[str, bytes | None]


@dataclass(frozen=True)
class Patched:
    """A plan carried out in memory: what each step changed, and the touched files before and after all of them."""

    plan: PatchPlan
    changes: tuple[Change, ...]
    before: Mapping[str, bytes | None]
    after: Mapping[str, bytes | None]


def make_plan(catalog: Catalog, report: TreeReport, wanted: Wanted | None = None) -> PatchPlan:
    """The plan that `report` leads to: needed and wanted fixes apply, every other one is a skip with its reason."""
    apply: list[Step] = []
    skip: list[Skip] = []
    verdicts = {verdict.fix: verdict for verdict in report.verdicts}
    for patches, fix in catalog.fixes():
        verdict = verdicts[fix.id]
        refusal = (wanted or Wanted()).refusal(patches, fix.id)
        if verdict.verdict is Outcome.NEEDED and not refusal:
            apply.append(_step(patches, verdict))
        else:
            reason = _reason(verdict, refusal)
            skip.append(Skip(fix=fix.id, verdict=verdict.verdict, reason=reason, unasked=bool(refusal)))
    return PatchPlan(source=report.source, release=report.release, apply=tuple(apply), skip=tuple(skip))


def with_merged(catalog: Catalog, plan: PatchPlan, merged: Mapping[str, Patch]) -> PatchPlan:
    """`plan` with the fixes in `merged` moved from skipped to applied, in the catalogue's order."""
    steps = {step.fix: step for step in plan.apply}
    for fix_id, patch in merged.items():
        patches, _ = catalog.find(fix_id)
        file = patch.name.rpartition("/")[2]
        steps[fix_id] = Step(
            fix=fix_id, set=patches.name, variant=file, digest=patch.digest, files=patch.paths, merged=True
        )
    order = [fix.id for _, fix in catalog.fixes()]
    apply = tuple(steps[fix_id] for fix_id in order if fix_id in steps)
    return plan.model_copy(update={"apply": apply, "skip": tuple(s for s in plan.skip if s.fix not in merged)})


def refuse_conflicts(catalog: Catalog, plan: PatchPlan, tree: Tree) -> None:
    """Raise ApplyError for the first fix of `plan` that is a conflict: a half-right tree must not look done."""
    for skip in plan.skip:
        if skip.verdict is Outcome.CONFLICT and not skip.unasked:
            raise _conflict_error(catalog, skip, tree)


def carry_out(catalog: Catalog, plan: PatchPlan, tree: Tree, merged: Mapping[str, Patch] | None = None) -> Patched:
    """Apply `plan` to `tree` in memory, in order; fixes in `merged` by the patch given there.

    Raises ApplyError when a step does not fit after the ones before it, when a patched Python file no longer
    compiles, or when the `fixed` probes of a fix do not hold afterwards. Nothing outside memory is touched.
    """
    after: dict[str, bytes | None] = {}
    changes: list[Change] = []
    for step in plan.apply:
        patches, _ = catalog.find(step.fix)
        patch = (merged or {}).get(step.fix) or patches.patches[step.variant]
        result = apply_changes(patch.changes, Overlay(tree, after).read)
        if isinstance(result, Misfit):
            raise ApplyError(
                f"{step.set}: {step.fix} no longer fits after the fixes before it ({_place(tree, result)})",
                details=_both(result),
                hint=f"apply it alone (--fix {step.fix}), and report this: the catalogue is meant to fit together",
            )
        after.update(result.files)
        changes.append(Change(_landed(step, result), patch, result.files))
    _refuse_broken(after, tree)
    _refuse_unmended(catalog, plan, Overlay(tree, after).read)
    done = plan.model_copy(update={"apply": tuple(change.step for change in changes)})
    return Patched(done, tuple(changes), {path: tree.read(path) for path in after}, after)


def _step(patches: PatchSet, verdict: Verdict) -> Step:
    patch = patches.patches[verdict.variant or ""]
    return Step(fix=verdict.fix, set=patches.name, variant=patch.name.rpartition("/")[2], digest=patch.digest,
                files=patch.paths)  # fmt: skip


def _reason(verdict: Verdict, refusal: str | None) -> str:
    if refusal:
        return refusal
    return f"{verdict.reason}; {verdict.advice}" if verdict.advice else verdict.reason


def _landed(step: Step, result: Applied) -> Step:
    return step.model_copy(update={"offsets": tuple(each.offset for each in result.landed)})


def _conflict_error(catalog: Catalog, skip: Skip, tree: Tree) -> ApplyError:
    patches, fix = catalog.find(skip.fix)
    nearest = nearest_misfit(patches, fix, tree.read)
    hint = f"rocmfix refresh {patches.name} --onto {tree.source}"
    if nearest is None:
        return ApplyError(f"{patches.name}: {fix.id} cannot be decided on {tree.source}: {skip.reason}", hint=hint)
    variant, misfit = nearest
    return ApplyError(
        f"{patches.name}: {fix.id} does not apply to {tree.source} ({_place(tree, misfit)}, {variant.file})",
        details=_both(misfit),
        hint=hint,
    )


def _place(tree: Tree, misfit: Misfit) -> str:
    return tree.shown(misfit.path) + (f":{misfit.line}" if misfit.line else "")


def _both(misfit: Misfit) -> tuple[str, str]:
    has = "nothing there" if misfit.has is None else misfit.has.strip()
    return f"the tree has        {has}", f"the patch expects   {misfit.expects.strip()}"


def _refuse_broken(after: Mapping[str, bytes | None], tree: Tree) -> None:
    for path, data in after.items():
        if path.endswith(".py") and data is not None:
            try:
                compile(data, path, "exec", dont_inherit=True)
            except SyntaxError as error:
                raise ApplyError(
                    f"{tree.shown(path)}:{error.lineno} no longer compiles once patched: {error.msg}",
                    hint="the file was not valid for this Python before, or a patch is wrong; nothing was written",
                ) from None


def _refuse_unmended(catalog: Catalog, plan: PatchPlan, read: Read) -> None:
    for step in plan.apply:
        _, fix = catalog.find(step.fix)
        if mended(fix, read) is None:
            raise ApplyError(
                f"{step.set}: {step.variant} applies, and yet the `fixed` probes of {step.fix} do not hold afterwards",
                details=(ask_all(fix.fixed, read, fix.subject).why,),
                hint="nothing was written; the catalogue's patch and probes disagree: rocmfix lint --releases",
            )
