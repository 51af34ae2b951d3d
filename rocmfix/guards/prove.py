"""Proves fixes by the compilers: the real error before, a build after, and the CUDA side unchanged."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rocmfix.catalog import Catalog
from rocmfix.engine import patch_tree
from rocmfix.guards.chain import SUFFIXES
from rocmfix.guards.compile import Built, Came, Kernels, build
from rocmfix.guards.emitted import Emitted, compare
from rocmfix.guards.nvcc import Nvcc
from rocmfix.guards.same import same_for_cuda
from rocmfix.guards.toolchain import Toolchain
from rocmfix.model import Record
from rocmfix.tree import Overlay


class Proof(Record):
    """One tree, before and after."""

    source: str
    toolchain: str
    fixes: tuple[str, ...]
    files: tuple[str, ...]
    """The C++ files that the fixes change."""
    before: tuple[Built, ...]
    after: tuple[Built, ...]
    cuda_changed: tuple[str, ...]
    """Files whose text differs where USE_ROCM is not defined."""
    nvcc: str | None = None
    """The nvcc that was asked; None when there is none."""
    emitted: tuple[Emitted, ...] = ()
    """What it emits before and after."""

    @property
    def holds(self) -> bool:
        """Broken before, built after, CUDA untouched."""
        return (
            any(each.came is Came.FAILED for each in self.before)
            and bool(self.after)
            and all(each.came is Came.COMPILED for each in self.after)
            and not self.cuda_changed
            and not any(each.is_changed for each in self.emitted)
        )


@dataclass(frozen=True)
class Compilers:
    """What a fix is proved by."""

    hip: Toolchain
    cuda: Nvcc | None
    """None: that the text is the same for CUDA has to do."""


def prove(
    catalog: Catalog, before: Kernels, files: Sequence[str], archs: Sequence[str], compilers: Compilers
) -> Proof | None:
    """Apply the fixes that the tree `before` needs, in memory, and compile what they change before and after.

    None when no such fix changes a C++ file, or none of those that `files` spells.
    """
    tree = before.tree
    asked = {path for name in files for path in before.spelled(name)}
    patched = patch_tree(catalog, tree)
    changes = {path: data for path, data in patched.after.items() if path.endswith(SUFFIXES)}
    wanted = [path for path in changes if not files or path in asked]
    if not wanted:
        return None
    after = Kernels(Overlay(tree, patched.after), like=before)
    compiled = before.named(wanted)
    texts = {path: (_text(tree.read(path)), _text(changes[path])) for path in wanted}
    return Proof(
        source=tree.source,
        toolchain=compilers.hip.name,
        fixes=tuple(
            change.step.fix for change in patched.changes if any(path in wanted for path in change.patch.paths)
        ),
        files=tuple(tree.shown(path) for path in wanted),
        before=build(before, compiled, archs, compilers.hip).built,
        after=build(after, compiled, archs, compilers.hip).built,
        cuda_changed=tuple(tree.shown(path) for path, (old, new) in texts.items() if not same_for_cuda(old, new)),
        nvcc=compilers.cuda.name if compilers.cuda else None,
        emitted=compare(before, after, wanted, compilers.cuda),
    )


def _text(data: bytes | None) -> str:
    return (data or b"").decode("utf-8", "replace")
