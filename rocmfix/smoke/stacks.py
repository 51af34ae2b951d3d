"""Lists the processes of a server from where it runs, and what each waits for; standard library, sent in as text."""

from __future__ import annotations

import json
import os
from pathlib import Path


def servers(proc: Path) -> list[dict[str, str]]:
    """The processes whose command line names sglang, without this one."""
    found = []
    for entry in sorted((entry for entry in proc.glob("*") if entry.name.isdigit()), key=lambda entry: int(entry.name)):
        command = text(entry / "cmdline").replace("\0", " ").strip()
        if "sglang" in command and int(entry.name) != os.getpid() and "python" in command:
            found.append({"pid": entry.name, "command": command[:160], "waits": text(entry / "wchan")})
    return found


def text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""


if __name__ == "__main__":
    print(json.dumps(servers(Path("/proc"))))  # noqa: T201 - its answer
