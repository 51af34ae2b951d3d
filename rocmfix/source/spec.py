"""Reads `git:REF`, `git:URL@REF` and `git:/path@REF`, and says them again without secrets."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rocmfix.errors import SourceError

UPSTREAM: Final = {
    "sglang": "https://github.com/sgl-project/sglang",
    "aiter": "https://github.com/ROCm/aiter",
}

# scheme://[user[:secret]@]host/path, then perhaps @ref
_URL = re.compile(r"(?P<where>[a-z+]+://(?:[^/@]*@)?[^/@]*/[^@]*)(?:@(?P<ref>.*))?", re.DOTALL)
# user@host:path as ssh takes it, then perhaps @ref
_SCP = re.compile(r"(?P<where>[\w.-]+@[\w.-]+:[^@]*)(?:@(?P<ref>.*))?", re.DOTALL)
_PATH = re.compile(r"(?P<where>[/~.][^@]*)(?:@(?P<ref>.*))?", re.DOTALL)
# What git check-ref-format lets through, and no revision syntax: @{...}, ^, ~, : and .. are not asked of a remote.
_REF = re.compile(r"(?!.*(?:\.\.|//|/\.|@\{))[A-Za-z0-9_][\w./+@-]*", re.ASCII)


@dataclass(frozen=True)
class GitSpec:
    """A ref of a repository. `where` is a URL, or a path when `is_local`."""

    where: str
    ref: str
    is_local: bool

    @property
    def source(self) -> str:
        """The spec as it may be shown: no password or token."""
        return f"git:{without_secrets(self.where)}@{self.ref}"


def parse_git(text: str, project: str) -> GitSpec:
    """Read what follows `git:`. A missing REF is HEAD; a missing place is upstream."""
    if found := _PATH.fullmatch(text):
        path = str(expanded(found["where"]).absolute())
        return GitSpec(path, _checked(found["ref"], text), is_local=True)
    if found := _URL.fullmatch(text) or _SCP.fullmatch(text):
        return GitSpec(found["where"], _checked(found["ref"], text), is_local=False)
    return GitSpec(UPSTREAM[project], _checked(text, text), is_local=False)


def expanded(text: str) -> Path:
    """The path `text`, its `~` replaced where that is somebody's home."""
    try:
        return Path(text).expanduser()
    except RuntimeError:  # no such user
        return Path(text)


def _checked(ref: str | None, text: str) -> str:
    if ref is None:
        return "HEAD"
    if not _REF.fullmatch(ref) or ref.endswith((".lock", "/", ".")):
        raise SourceError(
            f"git:{without_secrets(text)} names no ref",
            hint="git:v0.5.14, git:main, git:COMMIT, git:pull/123/head, git:URL@REF or git:/path@REF",
        )
    return ref


def without_secrets(text: str) -> str:
    """`text` with the user and password of every URL in it hidden."""
    return re.sub(r"(?<=://)[^/\s@]+(?=@)|(?<=://)[^/\s@:]*:(?!\d+(?:/|$))[^/\s@]*$", "***", text)
