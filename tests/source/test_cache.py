"""Release wheels: fetched once with pip, held to the index's hash, shared by processes, honest when offline."""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from rocmfix.errors import SourceError, ToolMissingError
from rocmfix.releases import Release
from rocmfix.source.cache import wheel_of, wheels_of
from rocmfix.system import files, pip
from tests.source.wheelhouse import build_wheel, promise


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package index on disk: what pip's own settings point to."""
    folder = tmp_path / "index"
    folder.mkdir()
    for name in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    return folder


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache"


def leftovers(cache: Path) -> list[str]:
    return [path.name for path in cache.iterdir() if path.name.startswith(".part")]


def test_fetches_once_and_then_needs_no_index(index: Path, cache: Path) -> None:
    release = promise(build_wheel(index))
    path = wheel_of("sglang", release, cache, offline=False)
    assert path.parent == cache
    shutil.rmtree(index)
    assert wheel_of("sglang", release, cache, offline=False) == path
    assert wheel_of("sglang", release, cache, offline=True) == path
    assert leftovers(cache) == []


@pytest.mark.parametrize("tag", ["cp313-cp313-manylinux_2_34_aarch64", "cp39-cp39-win32"])
def test_any_wheel_of_a_release_serves_whatever_runs_here(index: Path, cache: Path, tag: str) -> None:
    """This mirror has one wheel only, made for another Python or another machine."""
    wheels = [
        build_wheel(index, f"cp{minor}-cp{minor}-manylinux_2_34_{machine}")
        for minor in (311, 313)
        for machine in ("aarch64", "x86_64")
    ]
    release = promise(*wheels, build_wheel(index, "cp39-cp39-win32"))
    kept = f"sglang-9.9-{tag}.whl"
    for path in index.iterdir():
        if path.name != kept:
            path.unlink()
    assert wheel_of("sglang", release, cache, offline=False).name == kept


def test_a_wheel_that_somebody_put_there_serves(index: Path, cache: Path) -> None:
    release = promise(
        build_wheel(index, "cp311-cp311-manylinux_2_34_x86_64"), build_wheel(index, "cp312-cp312-manylinux_2_34_x86_64")
    )
    cache.mkdir()
    put = build_wheel(cache, "cp312-cp312-manylinux_2_34_x86_64")
    shutil.copy(index / put.name, put)
    assert wheel_of("sglang", release, cache, offline=True) == put


def test_a_wheel_of_the_wrong_bytes_is_refused(index: Path, cache: Path) -> None:
    release = promise(build_wheel(index))
    with (index / "sglang-9.9-py3-none-any.whl").open("ab") as wheel:
        wheel.write(b"tampered")
    with pytest.raises(SourceError, match="not the file that the package index published") as caught:
        wheel_of("sglang", release, cache, offline=False)
    assert any("expected sha256" in line for line in caught.value.details)
    assert list(cache.glob("*.whl")) == []
    assert leftovers(cache) == []


@pytest.mark.parametrize("damage", ["cut", "flipped", "empty"])
def test_a_damaged_wheel_in_the_cache_is_fetched_again(index: Path, cache: Path, damage: str) -> None:
    release = promise(build_wheel(index))
    path = wheel_of("sglang", release, cache, offline=False)
    sound = path.read_bytes()
    path.write_bytes({"cut": sound[:-1], "flipped": bytes([sound[0] ^ 1]) + sound[1:], "empty": b""}[damage])
    with pytest.raises(SourceError, match="offline"):
        wheel_of("sglang", release, cache, offline=True)
    assert wheel_of("sglang", release, cache, offline=False).read_bytes() == sound


