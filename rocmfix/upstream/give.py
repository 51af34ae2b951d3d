"""Pushes a pack's branch and opens its pull request, or brings the open one up to date."""

from __future__ import annotations

import re

from rocmfix.errors import GiveBackError
from rocmfix.system.git import Git, GitError
from rocmfix.system.github import GitHub, url_of
from rocmfix.system.repo import Repo
from rocmfix.upstream.records import Pack

_OWNER = re.compile(r"[:/]([A-Za-z0-9-]+)/[A-Za-z0-9._-]+?(?:\.git)?/?$")


def give(pack: Pack, repo: Repo, remote: str, github: GitHub) -> Pack:
    """Push to `remote` and open the pull request; as a draft while something is still to be filled in."""
    github.need_token("open a pull request")
    owner = _owner(repo, remote)
    _push(repo, remote, pack.branch)
    try:
        return pack.model_copy(update={"url": _opened(pack, owner, github)})
    except GiveBackError as error:
        how_far = f"{pack.branch} is pushed to {remote}; its pull request was neither opened nor updated"
        raise GiveBackError(error.message, details=(*error.details, how_far), hint=error.hint) from None


def _opened(pack: Pack, owner: str, github: GitHub) -> str:
    """The URL of the pull request: of the one that is open, brought up to date, or of a new one."""
    path = f"/repos/{pack.repository}/pulls"
    there = github.find(path, head=f"{owner}:{pack.branch}", state="open")
    if there:
        return url_of(github.patch(f"{path}/{there[0]['number']}", {"title": pack.title, "body": pack.body}))
    return url_of(github.post(path, _request(pack, owner)))


def _request(pack: Pack, owner: str) -> dict[str, object]:
    return {
        "title": pack.title,
        "body": pack.body,
        "head": f"{owner}:{pack.branch}",
        "base": pack.base,
        "draft": bool(pack.todo),
        "maintainer_can_modify": True,
    }


def _owner(repo: Repo, remote: str) -> str:
    """Whose fork `remote` is: the head of a pull request names it."""
    said = repo.run("remote", "get-url", "--push", "--end-of-options", remote, check=False)
    found = _OWNER.search(said.text)
    if said.code or not found:
        raise GiveBackError(
            f"{repo.folder} has no remote {remote!r} that is a fork" if said.code else f"{remote} names no owner",
            hint="git remote add fork git@github.com:YOU/sglang.git; then --remote fork",
        )
    return found[1]


def _push(repo: Repo, remote: str, branch: str) -> None:
    """Push as the user would: with their credentials, and never over something else."""
    try:
        Git(repo.folder, user_config=True).run("push", "--quiet", remote, f"refs/heads/{branch}:refs/heads/{branch}")
    except GitError as error:
        raise GiveBackError(
            f"git could not push {branch} to {remote}", details=error.details, hint="push it by hand to see why"
        ) from None
