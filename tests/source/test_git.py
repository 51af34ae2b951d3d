"""Git by plumbing: exact, isolated, and safe in repositories that others made."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from rocmfix.errors import ApplyError, ToolMissingError
from rocmfix.system import git, merge
from rocmfix.system.git import ABSENT, Git, GitError
from rocmfix.system.repo import FILE, LINK, Blobs, Entry, Repo, Signature, blob_id, new_repo, open_repo

ADA = Signature("Ada Löv", "ada@example.org", "1700000000 +0100")
BOT = Signature("bot", "bot@example.org", "1700000100 +0000")


def sh(folder: Path, *args: str) -> str:
    """Plain git, as a user would run it."""
    env = {
        **os.environ,
        "GIT_AUTHOR_NAME": "u",
        "GIT_AUTHOR_EMAIL": "u@e",
        "GIT_COMMITTER_NAME": "u",
        "GIT_COMMITTER_EMAIL": "u@e",
    }
    return subprocess.run(["git", "-C", folder, *args], check=True, capture_output=True, text=True, env=env).stdout


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    """A checkout with one commit: `a file.py`, `pkg/b.py` and a link."""
    top = tmp_path / "re po"
    (top / "pkg").mkdir(parents=True)
    (top / "a file.py").write_bytes(b"one\r\ntwo\r\n")
    (top / "pkg/b.py").write_bytes(b"b\n")
    (top / "link").symlink_to("pkg/b.py")
    sh(top, "init", "-q", "-b", "main")
    sh(top, "add", ".")
    sh(top, "commit", "-qm", "first")
    found = open_repo(top)
    assert found
    return found


def test_a_repository_is_found_at_its_top_only(repo: Repo, tmp_path: Path) -> None:
    """An unpacked wheel inside somebody's repository is no checkout of sglang."""
    assert open_repo(repo.folder / "pkg") is None
    assert open_repo(tmp_path) is None
    assert git.toplevel(repo.folder / "pkg") == repo.folder
    assert git.toplevel(tmp_path) is None


def test_a_worktree_and_a_submodule_like_git_file_are_repositories(repo: Repo, tmp_path: Path) -> None:
    sh(repo.folder, "worktree", "add", "-q", str(tmp_path / "second"))
    second = open_repo(tmp_path / "second")
    assert second
    assert second.head == repo.head


