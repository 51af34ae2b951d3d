"""Tuning: AITER's command in a container, resumed after a kill, its failures not taken."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time

import pytest
from click.testing import CliRunner

from rocmfix.aiter.reader import TableFile
from rocmfix.aiter.tune import Options, accepted, jobs, runs
from rocmfix.cli.aiter import command
from rocmfix.errors import TableError
from tests.aiter.rows import HEADER, UNTUNED, ladder, row, table
from tests.aiter.trees import tree

SHAPES = table([*ladder((1, 2)), *ladder((4,), inter_dim=1024)], HEADER[2:14])
ENGINE = '''#!{python}
"""Stands in for `docker run IMAGE gemm_moe_tune.py`: tunes what is asked with made-up times."""
import csv, os, pathlib, sys, time
args = sys.argv[1:]
work = pathlib.Path(next(a for a in args if a.startswith("--volume=")).removeprefix("--volume=").removesuffix(":/tune"))
out = work / pathlib.Path(args[args.index("-o") + 1]).name
with open(os.environ["STAND_IN_LOG"], "a") as log:
    log.write(work.name + " " + out.name + "\\n")
rows = list(csv.DictReader(open(work / "untuned.csv")))
if os.environ.get("STAND_IN_HANGS") and any(r["inter_dim"] == "1024" for r in rows):
    print("waiting", flush=True)
    time.sleep(60)
if os.environ.get("STAND_IN_FAILS"):
    sys.exit(7)
header = {header!r}.split(",")
with open(out, "w") as f:
    w = csv.DictWriter(f, header)
    w.writeheader()
    for r in rows:
        bad = r["token"] == "2"
        w.writerow({{**{{h: "0" for h in header}}, **r, "gfx": "gfx950", "cu_num": "256", "us": "-1" if bad else "9.5",
                    "kernelName1": "FAILED: no kernel" if bad else "flydsl_moe1_afp4_wfp4_bf16_t32x64x256_w2",
                    "kernelName2": "flydsl_moe2_afp4_wfp4_bf16_t32x128x256_atomic", "err1": "0.1%", "err2": "0.1%"}})
'''


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A folder with shapes, an AITER tree on disk and an engine that is a stand-in."""
    for path in ("aiter/jit/core.py", "aiter/fused_moe.py", "aiter/configs/untuned_fmoe.csv"):
        target = tmp_path / "tree" / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(tree().read(path) or b"")
    tuner = tmp_path / "tree/csrc/ck_gemm_moe_2stages_codegen/gemm_moe_tune.py"
    tuner.parent.mkdir(parents=True)
    tuner.write_text("")
    engine = tmp_path / "engine"
    engine.write_text(ENGINE.format(python=sys.executable, header=",".join(HEADER)))
    engine.chmod(0o755)
    (tmp_path / "shapes.csv").write_bytes(SHAPES)
    monkeypatch.setenv("STAND_IN_LOG", str(tmp_path / "log"))
    return tmp_path


def arguments(place, *more):
    return ["tune", "--shapes", str(place / "shapes.csv"), "--image", "img@sha256:1", "--for", str(place / "tree"), "--engine", str(place / "engine"),
            "--work", str(place / "work"), "-o", str(place / "out.csv"), *more]  # fmt: skip


def run(place, *more):
    return CliRunner().invoke(command, arguments(place, *more))


def ran(place):
    path = place / "log"
    return path.read_text().splitlines() if path.exists() else []


def test_each_shape_is_one_job_and_a_repeated_line_is_asked_once():
    found = jobs(TableFile("s.csv", SHAPES + SHAPES.split(b"\n")[1] + b"\n"))
    assert [job.rows for job in found] == [2, 1]
    assert found == jobs(TableFile("s.csv", SHAPES))


def test_the_command_is_aiters_own_tuner_in_the_image():
    job = jobs(TableFile("s.csv", SHAPES))[0]
    first, second = runs(job, Options(image="img", gpus=4, mxfp4=True), "/w/job")
    text = " ".join(first.argv)
    assert text.startswith("docker run --rm --network=none")
    assert "--device=/dev/kfd --device=/dev/dri" in text
    assert text.endswith(
        "img python3 /sgl-workspace/aiter/csrc/ck_gemm_moe_2stages_codegen/gemm_moe_tune.py -i /tune/untuned.csv -o /tune/tuned.csv "
        "--all --shape_grouped --mp 4 --batch 100 --warmup 5 --iters 101 --timeout 7200"
    )
    assert second.argv[-1] == "--mxfp4-flydsl"


def test_a_tree_without_the_tuner_is_refused():
    with pytest.raises(TableError, match="has no csrc/ck_gemm_moe_2stages_codegen"):
        runs(jobs(TableFile("s.csv", SHAPES))[0], Options(image="i"), "/w", tree())


