"""The verb: what it refuses, prints and writes."""

from __future__ import annotations

import contextlib
import csv
import json
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
import yaml
from click.testing import CliRunner

from rocmfix.cli import main
from rocmfix.smoke.records import Depth
from rocmfix.smoke.secrecy import redacted
from rocmfix.system.files import alone_in
from tests.smoke.conftest import planned
from tests.smoke.test_client import send, serving


def invoke(*words: str):
    return CliRunner().invoke(main, ["smoke", *words])


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ((), "give IMAGE, or --url"),
        (("img",), "--model is missing"),
        (("img", "--model", "/no/such/folder/here"), "no such folder"),
        (("img", "--url", "http://h:1"), "not both"),
        (("--url", "h:30000"), "no http(s) URL"),
        (("--url", "http://user:pass@h"), "no http(s) URL"),
        (("img; rm -rf /", "--model", "/tmp"), "no image reference"),
        (("img", "--model", "/tmp", "--depth", "four"), "write off, 4 or 5-1-6"),
        (("img", "--model", "/tmp", "--depth", "4-0-5"), "start at 1"),
        (("img", "--model", "/tmp", "--depth", ","), "at least one depth"),
        (("img", "--model", "/tmp", "--concurrency", "16,x"), "no list of numbers"),
        (("--url", "http://127.0.0.1:99999"), "no http(s) URL"),
        (("--url", "http://127.0.0.1:0"), "no http(s) URL"),
        (("--url", "http://[::1"), "no http(s) URL"),
        (("--url", "http://h/\u00fc"), "no http(s) URL"),
        (("img", "--model", "/tmp", "--depth", "4-1-0"), "sglang makes it 4-1-5"),
        (("img", "--model", "/tmp", "--depth", "4-1-3"), "sglang makes it 4-1-5"),
        (("img", "--model", "/tmp", "--depth", "4-2-1"), "start at 2"),
        (("img", "--model", "/tmp", "--depth", "\uff14"), "write off, 4 or 5-1-6"),
        (("img", "--model", "/tmp", "--env", "NO_SUCH_NAME"), "is not set here, and not NAME=VALUE"),
        (("img", "--model", "/tmp", "--", "--port", "1"), "--port is given to the server by rocmfix"),
        (("img", "--model", "/tmp", "--", "--served-model-name=x"), "--served-model-name is given"),
        (("--url", "http://h:1", "--api-key-env", "NO_SUCH_NAME"), "NO_SUCH_NAME holds no key"),
        (("img", "--model", "/tmp", "--runtime", "k8s", "--bounds", "b.toml"), "not in the Job's image"),
        (("img", "--model", "/tmp", "--env", "A B=1"), "is not NAME=VALUE"),
    ],
)
def test_what_makes_no_sense_is_refused(words, says):
    result = invoke(*words)
    assert result.exit_code == 2
    assert says in result.output


@pytest.mark.parametrize(
    ("text", "depth"),
    [("off", Depth(steps=0)), ("4", Depth(steps=4, topk=1, draft_tokens=5)), ("5-1-6", Depth(steps=5, topk=1, draft_tokens=6)),
     ("3-4-8", Depth(steps=3, topk=4, draft_tokens=8))],
)  # fmt: skip
def test_a_depth_is_spelt_as_the_field_does(text, depth):
    assert Depth.parse(text) == depth
    assert Depth.parse(depth.label) == depth


def test_depths_are_walked_from_off_and_shallow_to_deep():
    plan = planned(model="/tmp", depths="5,3-1-4,4")
    assert [depth.label for depth in plan.depths] == ["off", "3-1-4", "4-1-5", "5-1-6"]
    assert [d.label for d in planned(model="/tmp", depths="4", no_off=True).depths] == ["4-1-5"]


def test_the_users_flags_come_last_and_are_not_doubled():
    plan = planned(model="/tmp", device="amd", tp=4, server_args=("--disable-custom-all-reduce", "--tp-size", "8"))
    command = plan.launch(Depth.parse("4"), host="127.0.0.1", port=1)
    assert command[-3:] == ("--disable-custom-all-reduce", "--tp-size", "8")
    assert command.count("--disable-custom-all-reduce") == 1


SECRET = "geheim-77"


@pytest.fixture
def keyed(monkeypatch):
    """Words that bring a key, a token and a password, and variables whose names only look like it."""
    monkeypatch.setenv("HF_TOKEN", f"hf_{SECRET}")
    return ("--model", "/models/m", "--depth", "4", "--env", "HF_TOKEN", "--env", f"AWS_SECRET_ACCESS_KEY=aws {SECRET}",
            "--env", "TOKENIZERS_PARALLELISM=false", "--", "--api-key", f"a-{SECRET}", f"--admin-api-key=b-{SECRET}")  # fmt: skip


