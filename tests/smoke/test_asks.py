"""What is asked of a server."""

from __future__ import annotations

import pytest

from rocmfix.smoke import asks
from rocmfix.smoke.answers import server_info


@pytest.mark.parametrize(("limit", "longest"), [(None, 6010), (4090, 4090), (200_000, 6010)])
def test_no_prompt_is_longer_than_the_server_takes(limit, longest):
    """Seen on an H200: a model of 4096 tokens answered the 6000-token prompt with 400, and the check failed."""
    info = server_info({"max_req_input_len": limit, "chunked_prefill_size": 2048})
    lengths = (asks.RULER[0] * 10, asks.RULER[1] * 10)
    ask = asks.long(asks.FULL, lengths, info, with_gaps=False)
    tokens = [prompt.count(asks.FILLER) * 10 for prompt in ask.prompts]
    assert tokens
    assert max(tokens) <= longest
