"""Checks that speculation changes nothing but speed: greedy words, long prompts, temperature."""

from __future__ import annotations

from dataclasses import dataclass

from rocmfix.smoke.checks import Scene, check, failed, not_judged, passed
from rocmfix.smoke.records import Heard, Reply, Verdict


@dataclass(frozen=True)
class Difference:
    """The first place where two greedy replies part, and how close the best two tokens were there without
    speculation; None where the server did not say.
    """

    prompt: int
    place: int
    gap: float | None


def first_difference(plain: Reply, drafted: Reply) -> Difference | None:
    """Where `drafted` leaves `plain`, or None. A shorter reply parts where it ends."""
    length = max(len(plain.tokens), len(drafted.tokens))
    for place in range(length):
        if plain.tokens[place : place + 1] != drafted.tokens[place : place + 1]:
            return Difference(plain.prompt, place, _gap(plain, place))
    return None


def _gap(plain: Reply, place: int) -> float | None:
    if place >= len(plain.scores) or len(plain.scores[place].top) < 2:
        return None
    best, second = plain.scores[place].top[:2]
    return best[1] - second[1]


def _differences(scene: Scene, ask: str) -> tuple[Difference, ...] | None:
    heard, plain = scene.heard(ask), scene.off and scene.off.answer(ask)
    if scene.depth.is_off or heard is None or not plain or heard.failed or plain.failed:
        return None
    pairs = zip(plain.replies, heard.replies, strict=True)
    return tuple(found for pair in pairs if (found := first_difference(*pair)) is not None)


def differing(scene: Scene) -> tuple[Difference, ...]:
    """The differences that are no ties: a gap above the bound, or unknown."""
    ceiling = scene.bounds.general("same-words", scene.depth).ceiling or 0.0
    found = _differences(scene, "words") or ()
    return tuple(one for one in found if one.gap is None or one.gap > ceiling)


@check("same-words", asks=("words",))
def same_words(scene: Scene) -> Verdict | None:
    """Greedy text is the same with and without speculation. At the first difference of a text it fails if the best
    two tokens without speculation are more than a tie apart; flat logits flip with the batch shape alone.
    """
    if scene.depth.is_off:
        return None
    heard = scene.heard("words")
    if heard and heard.failed:
        return failed(f"{len(heard.failed)} of {len(heard.replies)} texts failed", "0", str(heard.failed[0].error),
                      "read the server's log")  # fmt: skip
    return _same(scene, "words", "wrong drafts are accepted, or verify computes other logits than decode")


@check("long-prompt", asks=("long",))
def long_prompt(scene: Scene) -> Verdict | None:
    """A long prompt and prompts around the chunked-prefill boundary are answered, with the same words as without
    speculation: drafts need the hidden states of every chunk (sglang#26329).
    """
    heard = scene.heard("long")
    if heard is None:
        return None
    lengths = ", ".join(str(reply.prompt_tokens) for reply in heard.replies)
    short = [reply for reply in heard.replies if reply.error or reply.completion_tokens != heard.ask.tokens]
    if short:
        problem = short[0].error or f"{short[0].completion_tokens} of {heard.ask.tokens} tokens came"
        return failed(f"{len(short)} of {len(heard.replies)} prompts failed", "0", problem,
                      "try --chunked-prefill-size 4096, and read the server's log")  # fmt: skip
    if scene.depth.is_off:
        return passed(f"prompts of {lengths} tokens", "all answered", "long prompts are answered")
    return _same(scene, "long", f"prompts of {lengths} tokens: a chunk boundary loses state")


def _same(scene: Scene, ask: str, blame: str) -> Verdict:
    found = _differences(scene, ask)
    bound = scene.bounds.general("same-words", scene.depth)
    limit = f"0 texts differ by more than {bound.ceiling:g} nat"
    if found is None:
        return not_judged("no server without speculation answered the same prompts")
    total = len((scene.heard(ask) or _nothing()).replies)
    wrong = [one for one in found if one.gap is None or not bound.admits(one.gap)]
    ties = f", {len(found) - len(wrong)} ties" if len(found) > len(wrong) else ""
    measured = f"{len(wrong)} of {total} texts differ{ties}"
    if not wrong:
        return passed(measured, limit, "the same words with and without speculation")
    one = wrong[0]
    gap = "unknown" if one.gap is None else f"{one.gap:.2f} nat"
    return failed(measured, limit, f"text {one.prompt} parts at token {one.place} (gap {gap}); {blame}",
                  "try another --attention-backend, or a power of two of draft tokens (aiter#2720)")  # fmt: skip


def _nothing() -> Heard:  # pragma: no cover - `_differences` has answered None before
    raise LookupError("nothing was heard")
