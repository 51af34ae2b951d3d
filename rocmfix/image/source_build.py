"""Builds from source: upstream's own docker/rocm.Dockerfile over the patched tree, then seals the result."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from rocmfix.engine import patch_tree
from rocmfix.errors import ApplyError, CatalogError, SourceError, ToolMissingError
from rocmfix.image.base import SeenBase
from rocmfix.image.build import Built, finish, make_draft
from rocmfix.image.flavour import Variable, reasons
from rocmfix.image.local import look
from rocmfix.image.manifest import BaseImage
from rocmfix.image.order import Order, wanted_by
from rocmfix.image.progress import Progress
from rocmfix.image.tables import fetched
from rocmfix.plan import Patched
from rocmfix.source.export import export
from rocmfix.system import buildx
from rocmfix.system.docker import Engine, LocalImage
from rocmfix.system.files import scratch_folder, write_atomic
from rocmfix.tree import Tree

DOCKERFILE = "docker/rocm.Dockerfile"
_ARG = re.compile(r"^\s*ARG\s+([A-Za-z_][A-Za-z0-9_]*)", re.IGNORECASE | re.MULTILINE)
_HEREDOC = re.compile(r"^\s*(RUN|COPY)\b.*<<-?[\"']?\w", re.IGNORECASE | re.MULTILINE)
_FIRST_WITH_HEREDOC = 23


@dataclass(frozen=True)
class SourceOrder:
    """What the user asked for beyond an ordinary order."""

    tree: Tree
    args: Mapping[str, str]
    secrets: Mapping[str, str]
    """Values by name: handed to the build as BuildKit secrets, and to nothing else."""
    attest: tuple[str, ...] = ()
    network: str | None = None


def build_from_source(engine: Engine, order: Order, source: SourceOrder, progress: Progress) -> Built:
    """Patch the tree, build it with upstream's Dockerfile, and seal the image with its manifest."""
    version = buildx.version()
    dockerfile = _dockerfile(source.tree)
    refuse_old_engine(engine.version, dockerfile)
    arguments = build_args(dockerfile, order, source)
    tables = fetched(order, progress)
    with progress.step(f"patch {source.tree.source}"):
        patched = patch_tree(order.catalog, source.tree, wanted_by(order))
    with scratch_folder() as folder, progress.step(f"build {DOCKERFILE} with buildx {version}"):
        _write(source.tree, patched, folder)
        image = buildx.build(
            buildx.BuildxOrder(
                context=folder,
                dockerfile=folder / DOCKERFILE,
                args=arguments,
                secrets=tuple(source.secrets),
                attest=source.attest,
                network=source.network,
            ),
            progress.note,
            tuple(source.secrets.values()),
        )
    built = _held(engine, image)
    base = BaseImage(name=f"{source.tree.source} {DOCKERFILE}", digest=image)
    with progress.step("read what was built"):
        seen = look(engine, built, base.name, thorough=False, kernels=bool(tables))
    draft = make_draft(SeenBase(base, image, seen), order, tables, patched)
    for note in draft.notes:
        progress.note(note)
    return finish(engine, order, replace(draft, plan=patched.plan), progress)


def build_args(dockerfile: str, order: Order, source: SourceOrder) -> dict[str, str]:
    """What to pass. Docker drops a build argument that no ARG declares without a word, so those are refused here."""
    declared = set(_ARG.findall(dockerfile))
    if "BRANCH_TYPE" not in declared:
        raise SourceError(
            f"{source.tree.source}: its {DOCKERFILE} knows no BRANCH_TYPE, so it would clone upstream unpatched",
            hint="use a later release, or an overlay on that release's image (rocmfix build --base IMAGE)",
        )
    if unknown := sorted(set(source.args) - declared):
        raise CatalogError(
            f"{DOCKERFILE} declares no ARG {', '.join(unknown)}, and Docker would drop it silently",
            hint="it declares: " + ", ".join(sorted(declared)),
        )
    for name, value in source.args.items():
        _refuse_secret(name, value)
    ours = {"BRANCH_TYPE": "local", "GPU_ARCH": order.flavour.stage}
    if order.flavour.aiter and "AITER_COMMIT" in declared:
        ours["AITER_COMMIT"] = order.flavour.aiter
    if source.tree.release and "SETUPTOOLS_SCM_PRETEND_VERSION" in declared:
        # The context carries no .git, from which the version would be taken.
        ours["SETUPTOOLS_SCM_PRETEND_VERSION"] = source.tree.release
    return {**ours, **source.args}


def _refuse_secret(name: str, value: str) -> None:
    try:
        Variable(name=name, value=value)
    except ValueError as error:
        raise CatalogError(
            f"--build-arg {name} was refused: build arguments stay readable in the image's history",
            details=reasons(error),
            hint=f"--secret {name}  hands the value of the variable {name} to the build alone",
        ) from None


def _dockerfile(tree: Tree) -> str:
    data = tree.read(DOCKERFILE)
    if data is None:
        raise SourceError(
            f"{tree.source}: has no {DOCKERFILE}",
            hint="a wheel holds the package alone: give a checkout, or git:REF of upstream",
        )
    return data.decode("utf-8", "replace")


def refuse_old_engine(version: str, dockerfile: str) -> None:
    """Raise ToolMissingError when an engine of this version would not read the Dockerfile as it is meant."""
    major = version.partition(".")[0]
    if _HEREDOC.search(dockerfile) and major.isdigit() and int(major) < _FIRST_WITH_HEREDOC:
        raise ToolMissingError(
            f"{DOCKERFILE} uses heredocs, and the BuildKit inside this engine ({version}) cannot read them",
            hint="Docker 23 or newer; or an overlay, which any engine builds: rocmfix build --base IMAGE",
        )


def _write(tree: Tree, patched: Patched, folder: Path) -> None:
    export(tree, folder)
    for path, data in patched.after.items():
        if data is None:
            raise ApplyError(f"{path} is removed by a patch", hint="leave that fix out (--fix, --set)")
        write_atomic(folder / tree.shown(path), data)


def _held(engine: Engine, image: str) -> LocalImage:
    found = engine.image(image)
    if found is None:
        raise SourceError("buildx built an image that the engine does not hold", hint="docker buildx use default")
    return found
