"""Checkouts: one commit per fix that `git am` could have made, and back."""

from __future__ import annotations

import os
import shutil
import subprocess

import pytest

from rocmfix.system import journal
from rocmfix.system.repo import Repo
from tests.spine.conftest import AFTER, BEFORE, KERNEL, LOADER, OTHER, PATCHES, Clone, content


def test_each_fix_is_a_signed_off_commit_with_its_author(clone, run):
    result = run("apply", clone.root, "--in-place")
    assert result.exit_code == 0, result.output
    assert "as 3 commit(s)" in result.stdout
    assert clone.log("%s") == ["[AMD] Say less", "[AMD] Remember failed builds", "[AMD] Guard the header", "upstream"]
    assert set(clone.log("%an %ae %aD")[:3]) == {"A Writer a@example.com Mon, 1 Jun 2026 10:00:00 +0000"}
    assert set(clone.log("%cn %cD")[:3]) == {"rocmfix Mon, 1 Jun 2026 10:00:00 +0000"}
    assert set(clone.log("%G?")[:3]) == {"N"}
    body = clone.git("log", "-1", "--format=%b")
    assert "Signed-off-by: A Writer <a@example.com>" in body
    assert "Rocmfix-Fix: quiet" in body
    assert clone.git("status", "--porcelain") == ""
    assert {path: (clone.root / path).read_text() for path in AFTER} == AFTER
    assert not (clone.root / ".rocmfix").exists()
    assert run("check", clone.root).exit_code == 0
    assert "3 applied" in run("check", clone.root).stdout


def test_the_commits_are_those_of_git_am_but_for_our_trailers(clone, run, tmp_path):
    by_hand = Clone(tmp_path / "by hand")
    shutil.copytree(clone.root, by_hand.root)
    run("apply", clone.root, "--in-place")
    for file in ("guard.patch", "remember.patch", "quiet.patch"):
        (tmp_path / file).write_text(PATCHES[file])
        by_hand.git("am", "-q", "--keep-non-patch", str(tmp_path / file))
    assert clone.log("%T") == by_hand.log("%T")
    said = [line for line in clone.log("%an %ae %ad%n%B") if not line.startswith("Rocmfix-")]
    assert said == by_hand.log("%an %ae %ad%n%B")


def test_the_same_input_gives_the_same_commit_ids(clone, run, tmp_path):
    other = Clone(tmp_path / "elsewhere")
    shutil.copytree(clone.root, other.root)
    other.git("config", "commit.gpgsign", "true")
    other.git("config", "user.name", "somebody else")
    run("apply", clone.root, "--in-place")
    run("apply", other.root, "--in-place")
    assert clone.log("%H") == other.log("%H")


def test_twice_is_once(clone, run):
    run("apply", clone.root, "--in-place")
    before = clone.log("%H")
    result = run("apply", clone.root, "--in-place")
    assert result.exit_code == 0
    assert "3 applied before" in result.stdout
    assert clone.log("%H") == before


@pytest.mark.parametrize("how", ["edited", "staged"])
def test_a_touched_file_that_is_not_as_committed_is_refused(clone, run, how):
    (clone.root / LOADER).write_text(BEFORE[LOADER].replace("import os\n", "import os  # mine\n"))
    if how == "staged":
        clone.git("add", LOADER)
    before = content(clone.root), clone.log("%H"), clone.git("status", "--porcelain")
    result = run("apply", clone.root, "--in-place")
    assert result.exit_code == 5
    assert f"{how}: {LOADER}" in result.stderr
    assert (content(clone.root), clone.log("%H"), clone.git("status", "--porcelain")) == before


def test_other_dirty_files_stay_as_they_are(clone, run):
    """ROCm images are dirty by design: upstream's Dockerfile overwrites pyproject.toml."""
    (clone.root / OTHER).write_text("VALUE = 2\n")
    (clone.root / "untracked").write_text("x")
    (clone.root / "staged").write_text("y")
    clone.git("add", "staged")
    status = clone.git("status", "--porcelain")
    assert run("apply", clone.root, "--in-place").exit_code == 0
    assert clone.git("status", "--porcelain") == status
    assert clone.git("show", f"HEAD:{OTHER}") == BEFORE[OTHER].strip()
    assert run("revert", clone.root).exit_code == 0
    assert clone.git("status", "--porcelain") == status


def test_revert_drops_our_commits_at_head(clone, run):
    before = content(clone.root), clone.log("%H")
    run("apply", clone.root, "--in-place")
    result = run("revert", clone.root)
    assert result.exit_code == 0, result.output
    assert "dropped" in result.stdout
    assert (content(clone.root), clone.log("%H")) == before
    assert clone.git("status", "--porcelain") == ""


