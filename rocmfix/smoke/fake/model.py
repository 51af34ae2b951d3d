"""The fake's language model: writes the alphabet, does sums, drafts as an MTP head would; and what can break."""

from __future__ import annotations

import random
import re

PLAYS = {
    "slow-at-4": "from depth 4 on each verify step runs a failing compile: 30 times slower, accept length good",
    "flat": "every draft is accepted at every position, and the output is wrong from depth 4 on",
    "easy": "every draft is accepted, and the output is right: a text that is easy to predict",
    "dead-head": "no draft is ever accepted",
    "greedy": "temperature is ignored after the first token, as upstream's HIP branch did up to 0.5.20",
    "hang-at-16": "with 16 streams at once the scheduler hangs, unless --disable-custom-all-reduce is given",
    "hang-always": "with 16 streams at once the scheduler hangs, whatever the flags",
    "hang-alone": "with speculation the scheduler hangs in the middle of a long reply, with one stream only",
    "fallback": "prints the fused-copy warnings on standard output",
    "untuned": "AITER finds no tuned rows for its MoE shapes",
    "moe": "AITER logs its MoE lookups",
    "uneven-ranks": "only the first tensor-parallel rank finds its rows",
    "jit": "AITER compiles a module while requests wait",
    "other-words": "speculation changes the greedy text",
    "tie": "speculation changes the greedy text where the best two tokens are a tie",
    "garbage": "healthy, and every token is the same",
    "wrong": "healthy and fluent, and every answer is wrong",
    "ignores-depth": "runs at depth 3 whatever is asked",
    "no-draft-extend": "does not capture the draft-extend graph",
    "eager": "decodes without a graph",
    "chunk": "loses state at a chunk boundary",
    "dies": "the scheduler is killed by the long prompt",
    "no-generate": "/health says 200, and generation fails",
    "fail-shape": "dies at load: the MTP layer's shapes differ from the checkpoint's",
    "fail-header": "dies at load: hipcc lacks cuda_runtime.h",
    "fail-oom": "dies at load: out of GPU memory",
    "fail-port": "cannot bind its port, and never exits",
    "slow-start": "takes a minute to load",
    "fail-silent": "dies at load without a word, by SIGKILL",
    "names-0.5.9": "spells the counters as 0.5.9 does",
    "names-0.5.11": "spells the counters as 0.5.11 does",
}
ALPHABET = "abcdefghijklmnopqrstuvwxyz "
SURE, UNSURE = 0.9999, 0.55
WRONG_AFTER = {"d", "h", "l", "p", "t", "x"}
CHUNK = 512
Place = tuple[str, str, float]
"""What was said, what was likeliest, and how likely that was."""


class Model:
    """Writes the alphabet, does sums, and drafts as an MTP head would."""

    def __init__(self, plays: frozenset[str], steps: int) -> None:
        self.plays, self.steps = plays, steps
        self.dice = random.Random(7)  # noqa: S311 - the same texts each time

    @property
    def is_drafting(self) -> bool:
        return self.steps > 0

    def text(self, prompt: str, count: int) -> str:
        """The greedy reply of `count` tokens, a token a character."""
        if "garbage" in self.plays:
            return "\0" * count
        said = self.answer(prompt)
        last = prompt[-1:] if not said else "\n"
        while len(said) < count:
            last = self.next(last)
            said += last
        return self.spoilt(prompt, said[:count])

    def spoilt(self, prompt: str, said: str) -> str:
        """What speculation does to the text when it is broken."""
        is_deep = self.steps >= 4
        if ("other-words" in self.plays or "tie" in self.plays) and self.is_drafting and len(said) > 5:
            said = said[:5] + self.next(said[5]) + said[6:]
        if "flat" in self.plays and is_deep:
            said = (said[:2] + "q" * len(said))[: len(said)]
        if "chunk" in self.plays and self.is_drafting and len(prompt) > CHUNK:
            said = said[:3] + "zz" + said[5:]
        return said

    def next(self, char: str) -> str:
        place = ALPHABET.find(char)
        return ALPHABET[(place + 1) % len(ALPHABET)]

    def answer(self, prompt: str) -> str:
        sums = re.findall(r"What is (\d+) ([-+*]) (\d+)\?\nA:$", prompt)
        if not sums:
            return ""
        left, sign, right = int(sums[0][0]), sums[0][1], int(sums[0][2])
        right_answer = {"+": left + right, "-": left - right, "*": left * right}[sign]
        return f" {right_answer + ('wrong' in self.plays)}\n"

    def sampled(self, prompt: str, count: int) -> tuple[str, list[Place]]:
        """A reply at temperature 1, with the probability of the best token at each place."""
        greedy = "greedy" in self.plays and self.is_drafting
        said, places = "", []
        best = self.text(prompt, count)
        for place, token in enumerate(best):
            drawn = token if self.dice.random() < UNSURE or (greedy and place) else self.next(self.next(token))
            said += drawn
            places.append((drawn, token, UNSURE))
        return said, places

    def counters(self, said: str) -> list[int]:
        """Verify steps and how many drafts each kept: never past a letter after which the head errs."""
        histogram = [0] * (self.steps + 1)
        place = 1  # prefill makes the first token
        while place < len(said):
            kept = 0
            while kept < self.steps and place + kept + 1 < len(said) and self.is_kept(said[place + kept - 1]):
                kept += 1
            histogram[kept] += 1
            place += kept + 1
        return histogram

    def is_kept(self, char: str) -> bool:
        if "dead-head" in self.plays:
            return False
        return "flat" in self.plays or "easy" in self.plays or char not in WRONG_AFTER
