"""Merges three trees in a scratch repository, following renames."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path

from rocmfix.system.git import GitError, Said, version
from rocmfix.system.repo import Repo, Signature

_NOBODY = Signature("nobody", "nobody@localhost", "0 +0000")


@dataclass(frozen=True)
class Merge:
    """What came out: a tree (with conflict markers where it is not clean), and what git had to say."""

    tree: str
    conflicts: tuple[str, ...]
    messages: tuple[str, ...]

    @property
    def is_clean(self) -> bool:
        return not self.conflicts


def merge(repo: Repo, *, base: str, ours: str, theirs: str) -> Merge:
    """Merge the trees `ours` and `theirs`, which both came from `base`, without touching any work tree.

    `repo` gains objects: give a scratch one. Git before 2.38 has no `merge-tree --write-tree`; there the
    same is done in a temporary work tree.
    """
    root = _commit(repo, base)
    sides = (_commit(repo, ours, root), _commit(repo, theirs, root))
    if version() >= (2, 38):
        return _merge_tree(repo, *sides)
    return merge_in_work_tree(repo, root, *sides)


def _commit(repo: Repo, tree: str, *parents: str) -> str:
    return repo.write_commit(tree, parents, "side", author=_NOBODY, committer=_NOBODY)


def _merge_tree(repo: Repo, ours: str, theirs: str) -> Merge:
    said = repo.run("merge-tree", "--write-tree", "-z", "--name-only", "--messages", ours, theirs, check=False)
    if said.code not in {0, 1}:
        raise GitError(f"git merge-tree failed in {repo.folder}", details=tuple(said.err.splitlines()[-20:]))
    tree, _, rest = said.out.decode("utf-8", "surrogateescape").partition("\0")
    # Paths come only with conflicts; an empty field parts them from the messages.
    paths, _, messages = rest.partition("\0\0") if said.code else ("", "", rest.lstrip("\0"))
    return Merge(tree, tuple(filter(None, paths.split("\0"))), _messages(messages))


def _messages(fields: str) -> tuple[str, ...]:
    """The texts of `COUNT path... kind text`, repeated, all NUL-terminated."""
    words = fields.split("\0")
    texts: list[str] = []
    while words and words[0].isdigit():
        count = int(words[0])
        texts.append(words[count + 2].rstrip("\n"))
        words = words[count + 3 :]
    return tuple(texts)


def merge_in_work_tree(repo: Repo, base: str, ours: str, theirs: str) -> Merge:
    """The same with what every git has: the recursive strategy in a temporary work tree and index."""
    with tempfile.TemporaryDirectory(prefix="merge-") as folder:
        work = Path(folder, "work")
        work.mkdir()
        env = {"GIT_DIR": str(repo.folder), "GIT_WORK_TREE": str(work), "GIT_INDEX_FILE": f"{folder}/index"}
        there = Repo(work)
        there.run("read-tree", "--reset", "-u", ours, env=env)
        said = there.run("merge-recursive", base, "--", ours, theirs, env=env, check=False)
        if said.code not in {0, 1}:
            raise GitError(f"git merge-recursive failed in {work}", details=tuple(said.err.splitlines()[-20:]))
        conflicts = _unmerged(there.run("ls-files", "--unmerged", "-z", env=env))
        there.run("add", "--all", "--force", ".", env=env)
        tree = there.run("write-tree", env=env).text
        return Merge(tree, conflicts, tuple(said.text.splitlines()))


def _unmerged(said: Said) -> tuple[str, ...]:
    return tuple(dict.fromkeys(field.partition("\t")[2] for field in said.fields))