def test_revert_adds_reverts_below_other_commits(clone, run):
    before = content(clone.root)
    run("apply", clone.root, "--in-place")
    (clone.root / "mine").write_text("mine")
    clone.git("add", "mine")
    clone.git("commit", "-q", "-m", "mine")
    result = run("revert", clone.root)
    assert result.exit_code == 0, result.output
    assert clone.log("%s")[:4] == [
        'Revert "[AMD] Guard the header"',
        'Revert "[AMD] Remember failed builds"',
        'Revert "[AMD] Say less"',
        "mine",
    ]
    assert content(clone.root) == {**before, "mine": b"mine"}
    assert run("check", clone.root).exit_code == 10
    assert run("revert", clone.root).exit_code == 5, "nothing of ours is left"
    assert run("apply", clone.root, "--in-place").exit_code == 0, "and it can be applied again"
    assert "3 applied" in run("check", clone.root).stdout


def test_revert_refuses_where_a_later_commit_changed_the_same_lines(clone, run):
    run("apply", clone.root, "--in-place")
    (clone.root / LOADER).write_text((clone.root / LOADER).read_text().replace("return True", "return 1"))
    clone.git("commit", "-qam", "mine")
    before = content(clone.root), clone.log("%H")
    result = run("revert", clone.root)
    assert result.exit_code == 5
    assert "was edited after" in result.stderr
    assert (content(clone.root), clone.log("%H")) == before


def test_a_shallow_clone_will_do(clone, run, tmp_path):
    clone.git("commit", "-q", "--allow-empty", "-m", "newer")
    subprocess.run(["git", "clone", "-q", "--depth", "1", f"file://{clone.root}", tmp_path / "shallow"], check=True)
    shallow = Clone(tmp_path / "shallow")
    assert run("apply", shallow.root, "--in-place").exit_code == 0
    assert len(shallow.log("%H")) == 4
    assert run("revert", shallow.root).exit_code == 0


def test_hooks_and_settings_of_the_repository_take_no_part(clone, run):
    hook = clone.root / ".git/hooks/pre-commit"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\nexit 1\n")
    hook.chmod(0o755)
    (clone.root / ".git/hooks/reference-transaction").write_text("#!/bin/sh\nexit 1\n")
    (clone.root / ".git/hooks/reference-transaction").chmod(0o755)
    clone.git("config", "core.autocrlf", "true")
    clone.git("config", "apply.whitespace", "error")
    assert run("apply", clone.root, "--in-place").exit_code == 0
    assert (clone.root / LOADER).read_bytes() == AFTER[LOADER].encode()


def test_an_executable_file_stays_executable_and_a_subfolder_will_do(clone, run):
    (clone.root / LOADER).chmod(0o755)
    clone.git("commit", "-qam", "executable")
    result = run("apply", clone.root / "python", "--in-place")
    assert result.exit_code == 0, result.output
    assert len(clone.log("%H")) == 5
    assert os.access(clone.root / LOADER, os.X_OK)
    assert clone.git("ls-tree", "HEAD", LOADER).startswith("100755")
    assert clone.git("status", "--porcelain") == ""


def test_a_lost_record_is_read_from_the_trailers(clone, run):
    """Our commits, squashed by somebody: the content still says that nothing is needed."""
    run("apply", clone.root, "--in-place")
    clone.git("reset", "-q", "--soft", "HEAD~3")
    clone.git("commit", "-q", "-m", "squashed")
    result = run("check", clone.root)
    assert result.exit_code == 0
    assert "3 upstream" in result.stdout


def test_a_failed_ref_update_puts_the_files_back(clone, run):
    (clone.root / ".git/refs/heads/main.lock").write_text("")
    before = content(clone.root), clone.log("%H")
    result = run("apply", clone.root, "--in-place")
    assert result.exit_code == 5, result.output
    (clone.root / ".git/refs/heads/main.lock").unlink()
    assert (content(clone.root), clone.log("%H")) == before
    assert clone.git("status", "--porcelain") == ""
    assert (clone.root / KERNEL).read_text() == BEFORE[KERNEL]


def killed(*, after, verb):
    """Run `verb` in a child that dies, as of kill -9, once the `after` it is about to leave has done its work."""
    owner, name = after
    real = getattr(owner, name)

    def dies(*args, **kwargs):
        real(*args, **kwargs)
        os._exit(9)

    child = os.fork()
    if child == 0:
        setattr(owner, name, dies)
        verb()
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9


def test_an_index_that_git_will_not_write_is_an_error_with_a_way_out(clone, run):
    (clone.root / ".git/index.lock").write_text("")
    before = content(clone.root), clone.log("%H")
    done = run("apply", clone.root, "--in-place")
    assert done.exit_code == 5, done.output
    assert "cannot change the index" in done.stderr
    assert "hint: wait for the git that is at work there; if none is, remove that file" in done.stderr
    (clone.root / ".git/index.lock").unlink()
    assert (content(clone.root), clone.log("%H")) == before
    assert clone.git("status", "--porcelain") == ""


