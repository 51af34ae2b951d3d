"""Opens the clone that a pull request is made in, at the branch it is meant for."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from rocmfix.errors import GiveBackError, SourceError
from rocmfix.source.layout import PROJECTS
from rocmfix.system.git import Git
from rocmfix.system.repo import Blobs, Commit, Repo, Signature, open_repo

REPOSITORIES = {"sglang": "sgl-project/sglang", "aiter": "ROCm/aiter"}


@dataclass(frozen=True)
class RefTree:
    """A project's tree at one commit of a local clone, in the repository's own layout."""

    repo: Repo
    commit: str
    source: str
    blobs: Blobs = field(repr=False)
    release: str | None = None

    def read(self, path: str) -> bytes | None:
        return self.blobs.read(f"{self.commit}:{path}") if path in self._entries else None

    def shown(self, path: str) -> str:
        return path

    def paths(self, under: str) -> tuple[str, ...]:
        prefix = under.rstrip("/") + "/" if under else ""
        return tuple(sorted(path for path in self._entries if path.startswith(prefix)))

    @cached_property
    def _entries(self) -> frozenset[str]:
        return frozenset(path for path, entry in self.repo.entries(self.commit).items() if entry.mode != "160000")


@dataclass(frozen=True)
class Onto:
    """Where a branch is to grow: a clone, the commit to stand on, and who commits."""

    repo: Repo
    project: str
    base: str
    """Upstream's name of the branch, such as `main`."""
    ref: str
    commit: Commit
    tree: RefTree
    committer: Signature

    @property
    def repository(self) -> str:
        return REPOSITORIES[self.project]

    def read(self, path: str) -> str | None:
        """A file of the base as text."""
        data = self.tree.read(path)
        return None if data is None else data.decode("utf-8", "replace")


def open_onto(folder: Path, base: str | None, blobs: Blobs, *, seconds: int) -> Onto:
    """The clone at `folder`, at `base` or else at upstream's main as it was last fetched.

    Raises SourceError when it is no clone of a project we know, GiveBackError when it names no base or committer.
    """
    repo = Repo(folder)
    ref = base or _main_of(repo)
    commit = repo.resolve(f"{ref}^{{commit}}") if ref else None
    if not ref or not commit:
        raise GiveBackError(
            f"{folder} has no {ref or 'branch of upstream'} to stand on",
            hint="git fetch it first, or name another: --base REF",
        )
    tree = RefTree(repo, commit, f"{folder} at {ref}", blobs)
    found = next(
        (name for name, project in PROJECTS.items() if tree.paths(f"{project.package}/{project.landmark}")), ""
    )
    if not found:
        raise SourceError(f"{folder} at {ref} holds neither {' nor '.join(PROJECTS)}", hint="give a clone of upstream")
    return Onto(repo, found, _branch(repo, ref), ref, repo.log(commit, limit=1)[0], tree, _committer(repo, seconds))


def open_clone(folder: Path) -> Repo:
    """The repository whose top is `folder`."""
    repo = open_repo(folder.resolve())
    if repo is None:
        raise SourceError(f"{folder} is not the top of a git checkout", hint="git clone upstream, and give that folder")
    return repo


def _main_of(repo: Repo) -> str | None:
    """Upstream's own main if a remote is upstream's, else that of `origin`, else the local one."""
    return next((ref for ref in _mains(repo) if repo.resolve(f"{ref}^{{commit}}")), None)


def _mains(repo: Repo) -> Iterator[str]:
    for line in repo.run("remote", "-v").text.splitlines():
        name, url = line.split()[:2]
        if url.removesuffix(".git").endswith(tuple(REPOSITORIES.values())):
            yield f"{name}/main"
    yield from ("origin/main", "origin/master", "main", "master")


def _branch(repo: Repo, ref: str) -> str:
    """`origin/main` is `main` there; a tag or commit keeps its name."""
    remotes = repo.run("remote").text.splitlines()
    head, _, rest = ref.partition("/")
    return rest if head in remotes and rest else ref


def _committer(repo: Repo, seconds: int) -> Signature:
    git = Git(repo.folder, user_config=True)
    name, email = (git.run("config", "--get", key, check=False).text for key in ("user.name", "user.email"))
    if not (name and email):
        raise GiveBackError(
            "git does not know who you are, and a pull request is yours",
            hint="git config user.name NAME; git config user.email ADDRESS",
        )
    return Signature(name, email, f"{seconds} +0000")
