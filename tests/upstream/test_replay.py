"""A replay of drift over every release, in order, raises what the facts about them imply, each once."""

from __future__ import annotations

from collections import Counter
from functools import partial

import pytest

from rocmfix.catalog import load
from rocmfix.releases import releases
from rocmfix.upstream.gather import Setting, Source, watch
from rocmfix.upstream.watch import Line, What

pytestmark = pytest.mark.upstream

# When each defect came and went, by the releases' own files; the pull request or file behind each is in the
# fix's series.toml. A defect of the very first release has no arrival. Kept apart from the catalogue on purpose:
# a probe that changes its mind about a release shows here.
CAME = {
    "draft-graph-dp-vote": "0.5.15",
    "dsa-dp-host-sync": "0.5.15",
    "dsa-draft-extend-graph-hip": "0.5.15",
    "dsa-dual-graph-dp": "0.5.18",
    "dsa-indexer-padded-rows": "0.5.9",
    "dsa-topk-v2-off": "0.5.15",
    "fp8-bpreshuffle-gfx950-off": "0.5.11",
    "hicache-writeback-gate": "0.5.16",
    "jit-fused-metadata-guard": "0.5.9",
    "kpool-rocm": "0.5.20",
    "mooncake-early-send-event": "0.5.15",
    "quark-glm-nextn": "0.5.9",
    "quark-shared-expert-gate": "0.5.18",
    "quark-w8a8-moe-aiter": "0.5.9",
    "qwen35-mtp-quark": "0.5.9",
    "qwen35-text-moe-shared": "0.5.17",
    "topk-sigmoid-jit-hip": "0.5.16",
}
WENT = {
    "draft-graph-dp-vote": "0.5.21",
    "dsa-draft-extend-graph-hip": "0.5.19",
    "dsa-topk-v2-off": "0.5.16",
    "fp8-bpreshuffle-gfx950-off": "0.5.15",
    "hicache-hip-host-pointer": "0.5.20",
    "jit-fused-metadata-guard": "0.5.15",
    "kpool-rocm": "0.5.21",
    "mooncake-early-send-event": "0.5.22",
    "quark-glm-nextn": "0.5.16",
    "quark-shared-expert-gate": "0.5.19",
    "quark-w8a8-moe-aiter": "0.5.21",
    "qwen35-mtp-quark": "0.5.21",
    "qwen35-text-moe-shared": "0.5.21",
    "spec-sampling-hip": "0.5.21",
}


@pytest.fixture(scope="module")
def replayed(release_tree):
    """A run after each release, as if every one had been watched; the last five are supported."""
    catalog, versions, last, runs = load(), releases().versions(), None, []
    for count in range(1, len(versions) + 1):
        known = versions[:count]
        sources = [Source(v, Line.RELEASE, partial(release_tree, v)) for v in known]
        last = watch(catalog, sources, last, Setting(day=f"day {count}", oldest=known[max(0, count - 5)]))
        runs.append(last)
    return runs


def events(replayed, *whats):
    return {(event.fix, event.source) for event in replayed[-1].history if event.what in whats}


def test_every_release_is_news_once(replayed):
    found = [event.source for event in replayed[-1].history if event.what is What.NEW_SOURCE]
    assert found == list(releases().versions()[1:])


def test_every_defect_arrives_when_the_facts_say(replayed):
    arrived = {What.ARRIVED, What.RELAPSED, What.UNMENDED, What.CONFLICT}
    assert events(replayed, *arrived) == set(CAME.items())


def test_every_defect_is_mended_when_the_facts_say(replayed):
    assert events(replayed, What.UPSTREAM) == set(WENT.items())


def test_nothing_is_ever_in_conflict_or_broken_again(replayed):
    assert events(replayed, What.CONFLICT, What.RELAPSED) == set()


def test_each_event_is_raised_once(replayed):
    counts = Counter((event.what, event.source, event.fix) for event in replayed[-1].history)
    assert {what: count for what, count in counts.items() if count > 1 and what[0] is not What.RETIRE} == {}


def test_a_fix_is_to_be_dropped_when_its_last_release_leaves_support(replayed):
    versions = releases().versions()
    day = {event.fix: event.day for event in replayed[-1].history if event.what is What.RETIRE}
    # With five releases supported, a fix goes at the fifth release that no longer needs it.
    assert day["jit-fused-metadata-guard"] == f"day {versions.index('0.5.15') + 5}"
    assert day["dsa-topk-v2-off"] == f"day {versions.index('0.5.16') + 5}"
    assert "jit-negative-cache" not in day, "the newest release needs it"
    assert "qwen35-mtp-quark" not in day, "0.5.20 is supported still"


def test_looking_again_finds_nothing_new(replayed, release_tree):
    last = replayed[-1]
    sources = [Source(v, Line.RELEASE, partial(release_tree, v)) for v in releases().versions()]
    again = watch(load(), sources, last, Setting(day="later", oldest=last.oldest))
    assert again.events == ()
    assert again.history == last.history


def test_the_state_survives_its_file(replayed):
    from rocmfix.upstream.watch import parse_watch

    assert parse_watch(replayed[-1].model_dump_json().encode(), "state") == replayed[-1]
