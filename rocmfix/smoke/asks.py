"""The questions, as data: what is asked of a server at each effort, in the order of asking."""

from __future__ import annotations

from dataclasses import dataclass, replace

from rocmfix.smoke.quality import QUESTIONS, Question
from rocmfix.smoke.records import Ask, ServerInfo

PROSE = (
    "From the lighthouse the keeper looked out over the Atlantic",
    "def merge_sorted(left, right):\n    ",
    "Water boils at a lower temperature on a mountain because",
    "A list of the planets, from the sun outwards: Mercury,",
    "In 1969 the first people walked on the Moon, and",
    "To make bread one needs flour, water, salt and",
    "The quick brown fox jumps over the lazy dog. The",
    "SELECT name, COUNT(*) FROM visits GROUP BY",
)
OPEN_ENDED = (
    "Ten random words that have nothing to do with each other:",
    "Once upon a time, in a country nobody has heard of, there lived",
    "A list of unusual names for a cat:",
    "Write down some random numbers between 1 and 1000:",
)


@dataclass(frozen=True)
class Effort:
    """How much is asked: `full` for a GPU, `brief` for a machine where a token costs a second."""

    name: str
    prompts: int
    tokens: int
    solo_prompts: int
    solo_tokens: int
    sample_prompts: int
    sample_tokens: int
    crowd_tokens: int
    long_prompt_tokens: int
    streams: int
    stall_seconds: float


FULL = Effort("full", 8, 96, 3, 512, 16, 96, 128, 6000, 4, 120.0)
BRIEF = Effort("brief", 3, 16, 1, 64, 4, 16, 16, 96, 4, 120.0)


def effort(name: str, stall_seconds: float) -> Effort:
    """The effort of this name, with another limit on silence."""
    return replace({each.name: each for each in (FULL, BRIEF)}[name], stall_seconds=stall_seconds)


def warm_up(effort: Effort) -> Ask:
    """Before anything is timed: the first sampled request pays for compilation (110 s measured on an H200)."""
    return Ask(name="warm-up", prompts=PROSE[:1], tokens=8, temperature=1.0, stall_seconds=10 * effort.stall_seconds)


def words(effort: Effort, *, with_gaps: bool) -> Ask:
    """Greedy text, to compare across depths; the gaps between the best two tokens are asked of the server
    without speculation only, whose word counts.
    """
    return Ask(
        name="words",
        prompts=PROSE[: effort.prompts],
        tokens=effort.tokens,
        streams=effort.streams,
        ignore_eos=True,
        top_logprobs=2 if with_gaps else 0,
        stall_seconds=effort.stall_seconds,
    )


def solo(effort: Effort) -> Ask:
    """One stream at a time, long enough for a rate."""
    return Ask(
        name="solo",
        prompts=PROSE[: effort.solo_prompts],
        tokens=effort.solo_tokens,
        ignore_eos=True,
        stall_seconds=effort.stall_seconds,
    )


def sampled(effort: Effort) -> Ask:
    """Temperature 1, nothing cut off, with the best log-probability at each position."""
    prompts = tuple(OPEN_ENDED[i % len(OPEN_ENDED)] for i in range(effort.sample_prompts))
    return Ask(
        name="sampled",
        prompts=prompts,
        tokens=effort.sample_tokens,
        temperature=1.0,
        streams=effort.streams,
        ignore_eos=True,
        top_logprobs=1,
        stall_seconds=effort.stall_seconds,
    )


def crowd(effort: Effort, streams: int) -> Ask:
    """Many streams at once: AITER's all-reduce hung EAGLE's verify from 16 streams on (sglang#29313)."""
    prompts = tuple(f"{i}. {PROSE[i % len(PROSE)]}" for i in range(streams))
    return Ask(
        name=f"crowd-{streams}",
        prompts=prompts,
        tokens=effort.crowd_tokens,
        streams=streams,
        ignore_eos=True,
        stall_seconds=effort.stall_seconds,
    )


FILLER = " a"
RULER = (64, 128)


def ruler(effort: Effort) -> Ask:
    """Two prompts of known repeats, to learn how many tokens one repeat is."""
    prompts = tuple(FILLER * repeats for repeats in RULER)
    return Ask(name="ruler", prompts=prompts, tokens=1, stall_seconds=effort.stall_seconds)


def long(effort: Effort, lengths: tuple[int, int], info: ServerInfo | None, *, with_gaps: bool) -> Ask:
    """Prompts around the chunked-prefill boundary and one long one; `lengths` are the ruler's token counts, which grow.

    None is longer than the server takes: on an H200, a model of 4096 tokens answered a 6000-token prompt with 400.
    """
    chunk = info.chunked_prefill if info else None
    per_repeat = (lengths[1] - lengths[0]) / (RULER[1] - RULER[0])
    extra = lengths[0] - per_repeat * RULER[0]
    wanted = [effort.long_prompt_tokens]
    if chunk and 0 < chunk <= 2 * effort.long_prompt_tokens:
        wanted += [chunk - int(per_repeat), chunk, chunk + int(per_repeat)]
    if info and info.longest_prompt:
        room = info.longest_prompt - 2 * effort.tokens - 2 * int(per_repeat + 1)
        wanted = [min(tokens, max(room, 1)) for tokens in wanted]
    prompts = tuple(FILLER * max(1, round((tokens - extra) / per_repeat)) for tokens in sorted(set(wanted)))
    return Ask(
        name="long",
        prompts=prompts,
        tokens=min(16, effort.tokens),
        ignore_eos=True,
        top_logprobs=2 if with_gaps else 0,
        stall_seconds=effort.stall_seconds,
    )


def questions(effort: Effort, asked: tuple[Question, ...] = QUESTIONS) -> Ask:
    """Questions with one right answer, as few-shot text."""
    return Ask(
        name="questions",
        prompts=tuple(question.prompt for question in asked),
        tokens=max(len(question.answer) for question in asked) + 4,
        streams=effort.streams,
        stall_seconds=effort.stall_seconds,
    )
