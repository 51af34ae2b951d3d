"""What the table verbs read and write: the AITER, the files that a user names, and lines on the terminal."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from rocmfix.aiter.layout import AiterTree
    from rocmfix.aiter.reader import TableFile


def opened(spec: str) -> AiterTree:
    """The AITER tree that a user names; of an image with the ENV by which it chooses its tables."""
    from rocmfix.aiter.layout import AiterTree
    from rocmfix.source import open_tree

    if spec.startswith("image:") or _reads_like_an_image(spec):
        from rocmfix.image.source import open_aiter

        return open_aiter(spec.removeprefix("image:"))
    return AiterTree(open_tree(spec, project="aiter"))


def _reads_like_an_image(spec: str) -> bool:
    """`name:tag` or `name@digest`, and nothing of that name lies here."""
    return not spec.startswith("git:") and (":" in spec or "@" in spec) and not Path(spec).exists()


def table_file(path: Path) -> TableFile:
    """A CSV a user names."""
    from rocmfix.aiter.reader import TableFile

    return TableFile(str(path), contents(path))


def contents(path: Path) -> bytes:
    """What a file that a user names holds."""
    from rocmfix.errors import TableError

    try:
        return path.read_bytes()
    except OSError as error:
        raise TableError(f"{path} cannot be read: {error.strerror}", hint="name a file that is there") from None


def writable(output: Path, *read: Path) -> Path:
    """`output`, which may not be one of the files that are read, or what other programs call stdout."""
    from rocmfix.errors import TableError

    if str(output) == "-":
        raise click.UsageError("what is written is a file: name it")
    for path in read:
        if output.exists() and path.exists() and output.samefile(path):
            raise TableError(f"{output} is one of the files that are read", hint="name another file to write")
    return output


def say(lines: Iterable[str], *, err: bool = False) -> None:
    """Lines on stdout, or stderr; what a table or a file is called may not drive the terminal."""
    from rocmfix.shown import printable

    for line in lines:
        click.echo(printable(line), err=err)
