"""Finds the rocmfix commands in shell text, and holds them against the click tree."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator

import click

from rocmfix.cli import main


def commands(text: str) -> Iterator[tuple[str, ...]]:
    """Every call of rocmfix in a piece of shell, as its words; what stands inside `$(...)` is found too."""
    text = re.sub(r"\\\n\s*", " ", text)
    while found := re.search(r"\$\(([^()]*)\)", text):
        yield from commands(found[1])
        text = text[: found.start()] + "VALUE" + text[found.end() :]
    for line in text.splitlines():
        yield from _of_line(line)


def _of_line(line: str) -> Iterator[tuple[str, ...]]:
    if line.lstrip().startswith("#"):
        return
    lexer = shlex.shlex(line, posix=True, punctuation_chars="();<>|&")
    lexer.whitespace_split = True
    words: list[str] = []
    for word in (*lexer, ";"):
        if not set(word) <= set("();<>|&"):
            words.append(word)
            continue
        starts = [i for i, each in enumerate(words) if each == "rocmfix" or each.endswith("/bin/rocmfix")]
        if starts and words[: starts[0]] in ([], ["exec"], ["time"], ["sudo"]):
            # A variable that stands unquoted is further options: none of ours to judge.
            yield tuple(each for each in words[starts[0] + 1 :] if each != "$OPTIONS")
        words = []


def complaint(words: tuple[str, ...]) -> str | None:
    """What click would say of these words after `rocmfix`: a verb or flag that is not there, a value that is missing."""
    command: click.Command = main
    rest = list(words)
    context = click.Context(command, info_name="rocmfix")
    while isinstance(command, click.Group):
        try:
            command.parse_args(context, rest)
            name, found, rest = command.resolve_command(context, [*context._protected_args, *context.args])
        except click.UsageError as error:
            return error.message
        if found is None:
            return f"no command {name}"
        command, context = found, click.Context(found, info_name=name, parent=context)
    return _parsed(command, context, rest)


def _parsed(command: click.Command, context: click.Context, rest: list[str]) -> str | None:
    try:
        _, left, order = command.make_parser(context).parse_args(list(rest))
    except click.UsageError as error:
        return error.message
    given = {parameter.name for parameter in order}
    missing = [p.opts[0] for p in command.params if isinstance(p, click.Option) and p.required and p.name not in given]
    if missing:
        return f"{' '.join(rest)}: needs {missing[0]}"
    return f"{left[0]}: one argument too many" if left and not context.allow_extra_args else None
