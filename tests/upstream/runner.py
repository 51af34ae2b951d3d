"""Runs the shell steps of a workflow file here: real bash, real rocmfix, and just enough of GitHub around them."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
TOOLS = Path.home() / ".cache/rocmfix/tools"
"""Where ci/tools installs; found before a test's own home hides it."""
ELSEWHERE = ("Install rocmfix", "Log in", "Sign")
"""Steps for which this machine lacks the other side: an index with rocmfix in it, a login, an identity."""


@dataclass
class Runner:
    """One run of one workflow file, job by job."""

    workflow: Path
    work: Path
    context: dict[str, Any]
    ran: list[str] = field(default_factory=list)
    said: list[str] = field(default_factory=list)

    def job(self, name: str, matrix: dict[str, str] | None = None) -> dict[str, str]:
        """Run a job; its outputs. Raises AssertionError when a step fails."""
        whole = yaml.safe_load(self.workflow.read_text())
        job = whole["jobs"][name]
        context = {**self.context, "matrix": matrix or {}}
        env = _evaluated({**whole.get("env", {}), **job.get("env", {})}, context)
        steps: dict[str, dict[str, str]] = {}
        for step in job["steps"]:
            if "run" in step and step["name"] not in ELSEWHERE:
                self.ran.append(step["name"])
                outputs = self._step(step, {**env, **_evaluated(step.get("env", {}), context)})
                steps[step.get("id", "")] = outputs
        return _evaluated(job.get("outputs", {}), {"steps": {key: {"outputs": value} for key, value in steps.items()}})

    def _step(self, step: dict[str, str], env: dict[str, str]) -> dict[str, str]:
        outputs = self.work / "outputs"
        outputs.write_text("")
        shims = self.work / "bin"
        shims.mkdir(exist_ok=True)
        (shims / "rocmfix").write_text(f'#!/bin/sh\nPYTHONPATH="{ROOT}" exec "{sys.executable}" -m rocmfix "$@"\n')
        (shims / "rocmfix").chmod(0o755)
        given = {**os.environ, **env, "GITHUB_OUTPUT": str(outputs), "PATH": f"{shims}:{os.environ['PATH']}"}
        # As GitHub starts a step's shell.
        done = subprocess.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]],
            cwd=self.work, env=given, capture_output=True, text=True, check=False,
        )  # fmt: skip
        self.said.append(done.stdout + done.stderr)
        assert done.returncode == 0, f"{step['name']}: {done.stdout}{done.stderr}"
        return dict(line.split("=", 1) for line in outputs.read_text().splitlines())


def _evaluated(values: dict[str, Any], context: dict[str, Any]) -> dict[str, str]:
    return {
        name: re.sub(r"\$\{\{ *(.+?) *\}\}", lambda found: _value(found[1], context), str(value))
        for name, value in values.items()
    }


def _value(expression: str, context: dict[str, Any]) -> str:
    """`a.b.c`, or the first of `a.b || 'text'` that is something."""
    for part in expression.split(" || "):
        if part.startswith("'"):
            return part.strip("'")
        found: Any = context
        for name in part.split("."):
            found = found.get(name, "") if isinstance(found, dict) else ""
        if found:
            return str(found)
    return ""


def matrix(text: str) -> list[dict[str, str]]:
    """The jobs that `fromJSON(...)` makes of an output."""
    found: list[dict[str, str]] = json.loads(text)["include"]
    return found
