"""What drift asks of a tree besides its fixes: CUDA-only code that ROCm comes to, tables that its AITER cannot run."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache

from rocmfix.aiter.bake import bake
from rocmfix.aiter.layout import AiterTree
from rocmfix.aiter.sources import Index, TableSource, Wanted, fetched
from rocmfix.errors import TableError
from rocmfix.guards.reach import Reachable
from rocmfix.guards.scan import scan
from rocmfix.source import open_tree
from rocmfix.system import fetch
from rocmfix.system.files import cache_home
from rocmfix.tree import Tree

DOCKERFILE = "docker/rocm.Dockerfile"
_GFX = "gfx950"
"""What every table of `dockerfiles/aiter/index.toml` is for; the stages of upstream's Dockerfile start with it."""
_PIN = re.compile(
    r"^FROM\s+\S+\s+AS\s+(?P<stage>\S+)|^ENV\s+AITER_COMMIT_DEFAULT=[\"']?(?P<commit>[\w.+-]+)", re.MULTILINE
)


@dataclass(frozen=True)
class Question:
    """One thing to ask: the field of Seen that holds the answer, its name, and how."""

    field: str
    what: str
    ask: Callable[[Tree], tuple[str, ...] | None]
    """None where the tree does not say; raises RocmfixError where it cannot be told now."""


@dataclass(frozen=True)
class Looks:
    """All that is asked, and who asks: answers of different versions of rocmfix are not compared."""

    by: str
    questions: tuple[Question, ...]


def looks(version: str, index: Index, *, offline: bool) -> Looks:
    """The looks of this version. The trees and tables that they need are fetched unless `offline`."""

    @cache
    def trouble(table: TableSource, commit: str) -> str:
        return _trouble(table, commit, offline=offline)

    def broken_tables(tree: Tree) -> tuple[str, ...] | None:
        text = tree.read(DOCKERFILE)
        if text is None:
            return None
        found = pins(text.decode("utf-8", "replace")).items()
        return tuple(_broken(found, index, trouble))

    return Looks(
        version,
        (
            Question("includes", "CUDA-only code", reached_cuda),
            Question("broken_tables", "AITER tables", broken_tables),
        ),
    )


def reached_cuda(tree: Tree) -> tuple[str, ...]:
    """Every unguarded CUDA-only line that ROCm is seen to come to, as `file: header`, without line numbers."""
    found = (each for each in scan(tree).findings if not each.guarded and each.reachable is Reachable.YES)
    return tuple(sorted({": ".join(each.key) for each in found}))


def pins(dockerfile: str) -> dict[str, str]:
    """The AITER commit of each stage of upstream's Dockerfile whose GPU the tables are for."""
    stage, found = "", {}
    for line in _PIN.finditer(dockerfile):
        stage = line["stage"] or stage
        if line["commit"] and stage.startswith(_GFX):
            found[stage] = line["commit"]
    return found


def _broken(
    found: Iterable[tuple[str, str]], index: Index, trouble: Callable[[TableSource, str], str]
) -> Iterator[str]:
    for stage, commit in found:
        for table in index.table:
            why = trouble(table, commit)
            if why:
                yield f"{table.name} on {stage}: AITER {commit[:10]} cannot run it: {why}"


def _trouble(table: TableSource, commit: str, *, offline: bool) -> str:
    """Why the AITER at `commit` cannot run the table; empty when it can."""
    tree = open_tree(f"git:{commit}", offline=offline, project="aiter")
    file = fetched(table, cache_home("rocmfix"), _refused if offline else fetch.get)
    try:
        bake(AiterTree(tree), [Wanted(file, table)], _GFX)
    except TableError as error:
        rows = error.message.replace(f" into {tree.source}", "")
        return "; ".join((rows, *(f"line {said.removeprefix(f'{table.shown}:')}" for said in error.details[:1])))
    return ""


def _refused(url: str) -> bytes:
    raise TableError(f"offline, and {url} is not in the cache", hint="run once without --offline")
