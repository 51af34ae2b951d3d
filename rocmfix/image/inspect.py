"""X-ray of an image: what sglang and AITER it really holds, how each fix stands, and which labels are untrue."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath

from rocmfix.aiter.layout import CONFIGS, VARIABLES, named_tables
from rocmfix.catalog import Catalog
from rocmfix.image.manifest import LABEL, VERSION_LABEL, ImageManifest, labels
from rocmfix.image.tree import ImageTree, tree_hash
from rocmfix.model import Outcome, Record, TreeReport
from rocmfix.state import State
from rocmfix.verdict import judge_all

_ENV = ("AITER_", "SGLANG_", "HIP_", "HSA_", "NCCL_", "RCCL_", "ROCM_", "GPU_ARCH", "PYTORCH_ROCM_ARCH", "TVM_FFI_")
_REVISION_LABEL = "org.opencontainers.image.revision"


class Table(Record):
    """One AITER table in the image, by what it holds."""

    path: str
    rows: int
    sha256: str
    variable: str | None = None
    """What in the ENV names it: then the tables that AITER ships are not read."""


class Disagreement(Record):
    """Something that is said of an image and does not hold."""

    who: str
    """What says it: a label, the tag, the manifest."""
    says: str
    holds: str


class Reading(Record):
    """How much of an image was read to know this."""

    bytes: int
    of: int
    layers: int
    of_layers: int


class ImageReport(Record):
    """What an image holds."""

    image: str
    id: str
    digest: str | None
    size: int
    platform: str
    package: str
    release: str | None
    commit: str | None
    aiter: str | None
    tree: str
    flavour: str | None
    """The rocmfix flavour it was built as, if it was."""
    applied: tuple[str, ...]
    report: TreeReport
    tables: tuple[Table, ...]
    env: tuple[tuple[str, str], ...]
    disagreements: tuple[Disagreement, ...]
    reading: Reading | None = None


@dataclass(frozen=True)
class Seen:
    """The facts an X-ray is made of, from an engine or a registry alike."""

    name: str
    id: str
    """The digest of its configuration, which an engine and a registry agree on."""
    size: int
    platform: str
    labels: Mapping[str, str]
    env: tuple[tuple[str, str], ...]
    layers: tuple[str, ...]
    """Unpacked digests, lowest first: the same in an engine and in a registry."""
    tree: ImageTree
    commit: str | None
    aiter: str | None
    manifest: ImageManifest | None
    digest: str | None = None
    """Of its manifest, where a registry was asked."""
    shadow: str | None = None
    reading: Reading | None = None


def xray(catalog: Catalog, seen: Seen) -> ImageReport:
    """Judge the tree and hold every claim against it. Pure."""
    state = seen.manifest.state if seen.manifest else State()
    report = judge_all(catalog, seen.tree, state.record())
    return ImageReport(
        image=seen.name,
        id=seen.id,
        digest=seen.digest,
        size=seen.size,
        platform=seen.platform,
        package=seen.tree.layout.package,
        release=seen.tree.release,
        commit=seen.commit,
        aiter=seen.aiter,
        tree=tree_hash(seen.tree),
        flavour=seen.manifest.flavour if seen.manifest else None,
        applied=seen.manifest.applied if seen.manifest else (),
        report=report,
        tables=tuple(_tables(seen)),
        env=tuple((name, value) for name, value in sorted(seen.env) if name.startswith(_ENV)),
        disagreements=tuple(d for ask in _QUESTIONS for d in ask(seen, report)),
        reading=seen.reading,
    )


def _tables(seen: Seen) -> Iterator[Table]:
    """Those that AITER ships, and those that the ENV names."""
    named = {
        path: name
        for name, value in sorted(seen.env)
        if name.startswith(VARIABLES)
        for path in value.split(":")
    }  # fmt: skip
    configs = f"{seen.tree.layout.aiter}/{CONFIGS}/"
    for path, file in sorted(seen.tree.files.items()):
        is_tuned = path.startswith(configs) and path.endswith(".csv") and "untuned" not in PurePosixPath(path).name
        if (is_tuned or path in named) and not file.is_directory:
            rows = sum(1 for line in file.data.splitlines()[1:] if line.strip())
            digest = hashlib.sha256(file.data).hexdigest()
            yield Table(path=path, rows=rows, sha256=digest, variable=named.get(path))


Question = Callable[[Seen, TreeReport], Iterator[Disagreement]]


def _version_label(seen: Seen, _: TreeReport) -> Iterator[Disagreement]:
    said, holds = seen.labels.get(VERSION_LABEL), seen.tree.release
    if said and holds and said.removeprefix("v") != holds:
        yield Disagreement(who=f"label {VERSION_LABEL}", says=said, holds=f"sglang {holds}")
    said = seen.labels.get(_REVISION_LABEL)
    if said and seen.commit and said != seen.commit:
        yield Disagreement(who=f"label {_REVISION_LABEL}", says=said, holds=seen.commit)


def _tag(seen: Seen, _: TreeReport) -> Iterator[Disagreement]:
    """Upstream's tags carry release, ROCm line and GPU family: `v0.5.14-rocm720-mi35x`."""
    tag = seen.name.rpartition("/")[2].partition("@")[0].partition(":")[2]
    parts = tag.split("-")
    release = seen.tree.release
    if parts[0].startswith("v") and parts[0][1:2].isdigit() and release and parts[0][1:] != release:
        yield Disagreement(who=f"tag {tag}", says=parts[0], holds=f"sglang {release}")
    arch = dict(seen.env).get("GPU_ARCH", "")
    for family, gfx in (("mi30x", "gfx942"), ("mi35x", "gfx950")):
        if family in parts and arch and not arch.startswith(gfx):
            yield Disagreement(who=f"tag {tag}", says=f"{family} ({gfx})", holds=f"GPU_ARCH={arch}")


def _manifest(seen: Seen, report: TreeReport) -> Iterator[Disagreement]:
    manifest = seen.manifest
    if manifest is None:
        ours = sorted(name for name in seen.labels if name.startswith(f"{LABEL}."))
        if ours:
            yield Disagreement(who=f"label {ours[0]}", says="built by rocmfix", holds="no manifest in the image")
        return
    for name, value in labels(manifest).items():
        if seen.labels.get(name) != value:
            yield Disagreement(who=f"label {name}", says=seen.labels.get(name, "nothing"), holds=value)
    verdicts = {verdict.fix: verdict for verdict in report.verdicts}
    for fix in manifest.applied:
        verdict = verdicts.get(fix)
        if verdict and verdict.verdict not in (Outcome.APPLIED, Outcome.UPSTREAM):
            yield Disagreement(
                who="manifest", says=f"{fix} was applied", holds=f"{verdict.verdict.value}: {verdict.reason}"
            )


def _shadow(seen: Seen, _: TreeReport) -> Iterator[Disagreement]:
    if seen.shadow:
        yield Disagreement(
            who="site-packages", says=f"a second sglang in {seen.shadow}", holds=f"judged: {seen.tree.layout.package}"
        )


def _named_tables(seen: Seen, _: TreeReport) -> Iterator[Disagreement]:
    for path in named_tables(dict(seen.env)):
        if path not in seen.tree.files:
            yield Disagreement(who="ENV", says=f"AITER reads {path}", holds="no such file")


_QUESTIONS: tuple[Question, ...] = (_version_label, _tag, _manifest, _shadow, _named_tables)
