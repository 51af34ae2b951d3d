"""How a registry is told who asks: HTTP Basic, or a bearer token fetched where the registry says."""

from __future__ import annotations

import base64
import re
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import requests

from rocmfix.errors import RegistryError

_FIELD = re.compile(r'(\w+)="([^"]*)"')
_LOOPBACK = ("127.", "localhost", "[::1]")


@dataclass(frozen=True)
class Credentials:
    """A user name and a password, which never shows in a representation."""

    user: str
    password: str = field(repr=False)

    @property
    def header(self) -> str:
        """The value of an HTTP `Authorization` header."""
        return "Basic " + base64.b64encode(f"{self.user}:{self.password}".encode()).decode()


class Login:
    """Sends requests, answering the registry's first 401 with what it asks for."""

    def __init__(self, session: requests.Session, credentials: Credentials | None) -> None:
        self.credentials = credentials
        self._session = session
        self._session.trust_env = True
        self._answers: dict[str, str] = {}

    def request(self, method: str, url: str, **more: Any) -> requests.Response:
        """Like requests.request; follows one authentication challenge."""
        headers = more.pop("headers", {})
        answer = self._send(method, url, headers, **more)
        if answer.status_code != 401:
            return answer
        challenge = answer.headers.get("WWW-Authenticate", "")
        answer.close()
        header = self._respond(challenge)
        if header is None or header == self._answers.get(method):
            return answer
        self._answers[method] = header
        return self._send(method, url, headers, **more)

    def _send(self, method: str, url: str, headers: dict[str, str], **more: Any) -> requests.Response:
        known = self._answers.get(method)
        return self._session.request(
            method,
            url,
            headers={**headers, **({"Authorization": known} if known else {})},
            auth=_no_netrc,
            **more,
        )

    def _respond(self, challenge: str) -> str | None:
        scheme, _, rest = challenge.partition(" ")
        if scheme.lower() == "basic":
            return self.credentials.header if self.credentials else None
        if scheme.lower() == "bearer":
            return self._token(dict(_FIELD.findall(rest)))
        return None

    def _token(self, fields: dict[str, str]) -> str | None:
        realm = fields.get("realm", "")
        where = urlsplit(realm)
        if where.scheme != "https" and not where.netloc.startswith(_LOOPBACK):
            raise RegistryError(
                f"the registry sends its users to {where.scheme or 'nowhere'}://{where.hostname or ''} for a token",
                details=("a password sent there could be read on the way",),
                hint="use the registry through https",
            )
        wanted = {name: fields[name] for name in ("service", "scope") if name in fields}
        headers = {"Authorization": self.credentials.header} if self.credentials else {}
        answer = self._session.get(realm, params=wanted, headers=headers, auth=_no_netrc, timeout=(10, 60))
        if answer.status_code != 200:
            return None
        token = answer.json()
        return f"Bearer {token.get('token') or token['access_token']}"


def _no_netrc(request: requests.PreparedRequest) -> requests.PreparedRequest:
    """Keep requests from replacing our header by an entry of ~/.netrc."""
    return request