def test_a_broken_git_folder_is_no_repository(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    assert open_repo(tmp_path) is None


def test_head_of_a_repository_without_commits_is_none(tmp_path: Path) -> None:
    assert new_repo(tmp_path / "new").head is None


def test_knows_a_shallow_clone(repo: Repo, tmp_path: Path) -> None:
    sh(repo.folder, "commit", "-qm", "second", "--allow-empty")
    sh(tmp_path, "clone", "-q", "--depth=1", f"file://{repo.folder}", "shallow")
    assert not repo.is_shallow
    assert Repo(tmp_path / "shallow").is_shallow


def test_lists_what_a_commit_holds(repo: Repo) -> None:
    assert repo.entries("HEAD") == {
        "a file.py": Entry(FILE, blob_id(b"one\r\ntwo\r\n")),
        "pkg/b.py": Entry(FILE, blob_id(b"b\n")),
        "link": Entry(LINK, blob_id(b"pkg/b.py")),
    }
    assert set(repo.entries("HEAD", "pkg/b.py", "absent")) == {"pkg/b.py"}


def test_tells_staged_from_edited_from_untracked(repo: Repo) -> None:
    paths = ("a file.py", "pkg/b.py", "link", "new.py", "absent.py")
    assert repo.changed(paths) == {}
    (repo.folder / "a file.py").write_bytes(b"one\ntwo\n")  # only the line endings
    (repo.folder / "pkg/b.py").write_bytes(b"staged\n")
    sh(repo.folder, "add", "pkg/b.py")
    (repo.folder / "new.py").write_bytes(b"")
    (repo.folder / "link").unlink()
    assert repo.changed(paths) == {"a file.py": "edited", "pkg/b.py": "staged", "link": "edited", "new.py": "untracked"}
    assert repo.changed(("absent.py",)) == {}


def test_a_path_is_never_a_pattern(repo: Repo) -> None:
    (repo.folder / "a file.py").write_bytes(b"edited")
    assert repo.changed(("*.py", ":(top)a file.py")) == {}
    assert repo.staged("*.py") == {}


def test_writes_a_commit_with_the_same_id_everywhere(repo: Repo, tmp_path: Path) -> None:
    """Two repositories, one signing and one with another encoding: the id depends on what is written only."""
    other = new_repo(tmp_path / "other.git")
    Git(other.folder).run("fetch", "-q", str(repo.folder), "HEAD:refs/heads/main")
    sh(repo.folder, "config", "commit.gpgSign", "true")
    sh(repo.folder, "config", "i18n.commitEncoding", "ISO-8859-1")
    ids = set()
    for each in (repo, other):
        assert repo.head
        blob = each.write_blob(b"new\r\n")
        tree = each.write_tree(repo.head, {"pkg/b.py": Entry(FILE, blob), "sub/c.py": Entry(FILE, blob), "link": None})
        ids.add(each.write_commit(tree, [repo.head], "Subject\n\nBödy\n", author=ADA, committer=BOT))
    assert len(ids) == 1
    assert set(repo.entries(ids.pop())) == {"a file.py", "pkg/b.py", "sub/c.py"}
    assert repo.changed(("a file.py", "pkg/b.py", "link")) == {}, "neither index nor work tree was touched"


def commit(repo: Repo, message: str, files: dict[str, bytes]) -> str:
    changes = {path: Entry(FILE, repo.write_blob(data)) for path, data in files.items()}
    tree = repo.write_tree(repo.head, changes)
    return repo.write_commit(tree, [repo.head] if repo.head else [], message, author=ADA, committer=BOT)


def test_moves_a_branch_only_from_where_it_was(repo: Repo) -> None:
    first = repo.head
    assert first
    new = commit(repo, "new\n", {"pkg/b.py": b"new\n"})
    repo.move("HEAD", new, old=first, why="test")
    assert sh(repo.folder, "rev-parse", "refs/heads/main").strip() == new
    with pytest.raises(ApplyError, match="moved meanwhile"):
        repo.move("HEAD", first, old=first, why="test")
    with pytest.raises(ApplyError, match="moved meanwhile"):
        repo.move("refs/heads/main", first, old=ABSENT, why="test")
    assert repo.head == new


def test_stages_without_the_work_tree(repo: Repo) -> None:
    blob = repo.write_blob(b"staged\n")
    repo.stage({"pkg/b.py": Entry(FILE, blob), "link": None})
    assert repo.staged() == {"a file.py": Entry(FILE, blob_id(b"one\r\ntwo\r\n")), "pkg/b.py": Entry(FILE, blob)}
    assert (repo.folder / "pkg/b.py").read_bytes() == b"b\n"


def test_reads_authors_messages_and_trailers_back(repo: Repo) -> None:
    message = "Mend it\n\nWhy.\n\nRocmfix-Fix: one\nRocmfix-Fix: two\nSigned-off-by: Ada Löv <ada@example.org>\n"
    new = commit(repo, message, {"pkg/b.py": b"2\n"})
    assert repo.head
    repo.move("HEAD", new, old=repo.head, why="test")
    newest, first = repo.log()
    assert (newest.id, newest.author, newest.committer, newest.parents) == (new, ADA, BOT, (first.id,))
    assert newest.message.strip() == message.strip()
    assert newest.subject == "Mend it"
    assert newest.trailers == (
        ("Rocmfix-Fix", "one"),
        ("Rocmfix-Fix", "two"),
        ("Signed-off-by", "Ada Löv <ada@example.org>"),
    )
    assert (first.subject, first.trailers, first.parents) == ("first", (), ())
    assert len(repo.log(limit=1)) == 1


def test_reads_blobs_through_one_process(repo: Repo) -> None:
    with Blobs(repo) as blobs:
        assert blobs.read("HEAD:a file.py") == b"one\r\ntwo\r\n"
        assert blobs.read("HEAD:no such file missing") is None
        assert blobs.read("HEAD:link") == b"pkg/b.py", "a link is its target, not what lies there"
        assert blobs.read("HEAD:pkg") is None
        assert blobs.read("HEAD:a\nHEAD:pkg/b.py") is None
        assert blobs.read(blob_id(b"b\n")) == b"b\n"


def test_a_patch_is_what_git_am_takes_whatever_is_configured(repo: Repo, tmp_path: Path) -> None:
    lines = [b"line %d\n" % number if number % 4 else b"\n" for number in range(40)]
    first = commit(repo, "Lines\n", {"pkg/b.py": b"".join(lines)})
    repo.move("HEAD", first, old=repo.head or "", why="test")
    sh(repo.folder, "reset", "-q", "--hard")
    lines[20], lines[31] = b"mended\n", b"mended too\n"
    message = "Mend ümlauts\n\nWhy.\n\nSigned-off-by: Ada Löv <ada@example.org>\n"
    new = commit(repo, message, {"pkg/b.py": b"".join(lines)})
    plain = repo.format_patch(new)
    for setting in ("format.signOff=true", "format.subjectPrefix=X", "diff.noprefix=true", "diff.algorithm=histogram",
                    "format.numbered=true", "diff.context=1", "core.abbrev=4", "format.signature=me", "format.notes=true",
                    "color.ui=always", "format.headers=X-A: b", "format.attach=true", "diff.external=false",
                    "format.useAutoBase=true", "format.from=true", "diff.suppressBlankEmpty=true", "diff.orderFile=/nonexistent", "diff.mnemonicPrefix=true",
                    "diff.interHunkContext=9", "diff.relative=true", "diff.renames=copies", "diff.statGraphWidth=3"):  # fmt: skip
        sh(repo.folder, "config", *setting.split("=", 1))
    assert repo.format_patch(new) == plain
    sh(repo.folder, "clone", "-q", ".", str(tmp_path / "am"))
    (tmp_path / "p.patch").write_bytes(plain)
    sh(tmp_path / "am", "am", "-q", str(tmp_path / "p.patch"))
    mended = Repo(tmp_path / "am").log(limit=1)[0]
    assert (mended.tree, mended.author.name, mended.message.strip()) == (
        repo.log(new, limit=1)[0].tree, ADA.name, repo.log(new, limit=1)[0].message.strip()
    )  # fmt: skip


def test_the_users_settings_change_nothing(repo: Repo, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """autocrlf, a hook's GIT_DIR and a template folder are common; each has ruined somebody's tree."""
    (tmp_path / "elsewhere").mkdir()
    sh(tmp_path / "elsewhere", "init", "-q")
    (tmp_path / "config").write_text("[core]\n\tautocrlf = true\n[apply]\n\twhitespace = error\n")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path / "config"))
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "elsewhere/.git"))
    monkeypatch.setenv("GIT_INDEX_FILE", str(tmp_path / "elsewhere/index"))
    assert set(repo.entries("HEAD")) == {"a file.py", "pkg/b.py", "link"}
    assert repo.write_blob(b"a\r\n") == blob_id(b"a\r\n")
    assert len(repo.staged()) == 3


