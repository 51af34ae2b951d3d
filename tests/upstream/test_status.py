"""Where each fix stands, and what to do next."""

from __future__ import annotations

import pytest

from rocmfix.catalog import load
from rocmfix.system.github import GitHub
from rocmfix.tree import MemoryTree
from rocmfix.upstream.status import standing
from rocmfix.verdict import judge_all
from tests.upstream.conftest import GUARDED, KERNEL, KERNEL_TEXT, LOADER, LOADER_TEXT, REMEMBERS


@pytest.fixture
def said(catalogue_folder):
    """`said({LOADER: ...}, ...)`: state and next step of each fix, releases being given by what changed in them."""
    catalog = load(catalogue_folder)

    def say(*changes, github=None):
        trees = []
        for number, changed in enumerate(changes):
            files = {KERNEL: KERNEL_TEXT, LOADER: LOADER_TEXT, **changed}
            tree = MemoryTree({path: text.encode() for path, text in files.items()}, source=f"0.5.{number}")
            trees.append(judge_all(catalog, tree))
        return {
            each.fix: (each.state, each.needed, each.next) for each in standing(catalog, tuple(trees), github).fixes
        }

    return say


def test_a_fix_that_no_supported_release_needs_is_to_be_dropped(said):
    _, needed, following = said({KERNEL: GUARDED})["guard"]
    assert (needed, following) == ("none", "drop it: no release from 0.5.0 on needs it")


def test_a_fix_that_old_releases_need_is_kept_until_they_go(said):
    _, needed, following = said({}, {}, {KERNEL: GUARDED})["guard"]
    assert needed == "0.5.0 to 0.5.1"
    assert following.startswith("keep until 0.5.1 is no longer supported")


def test_a_fix_that_upstream_has_in_other_hands_is_superseded(said):
    assert said({}, {LOADER: REMEMBERS})["remember"][2].startswith("superseded: 0.5.1 has it")


def test_a_fix_that_nobody_sent_is_to_be_sent(said):
    assert said({})["remember"][2] == "send it: rocmfix pr remember --onto CLONE"


def test_a_conflict_with_the_newest_release_is_to_be_refreshed(said):
    changed = LOADER_TEXT.replace("build(name)", "assemble(name)")
    assert said({}, {LOADER: changed})["remember"][2] == "rocmfix refresh: it no longer applies to 0.5.1"


def test_offline_says_what_was_not_asked(said):
    assert said({})["quiet"][0] == "not asked (series.toml: submitted)"


@pytest.mark.parametrize(
    ("pull", "state", "following"),
    [
        ({"state": "closed", "merged": True}, "merged", "set status merged in series.toml"),
        ({"state": "closed", "merged": False}, "closed", "closed without a merge"),
        ({"state": "open", "merged": False}, "open", "help sgl-project/sglang#2 along"),
    ],
)
def test_the_pull_request_is_asked_about(said, github, pull, state, following):
    github.pulls["sgl-project/sglang"] = [{"number": 2, **pull}]
    found = said({}, github=GitHub.from_environment())
    assert found["quiet"][0] == state
    assert found["quiet"][2].startswith(following)


def test_a_pull_request_that_cannot_be_read_is_not_reached(said, github):
    assert said({}, github=GitHub.from_environment())["quiet"][0].startswith("not reached: GitHub refused GET")


@pytest.mark.upstream
def test_the_shipped_catalogue_has_a_next_step_for_each_fix(release_tree):
    from rocmfix.releases import releases

    catalog = load()
    trees = tuple(judge_all(catalog, release_tree(version)) for version in releases().versions())
    found = {each.fix: each for each in standing(catalog, trees, None).fixes}
    assert len(found) == len(list(catalog.fixes()))
    assert found["jit-fused-metadata-guard"].needed == "0.5.9 to 0.5.14"
    assert found["jit-negative-cache"].next.startswith(("send it", "help"))


def test_only_of_a_pull_request_that_is_waited_for_is_a_close_news(said, github):
    """A merge by rebase shows as closed: what the catalogue knows to be merged is not sent anew."""
    github.pulls["sgl-project/sglang"] = [{"number": number, "state": "closed"} for number in (1, 2)]
    stands = said({}, github=GitHub.from_environment())
    assert stands["quiet"][2].startswith("closed without a merge")
    assert not stands["guard"][2].startswith("closed without a merge")
