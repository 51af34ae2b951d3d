"""What is asked of a server."""

from __future__ import annotations

import json

import pytest

from rocmfix.smoke import asks
from rocmfix.smoke.answers import server_info
from rocmfix.smoke.client import Server
from rocmfix.smoke.launch import UrlLauncher
from rocmfix.smoke.quality import Question
from rocmfix.smoke.view import PlainView
from rocmfix.smoke.visit import Visitor
from rocmfix.system.http import Peer
from tests.smoke.conftest import planned
from tests.smoke.scenes import rung


@pytest.mark.parametrize(("limit", "longest"), [(None, 6010), (4090, 4090), (200_000, 6010)])
def test_no_prompt_is_longer_than_the_server_takes(limit, longest):
    """Seen on an H200: a model of 4096 tokens answered the 6000-token prompt with 400, and the check failed."""
    info = server_info({"max_req_input_len": limit, "chunked_prefill_size": 2048})
    lengths = (asks.RULER[0] * 10, asks.RULER[1] * 10)
    ask = asks.long(asks.FULL, lengths, info, with_gaps=False)
    tokens = [prompt.count(asks.FILLER) * 10 for prompt in ask.prompts]
    assert tokens
    assert max(tokens) <= longest


@pytest.mark.parametrize(
    ("chunk", "asked"),
    [(2048, [2047, 2048, 2049, 6000]), (12_000, [6000, 11_999, 12_000, 12_001]), (12_001, [6000]), (None, [6000]), (-1, [6000])],
)  # fmt: skip
@pytest.mark.parametrize("before", [0, 3])
def test_long_prompts_stand_around_the_chunk_boundary(chunk, asked, before):
    """`before` are tokens that a tokenizer puts in front of every prompt."""
    info = server_info({"chunked_prefill_size": chunk})
    ask = asks.long(asks.FULL, (asks.RULER[0] + before, asks.RULER[1] + before), info, with_gaps=True)
    assert [prompt.count(asks.FILLER) + before for prompt in ask.prompts] == asked
    assert (ask.tokens, ask.top_logprobs, ask.ignore_eos) == (16, 2, True)


def test_a_small_model_is_asked_what_fits():
    info = server_info({"max_req_input_len": 600, "chunked_prefill_size": 512})
    ask = asks.long(asks.BRIEF, asks.RULER, info, with_gaps=False)
    assert [prompt.count(asks.FILLER) for prompt in ask.prompts] == [96]  # the chunk is far beyond brief's longest
    assert asks.long(asks.FULL, asks.RULER, server_info({"max_req_input_len": 10}), with_gaps=False).prompts == (" a",)


def test_a_ruler_that_does_not_grow_measures_nothing(tmp_path):
    """Each repeat would have been a millionth of a token, and the prompt gigabytes long."""
    from tests.smoke.test_client import META, send, serving

    def respond(handler, path, body):
        done = (
            b"data: "
            + json.dumps({"text": "a", "output_ids": [1], "meta_info": META}).encode()
            + b"\n\ndata: [DONE]\n\n"
        )
        send(handler, 200, done)

    with serving(respond) as url:
        visitor = Visitor(planned(urls=(url,)), UrlLauncher(), (), frozenset({"long"}), tmp_path, PlainView())
        assert visitor._long(rung("4"), Server(Peer(url)), asks.BRIEF) == ()
    gone = visitor._long(rung("4"), Server(Peer("http://127.0.0.1:1")), asks.BRIEF)
    assert [ask.name for ask in gone] == ["long"]  # asked again, so that its failure is judged


def test_questions_leave_room_for_the_longest_answer():
    assert asks.questions(asks.BRIEF, (Question("a", "4"), Question("b", "12345"), Question("c", "7"))).tokens == 9


def test_the_warm_up_may_take_ten_times_as_long():
    """The first sampled request pays for a compilation: 110 s on an H200."""
    effort = asks.effort("full", 60.0)
    assert (asks.warm_up(effort).stall_seconds, asks.solo(effort).stall_seconds) == (600.0, 60.0)
    assert asks.warm_up(effort).temperature == 1.0
