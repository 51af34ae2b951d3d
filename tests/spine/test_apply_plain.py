"""Applying to plain trees: everything or nothing, recorded, and back to the byte."""

from __future__ import annotations

import json
import os
import re
import stat
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from rocmfix.apply import write
from rocmfix.catalog import load
from rocmfix.engine import patch_tree
from rocmfix.source.folder import open_folder
from rocmfix.system import journal
from tests.spine.conftest import AFTER, BEFORE, KERNEL, LOADER, content, write_tree


def applied(root, layout=""):
    return {path: (root / path.removeprefix(layout)).read_text() for path in AFTER}


def test_a_plain_tree_is_patched_and_reverted_to_the_byte(tmp_path, run):
    tree = write_tree(tmp_path / "tree")
    before = content(tree)
    assert run("check", tree).exit_code == 10
    result = run("apply", tree, "--in-place")
    assert result.exit_code == 0, result.output
    assert applied(tree) == AFTER
    assert run("check", tree).exit_code == 0
    assert {v["verdict"] for v in json.loads(run("check", tree, "--json").stdout)["verdicts"]} == {"applied"}
    reverted = run("revert", tree)
    assert reverted.exit_code == 0, reverted.output
    assert content(tree) == before
    assert not (tree / ".rocmfix").exists()


def test_a_second_apply_changes_nothing_and_says_so(tmp_path, run):
    tree = write_tree(tmp_path / "tree")
    run("apply", tree, "--in-place")
    before = content(tree)
    result = run("apply", tree, "--in-place")
    assert result.exit_code == 0
    assert "0 of 3 fixes applied" in result.stdout
    assert "3 applied before" in result.stdout
    assert content(tree) == before


def test_one_fix_after_another_reverts_to_the_first_state(tmp_path, run):
    tree = write_tree(tmp_path / "tree")
    before = content(tree)
    run("apply", tree, "--in-place", "--fix", "remember")
    assert run("apply", tree, "--in-place").exit_code == 0
    assert applied(tree) == AFTER
    assert run("revert", tree).exit_code == 0
    assert content(tree) == before


def test_only_the_fixes_asked_for_are_applied(tmp_path, run):
    tree = write_tree(tmp_path / "tree")
    result = run("apply", tree, "--in-place", "--fix", "guard")
    assert "1 of 3 fixes applied" in result.stdout
    assert "not asked for (--fix)" in run("apply", tree, "--dry-run", "--fix", "guard").stdout
    assert (tree / KERNEL).read_text() == AFTER[KERNEL]
    assert (tree / LOADER).read_text() != AFTER[LOADER]
    assert run("apply", tree, "--in-place", "--fix", "gaurd").exit_code == 4


def test_a_copy_is_written_whole_or_not_at_all(tmp_path, run):
    tree = write_tree(tmp_path / "tree")
    before = content(tree)
    out = tmp_path / "with a space" / "out"
    assert run("apply", tree, "--out", out).exit_code == 0
    assert applied(out) == AFTER
    assert content(tree) == before, "the source stays as it was"
    again = run("apply", tree, "--out", out)
    assert again.exit_code == 5
    assert "exists and is not empty" in again.stderr
    assert run("revert", out).exit_code == 0
    assert content(out) == before


def test_a_dry_run_changes_nothing(tmp_path, run):
    tree = write_tree(tmp_path / "tree")
    before = content(tree)
    assert "3 of 3 fixes would be applied" in run("apply", tree, "--dry-run").stdout
    assert content(tree) == before
    run("apply", tree, "--in-place")
    patched = content(tree)
    assert "would revert 3 fix(es)" in run("revert", tree, "--dry-run").stdout
    assert content(tree) == patched


def test_revert_refuses_files_edited_since(tmp_path, run):
    tree = write_tree(tmp_path / "tree")
    run("apply", tree, "--in-place")
    with (tree / LOADER).open("a") as file:
        file.write("# mine\n")
    before = content(tree)
    result = run("revert", tree)
    assert result.exit_code == 5
    assert LOADER in result.stderr
    assert content(tree) == before


