"""A ref of a repository is a tree: fetched without a checkout, once, and readable offline afterwards."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from rocmfix.errors import SourceError
from rocmfix.source import export, open_tree
from rocmfix.source.gitref import GitTree
from rocmfix.source.remote import Remote
from rocmfix.source.spec import parse_git, without_secrets
from tests.source.test_trees import REPOSITORY

PATH = "python/sglang/srt/server.py"


def sh(folder: Path, *args: str) -> str:
    env = {
        **os.environ,
        "GIT_AUTHOR_NAME": "u",
        "GIT_AUTHOR_EMAIL": "u@e",
        "GIT_COMMITTER_NAME": "u",
        "GIT_COMMITTER_EMAIL": "u@e",
    }
    return subprocess.run(
        ["git", "-C", folder, *args], check=True, capture_output=True, text=True, env=env
    ).stdout.strip()


@pytest.fixture
def upstream(tmp_path: Path) -> Path:
    """A repository with the tags v9.8 and v9.9, a branch, and a request's ref; it serves clones without blobs."""
    top = tmp_path / "up stream"
    for name, data in REPOSITORY.items():
        (top / name).parent.mkdir(parents=True, exist_ok=True)
        (top / name).write_bytes(data)
    (top / "python/sglang/_version.py").unlink()  # upstream does not commit it
    (top / "run.sh").write_text("#!/bin/sh\n")
    (top / "run.sh").chmod(0o755)
    (top / "alias.py").symlink_to(PATH)
    (top / "outside").symlink_to("/etc/passwd")
    sh(tmp_path, "init", "-q", "-b", "main", str(top))
    for setting in ("uploadpack.allowFilter", "uploadpack.allowAnySHA1InWant"):
        sh(top, "config", setting, "true")
    for version in ("9.8", "9.9"):
        (top / PATH).write_bytes(b"serve(%s)\r\n" % version.encode())
        sh(top, "add", "-A")
        sh(top, "commit", "-qm", version)
        sh(top, "tag", "-a", f"v{version}", "-m", version)
    sh(top, "update-ref", "refs/pull/7/head", "v9.8^{commit}")
    return top


def url(upstream: Path) -> str:
    return f"file://{upstream}"


@pytest.mark.parametrize("place", ["{path}", "file://{path}"])
@pytest.mark.parametrize(
    ("ref", "text"), [("v9.8", b"serve(9.8)\r\n"), ("main", b"serve(9.9)\r\n"), ("pull/7/head", b"serve(9.8)\r\n")]
)
def test_reads_a_ref(upstream: Path, place: str, ref: str, text: bytes) -> None:
    if place == "{path}" and ref.startswith("pull"):
        ref = f"refs/{ref}"
    tree = open_tree(f"git:{place.format(path=upstream)}@{ref}")
    assert tree.read(PATH) == text
    assert tree.read("python/sglang/srt/models/glm.py") == REPOSITORY["python/sglang/srt/models/glm.py"]
    assert tree.read("python/sglang/absent.py") is None
    assert tree.read("python/sglang/srt") is None
    assert set(tree.paths("python/sglang")) == set(REPOSITORY) - {"python/sglang/_version.py"}
    assert tree.source == f"git:{place.format(path=upstream)}@{ref}"


def test_a_missing_ref_means_head(upstream: Path) -> None:
    assert open_tree(f"git:{url(upstream)}").read(PATH) == b"serve(9.9)\r\n"
    assert open_tree(f"git:{upstream}").read(PATH) == b"serve(9.9)\r\n"


def test_a_commit_id_is_a_ref(upstream: Path) -> None:
    commit = sh(upstream, "rev-parse", "v9.8^{commit}")
    assert open_tree(f"git:{url(upstream)}@{commit}").read(PATH) == b"serve(9.8)\r\n"


def test_claims_the_release_of_its_tag(upstream: Path) -> None:
    assert open_tree(f"git:{url(upstream)}@v9.8").release == "9.8"
    (upstream / "new.txt").write_text("")
    sh(upstream, "add", "-A")
    sh(upstream, "commit", "-qm", "later")
    later = open_tree(f"git:{upstream}@main").release
    assert later
    assert later.startswith("9.9-1-g")
    assert open_tree(str(upstream)).release == later, "a checkout says the same of itself"