@pytest.mark.parametrize("how", [
    ["--dry-run"], ["--dry-run", "--json"], ["--dry-run", "--runtime", "process"], ["--runtime", "slurm"], ["--runtime", "k8s"],
])  # fmt: skip
def test_what_is_shown_holds_no_secret(how, keyed):
    result = invoke("img" if how[-1] != "process" else "--no-off", *how, *keyed)
    assert result.exit_code == 0, result.output
    assert SECRET not in result.output
    assert "PARALLELISM" in result.output
    assert "false" in result.output


def test_a_job_takes_its_secrets_from_where_it_runs(keyed):
    script = invoke("img", "--runtime", "slurm", *keyed).stdout
    assert "--env HF_TOKEN --env AWS_SECRET_ACCESS_KEY --env TOKENIZERS_PARALLELISM=false" in script
    [container] = yaml.safe_load(invoke("img", "--runtime", "k8s", *keyed).stdout)["spec"]["template"]["spec"][
        "containers"
    ]
    env = {each["name"]: each for each in container["env"]}
    assert env["HF_TOKEN"]["valueFrom"] == {"secretKeyRef": {"name": "rocmfix-smoke", "key": "HF_TOKEN"}}
    assert env["TOKENIZERS_PARALLELISM"]["value"] == "false"
    assert "--env HF_TOKEN " in container["args"][0]


def test_reports_and_logs_hold_no_secret(fake_sglang, tmp_path, monkeypatch):
    """sglang logs its arguments, its key among them."""
    monkeypatch.setenv("MY_KEY", f"{SECRET}\n")
    (tmp_path / "m").mkdir()
    result = invoke("--runtime", "process", "--python", sys.executable, "--device", "nvidia", "--model", str(tmp_path / "m"),
                    "--env", f"PYTHONPATH={fake_sglang}", "--env", f"HF_TOKEN=hf_{SECRET}", "--api-key-env", "MY_KEY", "--depth", "4",
                    "--no-off", "--only", "starts", "--out", str(tmp_path / "out"), "--", "--api-key", SECRET)  # fmt: skip
    assert result.exit_code == 0, result.output
    assert SECRET not in result.output
    assert "api_key='***'" in (tmp_path / "out/server-4-1-5.log").read_text()
    for file in (tmp_path / "out").iterdir():
        assert SECRET not in file.read_text(), file


def test_a_job_says_every_option_again(tmp_path):
    words = ("--draft-model", "/models/d", "--host-network", "--start-limit", "99", "--stall-limit", "7.5", "--only", "starts",
             "--only", "speed", "--python", "/opt/venv/bin/python")  # fmt: skip
    script = invoke("img", "--model", "/m", "--runtime", "slurm", "--bounds", "b.toml", *words).stdout
    for word in ("--draft-model /models/d", "--host-network", "--start-limit 99", "--stall-limit 7.5",
                 "--only starts --only speed", "--python /opt/venv/bin/python", f"--bounds {Path('b.toml').absolute()}"):  # fmt: skip
        assert word in script
    job = yaml.safe_load(
        invoke("img", "--model", "/m", "--runtime", "k8s", "--env", "NO=yes", "--env", "A=$(B)", *words).stdout
    )
    spec = job["spec"]["template"]["spec"]
    assert "--env 'A=$$(B)'" in spec["containers"][0]["args"][0]  # Kubernetes would put B's value there
    assert "--draft-model /draft" in spec["containers"][0]["args"][0]
    assert [mount["mountPath"] for mount in spec["containers"][0]["volumeMounts"]] == ["/model", "/draft", "/dev/shm"]
    assert [v["hostPath"]["path"] for v in spec["volumes"] if "hostPath" in v] == ["/m", "/models/d"]
    assert {"name": "NO", "value": "yes"} in spec["containers"][0]["env"]  # not false, as YAML would read a bare NO


@pytest.mark.parametrize("words", [("--api-key", "geheim"), ("--api-key=geheim",), ("--admin-api-key", "geheim")])
def test_a_report_holds_no_key(words):
    kept = redacted(("python3", "--port", "1", *words, "--tp-size", "4"))
    assert "geheim" not in " ".join(kept)
    assert kept[:3] == ("python3", "--port", "1")
    assert kept[-2:] == ("--tp-size", "4")


def test_a_dry_run_prints_what_would_run(golden, monkeypatch):
    monkeypatch.setattr("secrets.token_hex", lambda _: "0123abcd")
    result = invoke("lmsysorg/sglang:v0.5.14-rocm720-mi35x", "--model", "/models/GLM-5.2-MXFP4", "--flavour", "mi35x-rocm720",
                    "--tp", "4", "--depth", "4", "--dry-run", "--device", "cpu", "--", "--kv-cache-dtype", "auto")  # fmt: skip
    assert result.exit_code == 0, result.output
    golden("smoke/dry-run.txt", result.stdout)


