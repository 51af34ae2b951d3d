"""Shows what was measured before and after a change, and marks what was not as a TODO. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from rocmfix.upstream.records import Evidence, Measured, Shows, Side

_SMOKE = "`rocmfix smoke IMAGE --model DIR --depth 3,4,5`"
_FINE = ("passed", "not judged")

Rows = dict[tuple[str, str], dict[Side, Measured]]


def section(evidence: tuple[Evidence, ...], shows: Shows) -> str:
    """A table of both sides, where each was measured, and a visible TODO for a side that was not."""
    found = served(evidence)
    rows = _rows(found, (shows, Shows.BEHAVIOUR, Shows.OPERATION) if shows is Shows.ACCURACY else (shows,))
    lines = [*_table(rows), ""] if rows else []
    lines += [f"- {todo_mark(f'{shows.value} {side.value} the change')}" for side in missing(evidence, shows)]
    if rows:
        # The commands are long, and the same for both: they stand with the accuracy.
        flags = shows is Shows.ACCURACY
        lines += ["", *(f"- {record.side.value}: {where(record, with_commands=flags)}" for record in found)]
    return "\n".join(lines).strip()


def compiled(evidence: tuple[Evidence, ...], paths: Collection[str]) -> Iterator[str]:
    """What a compiler for HIP made of the changed files, before and after. Other files are another change's."""
    every = (_about(record, paths) for record in evidence if record.kind == "compile")
    found = [record for record in every if record.values]
    if found:
        tools = dict.fromkeys(f"{record.setup}, on sglang {record.release}" for record in found)
        yield f"Compiled as HIP, without a GPU ({'; '.join(map(_cell, tools))}):"
        yield ""
        yield from _table(_rows(found, tuple(Shows)))


def for_cuda(evidence: Iterable[Evidence], paths: Collection[str]) -> Iterator[str]:
    """What nvcc was seen to make of the kernels that the change of `paths` touches."""
    yield from dict.fromkeys(told for record in evidence if _is_about(record, paths) for told in record.for_cuda)


def served(evidence: Iterable[Evidence]) -> tuple[Evidence, ...]:
    """The records of a running server."""
    return tuple(record for record in evidence if record.kind != "compile")


def missing(evidence: Iterable[Evidence], shows: Shows) -> tuple[Side, ...]:
    """The sides of which nothing of that kind was measured on an AMD GPU."""
    real = [record for record in served(evidence) if record.device == "amd"]
    there = {record.side for record in real for value in record.values if value.shows is shows}
    return tuple(side for side in Side if side not in there)


def todo(evidence: tuple[Evidence, ...]) -> Iterator[str]:
    """What a person still has to measure or to say."""
    for shows in (Shows.ACCURACY, Shows.SPEED):
        for side in missing(evidence, shows):
            options = " --gsm8k 200" if shows is Shows.ACCURACY else ""
            yield f"{shows.value} {side.value} the change, on real hardware: {_SMOKE[:-1]}{options}`"
    for record in served(evidence):
        lacks = [name for name, value in (("image", record.image), ("GPU", record.gpus)) if not value]
        if lacks:
            yield f"{record.file} ({record.side.value}) does not say its {' and '.join(lacks)}"
        if record.device != "amd":
            yield f"{record.file} ({record.side.value}) was measured on {record.device}, not on an AMD GPU"


def todo_mark(what: str) -> str:
    """A hole that a reviewer sees."""
    return f"**TODO** {what}: not measured yet (image tag, GPU and flags with it)"


def where(record: Evidence, *, with_commands: bool = True) -> str:
    """The image, GPU and flags of a record: without them a number is worth nothing to a reviewer."""
    known = {
        "image": record.image,
        "digest": record.digest,
        "GPU": f"{len(record.gpus)}x {', '.join(sorted(set(record.gpus)))}" if record.gpus else None,
        "sglang": record.release,
        "model": record.model,
    }
    parts = [f"{name} {_cell(value)}" for name, value in known.items() if value]
    parts += [_cell(record.setup)] if record.setup else []
    parts += [f"**not an AMD GPU: {_cell(record.device)}**"] if record.device != "amd" else []
    parts += [] if record.image or record.gpus else ["image and GPU not recorded"]
    commands = record.commands if with_commands else ()
    return ", ".join(parts) + "".join(f"\n  - `{' '.join(command.split())}`" for command in commands)


def _about(record: Evidence, paths: Collection[str]) -> Evidence:
    """What a compile record says of `paths`, which a wheel spells without `python/`; of a header, what includes it."""
    names = {path.removeprefix("python/") for path in paths}
    there = tuple(
        value for value in record.values if value.what.removeprefix("python/").rpartition(" for ")[0] in names
    )
    is_proof = _is_about(record, paths)
    return record.model_copy(update={"values": there or (record.values if is_proof else ())})


def _is_about(record: Evidence, paths: Collection[str]) -> bool:
    names = {path.removeprefix("python/") for path in paths}
    return bool(names & {file.removeprefix("python/") for file in record.about})


def _rows(evidence: Iterable[Evidence], kinds: Collection[Shows]) -> Rows:
    rows: Rows = {}
    for record in evidence:
        for value in record.values:
            if value.shows in kinds:
                key = (value.what, value.at)
                there = rows.get(key, {}).get(record.side)
                if there and there.value != value.value:  # another record of this side says otherwise: both are shown
                    key = (f"{value.what} in {record.file}", value.at)
                rows.setdefault(key, {})[record.side] = value
    return {key: by for key, by in rows.items() if any(map(_is_news, by.values()))}


def _is_news(value: Measured) -> bool:
    """That a server starts and stays up is worth a line only where on one side it does not."""
    return value.shows is not Shows.OPERATION or not value.outcome or value.outcome not in _FINE


def _table(rows: Rows) -> list[str]:
    sides = (Side.BEFORE, Side.AFTER)
    lines = [
        f"| {_cell(what)} | " + " | ".join(_shown(by.get(side)) for side in sides) + " |"
        for (what, _), by in rows.items()
    ]
    return ["| measured | before | after |", "|---|---|---|", *dict.fromkeys(lines)]


def _shown(value: Measured | None) -> str:
    if value is None:
        return "not measured"
    outcome = f"**{value.outcome}**" if value.outcome == "failed" else value.outcome
    bound = f", bound {value.bound}" if value.bound else ""
    return _cell(value.value) + (f" ({outcome}{_cell(bound)})" if outcome else "")


def _cell(text: str) -> str:
    """Text from a record, harmless inside a table."""
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")
