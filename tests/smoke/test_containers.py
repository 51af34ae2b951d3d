"""The container path, on a real engine, with the fake as the server: the same code as on an AMD node."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from uuid import uuid4

import docker
import pytest
from click.testing import CliRunner

from rocmfix.cli import main
from rocmfix.errors import EngineError, SmokeError
from rocmfix.smoke.launch import DockerLauncher, container, host_facts, script
from rocmfix.smoke.records import SmokeReport
from rocmfix.system.containers import LABEL, Engine, Refused, Wish
from tests.smoke.conftest import planned

pytest_plugins = ("tests.smoke.image",)
pytestmark = pytest.mark.docker


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> str:
    """The id of this test's run: other workers have containers too."""
    name = uuid4().hex[:8]
    monkeypatch.setattr("secrets.token_hex", lambda _: name)
    return name


@pytest.fixture
def model(tmp_path: Path) -> Path:
    folder = tmp_path / "model"
    folder.mkdir()
    return folder


def invoke(image: str, model: Path, *options: str) -> tuple[int, SmokeReport, Path]:
    out = model.parent / "out"
    words = ["smoke", image, "--model", str(model), "--device", "cpu", "--effort", "full", "--out", str(out),
             "--concurrency", "16", "--start-limit", "60", *options]  # fmt: skip
    result = CliRunner().invoke(main, words)
    report = SmokeReport.model_validate_json((out / "report.json").read_text()) if out.exists() else None
    assert report is not None, result.output
    return result.exit_code, report, out


def left(engine: docker.DockerClient, run: str) -> list[str]:
    """This run's containers, running or not."""
    found = engine.containers.list(all=True, sparse=True, filters={"label": f"{LABEL}={run}"})
    return [str(each.id) for each in found]


def test_a_ladder_in_containers_passes_and_leaves_nothing(engine, fake_image, model, run):
    code, report, out = invoke(fake_image, model, "--depth", "3,4")
    assert code == 0, [v for v in report.verdicts if v.outcome.value == "failed"]
    assert [rung.depth.label for rung in report.rungs] == ["off", "3-1-4", "4-1-5"]
    assert all(rung.start.is_ready and rung.is_ours for rung in report.rungs)
    assert report.subject.image_id == engine.images.get(fake_image).id
    assert "The server is fired up" in (out / "server-4-1-5.log").read_text()
    assert {"report.json", "report.md", "report.xml"} <= {path.name for path in out.iterdir()}
    assert left(engine, run) == []


def test_a_server_on_the_hosts_network_is_reached_and_known(engine, fake_image, model, run):
    code, report, _ = invoke(fake_image, model, "--depth", "4", "--no-off", "--host-network")
    assert code == 0
    assert report.rungs[0].is_ours
    assert report.rungs[0].url.startswith("http://127.0.0.1:")
    assert ":30000" not in report.rungs[0].url
    assert left(engine, run) == []


def test_standard_output_and_error_are_both_kept(engine, fake_image, model):
    """The fused-copy warnings are printed, not logged."""
    (model / "plays").write_text("fallback")
    code, report, out = invoke(fake_image, model, "--depth", "4", "--no-off")
    assert code == 1
    assert "falling back to loop" in (out / "server-4-1-5.log").read_text()
    assert [v.check for v in report.verdicts if v.outcome.value == "failed"] == ["log"]


def test_a_failed_start_is_diagnosed_with_its_exit_code(engine, fake_image, model, run):
    (model / "plays").write_text("fail-header")
    code, report, _ = invoke(fake_image, model, "--depth", "4", "--no-off")
    start = report.rungs[0].start
    assert code == 1
    assert start.exit is not None
    assert start.exit.code == 137
    assert not start.exit.out_of_memory
    assert start.cause is not None
    assert start.cause.id == "missing-header"
    assert left(engine, run) == []


def test_a_hang_is_caught_its_stacks_kept_and_its_owner_named(engine, fake_image, model, run):
    (model / "plays").write_text("hang-at-16")
    code, report, _ = invoke(fake_image, model, "--depth", "4", "--no-off", "--stall-limit", "3")
    rung = report.rungs[0]
    assert code == 1
    assert rung.stacks is not None
    assert "sglang.launch_server" in rung.stacks
    assert "py-spy" in rung.stacks
    verdict = next(v for v in rung.verdicts if v.check == "concurrency")
    assert "custom all-reduce is the owner" in verdict.reason
    assert left(engine, run) == []