def test_a_wheel_is_hashed_once_not_every_time(index: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    release = promise(build_wheel(index))
    path = wheel_of("sglang", release, cache, offline=False)
    os.utime(path, ns=(1, 1))  # as after a restore from backup: the voucher no longer fits
    hashed: list[Path] = []
    real = files.sha256
    monkeypatch.setattr(files, "sha256", lambda path: (hashed.append(path), real(path))[1])  # type: ignore[func-returns-value]
    for _ in range(3):
        wheel_of("sglang", release, cache, offline=True)
    assert hashed == [path]


def test_a_read_only_cache_serves(index: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    release = promise(build_wheel(index))
    path = wheel_of("sglang", release, cache, offline=False)
    path.with_name(f"{path.name}.whole").unlink()
    monkeypatch.setattr(files, "write_atomic", _read_only)
    assert wheel_of("sglang", release, cache, offline=True) == path


def _read_only(*_: object) -> None:
    raise OSError(30, "Read-only file system")


def test_offline_names_each_missing_wheel_and_the_way_out(index: Path, cache: Path) -> None:
    releases = [promise(build_wheel(index, version=version), version=version) for version in ("9.8", "9.9")]
    wheel_of("sglang", releases[0], cache, offline=False)
    with pytest.raises(SourceError) as caught:
        wheels_of("sglang", releases, cache, offline=True)
    assert "9.9" in caught.value.message
    assert "9.8" not in caught.value.message
    assert "sglang-9.9-py3-none-any.whl" in caught.value.details[0]
    assert "--offline" in (caught.value.hint or "")


def test_what_pip_says_is_shown(index: Path, cache: Path) -> None:
    release = promise(build_wheel(index))
    shutil.rmtree(index)
    index.mkdir()
    with pytest.raises(SourceError, match=r"pip could not download sglang==9\.9") as caught:
        wheel_of("sglang", release, cache, offline=False)
    assert any("No matching distribution" in line for line in caught.value.details)
    assert leftovers(cache) == []


def test_without_pip_the_error_says_so(
    index: Path, cache: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    bare = tmp_path / "bare/bin/python"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "bare"], check=True)
    monkeypatch.setattr(sys, "executable", str(bare))
    with pytest.raises(ToolMissingError, match="has no pip"):
        wheel_of("sglang", promise(build_wheel(index)), cache, offline=False)


def test_a_pip_in_the_working_folder_is_not_run(
    index: Path, cache: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "pip.py").write_text(f"open({str(tmp_path / 'sprung')!r}, 'w')")
    monkeypatch.chdir(tmp_path)
    wheel_of("sglang", promise(build_wheel(index)), cache, offline=False)
    assert not (tmp_path / "sprung").exists()


CHILD = """
import pickle, sys
from pathlib import Path
from rocmfix.source.cache import wheel_of
release = pickle.loads(bytes.fromhex(sys.argv[1]))
print(wheel_of("sglang", release, Path(sys.argv[2]), offline=False).name, flush=True)
"""

SLOW_PIP = """
import os, sys, time, pathlib
pathlib.Path(sys.argv[sys.argv.index("--dest") + 1], "half.whl").write_bytes(b"half")
mark = pathlib.Path(os.environ["MARK"])
mark.write_text(str(os.getpid()))
time.sleep(20)
mark.with_suffix(".ended").touch()
"""


def start(release: Release, cache: Path, **env: str) -> subprocess.Popen[bytes]:
    import pickle

    argv = [sys.executable, "-c", CHILD, pickle.dumps(release).hex(), str(cache)]
    return subprocess.Popen(argv, env={**os.environ, **env}, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def test_two_processes_fetch_one_wheel_once(index: Path, cache: Path) -> None:
    release = promise(build_wheel(index))
    both = [start(release, cache) for _ in range(2)]
    said = [each.communicate() for each in both]
    assert [out for out, _ in said] == [b"sglang-9.9-py3-none-any.whl\n"] * 2
    assert sum(err.count(b"fetching sglang 9.9") for _, err in said) == 1
    assert leftovers(cache) == []


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_a_stopped_download_leaves_no_trouble(index: Path, cache: Path, tmp_path: Path, how: signal.Signals) -> None:
    """Killed while pip is at work: the next run clears what is left and fetches; Ctrl-C clears at once."""
    release = promise(build_wheel(index))
    (tmp_path / "slow/pip").mkdir(parents=True)
    (tmp_path / "slow/pip/__main__.py").write_text(SLOW_PIP)
    (tmp_path / "slow/pip/__init__.py").write_text("")
    mark = tmp_path / "mark"
    path = os.pathsep.join([str(tmp_path / "slow"), os.environ.get("PYTHONPATH", ""), str(Path.cwd())])
    child = start(release, cache, PYTHONPATH=path, MARK=str(mark))
    for _ in range(600):
        if mark.exists() and mark.read_text():
            break
        time.sleep(0.05)
    child.send_signal(how)
    child.communicate()
    if how is signal.SIGKILL:
        assert leftovers(cache), "and pip goes on writing there: nobody told it"
    else:
        assert not leftovers(cache)
        assert not mark.with_suffix(".ended").exists(), "pip was waited for, not stopped"
    assert (
        wheel_of("sglang", release, cache, offline=False).read_bytes()
        == (index / "sglang-9.9-py3-none-any.whl").read_bytes()
    )
    assert leftovers(cache) == []
    with contextlib.suppress(ProcessLookupError):
        os.kill(int(mark.read_text()), signal.SIGKILL)


HALF_PIP = """
import os, pathlib, sys, time
mark = pathlib.Path(os.environ["MARK"])
if sys.argv[-1] == "sglang==9.9":
    while not mark.with_suffix(".started").exists():
        time.sleep(0.05)
    sys.exit("refused")
with mark.with_suffix(".started").open("a") as started:
    started.write(sys.argv[-1])
time.sleep(20)
mark.with_suffix(".ended").touch()
"""


def test_a_failure_stops_the_other_downloads(
    index: Path, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One release is refused while another is on its way and two wait: the user hears of it at once."""
    (tmp_path / "half/pip").mkdir(parents=True)
    (tmp_path / "half/pip/__main__.py").write_text(HALF_PIP)
    (tmp_path / "half/pip/__init__.py").write_text("")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "half"))
    monkeypatch.setenv("MARK", str(tmp_path / "mark"))
    wanted = [promise(build_wheel(index, version=version), version=version) for version in ("9.9", "9.1", "9.2", "9.3")]
    with pytest.raises(SourceError, match=r"sglang==9\.9"):
        wheels_of("sglang", wanted, cache, offline=False)
    assert (tmp_path / "mark.started").read_text() == "sglang==9.1"
    assert not (tmp_path / "mark.ended").exists()
    assert leftovers(cache) == []


def test_progress_is_told_while_bytes_arrive(index: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "slow/pip").mkdir(parents=True)
    script = "import pathlib,sys,time; p=pathlib.Path(sys.argv[sys.argv.index('--dest')+1],'a-1-py3-none-any.whl')\n"
    script += "for n in range(1,5): p.write_bytes(b'x'*1000*n); time.sleep(0.3)\n"
    (tmp_path / "slow/pip/__main__.py").write_text(script)
    (tmp_path / "slow/pip/__init__.py").write_text("")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "slow"))
    (tmp_path / "into").mkdir()
    heard: list[int] = []
    pip.download_wheel("a==1", pip.Tags("py3", "none", ("any",)), tmp_path / "into", arrived=heard.append)
    assert heard == sorted(heard)
    assert len({size // 1000 for size in heard}) >= 3


def test_releases_of_which_one_begins_with_the_others_name_are_fetched_side_by_side(cache: Path) -> None:
    """0.5.8 threw away what 0.5.8.post1 had fetched so far: the matrix failed on an empty cache, now and then."""
    with (
        files.fresh_folder(cache / ".part-sglang-0.5.8.post1") as one,
        files.fresh_folder(cache / ".part-sglang-0.5.8"),
    ):
        assert one.is_dir()
    (cache / ".part-sglang-0.5.8~killed").mkdir()
    with files.fresh_folder(cache / ".part-sglang-0.5.8") as left:
        assert leftovers(cache) == [left.name]
    assert leftovers(cache) == []
