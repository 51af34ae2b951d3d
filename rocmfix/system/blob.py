"""A layer as a stream that survives a cut connection and counts what it read."""

from __future__ import annotations

import io
from collections.abc import Callable

import requests
import urllib3

from rocmfix.errors import RegistryError

_CHUNK = 64 * 1024
_TRIES = 4


class Blob(io.RawIOBase):
    """Reads a blob from front to back. `count` is what came over the wire, including what a cut made us ask again."""

    def __init__(self, open_at: Callable[[int], requests.Response], size: int, pause: Callable[[float], None]) -> None:
        self._open_at = open_at
        self._size = size
        self._pause = pause
        self._response: requests.Response | None = None
        self._offset = 0
        self.count = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: object) -> int:
        view = memoryview(buffer)  # type: ignore[arg-type]
        if self._offset >= self._size:
            return 0
        data = self._some(min(len(view), _CHUNK))
        view[: len(data)] = data
        return len(data)

    def close(self) -> None:
        """Hang up: the rest of the layer is never asked for."""
        if self._response is not None:
            self._response.close()
        super().close()

    def _some(self, most: int) -> bytes:
        for attempt in range(_TRIES):
            try:
                data = self._connected().raw.read(most)
            except (requests.RequestException, urllib3.exceptions.HTTPError, OSError):
                data = b""
            if data:
                self._offset += len(data)
                self.count += len(data)
                return bytes(data)
            self._hang_up()
            self._pause(0.5 * 2**attempt)
        raise RegistryError(
            f"the connection was cut {_TRIES} times at byte {self._offset} of {self._size} of a layer",
            hint="the network or a proxy in between drops long answers; try again, or from a machine nearer by",
        )

    def _connected(self) -> requests.Response:
        if self._response is None:
            self._response = self._open_at(self._offset)
            if self._offset and self._response.status_code != 206:
                self._skip(self._response, self._offset)
        return self._response

    def _skip(self, response: requests.Response, count: int) -> None:
        """The server ignored our Range and began again: pass over what we have."""
        while count:
            data = response.raw.read(min(count, _CHUNK))
            if not data:
                raise OSError("cut while catching up")
            count -= len(data)
            self.count += len(data)

    def _hang_up(self) -> None:
        if self._response is not None:
            self._response.close()
            self._response = None
