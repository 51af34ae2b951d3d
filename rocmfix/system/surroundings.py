"""Reads what this process was started among: environment variables, the clock, a CI service's summary file."""

from __future__ import annotations

import datetime as dt
import os
from pathlib import Path


def variable(name: str) -> str | None:
    """An environment variable, or None when it is unset or empty."""
    return os.environ.get(name) or None


def now() -> dt.datetime:
    """The time, with its zone."""
    return dt.datetime.now(dt.timezone.utc)


def add_to_step_summary(markdown: str) -> bool:
    """Append to the job summary of the CI service this runs in (GITHUB_STEP_SUMMARY), if it names one."""
    target = variable("GITHUB_STEP_SUMMARY")
    if target:
        with Path(target).open("a", encoding="utf-8") as summary:
            summary.write(markdown + "\n")
    return target is not None


def set_step_output(name: str, value: str) -> bool:
    """Set an output of the CI step this runs in (GITHUB_OUTPUT), if the service takes any."""
    target = variable("GITHUB_OUTPUT")
    if target:
        with Path(target).open("a", encoding="utf-8") as outputs:
            outputs.write(f"{name}={value}\n")
    return target is not None
