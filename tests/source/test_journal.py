"""Many files are replaced at once: all of them or none, whatever happens in the middle."""

import fcntl
import os
import shutil
import signal
import stat
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from rocmfix.errors import ApplyError
from rocmfix.system.journal import JOURNAL, is_pending, recover, replace_all


def snapshot(root: Path) -> dict[str, tuple[int, bytes]]:
    """Every file and folder below `root`, with its mode and bytes."""
    return {
        str(path.relative_to(root)): (path.lstat().st_mode, path.read_bytes() if path.is_file() else b"")
        for path in sorted(root.rglob("*"))
    }


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    root = tmp_path / "a tree"
    for name in ("a.py", "pkg/b.py", "pkg/deep/c.py"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(f"old {name}\r\n")
    (root / "pkg/b.py").chmod(0o444)
    (root / "pkg/deep/c.py").chmod(0o755)
    return root


CHANGES = {"a.py": b"new a", "pkg/b.py": b"new b\r\n", "pkg/deep/c.py": None, "fresh/x/y.py": b"y"}


def test_replaces_creates_and_removes(tree: Path) -> None:
    replace_all(tree, CHANGES)
    assert {name: data for name, (_, data) in snapshot(tree).items() if data} == {
        "a.py": b"new a",
        "pkg/b.py": b"new b\r\n",
        "fresh/x/y.py": b"y",
    }


def test_leaves_no_trace_of_itself_nor_an_empty_folder(tree: Path) -> None:
    replace_all(tree, CHANGES)
    assert not (tree / ".rocmfix").exists()
    assert not (tree / "pkg/deep").exists()


def test_keeps_modes_and_replaces_read_only_files(tree: Path) -> None:
    replace_all(tree, {"pkg/b.py": b"1", "pkg/deep/c.py": b"2", "new.py": b"3"})
    modes = [stat.S_IMODE((tree / name).stat().st_mode) for name in ("pkg/b.py", "pkg/deep/c.py", "new.py")]
    assert modes == [0o444, 0o755, 0o644]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_keeps_the_owner(tree: Path) -> None:
    os.chown(tree / "a.py", 12345, 54321)
    replace_all(tree, {"a.py": b"new"})
    assert ((tree / "a.py").stat().st_uid, (tree / "a.py").stat().st_gid) == (12345, 54321)


def test_does_not_write_through_to_a_hard_linked_copy(tree: Path, tmp_path: Path) -> None:
    """Installers link site-packages to their cache: patching one must not patch the other."""
    os.link(tree / "a.py", tmp_path / "cache.py")
    replace_all(tree, {"a.py": b"new"})
    assert (tmp_path / "cache.py").read_bytes() == b"old a.py\r\n"


@pytest.mark.parametrize("path", ["../out.py", "/etc/out.py", "pkg/../../out.py", "", ".", "a\0b", "..\\out.py"])
def test_refuses_a_path_that_leaves_the_tree(tree: Path, path: str) -> None:
    before = snapshot(tree.parent)
    with pytest.raises(ApplyError, match="leaves the tree"):
        replace_all(tree, {"a.py": b"new", path: b"evil"})
    assert snapshot(tree.parent) == before


def test_refuses_a_link_as_target(tree: Path, tmp_path: Path) -> None:
    (tmp_path / "victim").write_text("safe")
    (tree / "link.py").symlink_to(tmp_path / "victim")
    with pytest.raises(ApplyError, match="not a regular file"):
        replace_all(tree, {"a.py": b"new", "link.py": b"evil"})
    assert (tmp_path / "victim").read_text() == "safe"
    assert (tree / "a.py").read_bytes() == b"old a.py\r\n"


@pytest.mark.parametrize("name", ["sub", ".rocmfix"])
def test_refuses_a_link_among_the_folders(tree: Path, tmp_path: Path, name: str) -> None:
    (tmp_path / "outside").mkdir()
    (tree / name).symlink_to(tmp_path / "outside")
    with pytest.raises(ApplyError, match="symbolic link in the way"):
        replace_all(tree, {"a.py": b"new", "sub/new.py": b"evil"})
    assert list((tmp_path / "outside").iterdir()) == []
    assert (tree / "a.py").read_bytes() == b"old a.py\r\n"


def test_refuses_to_remove_what_is_not_there(tree: Path) -> None:
    before = snapshot(tree)
    with pytest.raises(ApplyError, match="not there"):
        replace_all(tree, {"a.py": b"new", "gone.py": None})
    assert snapshot(tree) == before


@pytest.mark.parametrize("expected", [{"a.py": b"other"}, {"pkg/b.py": None}, {"absent.py": b""}])
def test_refuses_files_that_changed_since_they_were_read(tree: Path, expected: dict[str, bytes | None]) -> None:
    before = snapshot(tree)
    with pytest.raises(ApplyError, match="changed since"):
        replace_all(tree, {"a.py": b"new"}, expected=expected)
    assert snapshot(tree) == before


def test_accepts_files_that_are_as_expected(tree: Path) -> None:
    replace_all(tree, {"a.py": b"new"}, expected={"a.py": b"old a.py\r\n", "absent.py": None})
    assert (tree / "a.py").read_bytes() == b"new"


@pytest.mark.parametrize("failing", range(4))
@pytest.mark.parametrize("error", [OSError(5, "Input/output error"), KeyboardInterrupt()])
def test_restores_everything_when_a_rename_fails(
    tree: Path, monkeypatch: pytest.MonkeyPatch, failing: int, error: BaseException
) -> None:
    """The first, the second, ... of the files fails, by an error or by Ctrl-C."""
    (tree / "fresh").mkdir()
    before = snapshot(tree)
    done: list[str] = []
    for verb in ("replace", "unlink"):
        monkeypatch.setattr(Path, verb, _fails_at(failing, done, getattr(Path, verb), error))
    with pytest.raises((ApplyError, KeyboardInterrupt)):
        replace_all(tree, CHANGES)
    assert len(done) > failing
    assert snapshot(tree) == before


def _fails_at(failing: int, done: list[str], real: Any, error: BaseException) -> Any:
    """`real`, but raising `error` once, at the step on the tree that is the `failing`th."""

    def step(path: Path, *args: Any, **kwargs: Any) -> Any:
        target = str(args[0] if args else path)
        if "journal" not in target and path.suffix != ".json":
            done.append(target)
            if len(done) == failing + 1:
                raise error
        return real(path, *args, **kwargs)

    return step


CHILD = """
    import os, signal, sys
    from pathlib import Path
    from rocmfix.system import journal

    root, failing, seen = Path(sys.argv[1]), int(sys.argv[2]), 0
    real = Path.replace

    def replace(self, target):
        global seen
        if "journal" not in str(target):
            if seen == failing:
                os.kill(os.getpid(), signal.SIGKILL)
            seen += 1
        return real(self, target)

    Path.replace = replace
    journal.replace_all(root, {"a.py": b"new a", "pkg/b.py": b"new b", "z/z.py": b"z", "pkg/deep/c.py": None})
"""


@pytest.mark.parametrize("failing", range(3))
def test_a_killed_run_is_undone_by_the_next(tree: Path, failing: int) -> None:
    before = snapshot(tree)
    child = subprocess.run([sys.executable, "-c", textwrap.dedent(CHILD), tree, str(failing)], check=False)
    assert child.returncode == -signal.SIGKILL
    assert is_pending(tree)
    with pytest.raises(ApplyError, match="interrupted"):
        replace_all(tree, {"a.py": b"other"})
    assert recover(tree) == ("a.py", "pkg/b.py", "pkg/deep/c.py", "z/z.py")
    assert snapshot(tree) == before
    assert not is_pending(tree)
    assert recover(tree) == ()


def test_a_run_killed_before_it_replaced_anything_needs_no_recovery(tree: Path) -> None:
    (tree / JOURNAL / "new").mkdir(parents=True)
    (tree / JOURNAL / "new/0").write_bytes(b"left over")
    replace_all(tree, {"a.py": b"new"})
    assert (tree / "a.py").read_bytes() == b"new"
    assert not (tree / ".rocmfix").exists()


def test_two_runs_at_once_do_not_mix(tree: Path) -> None:
    """While one run holds the journal, another neither writes nor 'recovers' under its feet."""
    holder = (
        "import fcntl,sys; f=open(sys.argv[1],'wb'); fcntl.flock(f,fcntl.LOCK_EX); print('held',flush=True); input()"
    )
    (tree / JOURNAL).mkdir(parents=True)
    (tree / JOURNAL / "plan.json").write_text('{"goal": "", "steps": []}')
    with subprocess.Popen(
        [sys.executable, "-c", holder, tree / JOURNAL / "lock"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"held\n"
        with pytest.raises(ApplyError, match="another run"):
            replace_all(tree, {"a.py": b"new"})
        with pytest.raises(ApplyError, match="another run"):
            recover(tree)
        other.communicate(b"\n")
    assert (tree / "a.py").read_bytes() == b"old a.py\r\n"


@pytest.mark.parametrize("when", ["before the lock is opened", "before it is held"])
def test_a_run_that_ends_just_now_takes_its_journal_with_it(
    tree: Path, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    """What is held then is the lock of a journal that is no more."""
    (tree / JOURNAL).mkdir(parents=True)
    owner, name = (Path, "open") if when == "before the lock is opened" else (fcntl, "flock")
    real = getattr(owner, name)

    def late(*args: Any) -> Any:
        shutil.rmtree(tree / JOURNAL)
        return real(*args)

    with monkeypatch.context() as patch:
        patch.setattr(owner, name, late)
        with pytest.raises(ApplyError, match="another run"):
            replace_all(tree, {"a.py": b"new"})
    assert (tree / "a.py").read_bytes() == b"old a.py\r\n"
    replace_all(tree, {"a.py": b"new"})


@pytest.mark.parametrize("plan", ['{"goal": "", "steps": [{"path": "../x", "existed": false, "remains": true, "folders": []}]}',
                                  '{"goal": "", "steps": [{"path": "x", "existed": false, "remains": true, "folders": ["../f"]}]}',
                                  "{", "[1]", '{"goal": "", "steps": [{}]}'])  # fmt: skip
def test_a_tree_cannot_bring_a_journal_that_reaches_outside(tree: Path, plan: str) -> None:
    (tree.parent / "x").write_text("safe")
    (tree.parent / "f").mkdir()
    (tree / JOURNAL).mkdir(parents=True)
    (tree / JOURNAL / "plan.json").write_text(plan)
    with pytest.raises(ApplyError, match=r"leaves the tree|damaged"):
        recover(tree)
    assert (tree.parent / "x").read_text() == "safe"
    assert (tree.parent / "f").is_dir()


def test_a_full_disk_leaves_the_tree_as_it_was(tmp_path: Path, *, in_ci: bool) -> None:
    root = tmp_path / "small"
    root.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "none", root], capture_output=True, check=False)
    if mounted.returncode:
        assert not in_ci, mounted.stderr
        pytest.skip("only root can mount a tiny file system")
    try:
        (root / "a.py").write_bytes(b"old")
        (root / "b.py").write_bytes(b"b" * 20_000)
        before = snapshot(root)
        with pytest.raises(ApplyError, match="No space left"):
            replace_all(root, {"a.py": b"new", "b.py": b"B" * 60_000})
        assert snapshot(root) == before
        replace_all(root, {"a.py": b"new", "b.py": b"B" * 20_000})  # what was prepared before is gone again
        assert (root / "b.py").read_bytes() == b"B" * 20_000
    finally:
        subprocess.run(["umount", root], check=True)