def test_the_first_source_that_is_read_brings_the_others_of_its_folder(
    upstream: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """File by file, each would wait for a round trip; what is no source, or elsewhere, comes when it is read."""
    tree = open_tree(f"git:{url(upstream)}@v9.9")
    assert isinstance(tree, GitTree)
    assert stored(tree) == 0
    sources = {
        entry.blob
        for name, entry in tree.entries.items()
        if name.startswith("python/") and name.endswith((".py", ".cuh"))
    }
    assert tree.read(PATH)
    assert len(sources) > 1
    assert stored(tree) == len(sources)
    capsys.readouterr()
    assert tree.read("python/sglang/srt/models/glm.py")
    assert "fetching" not in capsys.readouterr().err


def stored(tree: GitTree) -> int:
    """How many blobs the cache holds."""
    said = tree.remote.repo.run("cat-file", "--batch-all-objects", "--batch-check=%(objecttype)").text
    return said.splitlines().count("blob")


def test_what_is_cached_is_read_without_the_remote(upstream: Path) -> None:
    for ref in ("v9.8", "main"):
        assert open_tree(f"git:{url(upstream)}@{ref}").read(PATH)
    sh(upstream, "checkout", "-qb", "unread")
    (upstream / PATH).write_bytes(b"new\n")
    sh(upstream, "commit", "-qam", "new")
    open_tree(f"git:{url(upstream)}@unread")
    upstream.rename(upstream.with_name("gone"))
    assert open_tree(f"git:{url(upstream)}@v9.8").read(PATH) == b"serve(9.8)\r\n", "a tag does not move"
    tree = open_tree(f"git:{url(upstream)}@main", offline=True)
    assert tree.read(PATH) == b"serve(9.9)\r\n"
    with pytest.raises(SourceError, match="offline, and 1 file"):
        open_tree(f"git:{url(upstream)}@unread", offline=True).read(PATH)
    with pytest.raises(SourceError, match="offline"):
        open_tree(f"git:{url(upstream)}@v9.9.1", offline=True)
    with pytest.raises(SourceError, match="cannot fetch"):
        open_tree(f"git:{url(upstream)}@main")


def test_a_branch_that_moved_is_fetched_again(upstream: Path) -> None:
    assert open_tree(f"git:{url(upstream)}@main").read(PATH) == b"serve(9.9)\r\n"
    (upstream / PATH).write_bytes(b"moved\n")
    sh(upstream, "commit", "-qam", "moved")
    sh(upstream, "commit", "--amend", "-qm", "rewritten")
    assert open_tree(f"git:{url(upstream)}@main").read(PATH) == b"moved\n"
    assert open_tree(f"git:{url(upstream)}@v9.9").read(PATH) == b"serve(9.9)\r\n"


def test_an_edit_in_the_checkout_is_not_in_its_ref(upstream: Path) -> None:
    (upstream / PATH).write_bytes(b"dirty\n")
    assert open_tree(f"git:{upstream}@HEAD").read(PATH) == b"serve(9.9)\r\n"
    assert open_tree(str(upstream)).read(PATH) == b"dirty\n"


def test_links_inside_the_tree_are_followed_and_others_are_nothing(upstream: Path) -> None:
    (upstream / "loop").symlink_to("loop")
    sh(upstream, "add", "-A")
    sh(upstream, "commit", "-qm", "loop")
    tree = open_tree(f"git:{url(upstream)}@main")
    assert tree.read("alias.py") == b"serve(9.9)\r\n"
    assert tree.read("outside") is None
    assert tree.read("loop") is None
    assert "alias.py" not in tree.paths("")


def test_exports_bytes_modes_and_links(upstream: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    export(open_tree(f"git:{url(upstream)}@v9.9"), out)
    assert (out / PATH).read_bytes() == b"serve(9.9)\r\n"
    assert os.access(out / "run.sh", os.X_OK)
    assert not os.access(out / "python/sglang/__init__.py", os.X_OK)
    assert (out / "alias.py").readlink() == Path(PATH)
    assert open_tree(str(out)).read("alias.py") == b"serve(9.9)\r\n"


def test_two_processes_may_fill_the_cache_at_once(upstream: Path) -> None:
    code = "import sys; from rocmfix.source import open_tree; print(open_tree(sys.argv[1]).read(sys.argv[2]))"
    both = [
        subprocess.Popen([sys.executable, "-c", code, f"git:{url(upstream)}@{ref}", PATH], stdout=subprocess.PIPE)
        for ref in ("v9.8", "v9.9")
    ]
    assert [each.communicate()[0] for each in both] == [b"b'serve(9.8)\\r\\n'\n", b"b'serve(9.9)\\r\\n'\n"]


@pytest.mark.parametrize("ref", ["no-such-ref", "v1.2.3", "0" * 40])
@pytest.mark.parametrize("place", ["{path}", "file://{path}"])
def test_a_ref_that_is_not_there_is_named(upstream: Path, place: str, ref: str) -> None:
    with pytest.raises(SourceError) as caught:
        open_tree(f"git:{place.format(path=upstream)}@{ref}")
    assert ref in caught.value.message


def test_a_repository_without_sglang_says_so(tmp_path: Path) -> None:
    sh(tmp_path, "init", "-q", "-b", "main", "other")
    sh(tmp_path / "other", "commit", "--allow-empty", "-qm", "x")
    with pytest.raises(SourceError, match="holds no sglang"):
        open_tree(f"git:{tmp_path}/other@main")
    with pytest.raises(SourceError, match="no git repository"):
        open_tree(f"git:{tmp_path}@main")


@pytest.mark.parametrize(
    ("text", "where", "ref"),
    [
        ("v0.5.14", "https://github.com/sgl-project/sglang", "v0.5.14"),
        ("pull/123/head", "https://github.com/sgl-project/sglang", "pull/123/head"),
        ("https://example.org/me/sglang.git@fix/jit-guard", "https://example.org/me/sglang.git", "fix/jit-guard"),
        ("https://me:tok@example.org/sglang@main", "https://me:tok@example.org/sglang", "main"),
        ("https://me:tok@example.org/sglang", "https://me:tok@example.org/sglang", "HEAD"),
        ("git@example.org:me/sglang@v1", "git@example.org:me/sglang", "v1"),
        ("/a/path@v1", "/a/path", "v1"),
        ("/a/path", "/a/path", "HEAD"),
    ],
)
def test_reads_where_and_what(text: str, where: str, ref: str) -> None:
    spec = parse_git(text, "sglang")
    assert (spec.where, spec.ref) == (where, ref)


@pytest.mark.parametrize(
    "ref",
    ["-x", "--upload-pack=x", "a..b", "a@{1}", "a b", "a^", "a~1", "a:b", "", ".x", "x.lock", "x/", "a\nb", "$(x)"],
)
def test_refuses_what_is_no_ref(ref: str) -> None:
    with pytest.raises(SourceError, match="names no ref"):
        parse_git(f"https://example.org/sglang@{ref}", "sglang")


@pytest.mark.parametrize("text", ["https://me:s3cret@example.org/sglang@main", "https://s3cret@example.org/sglang@v1",
                                  "https://me:s3cret@example.org/sglang@a b", "https://me:s3cret"])  # fmt: skip
def test_a_secret_in_a_url_is_never_shown(text: str) -> None:
    try:
        shown = parse_git(text, "sglang").source
    except SourceError as error:
        shown = f"{error.message} {error.details} {error.hint}"
    assert "s3cret" not in shown


def test_hiding_secrets_leaves_plain_urls_alone() -> None:
    for plain in (
        "https://example.org/a@v1",
        "http://localhost:8080/a",
        "http://localhost:8080",
        "git@host:a/b",
        "/a/b",
    ):
        assert without_secrets(plain) == plain


def test_what_git_says_is_shown_without_secrets(tmp_path: Path) -> None:
    remote = Remote.at(parse_git("https://me:s3cret@example.org/sglang@main", "sglang"), offline=True)
    error = remote._refused("fatal: unable to access 'https://me:s3cret@example.org/sglang/': no route")
    assert error.details == ("fatal: unable to access 'https://***@example.org/sglang/': no route",)


def test_a_failed_fetch_shows_no_secret_and_stores_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    with pytest.raises(SourceError, match="cannot fetch") as caught:
        open_tree("git:http://me:s3cret@127.0.0.1:1/sglang@main")
    assert "s3cret" not in f"{caught.value.message}{caught.value.details}{caught.value.hint}"
    cache = Path(os.environ["ROCMFIX_CACHE"])
    assert not [path for path in cache.rglob("*") if path.is_file() and b"s3cret" in path.read_bytes()]
