"""Pull-request packs: branches as a maintainer would want them, texts that invent nothing, refusals with a reason."""

from __future__ import annotations

import json

from tests.upstream.conftest import GUARDED, KERNEL, LOADER, QUIET, REMEMBERS, Clone


def body_of(run, clone, *args):
    result = run("pr", *args, "--onto", clone.root, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)["packs"][0]


def test_the_branch_has_one_commit_by_the_patch_author_signed_off_by_both(run, clone):
    assert run("pr", "remember", "--onto", clone.root).exit_code == 0
    assert clone.git("rev-list", "--count", "main..amd/remember") == "1"
    assert (
        clone.git("log", "-1", "--format=%an %ae %aI", "amd/remember")
        == "A Writer a@example.com 2026-06-01T10:00:00+00:00"
    )
    assert clone.git("log", "-1", "--format=%cn %ce", "amd/remember") == "Jo Engineer jo@example.com"
    assert clone.git("log", "-1", "--format=%s", "amd/remember") == "[AMD] Remember failed builds"
    assert clone.git("log", "-1", "--format=%(trailers)", "amd/remember").splitlines() == [
        "Signed-off-by: A Writer <a@example.com>",
        "Signed-off-by: Jo Engineer <jo@example.com>",
    ]
    assert clone.git("diff", "--name-only", "main..amd/remember") == LOADER
    assert clone.git("show", f"amd/remember:{LOADER}") + "\n" == REMEMBERS


def test_the_work_tree_the_index_and_the_checked_out_branch_stay(run, clone):
    (clone.root / LOADER).write_text("my own work in progress\n")
    clone.git("add", LOADER)
    (clone.root / "notes").write_text("mine")
    before = clone.git("status", "--porcelain")
    assert run("pr", "remember", "--onto", clone.root).exit_code == 0
    assert clone.git("status", "--porcelain") == before
    assert clone.git("branch", "--show-current") == "main"
    assert (clone.root / LOADER).read_text() == "my own work in progress\n"


def test_the_exported_patch_is_what_git_am_takes(run, clone, tmp_path):
    run("pr", "remember", "--onto", clone.root, "--out", tmp_path / "out")
    clone.git("switch", "-q", "-c", "by-hand")
    clone.git("am", "-q", "--keep-non-patch", str(tmp_path / "out/remember.patch"))
    assert clone.git("rev-parse", "by-hand^{tree}") == clone.git("rev-parse", "amd/remember^{tree}")
    assert clone.git("log", "-1", "--format=%B%an") == clone.git("log", "-1", "--format=%B%an", "amd/remember")


def test_each_root_cause_gets_its_own_branch_from_the_base(run, clone):
    result = run("pr", "test-set", "--onto", clone.root, "--anyway")
    assert result.exit_code == 0, result.output
    for fix, path in (("guard", KERNEL), ("remember", LOADER), ("quiet", LOADER)):
        assert clone.git("diff", "--name-only", f"main..amd/{fix}") == path
        assert clone.git("rev-parse", f"amd/{fix}^") == clone.git("rev-parse", "main")


def test_twice_is_once(run, clone):
    run("pr", "remember", "--onto", clone.root)
    before = clone.git("rev-parse", "amd/remember")
    result = run("pr", "remember", "--onto", clone.root)
    assert result.exit_code == 0
    assert "there already" in result.stdout
    assert clone.git("rev-parse", "amd/remember") == before


def test_a_branch_with_something_else_on_it_is_not_touched(run, clone):
    clone.git("branch", "amd/remember")
    result = run("pr", "remember", "--onto", clone.root)
    assert result.exit_code == 16
    assert "something else on it" in result.output
    assert clone.git("rev-parse", "amd/remember") == clone.git("rev-parse", "main")


def test_a_dry_run_makes_no_branch(run, clone):
    assert run("pr", "remember", "--onto", clone.root, "--dry-run").exit_code == 0
    assert clone.git("branch", "--list", "amd/*") == ""


def test_a_base_that_has_the_fix_is_refused_with_the_pull_request_that_did_it(run, clone):
    clone.write({KERNEL: GUARDED}, "upstream mends it")
    result = run("pr", "guard", "--onto", clone.root, "--anyway")
    assert result.exit_code == 16
    assert "sgl-project/sglang#1 did it, first in 0.5.15" in result.output
    assert f"{KERNEL}:" in result.output
    assert clone.git("branch", "--list", "amd/*") == ""


