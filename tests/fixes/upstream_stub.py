"""Imports chosen files of an sglang tree for real, with a stand-in for everything they import from elsewhere."""

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
    """A class that is anything it is used as: base, decorator, annotation, function, falsy flag, small number."""

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        value = hollow(name)
        setattr(cls, name, value)
        return value

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        if not cls.__dict__.get("_hollow"):
            return super().__call__(*args, **kwargs)
        if len(args) == 1 and not kwargs and callable(args[0]) and not isinstance(args[0], Hollow):
            return args[0]
        return hollow("value")

    def __bool__(cls) -> bool:
        return False

    def __int__(cls) -> int:
        return 1

    def __index__(cls) -> int:
        return 1

    def __iter__(cls) -> Iterator[Any]:
        return iter(())

    def __enter__(cls) -> Any:
        return cls

    def __exit__(cls, *_: object) -> None:
        pass

    def __lt__(cls, _: object) -> bool:
        return False

    __gt__ = __le__ = __ge__ = __lt__

    def _same(cls, *_: object) -> Any:
        return cls

    __getitem__ = __or__ = __ror__ = __and__ = __add__ = __radd__ = __sub__ = __rsub__ = _same
    __mul__ = __rmul__ = __truediv__ = __rtruediv__ = __floordiv__ = __rfloordiv__ = __pow__ = __rpow__ = _same
    __neg__ = _same

    def __rmod__(cls, _: object) -> int:
        return 0


def hollow(name: str) -> Any:
    """A new stand-in called `name`."""
    return Hollow(name, (), {"_hollow": True, "__init__": _take_all, "__getattr__": _missing})


def _take_all(_: object, *args: Any, **kwargs: Any) -> None:
    pass


def _missing(_: object, name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    return hollow(name)


class _Module(ModuleType):
    __path__: list[str] = []

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        finder = next(each for each in sys.meta_path if isinstance(each, Upstream))
        whole = f"{self.__name__}.{name}"
        value = importlib.import_module(whole) if finder.knows(whole) else hollow(name)
        setattr(self, name, value)
        return value


class Upstream(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds every module that this Python does not have itself: in the tree where named, else hollow.

    `real` are module names read from the tree; `given` sets attributes of hollow modules.
    """

    def __init__(self, root: Path, real: frozenset[str], given: Mapping[str, Mapping[str, Any]]) -> None:
        self.root, self.real, self.given = root, real, given

    def find_spec(self, name: str, *_: object) -> importlib.machinery.ModuleSpec | None:
        if name in sys.stdlib_module_names or name.partition(".")[0] in sys.stdlib_module_names:
            return None
        path = self.root / f"{name.replace('.', '/')}.py"
        if name in self.real and path.is_file():
            return importlib.util.spec_from_file_location(name, path)
        return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def knows(self, name: str) -> bool:
        """Whether the module called `name` is more than hollow."""
        return name in self.real or name in self.given

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        module = _Module(spec.name)
        for key, value in self.given.get(spec.name, {}).items():
            setattr(module, key, value)
        return module

    def exec_module(self, module: ModuleType) -> None:
        pass
