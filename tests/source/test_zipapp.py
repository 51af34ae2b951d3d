"""One file that is all of rocmfix: it unpacks once, to a place that nobody else can write, and runs offline."""

import importlib.machinery
import json
import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from rocmfix.source import export
from rocmfix.tree import Tree

ROOT = Path(__file__).parents[2]
COMPILED = f"site/pydantic_core/_pydantic_core{importlib.machinery.EXTENSION_SUFFIXES[0]}"


def build_tiny(folder: Path, digest: str = "d1", said: str = "ran", compiled: str = COMPILED) -> Path:
    """The real start, with a rocmfix that only says what it was asked."""
    app = folder / f"{digest}.pyz"
    with zipfile.ZipFile(app, "w") as archive:
        archive.writestr(
            "__main__.py", (ROOT / "ci/zipapp_start.py").read_text().replace('DIGEST = ""', f'DIGEST = "{digest}"')
        )
        archive.writestr(compiled, b"")
        archive.writestr("site/rocmfix/__init__.py", "")
        archive.writestr("site/rocmfix/__main__.py", (ROOT / "rocmfix/__main__.py").read_text(encoding="utf-8"))
        archive.writestr(
            "site/rocmfix/cli.py", f"import sys\ndef main(prog_name): print('{said}', prog_name, sys.argv[1:])\n"
        )
    return app


def run(app: Path, *args: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, app, *args], capture_output=True, text=True, check=False, env={"PATH": "/nonexistent", **env}
    )


def test_unpacks_once(tmp_path: Path) -> None:
    app = build_tiny(tmp_path)
    for _ in range(2):
        assert run(app, "check", "x", ROCMFIX_CACHE=str(tmp_path / "cache")).stdout == "ran rocmfix ['check', 'x']\n"
    assert [path.name for path in (tmp_path / "cache").iterdir()] == ["app-d1"]
    (tmp_path / "cache/app-d1/rocmfix/cli.py").write_text("def main(prog_name): print('kept')")
    with zipfile.ZipFile(app) as archive:
        start = archive.read("__main__.py")
    with zipfile.ZipFile(app, "w") as archive:  # nothing left to unpack
        archive.writestr("__main__.py", start)
    assert run(app, ROCMFIX_CACHE=str(tmp_path / "cache")).stdout == "kept\n"


def test_a_new_build_unpacks_beside_the_old(tmp_path: Path) -> None:
    for digest in ("d1", "d2"):
        app = build_tiny(tmp_path, digest, said=digest)
        assert run(app, ROCMFIX_CACHE=str(tmp_path / "cache")).stdout.startswith(digest)


def test_many_may_start_at_once(tmp_path: Path) -> None:
    app = build_tiny(tmp_path)
    env = {"PATH": "", "ROCMFIX_CACHE": str(tmp_path / "cache")}
    all_of_them = [subprocess.Popen([sys.executable, app], stdout=subprocess.PIPE, env=env) for _ in range(4)]
    assert {each.communicate()[0] for each in all_of_them} == {b"ran rocmfix []\n"}
    assert [path.name for path in (tmp_path / "cache").iterdir()] == ["app-d1"]


def test_a_home_that_cannot_be_written_is_no_hindrance(tmp_path: Path) -> None:
    """As in a pod with a read-only file system: only a temporary folder can be written."""
    (tmp_path / "file").write_text("")
    (tmp_path / "tmp").mkdir()
    ran = run(build_tiny(tmp_path), HOME=str(tmp_path / "file"), TMPDIR=str(tmp_path / "tmp"))
    assert ran.stdout == "ran rocmfix []\n"
    shared = tmp_path / f"tmp/rocmfix-{os.getuid()}"
    assert shared.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("how", ["writable by all", "a link", "another user's"])