def test_an_open_pull_request_is_not_said_to_have_done_what_another_change_did(run, clone):
    clone.write({LOADER: QUIET}, "upstream mends it in other hands")
    result = run("pr", "quiet", "--onto", clone.root)
    assert result.exit_code == 16
    assert "it is mended there" in result.output
    assert "#2 did it" not in result.output


def test_a_base_older_than_upstreams_own_fix_is_refused_unless_asked_for(run, clone):
    result = run("pr", "guard", "--onto", clone.root)
    assert result.exit_code == 16
    assert "this base is older" in result.output
    assert "--anyway" in result.output
    assert run("pr", "guard", "--onto", clone.root, "--anyway").exit_code == 0


def test_an_open_pull_request_is_not_doubled(run, clone):
    result = run("pr", "quiet", "--onto", clone.root)
    assert result.exit_code == 16
    assert "sgl-project/sglang#2 is open for the same defect" in result.output


def test_a_set_makes_what_can_be_made_and_says_why_not_of_the_rest(run, clone):
    result = run("pr", "test-set", "--onto", clone.root)
    assert result.exit_code == 0
    assert "refused  guard" in result.stdout
    assert "refused  quiet" in result.stdout
    assert clone.git("branch", "--list", "amd/*", "--format=%(refname:short)") == "amd/remember"


def test_a_conflict_is_refused_and_shows_the_line(run, clone):
    clone.write({LOADER: "def load(name):\n    return assemble(name)\n"}, "rewritten")
    result = run("pr", "remember", "--onto", clone.root)
    assert result.exit_code == 16
    assert "expects `return build(name)`, the tree has `return assemble(name)`" in result.output
    assert "refresh sglang/test-set" in result.output


def test_the_base_is_upstreams_main_as_fetched_not_what_is_checked_out(run, clone, tmp_path):
    upstream = Clone(tmp_path / "sgl-project/sglang.git")
    upstream.root.parent.mkdir()
    clone.git("clone", "-q", "--bare", ".", str(upstream.root))
    clone.git("remote", "add", "up", str(upstream.root))
    clone.git("fetch", "-q", "up")
    clone.write({"mine": "local work"}, "local work")
    pack = body_of(run, clone, "remember")
    assert pack["base"] == "main"
    assert pack["base_commit"] == clone.git("rev-parse", "up/main") != clone.git("rev-parse", "main")


def test_a_committer_without_a_name_is_refused(run, clone):
    clone.git("config", "--unset", "user.name")
    result = run("pr", "remember", "--onto", clone.root)
    assert result.exit_code == 16
    assert "git config user.name" in result.output


def test_a_folder_without_the_project_is_refused(run, tmp_path):
    other = tmp_path / "other"
    other.mkdir()
    stranger = Clone(other)
    stranger.git("init", "-q", "-b", "main")
    stranger.git("config", "user.name", "Jo")
    stranger.git("config", "user.email", "jo@example.com")
    stranger.write({"README": "hello"}, "one")
    result = run("pr", "remember", "--onto", other)
    assert result.exit_code == 3
    assert "holds neither sglang nor aiter" in result.output


def test_every_section_of_upstreams_template_is_there_in_its_order(run, clone):
    body = body_of(run, clone, "remember")["body"]
    headings = [line for line in body.splitlines() if line.startswith("## ")]
    assert headings == [
        "## Motivation", "## Modifications", "## Accuracy Tests", "## Speed Tests and Profiling",
        "## Release Notes", "## Checklist", "## Review and Merge Process",
    ]  # fmt: skip
    assert "It was wrong, and here is why." in body
    assert "1. Ping the merge oncall." in body
    assert "Thank you." not in body


def test_a_section_nobody_here_knows_is_a_todo(run, clone):
    pack = body_of(run, clone, "remember")
    assert "## Release Notes\n\n> **TODO**" in pack["body"]
    assert any("Release Notes" in todo for todo in pack["todo"])


def test_a_missing_measurement_is_a_visible_todo_and_no_number_is_invented(run, clone):
    pack = body_of(run, clone, "remember")
    accuracy = pack["body"].partition("## Accuracy Tests")[2].partition("##")[0]
    assert "**TODO** accuracy before the change" in accuracy
    assert "**TODO** accuracy after the change" in accuracy
    assert not any(char.isdigit() for char in accuracy)


def test_boxes_are_ticked_only_for_what_was_seen(run, clone):
    body = body_of(run, clone, "remember")["body"]
    assert body.count("[x]") == 1
    assert "- [x] Format your code with pre-commit." in body, "every hook for Python files ran, and was clean"
    assert "[x]" not in body_of(run, clone, "guard", "--anyway")["body"], "clang-format did not run"


