"""What a long command says while it works, the way Docker's own client says it: steps, bytes, elapsed."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import IO

from rocmfix.system.docker import Event
from rocmfix.system.redact import redact


class Progress:
    """Writes to a stream, usually stderr: one line a step, and on a terminal one live line of bytes below it.

    Whatever it is told goes through the redactor first: what the engine prints is not ours to trust.
    """

    def __init__(self, stream: IO[str], secrets: Sequence[str] = ()) -> None:
        self._stream = stream
        self._secrets = tuple(secrets)
        self._live = stream.isatty()
        self._layers: dict[str, tuple[int, int]] = {}
        self._shown_at = 0.0
        self._dirty = False

    @contextmanager
    def step(self, title: str) -> Iterator[None]:
        """One stage: its name, and how long it took once it is done."""
        start = time.monotonic()
        self._layers.clear()
        if self._live:
            self._rewrite(f"   {title}")
        yield
        self._line(f"=> {title}  {time.monotonic() - start:.1f}s")

    def note(self, text: str) -> None:
        """A line of its own."""
        self._line(f"   {text}")

    def listen(self, event: Event) -> None:
        """Take what the engine says: build lines as they are, layers as one sum."""
        if event.layer and event.total:
            self._layers[event.layer] = (event.done, event.total)
            self._bytes()
        elif not event.layer:
            for line in event.text.splitlines():
                if line.strip() and not line.startswith(" --->"):
                    self._line(f"   {line.rstrip()}")

    def bytes(self, done: int, total: int) -> None:
        """So many bytes of so many."""
        self._layers["all"] = (done, total)
        self._bytes()

    def _bytes(self) -> None:
        now = time.monotonic()
        if not self._live or now - self._shown_at < 0.1:
            return
        self._shown_at = now
        done, total = (sum(each) for each in zip(*self._layers.values(), strict=True))
        self._rewrite(f"   {size(done)} of {size(total)}")

    def _line(self, text: str) -> None:
        self._clear()
        self._stream.write(redact(text, self._secrets) + "\n")
        self._stream.flush()

    def _rewrite(self, text: str) -> None:
        self._stream.write("\r\x1b[2K" + redact(text, self._secrets))
        self._stream.flush()
        self._dirty = True

    def _clear(self) -> None:
        if self._dirty:
            self._stream.write("\r\x1b[2K")
            self._dirty = False


def size(count: float) -> str:
    """Bytes as Docker writes them: decimal, three digits."""
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:.3g} TB"
