"""Progress: bars for a person, one line for a log, nothing on standard output."""

import io

import pytest

from rocmfix.system import terminal


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def report() -> None:
    with terminal.progress() as tasks, tasks.task("sglang 9.9", 2_000_000) as arrived:
        arrived(1_000_000)
        arrived(9_000_000)  # pip keeps a second copy for a moment


def test_a_log_gets_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    report()
    said = capsys.readouterr()
    assert (said.out, said.err) == ("", "fetching sglang 9.9 (2 MB)\n")


def test_a_terminal_gets_bars_that_never_overflow(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    screen = Terminal()
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr("sys.stderr", screen)
    report()
    assert "fetching sglang 9.9" in screen.getvalue()
    assert "2.0/2.0 MB" in screen.getvalue()
    assert capsys.readouterr().out == ""
