"""A repository to read refs from: a local one as it is, a remote one through a cached clone without blobs."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from rocmfix.errors import SourceError
from rocmfix.releases import as_version
from rocmfix.source.spec import GitSpec, without_secrets
from rocmfix.system import files, terminal
from rocmfix.system.git import GitError, toplevel
from rocmfix.system.repo import Repo, new_repo

_COMMIT = re.compile(r"[0-9a-f]{40}")
_FROZEN = ("refs/tags/", "refs/commits/")
"""Refs that do not move: once cached, no network is needed to know them."""


@dataclass(frozen=True)
class Remote:
    """Where refs come from. `repo` holds commits and trees; blobs of a remote one come when they are needed."""

    spec: GitSpec
    repo: Repo
    lock: Path | None
    offline: bool
    present: set[str] = field(default_factory=set)
    """Blobs that are known to be here."""

    @classmethod
    def at(cls, spec: GitSpec, *, offline: bool) -> Remote:
        """Open the place that `spec` names, making its cache on first use."""
        if spec.is_local:
            return cls(spec, Repo(_local(Path(spec.where))), None, offline)
        cache = files.cache_home("rocmfix") / "git"
        name = hashlib.sha256(without_secrets(spec.where).encode()).hexdigest()[:16]
        folder, lock = cache / f"{name}.git", cache / f".lock-{name}"
        with files.locked(lock):
            if not (folder / "config").exists():
                with files.new_folder(folder) as fresh:
                    new_repo(fresh)
        return cls(spec, Repo(folder, user_config=True), lock, offline)

    def commit(self, ref: str) -> str:
        """The commit that `ref` names, fetched unless it is here and cannot have moved."""
        if self.lock is None:
            found = self.repo.resolve(f"{ref}^{{commit}}")
            if found is None:
                raise SourceError(
                    f"{self.spec.source}: there is no such ref", hint=f"git -C {self.spec.where} branch -a"
                )
            return found
        with files.locked(self.lock):
            known = self._known(ref)
            if known and (self.offline or known.startswith(_FROZEN)):
                return self._commit_of(known)
            if self.offline:
                raise SourceError(
                    f"offline, and {self.spec.source} is not in the cache {self.repo.folder}",
                    hint="run once without --offline",
                )
            return self._commit_of(self._fetch(ref))

    def need(self, blobs: Iterable[str]) -> None:
        """Have these blobs here, fetching all that are missing at once."""
        if self.lock is None:  # a local repository has them, and which they are is not even asked
            return
        wanted = set(blobs) - self.present
        if not wanted:
            return
        missing = sorted(wanted - self._here(wanted))
        if missing and self.offline:
            raise SourceError(
                f"offline, and {len(missing)} file(s) of {self.spec.source} are not in the cache {self.repo.folder}",
                hint="run the same command once without --offline",
            )
        if missing:
            with files.locked(self.lock):
                self._run_fetch(missing, "--recurse-submodules=no")
        self.present.update(wanted)

    def release(self, commit: str, ref: str) -> str | None:
        """What the ref's name claims, else the newest release tag below the commit that is known here."""
        if as_version(ref):
            return ref.removeprefix("v")
        said = self.repo.run("describe", "--tags", "--match", "v[0-9]*", commit, check=False)
        return None if said.code else said.text.removeprefix("v")

    def _known(self, ref: str) -> str | None:
        """The cached ref that `ref` stands for; a tag goes before a branch, as in git."""
        names = [f"refs/commits/{ref}"] if _COMMIT.fullmatch(ref) else [f"refs/tags/{ref}", f"refs/heads/{ref}"]
        names += [f"refs/{ref}", f"refs/other/{ref}"]
        return next((name for name in names if self.repo.resolve(f"{name}^{{commit}}")), None)

    def _commit_of(self, name: str) -> str:
        found = self.repo.resolve(f"{name}^{{commit}}")
        if found is None:
            raise SourceError(f"{self.spec.source} is no commit")
        return found

    def _fetch(self, ref: str) -> str:
        """Fetch the commit of `ref` and its trees, without history and without blobs; return where it is kept."""
        if _COMMIT.fullmatch(ref):
            there, kept = ref, f"refs/commits/{ref}"
        else:
            there = self._advertised(ref)
            kept = there if there.startswith("refs/") else f"refs/other/{there}"
        self._run_fetch([f"+{there}:{kept}"], "--depth=1")
        return kept

    def _advertised(self, ref: str) -> str:
        """The full name of `ref` at the remote: a tag before a branch before anything else."""
        said = self.repo.run("ls-remote", "--end-of-options", self.spec.where, ref, check=False)
        if said.code:
            raise self._refused(said.err)
        names = [line.partition("\t")[2] for line in said.text.splitlines()]
        wanted = (f"refs/tags/{ref}", f"refs/heads/{ref}", f"refs/{ref}", ref)
        found = next((name for name in wanted if name in names), None)
        if found is None:
            raise SourceError(
                f"{self.spec.source}: there is no such ref",
                details=tuple(f"there is: {name}" for name in names[:5]),
                hint="give a tag, a branch, pull/N/head, or a whole commit id",
            )
        return found

    def _run_fetch(self, what: Iterable[str], *flags: str) -> None:
        # The URL comes by the environment: it may hold a password, which neither `ps` nor the cache shall see.
        url = {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "remote.origin.url", "GIT_CONFIG_VALUE_0": self.spec.where}
        # git's own lazy fetches ask in this way too: https://git-scm.com/docs/partial-clone
        algorithm = ("-c", "fetch.negotiationAlgorithm=noop")
        fetch = (*algorithm, "fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--filter=blob:none", *flags)
        terminal.say(f"fetching {self.spec.source}")
        try:
            self.repo.run(*fetch, "--stdin", "origin", data="\n".join(what).encode() + b"\n", env=url)
        except GitError as error:
            raise self._refused("\n".join(error.details)) from error

    def _refused(self, said: str) -> SourceError:
        return SourceError(
            f"cannot fetch {self.spec.source}",
            details=tuple(without_secrets(line) for line in said.splitlines()[-20:]),
            hint="git uses your own settings (proxy, credentials); a cached ref is read with --offline",
        )

    def _here(self, blobs: set[str]) -> set[str]:
        """Which of `blobs` are here. Asking with --batch-check would fetch each one: the whole list does not."""
        said = self.repo.run("cat-file", "--batch-all-objects", "--unordered", "--batch-check=%(objectname)")
        return blobs & set(said.text.splitlines())


def _local(path: Path) -> Path:
    top = toplevel(path.resolve()) if path.is_dir() else None
    if top is None and not (path / "objects").is_dir():
        raise SourceError(f"{path} is no git repository", hint="give its folder, or a URL")
    return top or path