def test_revert_of_an_untouched_tree_is_an_error(tmp_path, run):
    result = run("revert", write_tree(tmp_path / "tree"))
    assert result.exit_code == 5
    assert "rocmfix did nothing" in result.stderr


def test_advice_fits_the_source(tmp_path, run, clone):
    """A wheel or a ref cannot be patched in place, nor reverted."""
    with zipfile.ZipFile(tmp_path / "x.whl", "w") as wheel:
        for path, text in BEFORE.items():
            wheel.writestr(path.removeprefix("python/"), text)
    for source in (tmp_path / "x.whl", f"git:{clone.root}@main"):
        assert f"rocmfix apply {source} --out DIR\n" in run("check", source).stderr
        done = run("revert", source)
        assert done.exit_code == 5
        assert "hint: give the folder that apply patched (--in-place) or wrote (--out)" in done.stderr
        assert "hint: write a patched copy: --out DIR" in run("apply", source, "--in-place").stderr
    assert f"rocmfix apply {clone.root} --out DIR, or --in-place\n" in run("check", clone.root).stderr


def test_a_gpu_that_nobody_knows_is_refused(tmp_path, run):
    done = run("apply", write_tree(tmp_path / "tree"), "--dry-run", "--gfx", "nope")
    assert done.exit_code == 2
    assert "'gfx942', 'gfx950'" in done.stderr


@pytest.mark.parametrize("name", ["gone.whl", "no such user", "~nobody-here/x.whl"])
def test_a_source_that_is_not_there_is_said_to_be_missing(run, name):
    done = run("check", name)
    assert done.exit_code == 3
    assert ("there is no wheel" if name.endswith("whl") else "is no release, folder or wheel") in done.stderr
    assert "hint:" in done.stderr


def test_the_home_of_nobody_is_no_crash(run):
    done = run("check", "git:~nobody-here/x@main")
    assert done.exit_code == 3, done.output
    assert "~nobody-here/x" in done.stderr


def test_a_link_out_of_the_tree_is_named_itself(tmp_path, run):
    real = write_tree(tmp_path / "real")
    (tmp_path / "tree/python").mkdir(parents=True)
    (tmp_path / "tree/python/sglang").symlink_to(real / "python/sglang")
    done = run("check", tmp_path / "tree")
    assert done.exit_code == 3
    link, target = tmp_path / "tree/python/sglang", real / "python/sglang"
    assert f"{link} is a symbolic link that leaves the tree: it points to {target}\n" in done.stderr
    assert "hint: give the folder where the files really lie" in done.stderr


def test_a_damaged_record_is_an_error_not_a_fresh_start(tmp_path, run):
    tree = write_tree(tmp_path / "tree")
    run("apply", tree, "--in-place")
    (tree / ".rocmfix/state.json").write_text("{")
    for verb in (["check", tree], ["apply", tree, "--in-place"], ["revert", tree]):
        result = run(*verb)
        assert result.exit_code == 5, verb
        assert "is damaged" in result.stderr


def test_a_wheel_layout_inside_another_repository_is_patched(tmp_path, run):
    """`git apply` in an ignored folder of another repository skips the patch, exits 0 and changes nothing."""
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    (tmp_path / ".gitignore").write_text("venv/\n")
    packages = write_tree(tmp_path / "venv/site-packages", wheel=True)
    before = content(packages)
    assert run("apply", packages, "--in-place").exit_code == 0
    assert applied(packages, "python/") == AFTER
    assert subprocess.run(["git", "log"], cwd=tmp_path, capture_output=True, check=False).returncode, "no commit"
    assert run("revert", packages).exit_code == 0
    assert content(packages) == before


def test_the_package_folder_itself_will_do(tmp_path, run):
    packages = write_tree(tmp_path / "site", wheel=True)
    assert run("apply", packages / "sglang", "--in-place").exit_code == 0
    assert applied(packages, "python/") == AFTER


