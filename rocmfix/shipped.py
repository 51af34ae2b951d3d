"""Finds the data folders that travel with rocmfix: beside the package in a checkout, inside it when installed."""

from __future__ import annotations

from pathlib import Path

_PACKAGE = Path(__file__).parent


def shipped(folder: str) -> Path:
    """Where `patches` or `dockerfiles` lies."""
    installed = _PACKAGE / "data" / folder
    return installed if installed.is_dir() else _PACKAGE.parent / folder