@pytest.mark.parametrize("runtime", ["slurm", "k8s"])
def test_a_fleet_gets_the_same_test_as_a_job(runtime, golden, monkeypatch):
    monkeypatch.setattr("secrets.token_hex", lambda _: "0123abcd")
    result = invoke("lmsysorg/sglang:v0.5.14-rocm720-mi35x", "--model", "/models/it's here", "--flavour", "mi35x-rocm720",
                    "--tp", "8", "--depth", "4,5", "--runtime", runtime, "--env", "A=b c", "--", "--mem-fraction-static=0.8")  # fmt: skip
    assert result.exit_code == 0, result.output
    golden(f"smoke/job-{runtime}.txt", result.stdout)


def test_an_amd_dry_run_needs_no_engine_and_no_gpu():
    result = invoke("img", "--model", "/models/m", "--dry-run")
    assert result.exit_code == 0, result.output
    lines = [line for line in result.stdout.splitlines() if not line.startswith("#")]
    assert len(lines) == 5
    assert all(re.match(r"docker run .*--device /dev/kfd .*--security-opt seccomp=unconfined", line) for line in lines)


def test_a_plan_prints_as_json():
    result = invoke("img", "--model", "/models/m", "--dry-run", "--json", "--depth", "4")
    assert [depth["steps"] for depth in json.loads(result.stdout)["depths"]] == [0, 4]


def test_checks_can_be_listed_and_chosen():
    assert "same-words\n    Greedy text is the same" in invoke("--list").stdout
    result = invoke("img", "--model", "/tmp", "--device", "cpu", "--only", "nonsense")
    assert result.exit_code == 2
    assert "no check is called nonsense" in result.output


def test_a_process_run_writes_reports_and_the_step_summary(fake_sglang, tmp_path, monkeypatch):
    summary = tmp_path / "summary.md"
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary))
    (tmp_path / "m").mkdir()
    (tmp_path / "m/plays").write_text("greedy")
    result = invoke("--runtime", "process", "--python", sys.executable, "--device", "nvidia", "--model", str(tmp_path / "m"),
                    "--env", f"PYTHONPATH={fake_sglang}", "--depth", "4", "--only", "temperature", "--only", "starts",
                    "--out", str(tmp_path / "out"))  # fmt: skip
    assert result.exit_code == 1, result.output
    assert "4-1-5    temperature  FAILED" in result.stdout
    assert "# smoke FAILED" in summary.read_text()
    assert "What this does not prove" in (tmp_path / "out/report.md").read_text()
    assert ET.parse(tmp_path / "out/report.xml").getroot().tag == "testsuites"
    report = json.loads((tmp_path / "out/report.json").read_text())
    assert {v["check"] for rung in report["rungs"] for v in rung["verdicts"]} == {"starts", "temperature"}


def test_words_after_two_dashes_go_to_the_server_without_an_image_too():
    assert planned(model="/tmp", image="--mem-fraction-static=0.8", server_args=("--x",)).args == (
        "--mem-fraction-static=0.8", "--x",
    )  # fmt: skip


def test_running_servers_are_a_ladder_of_their_own(fake_sglang, tmp_path):
    """Each URL is a rung, at the depth its server says it has."""
    from rocmfix.system.background import Background
    from rocmfix.system.ports import own_port

    servers = []
    for number, steps in enumerate((4, 0)):
        port = own_port()
        flags = ["--speculative-num-steps", str(steps), "--speculative-eagle-topk", "1"] if steps else []
        argv = [sys.executable, "-m", "sglang.launch_server", "--port", str(port), *flags]
        log = tmp_path / f"{number}.log"
        servers.append((port, Background.start(argv, log=log, env={"PYTHONPATH": str(fake_sglang)}), log))
    try:
        wait_until_up(servers)
        urls = [word for port, _, _ in servers for word in ("--url", f"http://127.0.0.1:{port}")]
        result = invoke(*urls, "--device", "nvidia", "--concurrency", "", "--out", str(tmp_path / "out"))
        double = invoke(*urls[:2], *urls[:2], "--out", str(tmp_path / "out2"))
    finally:
        for _, server, _ in servers:
            server.stop(1)
    assert result.exit_code == 0, result.output
    report = json.loads((tmp_path / "out/report.json").read_text())
    assert [rung["depth"]["steps"] for rung in report["rungs"]] == [0, 4]
    assert "4-1-5    same-words" in result.stdout
    assert double.exit_code == 14
    assert "at the same depth" in double.output


