"""Tells the time, for records that say when something was done."""

from __future__ import annotations

import email.utils
from datetime import datetime, timezone


def mail_date() -> str:
    """Now, as RFC 2822 writes it."""
    return email.utils.formatdate()


def now() -> str:
    """The time, in UTC, to the second."""
    return datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
