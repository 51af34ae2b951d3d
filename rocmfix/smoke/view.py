"""Shows how a ladder goes: live on a terminal, one line a step elsewhere; always on standard error."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Protocol

import click

from rocmfix.smoke.records import Outcome, Rung
from rocmfix.smoke.report import printable

if TYPE_CHECKING:
    from rich.live import Live
    from typing_extensions import Self

MARKS = {
    Outcome.PASSED: ("passed", "green"),
    Outcome.FAILED: ("FAILED", "red"),
    Outcome.WARNING: ("warning", "yellow"),
    Outcome.NOT_JUDGED: ("not judged", "bright_black"),
}


class View(Protocol):
    """What a ladder tells while it walks."""

    def step(self, rung: str, doing: str) -> None:
        """Something begins."""

    def tokens(self, count: int) -> None:
        """Tokens came in; called from several threads."""

    def judged(self, rung: Rung) -> None:
        """A depth has its verdicts."""


class PlainView:
    """One line a step, for pipes and CI."""

    def step(self, rung: str, doing: str) -> None:
        click.echo(f"{rung}: {doing}", err=True)

    def tokens(self, count: int) -> None:
        """Too many to print."""

    def judged(self, rung: Rung) -> None:
        for verdict in rung.verdicts:
            if verdict.outcome in {Outcome.FAILED, Outcome.WARNING}:
                mark = MARKS[verdict.outcome][0]
                click.echo(printable(f"{rung.depth.label}: {mark} {verdict.check}: {verdict.reason}"), err=True)


class LiveView:
    """Which server, which question, tokens and elapsed time, redrawn in place."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.live import Live

        self._began = time.monotonic()
        self._lock = threading.Lock()
        self._tokens = 0
        self._now = ("", "")
        self._done: list[str] = []
        self._live: Live = Live(console=Console(stderr=True), refresh_per_second=4, get_renderable=self.drawn)

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def step(self, rung: str, doing: str) -> None:
        self._now = (rung, doing)

    def tokens(self, count: int) -> None:
        with self._lock:
            self._tokens += count

    def judged(self, rung: Rung) -> None:
        failures = [verdict.check for verdict in rung.verdicts if verdict.outcome is Outcome.FAILED]
        passes = sum(verdict.outcome is Outcome.PASSED for verdict in rung.verdicts)
        end = f"[red]FAILED {', '.join(failures)}[/]" if failures else "[green]ok[/]"
        self._done.append(f"{rung.depth.label:>8}  {passes} passed  {end}")

    def drawn(self) -> str:
        """The picture of now, in rich's markup."""
        elapsed = int(time.monotonic() - self._began)
        rung, doing = self._now
        clock = f"{elapsed // 60}:{elapsed % 60:02}"
        return "\n".join([*self._done, f"[bold]{rung:>8}[/]  {doing}  [cyan]{self._tokens} tokens[/]  {clock}"])
