"""Keeps one GitHub issue about drift: opened on the first event, brought up to date, commented on what is new."""

from __future__ import annotations

import re

from rocmfix.errors import GiveBackError
from rocmfix.system.github import GitHub, url_of
from rocmfix.upstream.watch import Watch

LABEL = "rocmfix-drift"
_LIMIT = 65_000
"""GitHub refuses longer bodies (65,536 characters)."""


def keep(github: GitHub, repository: str, now: Watch, text: str) -> str | None:
    """The issue's URL, or None when there is nothing to say and no issue is open."""
    if not re.fullmatch(r"[A-Za-z0-9-]+/[A-Za-z0-9._-]+", repository):
        raise GiveBackError(f"{repository[:80]!r} is no OWNER/REPO")
    github.need_token("keep an issue")
    path = f"/repos/{repository}/issues"
    there = github.find(path, labels=LABEL, state="open")
    body = {"title": f"{now.project} on ROCm: drift", "body": text[:_LIMIT]}
    if not there:
        if not now.events and not now.exit_code:
            return None
        return url_of(github.post(path, {**body, "labels": [LABEL]}))
    one = f"{path}/{there[0]['number']}"
    said = github.patch(one, body)
    if now.events:
        news = text.partition("## Since the last run")[2].partition("\n## ")[0].strip()
        github.post(f"{one}/comments", {"body": f"{now.day}\n\n{news}"[:_LIMIT]})
    return url_of(said)
