"""Fetches a file over HTTP: whole, bounded in size and time, or an error."""

from __future__ import annotations

import urllib.error
import urllib.request

from rocmfix.errors import SourceError

LIMIT = 64 << 20


def get(url: str, *, limit: int = LIMIT, timeout: float = 60) -> bytes:
    """The bytes at `url`. Raises SourceError when it cannot be had, or is larger than `limit`."""
    if not url.startswith(("https://", "http://")):
        raise SourceError(f"{url} is not a web address")
    try:
        with urllib.request.urlopen(url, timeout=timeout) as response:  # noqa: S310 - the scheme is checked above
            data: bytes = response.read(limit + 1)
    except (urllib.error.URLError, TimeoutError, OSError, ValueError) as error:
        raise SourceError(
            f"{url} cannot be fetched: {error}", hint="fetch it once with a network; it is kept"
        ) from None
    if len(data) > limit:
        raise SourceError(f"{url} is larger than {limit >> 20} MiB")
    return data
