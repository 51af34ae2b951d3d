"""Which files an AITER reads for a family of tables: the variable's, else the default and the model files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rocmfix.aiter.generation import Generation
from rocmfix.aiter.layout import CONFIGS, CORE, MODEL_CONFIGS, AiterTree
from rocmfix.aiter.reader import TableFile
from rocmfix.aiter.schema import FAMILIES, FMOE, FMOE_KEY, Family, family_of


@dataclass(frozen=True)
class Selection:
    """The files of one family, in the order they are merged in."""

    family: Family
    files: tuple[TableFile, ...]
    untuned: TableFile | None
    """The file whose columns are the deduplication key."""
    named: bool = False
    """The user or a variable named these files; they replace the shipped ones."""
    missing: tuple[str, ...] = ()
    """What the variable names and is not there."""


def select(tree: AiterTree, rules: Generation | None) -> tuple[Selection, ...]:
    """What every family of this AITER reads: what the tree's environment names, else what it ships.

    AITER takes model files in directory order, which no one can know; here they are sorted.
    """
    core = tree.text(CORE) or ""
    found = [_selected(tree, family, rules) for family in FAMILIES if family.variable in core]
    return tuple(selection for selection in found if selection.files or selection.missing)


def _selected(tree: AiterTree, family: Family, rules: Generation | None) -> Selection:
    """A variable that is set replaces all that is shipped; of several paths those not there are left out."""
    paths = [path for path in tree.env.get(family.variable, "").split(":") if path]
    if not paths:
        return Selection(family, shipped(tree, family, rules), _untuned(tree, family))
    files = {path: _file(tree, path) for path in paths}
    return Selection(
        family,
        tuple(file for file in files.values() if file),
        _untuned(tree, family),
        named=True,
        missing=tuple(path for path, file in files.items() if file is None),
    )


def shipped(tree: AiterTree, family: Family, rules: Generation | None) -> tuple[TableFile, ...]:
    """What is read of a family when no variable is set: the default file, then the model files."""
    base = f"{CONFIGS}/{family.name}.csv"
    paths = [base, *(path for path in tree.paths(MODEL_CONFIGS) if _belongs(path, family, rules))]
    return tuple(file for path in paths if (file := _file(tree, path)) is not None)


def _belongs(path: str, family: Family, rules: Generation | None) -> bool:
    name = path.removeprefix(f"{MODEL_CONFIGS}/")
    ending = ".csv" if rules is None or rules.csv_only else ""
    return "/" not in name and family.name in name and name.endswith(ending) and "untuned" not in name


def _file(tree: AiterTree, path: str) -> TableFile | None:
    data = tree.read(path)
    return None if data is None else TableFile(tree.shown(path), data)


def _untuned(tree: AiterTree, family: Family) -> TableFile | None:
    return _file(tree, f"{CONFIGS}/{family.untuned}.csv")


def named(tree: AiterTree, files: Sequence[TableFile]) -> tuple[Selection, ...]:
    """The files a user names, by family, as if the family's variable listed them."""
    by_family: dict[Family, list[TableFile]] = {}
    for file in files:
        by_family.setdefault(family_by_content(file), []).append(file)
    return tuple(
        Selection(family, tuple(found), _untuned(tree, family), named=True) for family, found in by_family.items()
    )


def family_by_content(file: TableFile) -> Family:
    """The family of a file: by its name as AITER does, else by its header; fmoe when neither says."""
    name = file.path.rsplit("/", 1)[-1]
    header = file.data.split(b"\n", 1)[0].decode("utf-8", errors="replace").strip().split(",")
    by_name = family_of(name)
    if by_name is not None and set(by_name.key) - {"gfx"} <= set(header):
        return by_name
    fits = [family for family in FAMILIES if family.key and set(family.key) - {"gfx"} <= set(header)]
    if by_name is None and fits and set(FMOE_KEY[1:]) - set(header):
        return max(fits, key=lambda family: len(family.key))
    return by_name or FMOE
