"""What every test gets: a home of its own, no network, release trees, golden files."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Callable, Generator, Iterator
from pathlib import Path

import pytest

from rocmfix.errors import SourceError
from rocmfix.system.files import cache_home
from rocmfix.tree import Tree

WHEELS = cache_home("rocmfix")
"""The cache of whoever runs the tests, found before a test's own home hides it."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="rewrite tests/golden from what the code says now")


def pytest_configure() -> None:
    """A shell starts what it puts in the background deaf to Ctrl-C; what the tests interrupt would inherit that."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What takes minutes comes first: at the end, one process would wait for the other's real servers."""
    items.sort(key=lambda item: item.get_closest_marker("server") is None)


@pytest.fixture(scope="session")
def in_ci() -> bool:
    """In CI nothing is skipped: what would be a skip elsewhere fails."""
    return os.environ.get("CI") == "true"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Turn a skip into a failure in CI."""
    report = yield
    if report.skipped and not hasattr(report, "wasxfail") and os.environ.get("CI") == "true":
        report.outcome = "failed"
        report.longrepr = f"{item.nodeid} was skipped, and in CI nothing may be: {report.longrepr}"
    return report


@pytest.fixture(autouse=True)
def isolated(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A home of its own, none of the user's settings for git, and no network but for tests that say so."""
    with pytest.MonkeyPatch.context() as patch:
        home = tmp_path_factory.mktemp("home")
        patch.setenv("HOME", str(home))
        for name in list(os.environ):
            if name.startswith(("GIT_", "XDG_", "ROCMFIX_")):
                patch.delenv(name)
        patch.setenv("GIT_CONFIG_NOSYSTEM", "1")
        patch.setenv("ROCMFIX_CACHE", str(home / ".cache/rocmfix"))
        if not any(request.node.get_closest_marker(name) for name in ("upstream", "docker")):
            patch.setattr(socket.socket, "connect", _refuse_network)
            for name in ("http_proxy", "https_proxy", "all_proxy"):  # what tests start: pip, git
                patch.setenv(name, "http://127.0.0.1:1")
                patch.delenv(name.upper(), raising=False)
            for name in ("no_proxy", "NO_PROXY"):
                patch.delenv(name, raising=False)
        yield


_connect = socket.socket.connect


def _refuse_network(self: socket.socket, address: tuple[str, int] | str | bytes) -> None:
    """A Unix socket and the loopback stay on this machine; a test's own server is there."""
    is_near = isinstance(address, (str, bytes)) or address[0] in {"127.0.0.1", "::1", "localhost"}
    assert is_near, f"this test is not marked `upstream` or `docker`, yet it talks to {address!r}"
    _connect(self, address)


@pytest.fixture(scope="session")
def release_tree(*, in_ci: bool) -> Callable[[str], Tree]:
    """`release_tree("0.5.14")`: the tree of a release, read from its wheel. Mark the test `upstream`.

    Wheels come from the user's cache and are fetched into it once; a session keeps each tree open.
    """
    opened: dict[str, Tree] = {}

    def tree(version: str) -> Tree:
        if version not in opened:
            from rocmfix.source import open_release

            try:
                opened[version] = open_release(version, cache=WHEELS)
            except SourceError as error:
                if in_ci:
                    raise
                pytest.skip(error.message)
        return opened[version]

    return tree


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """`golden("name.txt", text)`: the text equals tests/golden/name.txt; `--update-golden` rewrites it."""

    def check(name: str, text: str) -> None:
        path = Path(__file__).parent / "golden" / name
        if request.config.getoption("--update-golden"):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        assert path.exists(), f"{path} is missing: run pytest --update-golden and review the diff"
        assert text == path.read_text(), f"{path} differs: run pytest --update-golden and review the diff"

    return check
