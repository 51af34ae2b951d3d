"""The clock."""

from __future__ import annotations

import email.utils


def mail_date() -> str:
    """Now, as RFC 2822 writes it."""
    return email.utils.formatdate()