@pytest.mark.skipif(Path("/dev/kfd").exists(), reason="this machine has an AMD GPU")
def test_without_kfd_the_error_says_what_to_do(engine, fake_image, model, run):
    result = CliRunner().invoke(main, ["smoke", fake_image, "--model", str(model), "--out", str(model.parent / "out")])
    assert result.exit_code == SmokeError.exit_code
    assert "no-kfd" in result.output
    assert "modprobe amdgpu" in result.output
    assert "--device nvidia or --device cpu" in result.output
    assert left(engine, run) == []


def test_the_amd_profile_starts_where_its_devices_exist(engine, fake_image, model):
    """The same profile with another node in the place of /dev/kfd, so that all the rest of it is tried."""
    plan = planned(image=fake_image, runtime="docker", model=str(model), device="amd", python="python3")
    profile = plan.profile.model_copy(
        update={"devices": ("/dev/null",), "device_folders": (), "group_of": ("/dev/null",)}
    )
    plan = plan.model_copy(update={"profile": profile})
    wish = container(plan, ("python3", "-c", script("probe.py")))
    with DockerLauncher(Engine()).engine.run(wish, model.parent / "probe.log") as running:
        host = engine.containers.list(all=True, filters={"label": f"{LABEL}={plan.run}"})[0].attrs["HostConfig"]
        assert host["IpcMode"] == "host"
        assert host["Devices"][0]["PathOnHost"] == "/dev/null"
        assert "seccomp=unconfined" in host["SecurityOpt"]
        deadline = time.monotonic() + 30
        while running.ended() is None and time.monotonic() < deadline:
            time.sleep(0.05)
        running.stop(1)
    facts = host_facts((model.parent / "probe.log").read_text())
    assert facts.kfd == "missing"
    assert facts.env("AITER_LOG_LEVEL") == "INFO"


def test_a_refused_limit_is_dropped_with_a_word(fake_image, tmp_path):
    """Raising memlock needs a capability that a small VM's root may lack; where it is had, nothing is dropped."""
    wish = Wish(
        image=fake_image, command=("python3", "-c", "pass"), run=uuid4().hex, ulimits=("memlock=-1", "stack=67108864")
    )
    with Engine().run(wish, tmp_path / "log") as running:
        warnings = running.warnings
    may_raise = subprocess.run(["sh", "-c", "ulimit -l unlimited"], capture_output=True, check=False).returncode == 0
    assert len(warnings) <= 1
    assert may_raise or "the engine refused --ulimit memlock=-1" in warnings[0]


def test_an_out_of_memory_kill_is_told_from_a_kill(engine, fake_image, tmp_path):
    started = engine.containers.run(
        fake_image,
        ["python3", "-m", "sglang.hog"],
        detach=True,
        mem_limit="64m",
        memswap_limit="64m",
        labels={LABEL: uuid4().hex},
    )
    try:
        started.wait(timeout=60)
        from rocmfix.system.containers import Running

        end = Running(started, tmp_path / "log", ()).ended()
    finally:
        started.remove(force=True)
    assert end is not None
    assert (end.code, end.is_out_of_memory) == (137, True)


def test_a_missing_image_or_folder_is_an_error_with_a_way_on(fake_image, tmp_path, model):
    result = CliRunner().invoke(main, ["smoke", "no/such:image", "--model", str(model), "--device", "cpu"])
    assert result.exit_code == EngineError.exit_code
    assert "hint: docker pull no/such:image" in result.output
    wish = Wish(image=fake_image, command=("python3",), run=uuid4().hex, mounts=((str(tmp_path / "gone"), "/model"),))
    with pytest.raises(Refused, match="bind source path does not exist"), Engine().run(wish, tmp_path / "log"):
        pass


def test_ctrl_c_leaves_no_container(engine, fake_image, model, run):
    """Interrupted while the engine creates the container, the worst moment: its id is not told yet."""
    words = [
        "smoke",
        fake_image,
        "--model",
        str(model),
        "--device",
        "cpu",
        "--depth",
        "4",
        "--out",
        str(model.parent / "o"),
    ]
    (model / "plays").write_text("slow-start")
    started = subprocess.Popen([sys.executable, "-c", CALM, json.dumps(words), run], stderr=subprocess.PIPE, text=True)
    try:
        assert started.stderr is not None
        said = [next(started.stderr), next(started.stderr)]
        assert said[1] == "off: starting\n"
        deadline = time.monotonic() + 60
        while not left(engine, run) and time.monotonic() < deadline:
            time.sleep(0.02)
        started.send_signal(signal.SIGINT)
        rest = started.communicate(timeout=60)[1]
    finally:
        started.kill()
        started.wait()
    assert started.returncode == 130, rest
    assert "interrupted" in rest
    assert left(engine, run) == []


CALM = (
    "import json, secrets, signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler);"
    "secrets.token_hex = lambda _: sys.argv[2];"
    "from rocmfix.cli import main; main(json.loads(sys.argv[1]))"
)
