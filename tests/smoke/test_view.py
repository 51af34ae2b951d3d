"""What a person sees while a ladder goes."""

from __future__ import annotations

import pytest

from rocmfix.smoke.records import Outcome, Verdict
from rocmfix.smoke.view import LiveView, PlainView
from tests.smoke.scenes import rung

GOOD = Verdict(check="starts", outcome=Outcome.PASSED, measured="1", bound="1", reason="it did")
BAD = Verdict(check="speed", outcome=Outcome.FAILED, measured="1", bound="2", reason="it collapsed")


def test_the_live_view_names_server_question_tokens_and_time():
    view = LiveView()
    view.step("4-1-5", "solo: 3 prompts of 512 tokens")
    view.tokens(100)
    view.tokens(28)
    view.judged(rung("3", verdicts=(GOOD,)))
    view.judged(rung("off", verdicts=(GOOD, BAD)))
    lines = view.drawn().splitlines()
    assert lines[0].split() == ["3-1-4", "1", "passed", "[green]ok[/]"]
    assert "[red]FAILED speed[/]" in lines[1]
    assert "4-1-5" in lines[2]
    assert "solo: 3 prompts of 512 tokens" in lines[2]
    assert "128 tokens" in lines[2]
    assert "0:00" in lines[2]


def test_the_live_view_draws_on_standard_error_and_leaves(capsys):
    with LiveView() as view:
        view.step("off", "starting")
    said = capsys.readouterr()
    assert said.out == ""


@pytest.mark.parametrize("verdict", [GOOD, BAD])
def test_in_a_pipe_each_step_is_a_line_and_failures_are_told(verdict, capsys):
    view = PlainView()
    view.step("off", "starting")
    view.tokens(5)
    view.judged(rung("off", verdicts=(verdict,)))
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("off: starting\n")
    assert ("off: FAILED speed: it collapsed" in said.err) == (verdict is BAD)


def test_what_a_server_said_does_not_command_the_terminal(capsys):
    odd = BAD.model_copy(update={"reason": "finish reason \x1b]0;title\x07\x1b[31m"})
    PlainView().judged(rung("3", verdicts=(odd,)))
    assert "\x1b" not in capsys.readouterr().err
