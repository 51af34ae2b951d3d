"""Sending pull requests: with the user's token and git, said step by step, and never half in silence."""

from __future__ import annotations

import json

import pytest

from rocmfix.system import github as api
from tests.upstream.conftest import Clone
from tests.upstream.fake_github import TOKEN


@pytest.fixture
def fork(clone, tmp_path):
    """A fork that the clone can push to."""
    made = Clone(tmp_path / "jo/sglang.git")
    made.root.parent.mkdir()
    clone.git("init", "-q", "--bare", str(made.root))
    clone.git("remote", "add", "fork", str(made.root))
    return made


@pytest.fixture
def send(run, clone, tmp_path):
    """Runs `rocmfix pr FIX --push --out OUT`; the result and the folder."""
    return lambda name: (
        run("pr", name, "--onto", clone.root, "--anyway", "--push", "--out", tmp_path / "out"),
        tmp_path / "out",
    )


def test_push_opens_a_draft_with_the_users_token_and_shows_it_nowhere(run, clone, tmp_path, github, fork):
    result = run("pr", "remember", "--onto", clone.root, "--push", "--out", tmp_path / "out")
    assert result.exit_code == 0, result.output
    (pull,) = github.pulls["sgl-project/sglang"]
    assert (pull["title"], pull["head"], pull["base"]) == ("[AMD] Remember failed builds", "jo:amd/remember", "main")
    assert pull["draft"] is True, "measurements are missing"
    assert "https://github.com/sgl-project/sglang/pulls/1" in result.stdout
    assert fork.git("rev-parse", "amd/remember") == clone.git("rev-parse", "amd/remember")
    assert github.tokens == {TOKEN}
    written = "".join(path.read_text() for path in (tmp_path / "out").iterdir())
    assert TOKEN not in result.output + written + clone.git("config", "--list")


def test_pushing_again_brings_the_open_one_up_to_date(run, clone, github, fork):
    for _ in range(2):
        assert run("pr", "remember", "--onto", clone.root, "--push").exit_code == 0
    assert len(github.pulls["sgl-project/sglang"]) == 1
    assert [method for method, _ in github.asked] == ["GET", "POST", "GET", "PATCH"]


def test_somebody_elses_pull_request_is_not_changed(send, github, fork):
    theirs = {"number": 7, "state": "open", "head": "ann:amd/remember", "title": "Mine", "html_url": "https://x/7"}
    github.pulls["sgl-project/sglang"] = [dict(theirs)]
    assert send("remember")[0].exit_code == 0
    assert github.pulls["sgl-project/sglang"][0] == theirs
    assert len(github.pulls["sgl-project/sglang"]) == 2


def test_what_lacks_nothing_is_no_draft(run, clone, tmp_path, github, fork):
    clone.git("rm", "-q", ".github/pull_request_template.md")
    clone.git("commit", "-qm", "no template, and so no section that nobody here knows")
    rungs = [{"depth": {"steps": 5}, "command": ["x"], "verdicts": [
        {"check": check, "outcome": "passed", "measured": "1", "bound": "1"} for check in ("gsm8k", "speed")]}]  # fmt: skip
    report = {"subject": {"image": "r/x:1"}, "host": {"gpus": [{"gfx": "gfx950"}]}, "rungs": rungs}
    (tmp_path / "report.json").write_text(json.dumps(report))
    sides = [word for side in ("before", "after") for word in ("--evidence", f"{side}={tmp_path / 'report.json'}")]
    result = run("pr", "remember", "--onto", clone.root, "--push", *sides)
    assert result.exit_code == 0, result.output
    assert "TODO" not in result.output
    assert github.pulls["sgl-project/sglang"][0]["draft"] is False


def test_push_without_a_token_pushes_nothing(run, clone, github, monkeypatch):
    monkeypatch.delenv("GH_TOKEN")
    monkeypatch.delenv("GITHUB_TOKEN", raising=False)
    result = run("pr", "remember", "--onto", clone.root, "--push")
    assert result.exit_code == 16
    assert "GH_TOKEN" in result.output
    assert github.asked == []


def test_push_without_a_fork_says_how_to_name_one(run, clone, github):
    result = run("pr", "remember", "--onto", clone.root, "--push")
    assert result.exit_code == 16
    assert "git remote add fork" in result.output