@pytest.mark.parametrize("how", ["short", "strange"])
@pytest.mark.parametrize("verb", [["check"], ["apply", "--in-place"]])
def test_a_damaged_index_is_an_error_with_a_way_out(clone, run, verb, how):
    index = clone.root / ".git/index"
    data = index.read_bytes()  # 12 bytes of header; the flags of the first entry are 60 bytes on
    index.write_bytes(data[:20] if how == "short" else data[:72] + b"\x40\0\xff\xff" + data[76:])
    done = run(verb[0], clone.root, *verb[1:])
    assert done.exit_code == 1, done.output
    assert "hint: git's index there is damaged; rm .git/index && git reset makes it anew" in done.stderr


@pytest.mark.parametrize("asked", ["attribute", "autocrlf"])
def test_line_ends_that_git_turns_to_crlf_are_no_edit(clone, run, asked):
    """The commits are those of a checkout with LF; the files keep the CRLF they were checked out with."""
    run("apply", clone.root, "--in-place")
    commits = clone.log("%T")[:3]
    run("revert", clone.root)
    if asked == "attribute":
        (clone.root / ".git/info/attributes").write_text("* text eol=crlf\n")
    else:
        clone.git("config", "core.autocrlf", "true")
    shutil.rmtree(clone.root / "python/sglang/csrc")
    (clone.root / LOADER).unlink()
    clone.git("checkout", "-q", ".")
    before = content(clone.root)
    assert before[LOADER] == BEFORE[LOADER].replace("\n", "\r\n").encode()
    done = run("apply", clone.root, "--in-place")
    assert done.exit_code == 0, done.output
    assert clone.log("%T")[:3] == commits
    assert clone.git("status", "--porcelain") == ""
    assert (clone.root / LOADER).read_bytes() == AFTER[LOADER].replace("\n", "\r\n").encode()
    assert run("revert", clone.root).exit_code == 0
    assert content(clone.root) == before
    assert clone.git("status", "--porcelain") == ""


def test_a_repository_with_sha256_ids_will_do(clone, run):
    shutil.rmtree(clone.root / ".git")
    clone.git("init", "-q", "--object-format=sha256")
    clone.git("add", "-A")
    clone.git("commit", "-q", "-m", "upstream")
    before = content(clone.root)
    done = run("apply", clone.root, "--in-place")
    assert done.exit_code == 0, done.output
    assert clone.git("status", "--porcelain") == ""
    assert run("revert", clone.root).exit_code == 0
    assert content(clone.root) == before
    assert clone.git("status", "--porcelain") == ""


def test_a_mended_file_that_became_a_pipe_is_an_edit(clone, run):
    """Reading it would wait for ever for somebody to write."""
    run("apply", clone.root, "--in-place")
    (clone.root / LOADER).unlink()
    os.mkfifo(clone.root / LOADER)
    done = run("revert", clone.root)
    assert done.exit_code == 5, done.output
    assert f"edited: {LOADER}" in done.stderr


@pytest.mark.parametrize("where", ["", "python"])
def test_apply_after_a_killed_apply_starts_from_the_committed_files(clone, run, where):
    killed(after=(journal, "_replace"), verb=lambda: run("apply", clone.root / where, "--in-place"))
    assert clone.git("diff", "--name-only")
    done = run("apply", clone.root / where, "--in-place")
    assert done.exit_code == 0, done.output
    assert "put back 2 file(s) that a killed run had written" in done.stderr
    assert not clone.git("status", "--porcelain")
    assert len(clone.log("%s")) == 4


@pytest.mark.parametrize("verb", ["check", "diff"])
def test_no_verb_judges_what_a_killed_apply_left(clone, run, verb):
    killed(after=(journal, "_replace"), verb=lambda: run("apply", clone.root, "--in-place"))
    done = run(verb, clone.root / "python")
    assert done.exit_code == 5, done.output
    assert f"hint: rocmfix revert {clone.root}/python" in done.stderr
    assert run("revert", clone.root, "--dry-run").exit_code == 5
    assert clone.git("diff", "--name-only")


def test_revert_after_a_killed_apply_puts_the_files_back(clone, run):
    before = content(clone.root), clone.log("%H")
    killed(after=(journal, "_replace"), verb=lambda: run("apply", clone.root, "--in-place"))
    done = run("revert", clone.root)
    assert done.exit_code == 0, done.output
    assert f"restored {LOADER}" in done.stdout
    assert "reverted what a killed run had written" in done.stdout
    assert (content(clone.root), clone.log("%H")) == before


@pytest.mark.parametrize("last", ["move", "stage"])
@pytest.mark.parametrize("verb", [["apply", "--in-place"], ["revert"]])
def test_a_run_killed_after_head_moved_is_finished_by_the_next(clone, run, last, verb):
    """The commits are made: putting the files back would leave a checkout that is neither."""
    if verb == ["revert"]:
        run("apply", clone.root, "--in-place")
    killed(after=(Repo, last), verb=lambda: run(verb[0], clone.root, *verb[1:]))
    assert run("check", clone.root).exit_code == 5
    done = run("apply", clone.root, "--in-place")
    assert done.exit_code == 0, done.output
    assert "put back" not in done.stderr
    assert len(clone.log("%s")) == 4
    assert clone.git("status", "--porcelain") == ""
    assert {path: (clone.root / path).read_text() for path in AFTER} == AFTER
