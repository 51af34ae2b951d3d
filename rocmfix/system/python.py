"""Finds where this Python would import a package from, without importing it."""

from __future__ import annotations

import importlib.machinery
import importlib.metadata
import sys
from pathlib import Path


def package_folder(name: str) -> Path | None:
    """The folder of the package `name`, if it can be imported.

    The finders are asked as `import` asks them, so that editable installs, `.pth` files and PYTHONPATH count;
    a found module is not loaded.
    """
    for finder in sys.meta_path:
        find = getattr(finder, "find_spec", None)
        spec: importlib.machinery.ModuleSpec | None = find(name, None) if find else None
        if spec is None:
            continue
        if spec.origin and Path(spec.origin).name == "__init__.py":
            return Path(spec.origin).parent
        folders = [Path(each) for each in spec.submodule_search_locations or ()]
        return next((folder for folder in folders if folder.is_dir()), None)
    return None


def distribution_version(name: str) -> str | None:
    """The version that the metadata of the installed distribution `name` states."""
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None