def test_a_repository_cannot_make_us_run_its_programs(repo: Repo, tmp_path: Path) -> None:
    """Hooks, filters, fsmonitor and external diffs are code of whoever made the repository."""
    trap = tmp_path / "trap.sh"
    trap.write_text(f"#!/bin/sh\ntouch {tmp_path}/sprung\ncat\n")
    trap.chmod(0o755)
    for key in ("core.fsmonitor", "filter.x.clean", "filter.x.smudge", "filter.x.process", "diff.external",
                "diff.x.textconv", "diff.x.command", "gpg.program", "core.pager", "core.editor", "core.sshCommand",
                "merge.x.driver"):  # fmt: skip
        sh(repo.folder, "config", key, str(trap))
    sh(repo.folder, "config", "log.showSignature", "true")
    (repo.folder / ".git/info/attributes").write_text("* filter=x diff=x merge=x\n")
    for hook in ("reference-transaction", "post-index-change", "post-checkout", "pre-commit", "post-commit"):
        (repo.folder / ".git/hooks" / hook).symlink_to(trap)
    base = repo.head
    assert base
    (repo.folder / "a file.py").write_bytes(b"edited\n")
    new = commit(repo, "new\n", {"pkg/b.py": b"new\n"})
    repo.move("HEAD", new, old=base, why="test")
    repo.stage({"pkg/b.py": Entry(FILE, repo.write_blob(b"x"))})
    assert repo.changed(["a file.py"]) == {"a file.py": "edited"}
    assert (len(repo.log()), len(repo.format_patch(new).splitlines()) > 10) == (2, True)
    with Blobs(repo) as blobs:
        assert blobs.read("HEAD:pkg/b.py") == b"new\n"
    assert not (tmp_path / "sprung").exists()


