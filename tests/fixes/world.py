"""A world just large enough to import and run upstream's JIT loader and attention code: no torch, no GPU."""

import __future__

import ast
import dataclasses
import functools
import importlib
import sys
import types
from collections.abc import Mapping
from pathlib import Path
from typing import Any

FOREIGN = ("sglang", "torch", "tvm_ffi", "msgspec", "aiter")


EFFECTS = ("sglang.srt.debug_utils", "sglang.srt.debug_utils.cuda_coredump")
"""Modules that `sglang.srt.environ` imports only for what importing them does."""


class World:
    """A folder that holds some of a release's real files under `sglang/`, importable beside stand-ins for the rest."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def open(self, stand_ins: Mapping[str, types.ModuleType | None]) -> None:
        """Make the real files importable, with `stand_ins` for everything they import (None: as if not installed)."""
        for folder in {parent for path in self.root.rglob("*.py") for parent in path.parents}:
            if self.root in folder.parents:
                (folder / "__init__.py").touch()
        forget()
        for name in EFFECTS:
            sys.modules[name] = module(name)
        sys.modules.update(stand_ins)  # type: ignore[arg-type]  # None is how Python says "cannot be imported"
        sys.path.insert(0, str(self.root))
        importlib.invalidate_caches()

    def close(self) -> None:
        """Make its files no longer importable."""
        sys.path[:] = [entry for entry in sys.path if entry != str(self.root)]

    def load(self, name: str) -> Any:
        """Import a module of the world."""
        return importlib.import_module(name)

    def function(self, path: str, name: str, scope: Mapping[str, Any], *, having: str = "") -> Any:
        """One function of a file too heavy to import, cut out and compiled as it stands, with `scope` as its globals.

        Of several with that name, the first that has the text `having`.
        """
        names = dict(scope)
        exec(_compiled(self.root / path, name, having), names)
        return names[name]


@functools.cache
def _compiled(path: Path, name: str, having: str) -> types.CodeType:
    (node, *_) = (
        node
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef) and node.name == name and having in ast.unparse(node)
    )
    flags = __future__.annotations.compiler_flag
    code: types.CodeType = compile(ast.Module([node], []), path, "exec", flags=flags, dont_inherit=True)
    return code


def forget() -> dict[str, types.ModuleType]:
    """Take every module of a world, or of a real sglang or torch, out of the interpreter; give them back."""
    return {name: sys.modules.pop(name) for name in list(sys.modules) if name.partition(".")[0] in FOREIGN}


def module(name: str, **content: Any) -> types.ModuleType:
    """A stand-in module; a package, so that anything may lie below it."""
    made = types.ModuleType(name)
    made.__path__ = []
    made.__dict__.update(content)
    return made


def torch(*, hip: str | None) -> types.ModuleType:
    """What the JIT loader asks of torch, on a ROCm or a CUDA build."""
    properties = types.SimpleNamespace(gcnArchName="gfx950")
    cuda = types.SimpleNamespace(
        current_device=lambda: 0,
        is_available=lambda: True,
        get_device_name=lambda *_: "a GPU",
        get_device_capability=lambda *_: (9, 5) if hip else (9, 0),
        get_device_properties=lambda *_: properties,
    )
    version = types.SimpleNamespace(hip=hip, cuda=None if hip else "12.9")
    compiler = types.SimpleNamespace(disable=lambda function: function)
    made = module("torch", cuda=cuda, version=version, compiler=compiler, dtype=type("dtype", (), {}))
    made.Tensor = made.device = object  # type: ignore[attr-defined]
    made.__getattr__ = lambda name: made.dtype() if not name.startswith("__") else _missing(name)  # type: ignore[method-assign]
    return made


def _missing(name: str) -> Any:
    raise AttributeError(name)


def msgspec() -> types.ModuleType:
    """`msgspec.Struct` as a dataclass: enough for the records of the JIT build cache."""

    class Struct:
        def __init_subclass__(cls, *, frozen: bool = False, **_: Any) -> None:
            dataclasses.dataclass(frozen=frozen)(cls)

    return module("msgspec", Struct=Struct, DecodeError=ValueError)
