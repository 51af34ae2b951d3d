"""Bounds: what a measured value is held against, for which model, workload and depth, and who says so."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from fnmatch import fnmatchcase
from importlib.resources import files
from pathlib import Path

from pydantic import ValidationError, model_validator

from rocmfix.errors import SmokeError
from rocmfix.model import Record
from rocmfix.smoke.records import Depth

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


class Bound(Record):
    """A floor, a ceiling, or both, with where it comes from; `model` is a pattern over names and architectures."""

    check: str
    source: str
    model: str = "*"
    workload: str = "*"
    steps: tuple[int, ...] = ()
    steps_from: int = 0
    floor: float | None = None
    ceiling: float | None = None

    @model_validator(mode="after")
    def _bounds_something(self) -> Bound:
        if self.floor is None and self.ceiling is None:
            raise ValueError("a bound has a floor or a ceiling")
        return self

    @property
    def is_general(self) -> bool:
        return self.model == "*"

    def holds_for(self, check: str, names: Iterable[str], workload: str, depth: Depth) -> bool:
        return (
            self.check == check
            and (self.is_general or any(fnmatchcase(name.lower(), self.model.lower()) for name in names))
            and fnmatchcase(workload, self.workload)
            and (not self.steps or depth.steps in self.steps)
            and depth.steps >= self.steps_from
        )

    def admits(self, value: float) -> bool:
        return (self.floor is None or value >= self.floor) and (self.ceiling is None or value <= self.ceiling)

    def __str__(self) -> str:
        if self.floor is None:
            return f"at most {self.ceiling:g}"
        if self.ceiling is None:
            return f"at least {self.floor:g}"
        return f"{self.floor:g} to {self.ceiling:g}"


class _File(Record):
    bound: tuple[Bound, ...] = ()


class Bounds(Record):
    """All bounds; the last that fits and is the most particular decides."""

    bounds: tuple[Bound, ...]

    def find(self, check: str, names: Iterable[str], depth: Depth, workload: str = "built-in") -> Bound | None:
        fitting = [bound for bound in self.bounds if bound.holds_for(check, tuple(names), workload, depth)]
        return max(enumerate(fitting), key=lambda pair: (not pair[1].is_general, pair[0]))[1] if fitting else None

    def general(self, check: str, depth: Depth) -> Bound:
        """The bound every model has to keep; the shipped file has one for each check that calls this."""
        found = self.find(check, (), depth)
        if found is None:
            raise LookupError(f"bounds.toml has no general bound for {check}")
        return found


def load_bounds(own: Path | None = None) -> Bounds:
    """The shipped bounds, then the user's own, which win."""
    shipped = _parse(files("rocmfix.smoke").joinpath("bounds.toml").read_text(encoding="utf-8"), "bounds.toml")
    if own is None:
        return Bounds(bounds=shipped)
    try:
        text = own.read_text(encoding="utf-8")
    except OSError as error:
        raise SmokeError(f"{own} cannot be read: {error.strerror}") from error
    return Bounds(bounds=shipped + _parse(text, str(own)))


def _parse(text: str, where: str) -> tuple[Bound, ...]:
    try:
        return _File.model_validate(tomllib.loads(text)).bound
    except (tomllib.TOMLDecodeError, ValidationError) as error:
        raise SmokeError(
            f"{where} is not a bounds file",
            details=tuple(str(error).splitlines()[:6]),
            hint='[[bound]] with check, source, floor or ceiling; see "rocmfix smoke --help"',
        ) from error
