"""Checks of the answers themselves."""

from __future__ import annotations

from rocmfix.smoke.checks import Scene, check, failed, not_judged, passed
from rocmfix.smoke.checks.crowd import owner
from rocmfix.smoke.records import Reply, Verdict

UNENDED = "the single stream did not end"
FINISHES = {"length", "stop"}


def score(scene: Scene) -> float | None:
    """The share of built-in questions answered right."""
    heard = scene.heard("questions")
    if heard is None or heard.failed:
        return None
    pairs = zip(scene.questions, heard.replies, strict=True)
    return sum(question.is_answered_by(reply.text) for question, reply in pairs) / len(heard.replies)


@check("quality", asks=("questions",))
def quality(scene: Scene) -> Verdict | None:
    """A small set of questions with one right answer each: fast garbage does not pass."""
    heard = scene.heard("questions")
    if heard is None:
        return None
    bound = scene.bounds.find("quality", scene.names, scene.depth) or scene.bounds.general("quality", scene.depth)
    value = score(scene)
    if value is None:
        return failed(f"{len(heard.failed)} of {len(heard.replies)} failed", "0", str(heard.failed[0].error),
                      "read the server's log")  # fmt: skip
    right = round(value * len(heard.replies))
    measured = f"{right} of {len(heard.replies)} right"
    if bound.admits(value):
        return passed(measured, f"{bound} right", "the answers make sense")
    missed = next((question, reply.text) for question, reply in zip(scene.questions, heard.replies, strict=True)
                  if not question.is_answered_by(reply.text))  # fmt: skip
    return failed(
        measured, f"{bound} right", f"wanted {missed[0].answer!r}, got {missed[1][:40]!r}",
        "if depth off is right, the MTP path is wrong; if not, weights, quantisation or a tuned GEMM (sglang#29275)",
    )  # fmt: skip


@check("gsm8k")
def gsm8k(scene: Scene) -> Verdict | None:
    """GSM8K by the image's own test module, when --gsm8k asks for it."""
    if not scene.plan.gsm8k or not scene.rung.start.is_ready:
        return None
    ran = scene.rung.gsm8k
    if ran is None:
        return not_judged("the image's sglang.test.few_shot_gsm8k gave no accuracy; is --gsm8k-data there?")
    measured = f"{ran.accuracy:.3f} of {scene.plan.gsm8k} questions"
    return _bounded(scene, "gsm8k", ran.accuracy, measured, "compare with depth off: is it the model or MTP?")


@check("gsm8k-accept-length")
def gsm8k_accept_length(scene: Scene) -> Verdict | None:
    """The accept length while GSM8K ran, from the server's decode lines: the workload that known bounds are of."""
    ran = scene.rung.gsm8k
    if ran is None or ran.accept_length is None or scene.depth.is_off:
        return None
    advice = "below what this model gives elsewhere: is the MTP layer built with the right quantisation?"
    return _bounded(scene, "accept-length", ran.accept_length, f"{ran.accept_length:.2f}", advice)


def _bounded(scene: Scene, name: str, value: float, measured: str, advice: str) -> Verdict:
    """A value of the GSM8K workload against its bound for this model, if there is one."""
    bound = scene.bounds.find(name, scene.names, scene.depth, "gsm8k")
    if bound is None:
        return not_judged("no bound is known for this model", measured)
    if bound.admits(value):
        return passed(measured, str(bound), bound.source)
    return failed(measured, str(bound), bound.source, advice)


@check("sane-replies", asks=("words", "solo"))
def sane_replies(scene: Scene) -> Verdict | None:
    """Replies end and are well-formed: as many tokens and log-probabilities as counted, none above 0, a finish reason
    that is known, and nothing but one token over and over.
    """
    asked = [heard for name in ("words", "solo") if (heard := scene.heard(name))]
    if not asked:
        return None
    replies = [(heard.ask.tokens, reply) for heard in asked for reply in heard.replies]
    problems = [problem for tokens, reply in replies if (problem := _oddity(reply, tokens))]
    measured = f"{len(problems)} of {len(replies)} replies are odd"
    hung = next((heard for heard in asked if heard.stalled), None)
    if hung:
        return failed(measured, "0", *owner(scene, hung))
    if not problems:
        return passed(measured, "0", "counts, finish reasons and log-probabilities agree")
    return failed(measured, "0", problems[0], "garbage weights or a broken kernel: is depth off the same?")


def _oddity(reply: Reply, tokens: int) -> str | None:
    if reply.error is not None:
        return reply.error
    if reply.finish not in FINISHES:
        return f"finish reason {reply.finish}"
    if reply.completion_tokens != tokens:
        return f"{reply.completion_tokens} tokens instead of the {tokens} asked for"
    if reply.tokens and len(reply.tokens) != reply.completion_tokens:
        return f"{len(reply.tokens)} token ids for {reply.completion_tokens} tokens"
    if reply.scores and len(reply.scores) != reply.completion_tokens:
        return f"{len(reply.scores)} log-probabilities for {reply.completion_tokens} tokens"
    if any(score.logprob > 1e-3 for score in reply.scores):
        return "a log-probability above 0"
    if len(reply.tokens) >= 16 and len(set(reply.tokens)) == 1:
        return f"token {reply.tokens[0]} {len(reply.tokens)} times over"
    return None
