"""Tells the time, for records that say when something was done."""

from __future__ import annotations

from datetime import datetime, timezone


def now() -> str:
    """The time, in UTC, to the second."""
    return datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
