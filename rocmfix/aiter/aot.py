"""Compiles the FlyDSL kernels of baked rows while the image is built, instead of at the first request."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from rocmfix.aiter.bake import Baked
from rocmfix.aiter.launch import CUS
from rocmfix.aiter.layout import BAKED, AiterTree
from rocmfix.aiter.origin import RowSource, joined, origin_of
from rocmfix.aiter.schema import FMOE
from rocmfix.errors import TableError

PATH = f"{BAKED}/{FMOE.name}.compiled.csv"
MODULES = ("aiter.aot.flydsl.moe", "aiter.aot.flydsl.mxfp4_moe")
"""Each compiles kernels the other passes over (`aiter/aot/flydsl`), so both are needed."""
CACHE = "FLYDSL_RUNTIME_CACHE_DIR"


@dataclass(frozen=True)
class Compiled:
    """The rows to compile, and how."""

    data: bytes = field(repr=False)
    sources: tuple[RowSource, ...]
    commands: tuple[tuple[str, ...], ...]
    env: tuple[tuple[str, str], ...]
    """For these commands alone."""


def compiling(tree: AiterTree, root: str, baked: Sequence[Baked], gfx: str) -> Compiled | None:
    """What compiles the wanted FlyDSL rows of `baked`, or None when there are none; the base has its own compiled.

    `root` is where the image keeps AITER: the runtime looks for compiled kernels below it. Raises TableError when
    this AITER cannot compile ahead of time.
    """
    table = next((each for each in baked if each.family is FMOE), None)
    lines = table.data.splitlines() if table else []
    asked = [line for line in table.asked if b"flydsl_" in lines[line - 1]] if table else []
    if table is None or not asked:
        return None
    modules = [name for name in MODULES if tree.read(f"{name.replace('.', '/')}.py") is not None]
    if not modules:
        raise TableError(
            f"{tree.source}: this AITER compiles no FlyDSL kernels ahead of time",
            details=(f"there is no {MODULES[0].replace('.', '/')}.py",),
            hint="build without --aot: each kernel is compiled at the first request that needs it",
        )
    places = (origin_of(line, table.sources) for line in asked)
    env = {
        "AITER_AOT_IMPORT": "1",
        "GPU_ARCHS": gfx,
        "CU_NUM": str(CUS[gfx]),
        CACHE: tree.env.get(CACHE) or f"{root}/aiter/jit/flydsl_cache",
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    return Compiled(
        data=b"\n".join([lines[0], *(lines[line - 1] for line in asked)]) + b"\n",
        sources=joined(place.model_copy(update={"first": n}) for n, place in enumerate(places, start=2) if place),
        commands=tuple(("python3", "-m", module, "--csv", PATH) for module in modules),
        env=tuple(sorted(env.items())),
    )