def test_a_folder_that_others_could_have_filled_is_not_run(tmp_path: Path, how: str) -> None:
    evil = tmp_path / f"tmp/rocmfix-{os.getuid()}"
    target = tmp_path / "evil" if how == "a link" else evil
    (target / "app-d1/rocmfix").mkdir(parents=True)
    (target / "app-d1/rocmfix/__init__.py").write_text("print('evil')")
    (target / "app-d1" / COMPILED.removeprefix("site/")).parent.mkdir()
    (target / "app-d1" / COMPILED.removeprefix("site/")).write_bytes(b"")
    if how == "writable by all":
        target.chmod(0o777)
    elif how == "a link":
        evil.parent.mkdir()
        evil.symlink_to(target)
    elif os.geteuid() == 0:
        for path in (target, *target.rglob("*")):
            os.chown(path, 12345, 12345)
    else:
        target.chmod(0o777)  # only root can make it another's; this is the nearest
    (tmp_path / "file").write_text("")
    ran = run(build_tiny(tmp_path), HOME=str(tmp_path / "file"), TMPDIR=str(tmp_path / "tmp"))
    assert "evil" not in ran.stdout
    assert "set ROCMFIX_CACHE" in ran.stderr


def test_another_machine_is_told_so(tmp_path: Path) -> None:
    app = build_tiny(tmp_path, compiled="site/pydantic_core/_pydantic_core.cpython-27-other.so")
    ran = run(app, ROCMFIX_CACHE=str(tmp_path / "cache"))
    assert ran.returncode == 1
    assert "holds no build for Python" in ran.stderr
    assert "pip install rocmfix" in ran.stderr


def test_an_old_python_is_told_so(tmp_path: Path) -> None:
    code = "import sys, runpy; sys.version_info = (3, 9, 1); runpy.run_path(sys.argv[1], run_name='__main__')"
    ran = subprocess.run(
        [sys.executable, "-c", code, ROOT / "ci/zipapp_start.py"], capture_output=True, text=True, check=False
    )
    assert ran.returncode == 1
    assert ran.stderr.startswith("rocmfix needs Python 3.10 or newer")


def pythons() -> list[str]:
    """This Python, and every other on PATH that the file is built for."""
    named = filter(None, (shutil.which(f"python3.{minor}") for minor in (10, 11, 12, 13)))
    # A version switcher's shim is a script that needs PATH; ask it for the program.
    asked = (subprocess.run([name, "-c", "import sys; print(sys.executable)"], capture_output=True, text=True, check=False) for name in named)  # fmt: skip
    return list(dict.fromkeys([sys.executable, *(said.stdout.strip() for said in asked if said.returncode == 0)]))


@pytest.mark.upstream
def test_judges_what_is_installed_without_network_and_git(tmp_path: Path, release_tree: Callable[[str], Tree]) -> None:
    app = tmp_path / "rocmfix.pyz"
    subprocess.run([sys.executable, ROOT / "ci/zipapp", app], check=True)
    site = tmp_path / "site"
    site.mkdir()
    export(release_tree("0.5.14"), site)
    direct = subprocess.run([sys.executable, "-m", "rocmfix", "check", site, "--json"], cwd=ROOT, capture_output=True, text=True, check=False)  # fmt: skip
    alone = ["unshare", "--net"] if os.geteuid() == 0 else ["unshare", "--map-root-user", "--net"]
    for number, python in enumerate(pythons()):
        env = {"PATH": "/nonexistent", "HOME": str(tmp_path / f"home{number}"), "PYTHONPATH": str(site)}
        argv = [str(shutil.which(alone[0])), *alone[1:], python, str(app), "check", "--installed", "--json"]
        ran = subprocess.run(argv, env=env, capture_output=True, text=True, check=False)
        assert ran.returncode == direct.returncode, ran.stderr
        assert json.loads(ran.stdout)["verdicts"] == json.loads(direct.stdout)["verdicts"]
        assert json.loads(ran.stdout)["release"] == "0.5.14"
