"""Makes small catalogues for tests: a folder of sets, patches cut from before and after."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from rocmfix.catalog import Catalog, load
from rocmfix.diff import unified

HEADER = """From 0000000000000000000000000000000000000000 Mon Sep 17 00:00:00 2001
From: A Writer <a@example.com>
Date: Mon, 1 Jun 2026 10:00:00 +0000
Subject: [PATCH] {subject}

It was wrong, and here is why.

Signed-off-by: A Writer <a@example.com>
---
"""


def cut(before: Mapping[str, str | None], after: Mapping[str, str | None], subject: str = "[AMD] Mend it") -> str:
    """A format-patch file for the change from `before` to `after`."""
    old = {path: None if text is None else text.encode() for path, text in before.items()}
    new = {path: None if text is None else text.encode() for path, text in after.items()}
    return HEADER.format(subject=subject) + "".join(unified({**dict.fromkeys(new), **old}, new))


def make_catalog(folder: Path, series: str, patches: Mapping[str, str], *, name: str = "test-set") -> Catalog:
    """Write one set below `folder` and load the catalogue."""
    home = folder / "sglang" / name
    home.mkdir(parents=True)
    (home / "series.toml").write_text(series)
    for file, text in patches.items():
        (home / file).write_text(text)
    return load(folder)