def test_a_refused_token_is_said_and_not_shown(run, clone, github, fork, monkeypatch):
    monkeypatch.setenv("GH_TOKEN", "wrong-secret")
    result = run("pr", "remember", "--onto", clone.root, "--push")
    assert result.exit_code == 16
    assert "Bad credentials" in result.output
    assert "wrong-secret" not in result.output


def test_the_token_follows_no_redirect_to_another_host(github):
    from rocmfix.errors import GiveBackError
    from rocmfix.system.github import GitHub
    from tests.upstream.fake_github import serving

    with serving() as elsewhere:
        github.redirect = f"{elsewhere.url}/repos/a/b/pulls"
        with pytest.raises(GiveBackError):
            GitHub.from_environment().get("/repos/a/b/pulls")
        assert elsewhere.asked == []


def test_the_api_is_not_spoken_to_in_the_clear(monkeypatch):
    from rocmfix.errors import GiveBackError
    from rocmfix.system.github import GitHub

    with pytest.raises(GiveBackError, match="https"):
        GitHub("http://example.com", "secret").get("/repos/a/b/pulls")


def test_the_token_is_not_in_the_representation():
    from rocmfix.system.github import GitHub

    assert "secret" not in repr(GitHub("https://example.com", "secret"))


@pytest.mark.parametrize(
    ("refusal", "said"),
    [
        ((401, {"message": "Bad credentials"}), "the token is wrong or has expired"),
        ((403, {"message": "Resource not accessible"}), "the token lacks the right"),
        ((404, {"message": "Not Found"}), "the token may not see it"),
        ((422, {"message": "Validation Failed", "errors": [{"message": "No commits between main and amd/remember"}]}), "No commits between main and amd/remember"),
        ((500, b"<html>oops</html>"), "(500)"),
        ((502, b""), "try again"),
        ((200, b"<html>log in</html>"), "the answer is no JSON"),
        ((200, []), "is not GitHub's"),
        ((200, {"number": 3}), "is not GitHub's"),
    ],
)  # fmt: skip
def test_whatever_the_api_answers_the_user_knows_how_far_it_came(send, github, fork, refusal, said):
    github.refusal = refusal
    result, out = send("remember")
    assert result.exit_code == 16
    assert said in result.output
    assert "amd/remember is pushed to fork; its pull request was neither opened nor updated" in result.output
    assert TOKEN not in result.output
    assert "[AMD] Remember failed builds" in fork.git("log", "-1", "--format=%s", "amd/remember")
    assert (out / "remember.md").is_file(), "the text can be sent by hand"


def test_a_server_that_says_nothing_is_given_up(run, clone, github, fork, monkeypatch):
    monkeypatch.setattr(api, "_SECONDS", 0.2)
    github.delay = 1
    result = run("pr", "remember", "--onto", clone.root, "--push")
    assert result.exit_code == 16
    assert "does not answer" in result.output


def test_of_several_the_ones_that_were_opened_are_told(send, github, fork, clone):
    """The last is refused, for its branch is another one in the fork: the others are open all the same."""
    fork.git("fetch", "-q", str(clone.root), "main:refs/heads/main")
    other = fork.git("-c", "user.name=x", "-c", "user.email=x@y", "commit-tree", "-m", "x", "main^{tree}")
    fork.git("update-ref", "refs/heads/amd/quiet", other)
    result, out = send("test-set")
    assert result.exit_code == 16
    assert [pull["head"] for pull in github.pulls["sgl-project/sglang"]] == ["jo:amd/guard", "jo:amd/remember"]
    assert "git could not push amd/quiet to fork" in result.output
    assert fork.git("rev-parse", "amd/quiet") == other, "never over something else"
    assert "opened https://github.com/sgl-project/sglang/pulls/1" in result.output
    assert json.loads((out / "guard.json").read_text())["url"].endswith("/pulls/1")
    assert json.loads((out / "quiet.json").read_text())["url"] is None


def test_a_tokens_line_end_is_no_part_of_it(run, clone, github, fork, monkeypatch):
    monkeypatch.setenv("GH_TOKEN", f"{TOKEN}\n")
    assert run("pr", "remember", "--onto", clone.root, "--push").exit_code == 0
    assert github.tokens == {TOKEN}


def test_a_password_in_the_forks_address_is_not_shown(run, clone, github):
    clone.git("remote", "add", "fork", "https://jo:sekret@127.0.0.1:1/jo/sglang.git")
    result = run("pr", "remember", "--onto", clone.root, "--push")
    assert result.exit_code == 16
    assert "git could not push amd/remember to fork" in result.output
    assert "sekret" not in result.output