def test_crlf_files_stay_crlf(tmp_path, run):
    tree = write_tree(tmp_path / "tree")
    for path in (KERNEL, LOADER):
        (tree / path).write_bytes((tree / path).read_bytes().replace(b"\n", b"\r\n"))
    before = content(tree)
    assert run("apply", tree, "--in-place").exit_code == 0
    assert (tree / LOADER).read_bytes() == AFTER[LOADER].replace("\n", "\r\n").encode()
    assert run("revert", tree).exit_code == 0
    assert content(tree) == before


def test_read_only_files_are_patched_and_stay_read_only(tmp_path, run):
    tree = write_tree(tmp_path / "tree")
    (tree / LOADER).chmod(0o444)
    assert run("apply", tree, "--in-place").exit_code == 0
    assert stat.S_IMODE((tree / LOADER).stat().st_mode) == 0o444


def test_bytecode_of_patched_modules_goes(tmp_path, run):
    tree = write_tree(tmp_path / "tree")
    cache = tree / "python/sglang/__pycache__"
    cache.mkdir()
    for name in ("loader.cpython-311.pyc", "loader.cpython-312.opt-1.pyc", "other.cpython-311.pyc"):
        (cache / name).write_bytes(b"old")
    assert run("apply", tree, "--in-place").exit_code == 0
    assert [path.name for path in cache.iterdir()] == ["other.cpython-311.pyc"]


@pytest.mark.parametrize("link", ["file", "folder"])
def test_a_link_in_the_way_is_refused(tmp_path, run, link):
    tree = write_tree(tmp_path / "tree")
    target = tree / KERNEL if link == "file" else (tree / KERNEL).parent
    target.rename(tmp_path / "elsewhere")
    target.symlink_to(os.path.relpath(tmp_path / "elsewhere", target.parent))
    outside = content(tmp_path / "elsewhere") if link == "folder" else (tmp_path / "elsewhere").read_bytes()
    result = run("apply", tree, "--in-place")
    assert result.exit_code in (3, 5), result.output
    assert "symbolic link" in result.stderr
    assert (content(tmp_path / "elsewhere") if link == "folder" else (tmp_path / "elsewhere").read_bytes()) == outside
    assert not (tree / ".rocmfix").exists()


def test_a_link_inside_the_tree_is_refused_too(tmp_path, run):
    """Replacing it would leave the file it points to unpatched."""
    tree = write_tree(tmp_path / "tree")
    (tree / KERNEL).rename(tree / "python/sglang/real.cuh")
    (tree / KERNEL).symlink_to("../real.cuh")
    before = content(tree)
    result = run("apply", tree, "--in-place")
    assert result.exit_code == 5, result.output
    assert "nothing was written" in result.stderr
    assert content(tree) == before


def test_a_tree_with_only_some_files_gets_what_applies(tmp_path, run):
    tree = write_tree(tmp_path / "tree")
    (tree / KERNEL).unlink()
    result = run("apply", tree, "--in-place")
    assert result.exit_code == 0
    assert "2 of 3 fixes applied" in result.stdout
    assert "no python/sglang/csrc/kernel.cuh" in result.stdout


def test_a_folder_without_sglang_is_no_clean_tree(tmp_path, run):
    (tmp_path / "empty").mkdir()
    result = run("check", tmp_path / "empty")
    assert result.exit_code == 3
    assert "holds no sglang" in result.stderr


def test_a_conflict_refuses_everything_in_three_parts(tmp_path, run):
    tree = write_tree(tmp_path / "tree")
    (tree / LOADER).write_text((tree / LOADER).read_text().replace("except OSError:", "except ValueError:"))
    before = content(tree)
    assert run("check", tree).exit_code == 12
    result = run("apply", tree, "--in-place")
    assert result.exit_code == 5
    assert "remember does not apply to" in result.stderr
    assert f"{LOADER}:7" in result.stderr
    assert "the tree has        except ValueError:" in result.stderr
    assert "the patch expects   except OSError:" in result.stderr
    assert "hint: rocmfix refresh sglang/test-set --onto" in result.stderr
    assert content(tree) == before


