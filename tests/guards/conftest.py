"""What the guards' tests share: the compilers that ci/hip-toolchain and ci/nvcc install."""

from __future__ import annotations

import pytest

from rocmfix.errors import ToolMissingError
from rocmfix.guards.nvcc import Nvcc, find_nvcc
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


@pytest.fixture(scope="session")
def nvcc() -> Nvcc:
    """A real nvcc: what ci/nvcc has installed rather than this machine's, which may be any."""
    with pytest.MonkeyPatch.context() as patch:
        if (FOLDER.parent / "nvcc/bin/nvcc").exists():
            patch.setenv("CUDA_HOME", str(FOLDER.parent / "nvcc"))
        found = find_nvcc(FOLDER)
    if found is None:
        pytest.skip("no nvcc here; run ci/nvcc")
    return found
