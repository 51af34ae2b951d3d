"""Writes the text by which a benchmark fleet is asked to run a patched image: what, why, upstream, removal."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from rocmfix.catalog import Fix, PatchSet, Variant
from rocmfix.errors import GiveBackError
from rocmfix.model import Outcome, Status, Verdict
from rocmfix.tree import Tree
from rocmfix.upstream.body import reason_of
from rocmfix.verdict import judge


@dataclass(frozen=True)
class Case:
    """A fix, the variants that a waiver speaks of, and the tree it was asked for, if any."""

    patches: PatchSet
    fix: Fix
    variants: tuple[Variant, ...]
    source: str | None = None
    verdict: Verdict | None = None
    image: str | None = None


def case_for(patches: PatchSet, fix: Fix, tree: Tree | None, image: str | None) -> Case:
    """What there is to waive. Raises GiveBackError where the tree needs no patch of ours, or none mends it."""
    if not fix.variant:
        raise GiveBackError(f"{fix.id} has no patch, so that there is nothing to waive", hint=fix.unmended[0].advice)
    if tree is None:
        return Case(patches, fix, fix.variant, image=image)
    verdict = judge(patches, fix, tree.read)
    if verdict.verdict is not Outcome.NEEDED:
        raise GiveBackError(
            f"{tree.source} does not get {fix.id}: {verdict.verdict.value}: {verdict.reason}",
            hint=verdict.advice or "the stock image runs as it is; no waiver is needed for this fix",
        )
    variants = tuple(variant for variant in fix.variant if variant.file == verdict.variant)
    return Case(patches, fix, variants, tree.source, verdict, image)


def text(case: Case) -> str:
    """The waiver as Markdown."""
    sections = {
        "What is patched": _what(case),
        "Why the stock image cannot run it": _why(case),
        "Upstream": _upstream(case),
        "Removal": _removal(case),
        "How to check this": _check(case),
    }
    head = f"# Waiver: {case.fix.id}" + (f" on {case.image or case.source}" if case.image or case.source else "")
    body = (f"## {name}\n\n" + "\n".join(lines) for name, lines in sections.items())
    return "\n\n".join((head, *body)) + "\n"


def _what(case: Case) -> Iterator[str]:
    for variant in case.variants:
        patch = case.patches.patch(variant)
        hunks = sum(len(change.hunks) for change in patch.changes)
        until = f" up to, not including, {variant.until}" if variant.until else " on"
        yield f"- `{case.patches.name}/{variant.file}`, cut for releases from {variant.since}{until}"
        yield f"  - {patch.subject}, by {patch.author.partition(' <')[0]}"
        yield f"  - {hunks} hunk(s) in {', '.join(f'`{path}`' for path in patch.paths)}"
        yield f"  - sha256 `{patch.digest}`"
    yield ""
    yield "Applied with zero fuzz, all or nothing; the image's `/etc/rocmfix/manifest.json` lists it by digest."


def _why(case: Case) -> Iterator[str]:
    yield f"In short: {case.fix.why}."
    if case.verdict and case.verdict.file:
        yield ""
        yield f"Seen in {case.source}: `{case.verdict.file}:{case.verdict.line or 1}`."
    yield ""
    yield "\n\n".join(reason_of(case.patches.patch(case.variants[-1])))


def _upstream(case: Case) -> Iterator[str]:
    stand = case.fix.upstream
    if stand.pr:
        repository, _, number = stand.pr.partition("#")
        since = f", first in {stand.since}" if stand.since else ""
        yield f"[{stand.pr}](https://github.com/{repository}/pull/{number}): {stand.status.value}{since}."
    else:
        yield f"No pull request yet: {stand.reason}."
        yield "**TODO** open one and put its number here (`rocmfix pr " + case.fix.id + " --onto CLONE`)."


def _removal(case: Case) -> Iterator[str]:
    yield f"To be removed when {case.fix.remove_when}."
    if case.fix.upstream.status is Status.MERGED:
        yield f"An image of sglang {case.fix.upstream.since} or later needs no patch, and rocmfix applies none there."
    else:
        yield "`rocmfix drift` reports the first release that no longer needs it; on such a base it is not applied."


def _check(case: Case) -> Iterator[str]:
    source = case.source or case.variants[-1].since
    yield "```"
    yield f"rocmfix check {source}              # verdict, file and line, from the stock source alone"
    yield f"rocmfix diff {source} --fix {case.fix.id}    # exactly what changes"
    if case.image:
        yield f"rocmfix verify {case.image}    # the image against its manifest, by digest"
    yield "```"