def test_a_conflict_elsewhere_does_not_stop_the_fix_asked_for(tmp_path, run):
    tree = write_tree(tmp_path / "tree")
    (tree / LOADER).write_text((tree / LOADER).read_text().replace("except OSError:", "except ValueError:"))
    assert run("apply", tree, "--in-place", "--fix", "guard").exit_code == 0
    assert (tree / KERNEL).read_text() == AFTER[KERNEL]


def test_ctrl_c_while_files_are_replaced_leaves_the_tree_as_it_was(tmp_path, catalogue_folder, monkeypatch):
    """The second rename never happens: the first is taken back."""
    tree = open_folder(write_tree(tmp_path / "tree"), source="tree")
    patched = patch_tree(load(catalogue_folder), tree)
    before = content(tree.root)
    real, calls = type(tree.root).replace, []

    def interrupted(self, target):
        if ".rocmfix/journal/new" in str(self):
            calls.append(target)
            if len(calls) == 2:
                raise KeyboardInterrupt
        return real(self, target)

    with monkeypatch.context() as patch:
        patch.setattr(type(tree.root), "replace", interrupted)
        with pytest.raises(KeyboardInterrupt):
            write(tree, patched, None)
    assert len(calls) == 2
    assert content(tree.root) == before
    assert not journal.is_pending(tree.root)


def test_ctrl_c_ends_in_exit_code_130(tmp_path, run, monkeypatch):
    def interrupted(*_args, **_options):
        raise KeyboardInterrupt

    monkeypatch.setattr(journal, "replace_all", interrupted)
    result = run("apply", write_tree(tmp_path / "tree"), "--in-place")
    assert result.exit_code == 130
    assert "interrupted" in result.stderr


def test_a_patch_that_breaks_the_syntax_is_refused(tmp_path, run, catalogue_folder):
    patch = catalogue_folder / "sglang/test-set/quiet.patch"
    patch.write_text(patch.read_text().replace("+    return True", "+    return True)"))
    tree = write_tree(tmp_path / "tree")
    before = content(tree)
    result = run("apply", tree, "--in-place")
    assert result.exit_code == 5
    assert "no longer compiles" in result.stderr
    assert content(tree) == before


def test_a_patch_that_mends_nothing_is_refused(tmp_path, run, catalogue_folder):
    """The probes say what mended means; a patch that leaves them unmoved did nothing."""
    patch = catalogue_folder / "sglang/test-set/quiet.patch"
    patch.write_text(patch.read_text().replace("+    return True", "+    return  False"))
    tree = write_tree(tmp_path / "tree")
    before = content(tree)
    result = run("apply", tree, "--in-place")
    assert result.exit_code == 5
    assert "quiet.patch applies, and yet the `fixed` probes of quiet do not hold" in result.stderr
    assert content(tree) == before


def test_the_diff_is_what_apply_would_change(tmp_path, run):
    tree = write_tree(tmp_path / "tree")
    diff = run("diff", tree).stdout_bytes
    done = subprocess.run(["git", "apply"], cwd=tree, input=diff, check=True, env={**os.environ, "GIT_DIR": "/none"})
    assert done.returncode == 0
    assert applied(tree) == AFTER
    nothing = run("diff", tree)
    assert nothing.stdout == ""
    assert "nothing to apply" in nothing.stderr


@pytest.mark.parametrize("verb", ["apply", "export"])
def test_a_folder_that_cannot_be_made_is_an_error_that_names_it(tmp_path, run, verb):
    tree = write_tree(tmp_path / "tree")
    (tmp_path / "file").write_text("in the way")
    out = tmp_path / "file/out"
    args = (tree, "--out", out) if verb == "apply" else (tree, out)
    done = run(verb, *args)
    assert done.exit_code == {"apply": 5, "export": 3}[verb], done.output
    assert f"cannot make the folder {out}" in done.stderr
    assert "hint:" in done.stderr