def test_without_a_template_the_sections_are_plain(run, clone):
    clone.git("rm", "-q", ".github/pull_request_template.md")
    clone.git("commit", "-qm", "no template")
    body = body_of(run, clone, "remember")["body"]
    assert body.startswith("## Motivation\n\nIt was wrong, and here is why.")


def test_aiters_titles_and_template_are_its_own(run, clone, tmp_path, catalogue_folder):
    from rocmfix.upstream.body import title_of
    from rocmfix.upstream.template import Part, fill

    assert title_of("aiter", "ROCm: take the row that fits") == "Take the row that fits"
    assert title_of("sglang", "ROCm: take the row that fits") == "[AMD] Take the row that fits"
    assert title_of("sglang", "[AMD] [GLM5] Take it") == "[AMD] [GLM5] Take it"
    template = "## Motivation\n\n## Technical Details\n\n## Test Plan\n\n## Test Result\n\n## Submission Checklist\n\n- [ ] CI\n"
    parts = {
        Part.MOTIVATION: "why",
        Part.MODIFICATIONS: "what",
        Part.ACCURACY: "score",
        Part.SPEED: "fast",
        Part.TESTING: "how",
    }
    filled = fill(template, parts, lambda box: box == "CI")
    assert filled.unknown == ()
    assert filled.text.split("\n\n") == [
        "## Motivation", "why", "## Technical Details", "what", "## Test Plan", "how", "## Test Result", "score",
        "## Speed", "fast", "## Submission Checklist", "- [x] CI\n",
    ]  # fmt: skip


def test_a_guard_is_proved_to_leave_cuda_alone_and_a_plain_change_is_not(run, clone):
    assert body_of(run, clone, "guard", "--anyway")["files"][0]["cuda"] == "same"
    assert body_of(run, clone, "remember")["files"][0]["cuda"] == "unknown"


def test_a_detached_head_is_no_obstacle(run, clone):
    clone.git("checkout", "-q", "--detach")
    assert run("pr", "remember", "--onto", clone.root).exit_code == 0
    assert clone.git("rev-parse", "amd/remember^") == clone.git("rev-parse", "main")
    assert clone.git("rev-parse", "--abbrev-ref", "HEAD") == "HEAD"


def test_a_shallow_clone_is_enough(run, clone, tmp_path):
    clone.write({"more": "1"}, "more")
    clone.git("clone", "-q", "--depth=1", f"file://{clone.root}", str(tmp_path / "shallow"))
    shallow = Clone(tmp_path / "shallow")
    shallow.git("config", "user.name", "Jo")
    shallow.git("config", "user.email", "jo@example.com")
    shallow.write({"mine": "local work"}, "local work on main")
    assert run("pr", "remember", "--onto", shallow.root, "--out", tmp_path / "out").exit_code == 0
    assert shallow.git("diff", "--name-only", "origin/main..amd/remember") == LOADER
    assert "remember(build, name)" in (tmp_path / "out/remember.patch").read_text()


def test_a_clone_without_a_commit_is_refused(run, tmp_path):
    (tmp_path / "empty").mkdir()
    Clone(tmp_path / "empty").git("init", "-q", "-b", "main")
    result = run("pr", "remember", "--onto", tmp_path / "empty")
    assert result.exit_code == 16
    assert "to stand on" in result.output


def test_a_checked_out_branch_of_ours_is_not_moved_under_the_user(run, clone):
    run("pr", "remember", "--onto", clone.root)
    clone.git("switch", "-q", "amd/remember")
    clone.git("commit", "-q", "--allow-empty", "-m", "mine")
    before = clone.git("rev-parse", "HEAD")
    result = run("pr", "remember", "--onto", clone.root)
    assert result.exit_code == 16
    assert clone.git("rev-parse", "HEAD") == before


def test_the_clones_hooks_signing_and_attributes_take_no_part(run, clone):
    hook = clone.root / ".git/hooks/pre-commit"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\ntouch ran; exit 1\n")
    hook.chmod(0o755)
    for name, value in (("commit.gpgsign", "true"), ("core.autocrlf", "true"), ("user.signingkey", "none")):
        clone.git("config", name, value)
    assert run("pr", "remember", "--onto", clone.root).exit_code == 0
    assert not (clone.root / "ran").exists()
    assert clone.git("cat-file", "-p", f"amd/remember:{LOADER}") + "\n" == REMEMBERS
