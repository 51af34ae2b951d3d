"""Fetches a file over HTTP: whole, bounded in size and time, or an error."""

from __future__ import annotations

import http.client
import urllib.request

from rocmfix.errors import SourceError

LIMIT = 64 << 20


def get(url: str, *, limit: int = LIMIT, timeout: float = 60) -> bytes:
    """The bytes at `url`. Raises SourceError when it cannot be had, or is larger than `limit`."""
    if not url.startswith(("https://", "http://")):
        raise SourceError(f"{url} is not a web address")
    hint = "fetch it once with a network; it is kept"
    try:
        with urllib.request.urlopen(url, timeout=timeout) as response:  # noqa: S310 - the scheme is checked above
            data: bytes = response.read(limit + 1)
            missing = response.length or 0
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise SourceError(f"{url} cannot be fetched: {error}", hint=hint) from None
    if len(data) > limit:
        raise SourceError(f"{url} is larger than {limit >> 20} MiB")
    if missing:
        raise SourceError(f"{url} cannot be fetched: it ends {missing} bytes early", hint=hint)
    return data
