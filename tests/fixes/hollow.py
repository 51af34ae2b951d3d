"""Runs chosen files of a Python tree for real, with everything they import from elsewhere hollow."""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any


class Hollow(type):
    """A class that serves as whatever it is used as: base, decorator, annotation, function, false flag, size of 1."""

    def __getattr__(cls, name: str) -> Any:
        if not cls.__dict__.get("_is_hollow"):  # a real class with a hollow base has what it says, and no more
            raise AttributeError(name)
        return _grown(cls, name)

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        if not cls.__dict__.get("_is_hollow"):
            return super().__call__(*args, **kwargs)
        decorated = len(args) == 1 and not kwargs and callable(args[0]) and not isinstance(args[0], Hollow)
        return args[0] if decorated else hollow(cls.__name__)

    def __bool__(cls) -> bool:
        return not cls.__dict__.get("_is_hollow")

    def __int__(cls) -> int:
        return 1

    __index__ = __int__

    def __rmod__(cls, _: object) -> int:
        return 0

    def __iter__(cls) -> Iterator[Any]:
        return iter(())

    def __enter__(cls) -> Any:
        return cls

    def __exit__(cls, *_: object) -> None:
        pass

    def __lt__(cls, _: object) -> bool:
        return False

    __gt__ = __le__ = __ge__ = __lt__

    def _itself(cls, *_: object) -> Any:
        return cls

    __getitem__ = __or__ = __ror__ = __and__ = __neg__ = _itself
    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = _itself
    __truediv__ = __rtruediv__ = __floordiv__ = __rfloordiv__ = __pow__ = __rpow__ = _itself


def hollow(name: str) -> Any:
    """A new hollow class called `name`."""
    return Hollow(name, (), {"_is_hollow": True, "__init__": _take_all, "__getattr__": _of_instance})


def _take_all(_: object, *args: Any, **kwargs: Any) -> None:
    pass


def _of_instance(_: object, name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    return hollow(name)


def _grown(owner: Any, name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    value = hollow(name)
    setattr(owner, name, value)
    return value


class Upstream(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds every module but the standard library's: `real` ones in the tree at `root`, all others hollow.

    `given` names attributes that hollow modules do have.
    """

    def __init__(self, root: Path, real: frozenset[str], given: Mapping[str, Mapping[str, Any]]) -> None:
        self.root, self.real, self.given = root, real, given

    def find_spec(self, name: str, *_: object) -> importlib.machinery.ModuleSpec | None:
        path = self.root / f"{name.replace('.', '/')}.py"
        if name.partition(".")[0] in sys.stdlib_module_names:
            return None
        if name in self.real and path.is_file():
            return importlib.util.spec_from_file_location(name, path)
        return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        module = _HollowModule(spec.name)
        module.finder = self
        vars(module).update(self.given.get(spec.name, {}))
        return module

    def exec_module(self, module: ModuleType) -> None:
        pass


class _HollowModule(ModuleType):
    finder: Upstream

    def __getattr__(self, name: str) -> Any:
        whole = f"{self.__name__}.{name}"
        if whole in self.finder.real or whole in self.finder.given:
            return importlib.import_module(whole)
        return _grown(self, name)