@pytest.mark.parametrize(
    ("cells", "why"),
    [
        ({"kernelName1": "FAILED: timeout"}, "failed"),
        ({"us": "-1"}, "not timed"),
        ({"us": "0"}, "not timed"),
        ({"us": ""}, "not timed"),
        ({"inter_dim": "4096"}, "not asked for"),
    ],
)
def test_a_bad_row_is_not_taken(cells, why):
    job = jobs(TableFile("s.csv", SHAPES))[0]
    kept, rejected = accepted(TableFile("t.csv", table([row(token=1), row(token=2, **cells)])), job)
    assert [(item.line, why in item.why) for item in rejected] == [(3, True)]
    assert kept.data == table([row(token=1)])


@pytest.mark.parametrize("data", [b"", UNTUNED, b"token\n1\n", SHAPES.replace(b"6144", b"", 1)])
def test_shapes_the_tuner_would_not_take_are_refused(data):
    with pytest.raises(TableError):
        jobs(TableFile("s.csv", data))


def test_a_run_tunes_every_shape_takes_the_good_rows_and_says_where_they_are_from(place):
    result = run(place)
    assert result.exit_code == 0, result.output
    assert len(ran(place)) == 2
    lines = (place / "out.csv").read_text().splitlines()
    assert [line.split(",")[2:5] for line in lines[1:]] == [["1", "6144", "512"], ["4", "6144", "1024"]]
    record = json.loads((place / "out.json").read_text())
    assert record["image"] == "img@sha256:1"
    assert record["rows"] == 2
    assert len(record["commands"]) == 2
    assert "failed on this shape" in record["rejected"][0]
    assert record["missing"] == [",".join(row(token=2)[name] for name in HEADER[2:14])]


def test_a_second_run_starts_no_container(place):
    run(place)
    before = (place / "out.csv").read_bytes()
    assert run(place).exit_code == 0
    assert len(ran(place)) == 2
    assert (place / "out.csv").read_bytes() == before


def test_a_killed_run_goes_on_with_the_shape_it_was_killed_in(place):
    """SIGKILL in the second shape: the first is kept, the second is run again, and nothing else."""
    argv = [sys.executable, "-c", "from rocmfix.cli.aiter import command; command()", *arguments(place)]
    killed = subprocess.Popen(
        argv, env={**os.environ, "STAND_IN_HANGS": "1"}, stderr=subprocess.PIPE, start_new_session=True
    )
    assert killed.stderr is not None
    while b"waiting" not in killed.stderr.readline():
        assert killed.poll() is None
        time.sleep(0.01)
    os.killpg(killed.pid, signal.SIGKILL)
    killed.wait()
    killed.stderr.close()
    assert not (place / "out.csv").exists()
    result = run(place)
    assert result.exit_code == 0, result.output
    names = [line.split()[0] for line in ran(place)]
    assert len(names) == 3
    assert names[1] == names[2] != names[0]
    assert len((place / "out.csv").read_text().splitlines()) == 3


def test_an_output_that_was_changed_or_cut_is_tuned_again(place):
    run(place)
    first = next((place / "work").glob("*/tuned.csv"))
    first.write_bytes(first.read_bytes()[:-20])
    assert run(place).exit_code == 0
    assert len(ran(place)) == 3


def test_another_image_tunes_anew(place):
    run(place)
    result = CliRunner().invoke(command, [part.replace("img@sha256:1", "img@sha256:2") for part in arguments(place)])
    assert result.exit_code == 0
    assert len(ran(place)) == 4


def test_a_tuner_that_fails_stops_the_run_and_leaves_no_table(place, monkeypatch):
    monkeypatch.setenv("STAND_IN_FAILS", "1")
    result = run(place)
    assert result.exit_code == 7
    assert "exit code 7" in result.output
    assert not (place / "out.csv").exists()


def test_a_missing_engine_is_said(place):
    result = run(place, "--engine", "no-such-engine")
    assert result.exit_code == 7
    assert "no-such-engine is not installed" in result.output


def test_an_image_name_that_would_be_an_option_is_refused(place):
    result = run(place, "--image", "--privileged")
    assert result.exit_code == 2
    assert not ran(place)


def test_a_work_folder_that_cannot_be_mounted_is_refused(place):
    result = run(place, "--work", str(place / "a:b"))
    assert result.exit_code == 13
    assert "colon" in result.output


def test_a_dry_run_prints_the_commands_and_starts_nothing(place):
    result = run(place, "--dry-run")
    assert result.exit_code == 0
    assert len(result.output.splitlines()) == 2
    assert not ran(place)
    assert not (place / "work").exists()