@pytest.mark.parametrize("verb", ["apply", "export"])
def test_the_folder_that_this_runs_in_is_refused(tmp_path, run, monkeypatch, verb):
    """It would be replaced, and what comes after would run nowhere."""
    tree = write_tree(tmp_path / "tree")
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    done = run(verb, tree, *(["--out", "."] if verb == "apply" else ["."]))
    assert done.exit_code == {"apply": 5, "export": 3}[verb], done.output
    assert "cannot make the folder .: it is the folder that this runs in" in done.stderr
    assert list(Path.cwd().iterdir()) == []


def test_a_cache_that_cannot_be_made_is_an_error_that_names_it(tmp_path, run, monkeypatch):
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("ROCMFIX_CACHE", str(tmp_path / "file/cache"))
    done = run("check", "0.5.14")
    assert done.exit_code == 1
    assert f"cannot use {tmp_path}/file" in done.stderr
    assert isinstance(done.exception, SystemExit)


def test_revert_refuses_kept_files_that_were_edited(tmp_path, run):
    tree = write_tree(tmp_path / "tree")
    run("apply", tree, "--in-place")
    kept = next((tree / ".rocmfix/before").iterdir())
    kept.write_text("somebody else's")
    before = content(tree)
    done = run("revert", tree)
    assert done.exit_code == 5, done.output
    assert f"{kept.name} was edited" in done.stderr
    assert content(tree) == before


@pytest.mark.parametrize(
    "tampering",
    [
        (r'"path": "[^"]*"', '"path": "../x"', "leaves the tree"),
        (r'"path": "[^"]*"', '"path": ".git/config"', "leaves the tree"),
        (r'"path": "[^"]*"', '"path": "python/x.py"', "which a fix touched"),
        (r'"before": "[^"]*"', '"before": "../state.json"', "should match pattern"),
        (r'"version": 1', '"version": 2', "should be 1"),
    ],
)
@pytest.mark.parametrize("verb", ["check", "apply", "revert"])
def test_a_record_that_was_tampered_with_is_refused_by_each_verb(tmp_path, run, tampering, verb):
    old, new, said = tampering
    tree = write_tree(tmp_path / "tree")
    run("apply", tree, "--in-place")
    state = tree / ".rocmfix/state.json"
    state.write_text(re.sub(old, new, state.read_text(), count=1))
    before = content(tree)
    done = run(verb, tree, *(["--in-place"] if verb == "apply" else []))
    assert done.exit_code == 5, done.output
    assert "state.json is damaged" in done.stderr
    assert said in done.stderr
    assert content(tree) == before


def rocmfix(*args, **options):
    """The program itself, in a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", "rocmfix", *map(str, args)], stderr=subprocess.PIPE, check=False, **options
    )


def test_a_closed_or_full_stdout_is_no_crash(tmp_path):
    tree = write_tree(tmp_path / "tree")
    closed = rocmfix("check", tree, preexec_fn=lambda: os.close(1))
    assert closed.returncode == 0, closed.stderr
    with Path("/dev/full").open("wb") as full:
        done = rocmfix("check", tree, stdout=full)
    assert done.returncode == 1
    assert b"Error: cannot write: No space left on device\n" in done.stderr
    assert b"Traceback" not in done.stderr


@pytest.mark.parametrize("columns", [5, 80])
def test_a_terminal_of_any_width_names_the_fixes(tmp_path, catalogue_folder, columns):
    """Fewer than 60 columns get the lines of a pipe, which the terminal wraps."""
    tree = write_tree(tmp_path / "tree")
    parent, child = os.openpty()
    env = {**os.environ, "COLUMNS": str(columns), "TERM": "xterm"}
    done = rocmfix("check", tree, "--patches", catalogue_folder, stdout=child, env=env)
    os.close(child)
    said = os.read(parent, 100_000)
    os.close(parent)
    assert done.returncode == 10
    assert b"remember" in said
    assert (b"FIX" in said) is (columns == 5), "the heading of the lines"
