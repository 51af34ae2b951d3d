"""Text from outside as it may be shown: cut where it is endless, and with nothing in it that drives a terminal."""

from __future__ import annotations

END = 300
"""Characters kept at either end: more than any kernel's name, so that a sentence around a long cell stays readable."""


def shown(text: str) -> str:
    """`text` printable, and without its middle where it is long."""
    left_out = len(text) - 2 * END
    return printable(text if left_out <= 0 else f"{text[:END]}[… {left_out} characters …]{text[-END:]}")


def printable(text: str) -> str:
    """`text` on one line, its control characters as escapes."""
    return "".join(char if char.isprintable() else f"\\x{ord(char):02x}" for char in text)
