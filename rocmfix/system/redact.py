"""Keeps secrets out of everything that is shown or stored."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable

_USERINFO = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*://)[^\s/@:\"']*:[^\s/@\"']+@")
_SECRET_NAME = re.compile(
    r"(?:^|_)(?:SECRETS?|PASSWORD|PASSWD|PASSPHRASE|CREDENTIALS?|API_?KEY|PRIVATE_?KEY)(?:_|$)|(?:^|_)(?:KEY|TOKEN)$",
    re.IGNORECASE,
)
MASK = "***"


def redact(text: str, secrets: Iterable[str] = ()) -> str:
    """`text` without the given secrets and without the credentials of any URL in it."""
    for secret in sorted((s for s in secrets if s), key=len, reverse=True):
        text = text.replace(secret, MASK)
    return _USERINFO.sub(rf"\g<scheme>{MASK}@", text)


def names_secret(variable: str) -> bool:
    """Whether a variable's name reads like a secret's: HF_TOKEN does, TOKENIZERS_PARALLELISM and MAX_TOKENS do not."""
    return _SECRET_NAME.search(variable) is not None


def has_credentials(text: str) -> bool:
    """Whether `text` holds a URL with a password in it."""
    return _USERINFO.search(text) is not None


def from_environment(names: Iterable[str]) -> dict[str, str]:
    """The values of the named environment variables; raises KeyError naming the first that is not set."""
    return {name: os.environ[name] for name in names}
