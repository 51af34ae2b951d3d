"""What the guards' tests share: the toolchain that ci/hip-toolchain installs."""

from __future__ import annotations

import pytest

from rocmfix.errors import ToolMissingError
from rocmfix.guards.toolchain import Toolchain, find_toolchain
from rocmfix.system.files import cache_home

FOLDER = cache_home("rocmfix") / "hip-toolchain"
"""The cache of whoever runs the tests, found before a test's own home hides it."""


@pytest.fixture(scope="session")
def hip() -> Toolchain:
    """A real compiler for HIP device code."""
    try:
        return find_toolchain(FOLDER)
    except ToolMissingError as missing:
        pytest.skip(f"{missing.message}; run ci/hip-toolchain")
