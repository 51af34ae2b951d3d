"""A git checkout: one commit per fix that `git am` could have made, the same id on every machine."""

from __future__ import annotations

import email.utils
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import timezone
from pathlib import Path, PurePosixPath
from typing import TypeAlias

from rocmfix.errors import ApplyError
from rocmfix.hunks import Misfit, Way, apply_changes
from rocmfix.patchfile import Patch, parse_patch
from rocmfix.plan import Change, Patched
from rocmfix.source.folder import DirTree
from rocmfix.source.layout import PROJECTS
from rocmfix.system import git, journal
from rocmfix.system.files import read_inside
from rocmfix.system.repo import FILE, Blobs, Commit, Entry, Repo, Signature, open_repo
from rocmfix.verdict import Done

FIX = "Rocmfix-Fix"
PATCH = "Rocmfix-Patch"
REVERT = "Rocmfix-Revert"
NAME, EMAIL = "rocmfix", "rocmfix@users.noreply.github.com"

Files: TypeAlias = Mapping[str, "bytes | None"]
Stale: TypeAlias = Callable[[Iterable[str]], Mapping[str, None]]


@dataclass(frozen=True)
class Checkout:
    """A tree whose files a git repository tracks. `prefix` is where the tree lies below the repository's top."""

    tree: DirTree
    repo: Repo
    prefix: PurePosixPath

    def located(self, path: str) -> str:
        """The repository path `path` of the project as this checkout's repository spells it."""
        return str(self.prefix / self.tree.shown(path))

    def record(self) -> dict[str, Done]:
        """What our commits say was applied, by fix id; content still has to show it."""
        return {fix: Done(_variant(commit)) for fix, commit in self.ours().items()}

    def commit(self, patched: Patched, stale: Stale) -> tuple[str, ...]:
        """Write `patched` into the working tree and as one commit per fix on HEAD; return the commits.

        Other dirty files stay as they are: ROCm images are dirty by design. Raises ApplyError when a touched
        file is dirty or staged, with nothing changed.
        """
        head = self._head()
        after = {self.located(path): data for path, data in patched.after.items()}
        self._refuse_dirty(after)
        commits = self._write_commits(head, patched.changes, self.repo.with_crlf(after))
        before = {self.located(path): data for path, data in patched.before.items()}
        self._move((head, commits[-1]), before, after, stale, why=f"rocmfix: {len(commits)} fixes")
        return commits

    def revert(self, stale: Stale, *, dry_run: bool = False) -> tuple[str, ...]:
        """Drop our commits if nothing stands on them, else add commits that revert them; say what was done."""
        ours = self.ours()
        if not ours:
            raise ApplyError(f"no commit of rocmfix is in {self.tree.source}", hint="rocmfix check says what is there")
        head = self._head()
        run = self._run_at_head()
        if {commit.id for commit in ours.values()} <= {commit.id for commit in run}:
            target, said = run[-1].parents[0], [f"dropped {c.id[:12]} {c.subject}" for c in run]
        else:
            target, said = self._write_reverts(head, ours)
        after = self._difference(head, target)
        self._refuse_dirty(after)
        crlf = self.repo.with_crlf(after)
        after = {path: _crlf(data) if path in crlf and data else data for path, data in after.items()}
        if not dry_run:
            before = {path: read_inside(self.repo.folder, path) for path in after}
            self._move((head, target), before, after, stale, why="rocmfix: revert")
        return tuple(said)

    def _head(self) -> str:
        head = self.repo.head
        if head is None:
            raise ApplyError(f"{self.repo.folder} has no commit yet", hint="commit the tree first")
        return head

    def ours(self) -> dict[str, Commit]:
        """The newest commit of each fix that is applied and not reverted since."""
        found: dict[str, Commit | None] = {}
        for commit in self.repo.log(grep="^Rocmfix-") if self.repo.head else ():
            for key, value in commit.trailers:
                if key == REVERT:
                    found.setdefault(value, None)
                if key == FIX:
                    found.setdefault(value, commit)
        return {fix: commit for fix, commit in found.items() if commit}

    def _run_at_head(self) -> list[Commit]:
        run: list[Commit] = []
        for commit in self.repo.log(limit=100):
            # An amended commit holds somebody's work: it is reverted, never dropped.
            if commit.committer.email != EMAIL or not any(key == FIX for key, _ in commit.trailers):
                break
            run.append(commit)
        return run

    def _refuse_dirty(self, paths: Iterable[str]) -> None:
        changed = self.repo.changed(paths)
        if changed:
            raise ApplyError(
                f"{len(changed)} file(s) to be changed in {self.repo.folder} are not as committed; nothing was changed",
                details=tuple(f"{how}: {path}" for path, how in changed.items()),
                hint="commit, stash or restore them; other dirty files do not matter",
            )

    def _write_commits(self, head: str, changes: Iterable[Change], crlf: frozenset[str]) -> tuple[str, ...]:
        commits = [head]
        for change in changes:
            files = {self.located(path): data for path, data in change.files.items()}
            files = {path: _lf(data) if path in crlf and data else data for path, data in files.items()}
            author = author_of(change.patch)
            trailers = f"{FIX}: {change.step.fix}\n{PATCH}: {change.step.set}/{change.step.variant}\n"
            tree = self.repo.write_tree(commits[-1], self._entries(commits[-1], files))
            committer = Signature(NAME, EMAIL, author.date)
            message = change.patch.message + trailers
            commits.append(self.repo.write_commit(tree, [commits[-1]], message, author=author, committer=committer))
        return tuple(commits[1:])

    def _write_reverts(self, head: str, ours: Mapping[str, Commit]) -> tuple[str, list[str]]:
        said: list[str] = []
        for fix, commit in ours.items():
            files = self._reversed(head, commit)
            tree = self.repo.write_tree(head, self._entries(head, files))
            who = Signature(NAME, EMAIL, commit.author.date)
            message = (
                f'Revert "{commit.subject}"\n\nThis reverts commit {commit.id}.\n\n'
                f"Signed-off-by: {NAME} <{EMAIL}>\n{REVERT}: {fix}\n"
            )
            head = self.repo.write_commit(tree, [head], message, author=who, committer=who)
            said.append(f"added {head[:12]}, which reverts {commit.id[:12]} {commit.subject}")
        return head, said

    def _reversed(self, head: str, commit: Commit) -> dict[str, bytes | None]:
        patch = parse_patch(self.repo.format_patch(commit.id), commit.id[:12])
        with Blobs(self.repo) as blobs:
            result = apply_changes(patch.changes, lambda path: blobs.read(f"{head}:{path}"), Way.REVERSE)
        if isinstance(result, Misfit):
            raise ApplyError(
                f"{result.path}:{result.line} was edited after {commit.id[:12]}; nothing was reverted",
                details=(
                    f"the commit            {commit.subject}",
                    f"the commit left       {result.expects.strip()}",
                    f"the tree has          {result.has}",
                ),
                hint="git revert it by hand, or revert the later edit first",
            )
        return result.files

    def _entries(self, commit: str, files: Mapping[str, bytes | None]) -> dict[str, Entry | None]:
        there = self.repo.entries(commit, *files)
        return {
            path: None
            if data is None
            else Entry(there[path].mode if path in there else FILE, self.repo.write_blob(data))
            for path, data in files.items()
        }

    def _difference(self, head: str, target: str) -> dict[str, bytes | None]:
        before, after = self.repo.entries(head), self.repo.entries(target)
        changed = sorted(path for path in {*before, *after} if before.get(path) != after.get(path))
        with Blobs(self.repo) as blobs:
            return {path: blobs.read(after[path].blob) if path in after else None for path in changed}

    def _move(self, heads: tuple[str, str], before: Files, after: Files, stale: Stale, *, why: str) -> None:
        """Files, then HEAD, then the index; a failure on the way puts back what was done."""
        (head, target), at = heads, _At(self.repo)
        changes = {**after, **stale(after)}
        with journal.replaced(self.repo.folder, changes, expected=before, goal=target, reached=at.reached):
            self.repo.move("HEAD", target, old=head, why=why)
            try:
                at.stage(target, after)
            except BaseException:
                self.repo.move("HEAD", head, old=target, why="rocmfix: undone")
                raise


