"""How much of what a launch will ask for is answered by a tuned row."""

from __future__ import annotations

from collections.abc import Mapping

from rocmfix.aiter.launch import Launch, Model, key_of, keys
from rocmfix.aiter.layout import AiterTree
from rocmfix.aiter.lookup import Answer, answer
from rocmfix.aiter.probing import probe
from rocmfix.aiter.reader import Refusal, Table, TableFile, load
from rocmfix.aiter.schema import FMOE
from rocmfix.aiter.selection import Selection, named, select
from rocmfix.errors import TableError
from rocmfix.model import Record


class Coverage(Record):
    """The lookups of a launch and which of them hit."""

    generation: str
    keys: tuple[Answer, ...]
    hit: int
    total: int

    @property
    def missing(self) -> tuple[Answer, ...]:
        """The lookups no row answers."""
        return tuple(key for key in self.keys if not key.hit)


def table_of(tree: AiterTree, files: tuple[TableFile, ...] = (), gfx: str = "gfx950") -> Table:
    """The fused-MoE table as this AITER would use it. Raises TableError where it would not start."""
    rules = probe(tree)
    if rules is None or not rules.known:
        raise TableError(
            f"{tree.source}: this AITER reads its tables in a way not seen before",
            hint="report the AITER commit, so that its reader can be added",
        )
    found = named(tree, files) if files else select(tree, rules)
    selection = next((item for item in found if item.family is FMOE), None)
    if selection is None:
        raise TableError(f"{tree.source} has no fused-MoE table")
    if not selection.files:
        raise TableError(
            f"{tree.source}: {FMOE.variable} names {', '.join(selection.missing)}, which is not there",
            hint=f"AITER itself fails here; unset {FMOE.variable}, or put the table there",
        )
    table = load(selection.files, selection.untuned, rules, gfx)
    if isinstance(table, Refusal):
        raise _refused(table, selection)
    return table


def _refused(refusal: Refusal, selection: Selection) -> TableError:
    place = f"{refusal.at.file}:{refusal.at.line}: " if refusal.at else f"{selection.files[0].path}: "
    return TableError(
        f"{place}{refusal.error}: {refusal.message}",
        hint="AITER itself fails here; rocmfix aiter doctor says what to mend",
    )


def cover(table: Table, model: Model, launch: Launch) -> Coverage:
    """Which lookups of `launch` hit."""
    return summed(table, tuple(answer(table, key) for key in keys(model, launch, table.rules)))


def summed(table: Table, answers: tuple[Answer, ...]) -> Coverage:
    """Answers with their count."""
    return Coverage(
        generation=table.rules.name,
        keys=answers,
        hit=sum(key.hit for key in answers),
        total=len(answers),
    )


def share(table: Table, model: Model, launch: Launch, workload: Mapping[int, float]) -> float:
    """The share of a workload's tokens that hit: `workload` says how often a call of so many tokens is made."""
    tokens = {count: count * often for count, often in workload.items()}
    total = sum(tokens.values())
    hit = (part for count, part in tokens.items() if answer(table, key_of(model, launch, count, table.rules)).hit)
    return sum(hit) / total if total else 0.0
