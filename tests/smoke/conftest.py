"""Servers to ask: the shipped fake, started as sglang is started, on the loopback interface."""

from __future__ import annotations

import shutil
import socket
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from rocmfix.smoke import fake
from rocmfix.smoke.bounds import load_bounds
from rocmfix.smoke.checkpoint import read_checkpoint
from rocmfix.smoke.checks import all_checks
from rocmfix.smoke.plan import SmokePlan
from rocmfix.smoke.quality import QUESTIONS
from rocmfix.smoke.reach import reach
from rocmfix.smoke.records import SmokeReport
from rocmfix.smoke.request import plan_from
from rocmfix.smoke.run import Judging, Site, smoke
from rocmfix.smoke.view import PlainView
from rocmfix.system.surroundings import now

CONNECT = socket.socket.connect
DEFAULTS = {
    "image": None, "server_args": (), "urls": (), "model": None, "draft_model": None, "flavour": None,
    "depths": "3,4", "tp": 1, "pp": 1, "algorithm": "EAGLE", "device": "nvidia", "runtime": "process",
    "python": sys.executable, "envs": (), "host_network": False, "no_off": False, "run_known_bad": False,
    "concurrency": "16", "crowd_depths": "", "effort": "full", "gsm8k": 0, "gsm8k_data": None,
    "start_limit": 60, "stall_limit": 60, "dry_run": False,
}  # fmt: skip


@pytest.fixture(autouse=True)
def loopback(isolated: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Servers of these tests listen on 127.0.0.1; nothing else may be talked to."""

    def connect(self: socket.socket, address: object) -> None:
        assert isinstance(address, (str, bytes)) or address[0] == "127.0.0.1", address  # type: ignore[index]
        CONNECT(self, address)  # type: ignore[arg-type]

    monkeypatch.setattr(socket.socket, "connect", connect)


@pytest.fixture(scope="session")
def fake_sglang(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder to import `sglang.launch_server` from, which is the fake."""
    folder = tmp_path_factory.mktemp("site")
    (folder / "sglang").mkdir()
    (folder / "sglang/__init__.py").touch()
    shutil.copytree(Path(fake.__file__).parent, folder / "sglang/launch_server")
    (folder / "sglang/test").mkdir()
    (folder / "sglang/test/few_shot_gsm8k.py").write_text('print("Accuracy: 0.940\\nInvalid: 0.000")\n')
    return folder


def planned(**options: object) -> SmokePlan:
    """A plan as the command line would make it."""
    return plan_from({**DEFAULTS, **options})


@pytest.fixture
def walk(fake_sglang: Path, tmp_path: Path) -> Callable[..., SmokeReport]:
    """`walk("greedy", depths="4")`: the report of a ladder over a fake that plays this."""

    def run(plays: str = "", **options: object) -> SmokeReport:
        model = tmp_path / "model"
        model.mkdir(exist_ok=True)
        (model / "plays").write_text(plays)
        plan = planned(model=str(model), envs=(f"PYTHONPATH={fake_sglang}",), **options)
        judging = Judging(load_bounds(), QUESTIONS, read_checkpoint(model), all_checks())
        out = tmp_path / "out"
        out.mkdir(exist_ok=True)
        return smoke(reach(plan, None), judging, Site(out, PlainView()), now())

    return run
