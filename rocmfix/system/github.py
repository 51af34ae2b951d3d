"""Speaks GitHub's REST API; the token comes from the environment and goes nowhere but into requests."""

from __future__ import annotations

import json
import os
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from rocmfix.errors import GiveBackError

_TOKENS = ("GH_TOKEN", "GITHUB_TOKEN")
_SECONDS = 30
_LOOPBACK = ("127.0.0.1", "localhost", "::1")


class NotThereError(GiveBackError):
    """The API answers, and has no such thing (or shows it to nobody without a token)."""


@dataclass(frozen=True)
class GitHub:
    """The API at `url`."""

    url: str
    token: str | None = field(default=None, repr=False)

    @classmethod
    def from_environment(cls) -> GitHub:
        """As `gh` and GitHub's own runners find it: GITHUB_API_URL, and GH_TOKEN or GITHUB_TOKEN."""
        url = os.environ.get("GITHUB_API_URL") or "https://api.github.com"
        # A token read from a file ends with a newline, which no header may.
        token = next(filter(None, (os.environ.get(name, "").strip() for name in _TOKENS)), None)
        return cls(url.rstrip("/"), token)

    def need_token(self, what: str) -> None:
        """Raise GiveBackError when there is no token to do `what` with."""
        if not self.token:
            raise GiveBackError(
                f"no token to {what} with", hint=f"set {' or '.join(_TOKENS)}; it is not stored or shown"
            )

    def get(self, path: str, **query: str | int) -> Any:
        """What lies at `path`."""
        asked = f"?{urllib.parse.urlencode(query)}" if query else ""
        return self._ask("GET", path + asked, None)

    def find(self, path: str, **query: str) -> list[dict[str, Any]]:
        """The numbered things (issues, pull requests) that lie at `path` and are as `query` says."""
        found = self.get(path, **query)
        if isinstance(found, list) and all(isinstance(each, dict) and "number" in each for each in found):
            return found
        raise _not_github(path)

    def post(self, path: str, body: Mapping[str, Any]) -> Any:
        """Make something at `path`."""
        return self._ask("POST", path, body)

    def patch(self, path: str, body: Mapping[str, Any]) -> Any:
        """Change what is at `path`."""
        return self._ask("PATCH", path, body)

    def _ask(self, method: str, path: str, body: Mapping[str, Any] | None) -> Any:
        request = urllib.request.Request(  # noqa: S310 - the scheme is looked at in _headers
            f"{self.url}{path}",
            data=None if body is None else json.dumps(body).encode(),
            headers=self._headers(),
            method=method,
        )
        try:
            with self._opener.open(request, timeout=_SECONDS) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            with error:
                raise _refused(error, method, path) from None
        except (urllib.error.URLError, TimeoutError, OSError) as error:
            reason = getattr(error, "reason", error)
            raise GiveBackError(
                f"{self.url} does not answer: {reason}", hint="check the network and the proxy"
            ) from None
        except ValueError:
            raise GiveBackError(f"{method} {path}: the answer is no JSON", hint="is GITHUB_API_URL right?") from None

    @property
    def _opener(self) -> urllib.request.OpenerDirector:
        # A proxy's loopback is not ours.
        is_near = urllib.parse.urlsplit(self.url).hostname in _LOOPBACK
        proxies = [urllib.request.ProxyHandler({})] if is_near else []
        return urllib.request.build_opener(_SameHost, *proxies)

    def _headers(self) -> dict[str, str]:
        parts = urllib.parse.urlsplit(self.url)
        if parts.scheme != "https" and not (parts.scheme == "http" and parts.hostname in _LOOPBACK):
            raise GiveBackError(
                f"the API must be reached by https, not {parts.scheme or 'nothing'}: it is sent a token"
            )
        headers = {
            "Accept": "application/vnd.github+json",
            "X-GitHub-Api-Version": "2022-11-28",
            "User-Agent": "rocmfix",
        }
        return {**headers, "Authorization": f"Bearer {self.token}"} if self.token else headers


def url_of(said: Any) -> str:
    """Where a person finds what was made or changed."""
    if isinstance(said, dict) and isinstance(said.get("html_url"), str):
        return str(said["html_url"])
    raise _not_github("the request")


def _not_github(what: str) -> GiveBackError:
    return GiveBackError(f"the answer to {what} is not GitHub's", hint="is GITHUB_API_URL right?")


class _SameHost(urllib.request.HTTPRedirectHandler):
    """Follows redirects (a renamed repository) on the same host only: the token travels with the request."""

    def redirect_request(self, req: Any, *rest: Any, **named: Any) -> Any:
        """None refuses: urllib then reports the redirect as the error it is for us."""
        request = super().redirect_request(req, *rest, **named)
        old, new = urllib.parse.urlsplit(req.full_url), urllib.parse.urlsplit(request.full_url if request else "")
        return request if (old.scheme, old.netloc) == (new.scheme, new.netloc) else None


def _refused(error: urllib.error.HTTPError, method: str, path: str) -> GiveBackError:
    try:
        said = json.loads(error.read())
        details = [str(said.get("message", "")), *(str(each.get("message", each)) for each in said.get("errors", ()))]
    except (ValueError, AttributeError, OSError):
        details = []
    kind = NotThereError if error.code == 404 else GiveBackError
    shown = path.partition("?")[0]
    return kind(
        f"GitHub refused {method} {shown} ({error.code})", details=tuple(filter(None, details)), hint=_hint(error.code)
    )


def _hint(code: int) -> str:
    known = {
        401: "the token is wrong or has expired",
        403: "the token lacks the right (pull requests: write; issues: write), or the rate limit is reached",
        404: "no such repository or number, or the token may not see it",
        422: "GitHub read the request and finds it wrong; see above",
    }
    return known.get(code, "try again")