@pytest.mark.parametrize("url", ["ext::touch sprung", "--upload-pack=touch sprung"])
def test_a_url_cannot_run_a_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    monkeypatch.chdir(tmp_path)
    repo = new_repo(tmp_path / "r.git")
    repo.run("config", "protocol.ext.allow", "always")  # git's own default is never
    with pytest.raises(GitError):
        repo.run("fetch", "--end-of-options", url, "HEAD")
    assert not list(tmp_path.rglob("sprung"))


def test_a_repository_of_another_user_can_be_read(repo: Repo) -> None:
    if os.geteuid():
        assert open_repo(repo.folder), "only root can make a repository another user's"
        return
    for path in [repo.folder, *repo.folder.rglob("*")]:
        os.lchown(path, 12345, 12345)
    refused = subprocess.run(["git", "-C", repo.folder, "status"], capture_output=True, check=False)
    assert refused.returncode, "git itself refuses; otherwise this test shows nothing"
    assert open_repo(repo.folder)
    assert repo.head


def test_without_git_the_error_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert not git.is_present()
    with pytest.raises(ToolMissingError, match="not on PATH"):
        Repo(tmp_path).head  # noqa: B018


def test_importing_does_not_need_git(tmp_path: Path) -> None:
    code = "import rocmfix.system.repo as r, pathlib; print(r.open_repo(pathlib.Path('/')))"
    ran = subprocess.run([sys.executable, "-c", code], env={**os.environ, "PATH": str(tmp_path)}, capture_output=True, text=True, check=True)  # fmt: skip
    assert ran.stdout == "None\n"


def test_a_failure_carries_what_git_said(repo: Repo) -> None:
    with pytest.raises(GitError, match="git ls-tree failed") as caught:
        repo.entries("nonsense")
    assert any("nonsense" in line for line in caught.value.details)


def merged(repo: Repo, base: dict[str, bytes], ours: dict[str, bytes], theirs: dict[str, bytes], how) -> merge.Merge:
    trees = [
        repo.write_tree(None, {p: Entry(FILE, repo.write_blob(d)) for p, d in side.items()})
        for side in (base, ours, theirs)
    ]
    if how == "work tree":
        commits = [repo.write_commit(tree, [], "x\n", author=ADA, committer=ADA) for tree in trees]
        return merge.merge_in_work_tree(repo, *commits)
    return merge.merge(repo, base=trees[0], ours=trees[1], theirs=trees[2])


TEXT = b"".join(b"line %d\n" % number for number in range(30))


@pytest.mark.parametrize("how", ["merge-tree", "work tree"])
def test_a_merge_follows_a_rename(tmp_path: Path, how: str) -> None:
    """Upstream moved the file; our change to the old one lands in the new one."""
    repo = new_repo(tmp_path / "scratch.git")
    upstream = TEXT.replace(b"line 20\n", b"upstream\n")
    mine = TEXT.replace(b"line 3\n", b"mine\r\n")
    result = merged(repo, {"old.py": TEXT}, {"new.py": upstream}, {"old.py": mine}, how)
    assert result.is_clean
    assert repo.entries(result.tree) == {"new.py": Entry(FILE, blob_id(upstream.replace(b"line 3\n", b"mine\r\n")))}


@pytest.mark.parametrize("how", ["merge-tree", "work tree"])
def test_a_conflict_is_shown_with_markers(tmp_path: Path, how: str) -> None:
    repo = new_repo(tmp_path / "scratch.git")
    sides = [TEXT.replace(b"line 3\n", side) for side in (b"ours\n", b"theirs\n")]
    result = merged(
        repo, {"a b.py": TEXT, "same": b""}, {"a b.py": sides[0], "same": b""}, {"a b.py": sides[1], "same": b""}, how
    )
    assert result.conflicts == ("a b.py",)
    assert any("conflict in a b.py" in message for message in result.messages)
    with Blobs(repo) as blobs:
        text = blobs.read(f"{result.tree}:a b.py")
    assert text
    assert b"<<<<<<< " in text
    assert b"ours\n=======\ntheirs\n" in text
