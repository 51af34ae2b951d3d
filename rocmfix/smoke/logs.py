"""Reads a server's log for signatures, graph captures, decode lines and AITER lookups; pure."""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Iterable
from functools import cache
from importlib.resources import files

from rocmfix.model import Record
from rocmfix.smoke.records import LogFacts, LogFinding, Lookup

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


class Signature(Record):
    """A text that betrays something; `steady` ones count after warm-up only."""

    id: str
    text: str
    why: str
    fix: str
    source: str
    is_failure: bool = True
    steady: bool = False


class _File(Record):
    signature: tuple[Signature, ...]


@cache
def signatures() -> tuple[Signature, ...]:
    """The shipped signatures, in order of weight."""
    text = files("rocmfix.smoke").joinpath("signatures.toml").read_text(encoding="utf-8")
    return _File.model_validate(tomllib.loads(text)).signature


@cache
def _patterns() -> tuple[tuple[Signature, re.Pattern[str]], ...]:
    return tuple((signature, re.compile(signature.text)) for signature in signatures())


def read_log(starting: str, steady: str) -> LogFacts:
    """The facts of a log, given as what came before the warm-up ended and what came after."""
    early, late = starting.splitlines(), steady.splitlines()
    lines = early + late
    decodes = Counter("True" in match[0] for line in lines if (match := _DECODE.search(line)))
    captures = dict.fromkeys(match[1] or "decode" for line in lines if (match := _CAPTURE.search(line)))
    return LogFacts(
        findings=tuple(_findings(early, late)),
        captures=tuple(captures),
        decodes_in_graph=decodes[True],
        decodes_eager=decodes[False],
        lookups=tuple(_lookups(lines)),
        lines=len(lines),
    )


def accept_length(text: str) -> float | None:
    """The mean accept length of the decode lines; each is of 40 steps. None without speculation."""
    lengths = [float(value) for value in re.findall(r"Decode batch.*?accept len: ([0-9.]+)", text)]
    return sum(lengths) / len(lengths) if lengths else None


_DECODE = re.compile(r"Decode batch.*?cuda graph: (?:True|False)")
_CAPTURE = re.compile(r"Capture (target verify|draft decode|draft extend|draft|decode|prefill)? ?(?i:cuda graph) begin")
_LOOKUP = re.compile(
    r"\[fused_moe\] (?:"
    r"using (?:1stage|2stage) \((?P<kernels>kernelName[^)]*)\)|using (?P<default>[12]stage default)|"
    r"no tuned FlyDSL config"
    r") for \((?P<key>[^)]*)\)"
)
_RANK = re.compile(r"\bTP(\d+)\b|\bpid[=: ]*(\d+)")


def _findings(early: list[str], late: list[str]) -> Iterable[LogFinding]:
    for signature, pattern in _patterns():
        hits = [line for line in late if pattern.search(line)]
        if not signature.steady:
            hits = [line for line in early if pattern.search(line)] + hits
        if hits:
            is_steady = any(pattern.search(line) for line in late)
            line = hits[0].strip()[:400]
            yield LogFinding(signature=signature.id, count=len(hits), line=line, is_steady=is_steady)


def _lookups(lines: list[str]) -> Iterable[Lookup]:
    seen: dict[tuple[str, tuple[str, ...], bool], Counter[str]] = {}
    for line in lines:
        match = _LOOKUP.search(line)
        if not match:
            continue
        kernels = tuple(re.findall(r"kernelName\d?='?([^',)]*)'?", match["kernels"] or ""))
        rank = _RANK.search(line)
        label = (rank[1] or rank[2]) if rank else ""
        identity = (lookup_key(match["key"]), kernels, match["kernels"] is not None)
        seen.setdefault(identity, Counter())[label] += 1
    for (key, kernels, is_tuned), times in seen.items():
        yield Lookup(key=key, kernels=kernels, is_tuned=is_tuned, times=tuple(sorted(times.items())))


def lookup_key(text: str) -> str:
    """A MoE key as one string, whether a log line or a table row wrote it: no quotes, no spaces, bools as 0 and 1."""
    words = [word.strip().strip("'\"") for word in text.split(",")]
    return ",".join({"True": "1", "False": "0"}.get(word, word) for word in words)
