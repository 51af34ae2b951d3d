"""Which classes inherit from which, by their bare names and without parsing a file."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Final

_CLASS: Final = re.compile(rb"class (\w+)\s*(?:\(([^)]*)\))?")
_BASE: Final = re.compile(rb"(\w+)\s*(?:[,\[]|$)")


class Families:
    """The classes of some files. Two of one name count as one: more may be related then than are."""

    def __init__(self, texts: Mapping[str, bytes]) -> None:
        self._places: dict[str, list[str]] = {}
        self._bases: dict[str, list[str]] = {}
        self._heirs: dict[str, list[str]] = {}
        for path, text in texts.items():
            for found, bases in _CLASS.findall(text):
                name = found.decode()
                self._places.setdefault(name, []).append(path)
                for base in map(bytes.decode, _BASE.findall(bases)):
                    self._bases.setdefault(name, []).append(base)
                    self._heirs.setdefault(base, []).append(name)
        self.heirs = lru_cache(maxsize=None)(self._all_heirs)
        self.kin = lru_cache(maxsize=None)(self._all_kin)

    def _all_heirs(self, name: str) -> frozenset[str]:
        """The class itself, and all that inherit from it."""
        return _closed([name], self._heirs)

    def _all_kin(self, name: str) -> frozenset[str]:
        """All classes that an object of this one can be of as well: heirs, bases, mixins of an heir."""
        return _closed(self.heirs(name), self._bases)

    def places(self, names: Iterable[str]) -> tuple[str, ...]:
        """The files that define any of `names`."""
        return tuple(sorted({path for name in names for path in self._places.get(name, ())}))


def _closed(names: Iterable[str], related: Mapping[str, list[str]]) -> frozenset[str]:
    found = set(names)
    new = list(found)
    while new:
        new = [other for each in new for other in related.get(each, ()) if other not in found]
        found.update(new)
    return frozenset(found)
