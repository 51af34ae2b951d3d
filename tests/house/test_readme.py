"""The READMEs are true: what they show is what the commands print, and every verb is named."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import re
import shlex
import struct
import subprocess
import sys
import termios
from pathlib import Path

import click
import pytest

from rocmfix.cli import main
from tests.conftest import WHEELS
from tests.house.test_house import ROOT, commands

README = ROOT.parent / "README.md"
TRANSCRIPT = re.compile(r"<!-- run: rocmfix (?P<args>.+?) -->\n```\n(?P<text>.*?)```\n", re.DOTALL)


@pytest.mark.upstream
def test_each_transcript_is_what_a_terminal_shows(tmp_path, request, release_tree):
    """`--update-golden` rewrites the README."""
    release_tree("0.5.14")  # the others are fetched by the command itself, as on a fresh machine

    def shown(found: re.Match[str]) -> str:
        text = _on_terminal([sys.executable, "-m", "rocmfix", *shlex.split(found["args"])], tmp_path)
        lines = "".join(f"{line.rstrip()}\n" for line in text.splitlines())
        return f"<!-- run: rocmfix {found['args']} -->\n```\n{lines.strip(chr(10))}\n```\n"

    text = README.read_text()
    true = TRANSCRIPT.sub(shown, text)
    if request.config.getoption("--update-golden"):
        README.write_text(true)
    assert README.read_text() == true
    assert TRANSCRIPT.search(text)


def _on_terminal(argv: list[str], folder: Path) -> str:
    """What `argv` writes to a terminal 100 characters wide, without colours."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 100, 0, 0))
    env = {**os.environ, "ROCMFIX_CACHE": str(WHEELS), "TERM": "xterm", "NO_COLOR": "1", "PYTHONPATH": str(ROOT.parent)}
    env.pop("COLUMNS", None)
    with (folder / "stderr").open("w+b") as errors:
        process = subprocess.Popen(argv, cwd=folder, env=env, stdout=theirs, stderr=errors)
    os.close(theirs)
    written = b""
    with contextlib.suppress(OSError):  # Linux ends a terminal that nobody holds with EIO
        while chunk := os.read(ours, 1 << 16):
            written += chunk
    os.close(ours)
    process.wait()
    assert written, (folder / "stderr").read_text()
    return re.sub(r"\x1b\[[0-9;]*m", "", written.decode())


def test_every_verb_is_named_in_a_readme():
    text = "".join(
        path.read_text() for path in (README, *ROOT.parent.glob("*/README.md"), *ROOT.parent.glob("docs/*.md"))
    )
    verbs = [path for path, command in commands(main) if path and not isinstance(command, click.Group)]
    missing = [path for path in verbs if f"rocmfix {path}" not in text]
    assert not missing


@pytest.mark.parametrize("path", [README, *ROOT.parent.glob("*/README.md")], ids=lambda path: str(path.parent.name))
def test_links_lead_somewhere(path: Path):
    for target in re.findall(r"\]\(([^)#:]+)\)", path.read_text()):
        assert (path.parent / target).exists(), target


def test_commands_in_the_readmes_exist():
    """No README names a verb or a long option that the command line does not have."""
    known = {path: {o for p in command.params for o in p.opts} for path, command in commands(main)}
    for path in (README, *ROOT.parent.glob("*/README.md")):
        for line in re.findall(r"^\s*(?:\.venv/bin/)?rocmfix ([^#\n|]*)", path.read_text(), re.MULTILINE):
            words = shlex.split(line.split("||")[0].split(">")[0], posix=True)
            verb = " ".join(words[:2]) if " ".join(words[:2]) in known else words[0]
            assert verb in known, line
            options = {word.split("=")[0] for word in words if word.startswith("--")}
            assert options <= known[verb] | {"--help"}, line
