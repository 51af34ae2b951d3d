"""Shows what the guards verbs found, in plain lines."""

from __future__ import annotations

import platform
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import groupby

from rocmfix.guards.compile import BuildReport, Built, Came
from rocmfix.guards.emitted import Emission, Emitted
from rocmfix.guards.findings import Drift, Finding, Scan, unmoved
from rocmfix.guards.make import NOT_CORRECT, Made
from rocmfix.guards.prove import Proof
from rocmfix.guards.units import NVIDIA

_WIDE = 160


def findings_json(found: Scan) -> str:
    """`{"findings": [...], "unread": [...]}`."""
    return found.model_dump_json(indent=2, include={"findings", "unread"})


def unread_lines(unread: Sequence[str]) -> Iterator[str]:
    """What no parser of this Python takes, and what follows of it."""
    if unread:
        yield f"not read, for Python {platform.python_version()} takes them for no Python:"
        yield from (f"  {each}" for each in unread)
        yield "what ROCm comes to through them cannot be told"


def scan_lines(found: Scan, *, everything: bool) -> Iterator[str]:
    """One block a file: what is in it, how ROCm comes to it; the rest as counts."""
    shown = [each for each in found.findings if everything or each.is_dangerous]
    yield from _blocks(shown)
    counts = Counter("guarded" if each.guarded else f"reachable: {each.reachable.value}" for each in found.findings)
    yield f"{len(found.findings)} CUDA-only lines in {found.source}: " + ", ".join(
        f"{count} {name}" for name, count in counts.most_common()
    )
    yield from unread_lines(found.unread)
    if not everything:
        yield "shown are those that ROCm compiles or may compile; --all shows every one, --json with its whole chain"


def drift_lines(changed: Drift) -> Iterator[str]:
    """What became dangerous; then what ceased to be, in short."""
    yield f"dangerous on ROCm in {changed.after} and not in {changed.before}:"
    yield from _short(changed.added) if changed.added else ["  nothing"]
    if changed.gone:
        yield f"no longer dangerous: {', '.join(sorted({unmoved(each.file) for each in changed.gone}))}"
    files = len({each.file for each in changed.added})
    certain = sum(each.reachable.value == "yes" for each in changed.added)
    yield f"{len(changed.added)} new lines in {files} files, {certain} of them reached as far as the code says"
    yield from unread_lines(changed.unread)
    if changed.added:
        yield "yes: ROCm comes to the call that compiles it, if what stands after `when` holds; ?: it cannot be told"
        yield f"rocmfix guards compile {changed.after} FILE tells if hipcc takes it, scan {changed.after} who calls it"


def _blocks(findings: Iterable[Finding]) -> Iterator[str]:
    for file, group in groupby(findings, key=lambda each: each.file):
        lines = list(group)
        yield file
        yield from (f"  {each.line}: {each.include}{' (guarded)' if each.guarded else ''}" for each in lines)
        first = lines[0]
        yield _cut(f"  reachable: {first.reachable.value}{_when(first)}")
        yield from (_cut(f"    {step}") for step in first.chain)
        yield ""


def _short(findings: Iterable[Finding]) -> Iterator[str]:
    """One line a file, reached ones first."""
    order = sorted(findings, key=lambda each: (each.reachable.value != "yes", each.file, each.line))
    for (_, file), group in groupby(order, key=lambda each: (each.reachable.value != "yes", each.file)):
        lines = list(group)
        what = ", ".join(dict.fromkeys(each.include for each in lines))
        mark = "yes" if lines[0].reachable.value == "yes" else "?"
        place, when = f"  {mark:3} {unmoved(file)}:{lines[0].line}  ", _when(lines[0])
        room = min(70, max(30, _WIDE - len(place) - len(when)))  # what it hangs on matters more than the last of many
        yield _cut(f"{place}{_cut(what, room)}{when}")


def _when(finding: Finding) -> str:
    if finding.condition:
        return f", when {finding.condition}"
    return f", {finding.gate}" if finding.gate else ""


def build_lines(report: BuildReport) -> Iterator[str]:
    """One line a compilation, failures last."""
    yield f"compiled with {report.toolchain}"
    order = [Came.COMPILED, Came.NOT_COMPILABLE, Came.FAILED]
    yield from (
        _built(each) for each in sorted(report.built, key=lambda each: (order.index(each.came), each.file, each.arch))
    )
    counts = Counter(each.came for each in report.built)
    yield ", ".join(f"{counts[came]} {came.value}" for came in order)
    yield from unread_lines(report.unread)
    if report.left_out:
        yield f"{len(report.left_out)} files left out, for ROCm does not come to them; named as FILE, each is compiled:"
        yield f"  {', '.join(map(unmoved, report.left_out))}"
    if counts[Came.COMPILED]:
        yield NOT_CORRECT


def proof_lines(proof: Proof) -> Iterator[str]:
    """Before, after, and what CUDA sees."""
    yield f"{', '.join(proof.fixes)} on {proof.source}, with {proof.toolchain}"
    yield "before"
    yield from (f"  {_built(each)}" for each in proof.before)
    yield "after"
    yield from (f"  {_built(each)}" for each in proof.after)
    changed = ", ".join(proof.cuda_changed)
    yield f"CUDA: {'CHANGED in ' + changed if changed else 'the text without USE_ROCM is the same'}"
    yield f"CUDA: what {proof.nvcc or 'nvcc'} emits for {NVIDIA}"
    yield from (f"  {_emitted(each)}" for each in proof.emitted)
    yield f"{'proved' if proof.holds else 'NOT proved'}. {NOT_CORRECT}"


def _built(each: Built) -> str:
    where = f" at {each.at}" if each.at else ""
    said = f": {each.error}{where}" if each.error else f" ({each.kernels} instantiations, {each.seconds:.1f} s)"
    loader = f" [{each.loader.rpartition('/')[2]}]" if each.loader else ""
    return f"{each.came.value:18} {each.arch} {unmoved(each.file)}{loader}{said}"


def _emitted(each: Emitted) -> str:
    loader = f" [{each.loader.rpartition('/')[2]}]" if each.loader else ""
    size = f" ({each.kernels} instantiations, {each.seconds:.1f} s)" if each.came is Emission.SAME else ""
    return f"{each.came.value:18} {unmoved(each.file)}{loader}{f': {each.why}' if each.why else ''}{size}"


def refusal_lines(made: Made) -> Iterator[str]:
    """Why there is no guard."""
    yield f"{made.file}: {made.refusal}"
    yield from (f"  {obstacle}" for obstacle in made.obstacles)


def made_line(made: Made, where: str) -> str:
    """What a guard was proved by, and where its patch is."""
    archs = " and ".join(sorted({built.arch for built in made.built}))
    compiled = sum(built.came is Came.COMPILED for built in made.built)
    files = ", ".join((made.file, *made.with_it))
    return f"{files}: guarded; {compiled} of {len(made.built)} units compile for {archs}, CUDA text the same: {where}"


def patch_name(made: Made, taken: Collection[str] = ()) -> str:
    """A file name for the patch, without a number: order is the catalogue's business. Long where it is `taken`."""
    folder, _, name = made.file.rpartition("/")
    short = f"guard_{folder.rpartition('/')[2]}_{name.partition('.')[0]}.patch"
    return f"guard_{made.file.replace('/', '_')}.patch" if short in taken else short


def _cut(text: str, width: int = _WIDE) -> str:
    return text if len(text) <= width else text[: width - 3] + "..."