def wait_until_up(servers) -> None:
    deadline = time.monotonic() + 60
    while any("fired up" not in log.read_text() for _, _, log in servers):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_a_url_that_is_no_server_could_not_be_run():
    result = invoke("--url", "http://127.0.0.1:1")
    assert result.exit_code == 14
    assert "does not answer /get_server_info\n  [Errno 111] Connection refused\n" in result.output


@pytest.mark.parametrize(
    ("status", "body", "says"),
    [(401, {"error": "Unauthorized"}, "HTTP 401: Unauthorized"), (200, b"<html>\x1b[31m", "HTTP 200: <html>"), (503, b"", "HTTP 503: nothing"),
     (302, b"", "HTTP 302: nothing")],
)  # fmt: skip
def test_a_url_that_is_another_server_says_what_came_instead(status, body, says, tmp_path):
    with serving(lambda handler, path, _: send(handler, status, body)) as url:
        result = invoke("--url", url, "--out", str(tmp_path / "out"))
    assert result.exit_code == 14
    assert says in result.output
    assert "\x1b" not in result.output
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("runtime", ["docker", "process"])
def test_a_dry_run_is_for_pasting_into_a_shell(runtime, tmp_path):
    """Spaces, quotes, colons and commas arrive as they were asked for."""
    model = tmp_path / 'it\'s, a "model": $HOME'
    image = ("img",) if runtime == "docker" else ()
    words = (*image, "--runtime", runtime, "--model", str(model), "--env", "A=b c $X", "--depth", "4", "--no-off", "--dry-run",
             "--device", "cpu", "--", "--chat-template", "{{ x }}; y")  # fmt: skip
    printed = invoke(*words).stdout
    show = 'docker() { printf "%s\\0" "$@"; }; env() { printf "%s\\0" "$@"; };'
    arrived = subprocess.run(["bash", "-c", show + printed], capture_output=True, text=True, check=True).stdout.split(
        "\0"
    )
    assert arrived[-3:-1] == ["--chat-template", "{{ x }}; y"]
    assert "A=b c $X" in arrived
    if runtime == "docker":
        [mount] = [arrived[place + 1] for place, word in enumerate(arrived) if word == "--mount"]
        [fields] = csv.reader([mount])  # the docker client reads it so
        assert fields == ["type=bind", f"source={model}", "target=/model", "readonly"]
    else:
        assert arrived[arrived.index("--model-path") + 1] == str(model)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_an_end_from_outside_leaves_no_server(number, fake_sglang, tmp_path):
    """Slurm and Kubernetes end a job by SIGTERM, a lost terminal by SIGHUP."""
    (tmp_path / "m").mkdir()
    (tmp_path / "m/plays").write_text("slow-start")
    words = ["smoke", "--runtime", "process", "--python", sys.executable, "--device", "nvidia", "--model", str(tmp_path / "m"),
             "--env", f"PYTHONPATH={fake_sglang}", "--depth", "4", "--out", str(tmp_path / "out")]  # fmt: skip
    calm = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); signal.signal(signal.SIGHUP, signal.SIG_DFL)"
    run = f"{calm}\nfrom rocmfix.cli import main; main({words!r})"
    with subprocess.Popen([sys.executable, "-c", run], stderr=subprocess.PIPE, text=True) as started:
        deadline = time.monotonic() + 60
        while not servers_of(tmp_path) and time.monotonic() < deadline:
            time.sleep(0.05)
        assert servers_of(tmp_path)
        started.send_signal(number)
        rest = started.communicate(timeout=60)[1]
    assert started.returncode == 130, rest
    assert servers_of(tmp_path) == []


def servers_of(folder: Path) -> list[int]:
    """The servers that serve this test's model."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            words = (entry / "cmdline").read_bytes().split(b"\0")
            if b"sglang.launch_server" in words and str(folder / "m").encode() in words:
                found.append(int(entry.name))
    return found


def test_two_tests_do_not_write_into_one_folder(fake_sglang, tmp_path):
    (tmp_path / "m").mkdir()
    (tmp_path / "out").mkdir()
    words = ("--runtime", "process", "--python", sys.executable, "--device", "nvidia", "--model", str(tmp_path / "m"), "--no-off",
             "--env", f"PYTHONPATH={fake_sglang}", "--depth", "4", "--only", "starts", "--out", str(tmp_path / "out"))  # fmt: skip
    with alone_in(tmp_path / "out") as is_alone:
        assert is_alone
        refused = invoke(*words)
    assert refused.exit_code == 14
    assert "another smoke test writes to" in refused.output
    assert list((tmp_path / "out").iterdir()) == []
    assert invoke(*words).exit_code == 0