@dataclass(frozen=True)
class _At:
    """Where a repository stands, as the journal asks it."""

    repo: Repo

    def reached(self, commit: str, paths: Iterable[str]) -> bool:
        """Whether HEAD is at `commit`, so that its files must stay; the index is brought up to it."""
        if self.repo.head != commit:
            return False
        self.stage(commit, paths)
        return True

    def stage(self, commit: str, paths: Iterable[str]) -> None:
        """Put into the index what `commit` has at `paths`."""
        there = self.repo.entries(commit, *paths)
        self.repo.stage({path: there.get(path) for path in paths})


def recover(top: Path) -> tuple[str, ...]:
    """Put back what a killed run had written in the checkout at `top`, unless its commits were made already."""
    return journal.recover(top, _At(Repo(top)).reached)


def open_checkout(tree: DirTree) -> Checkout | None:
    """The checkout that `tree` is, or None: no repository, no git, or a repository that does not track it."""
    top = git.toplevel(tree.root.resolve())
    if top is None or not git.is_present():
        return None
    repo = open_repo(top)
    if repo is None:
        return None
    prefix = PurePosixPath(tree.root.resolve().relative_to(top))
    package = str(prefix / tree.shown(PROJECTS[tree.project.name].package + "/x")).rpartition("/")[0]
    return Checkout(tree, repo, prefix) if repo.staged(package) else None


def author_of(patch: Patch) -> Signature:
    """The author of `patch`, and when, as git writes it into a commit."""
    name, address = email.utils.parseaddr(patch.author)
    moment = email.utils.parsedate_to_datetime(patch.date)
    zone = moment.strftime("%z") or "+0000"
    seconds = int(moment.replace(tzinfo=moment.tzinfo or timezone.utc).timestamp())
    return Signature(name, address, f"{seconds} {zone}")


def _lf(data: bytes) -> bytes:
    return data.replace(b"\r\n", b"\n")


def _crlf(data: bytes) -> bytes:
    return _lf(data).replace(b"\n", b"\r\n")


def _variant(commit: Commit) -> str:
    return next((value.rpartition("/")[2] for key, value in commit.trailers if key == PATCH), "")
