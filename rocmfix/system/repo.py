"""Reads and changes a git repository by plumbing: no hook, filter, signature or user setting takes part."""

from __future__ import annotations

import contextlib
import hashlib
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from rocmfix.errors import ApplyError
from rocmfix.system.files import read_inside
from rocmfix.system.git import ABSENT, Git, GitError

if sys.version_info >= (3, 11):
    from typing import Self
else:
    from typing_extensions import Self

# id, tree, parents, author, committer, message, trailers; fields end with NUL, records with RS.
_RECORD = "%H%x00%T%x00%P%x00%an%x00%ae%x00%ad%x00%cn%x00%ce%x00%cd%x00%B%x00%(trailers:only,unfold)%x1e"

FILE, EXECUTABLE, LINK = "100644", "100755", "120000"


@dataclass(frozen=True)
class Entry:
    """A file of a git tree: its mode, such as `100644`, and the id of its blob."""

    mode: str
    blob: str


@dataclass(frozen=True)
class Signature:
    """Who and when: `date` as git prints it raw, such as `1764504000 +0000`."""

    name: str
    email: str
    date: str

    def env(self, role: Literal["AUTHOR", "COMMITTER"]) -> dict[str, str]:
        # The @ marks seconds; without it git takes a small number for something else.
        return {f"GIT_{role}_NAME": self.name, f"GIT_{role}_EMAIL": self.email, f"GIT_{role}_DATE": f"@{self.date}"}


@dataclass(frozen=True)
class Commit:
    """One commit. Trailers keep their order; a key may come more than once."""

    id: str
    tree: str
    parents: tuple[str, ...]
    author: Signature
    committer: Signature
    message: str
    trailers: tuple[tuple[str, str], ...]

    @property
    def subject(self) -> str:
        return self.message.partition("\n")[0]


class Repo(Git):
    """A repository whose top is `folder`; a bare one too."""

    def resolve(self, rev: str) -> str | None:
        """The full id of what `rev` names, or None."""
        said = self.run("rev-parse", "--verify", "--quiet", "--end-of-options", rev, check=False)
        return said.text or None

    @property
    def head(self) -> str | None:
        """The commit that HEAD points to; None before the first."""
        return self.resolve("HEAD^{commit}")

    @property
    def is_shallow(self) -> bool:
        return self.run("rev-parse", "--is-shallow-repository").text == "true"

    def entries(self, tree: str, *paths: str) -> dict[str, Entry]:
        """The files of a tree (or commit), all or those at `paths`. Needs no blob."""
        fields = self.run("ls-tree", "-r", "-z", "--full-tree", tree, "--", *paths).fields
        return {path: Entry(mode, blob) for mode, kind, blob, path in map(_split_entry, fields) if kind == "blob"}

    def staged(self, *paths: str) -> dict[str, Entry]:
        """What the index holds at `paths` (all when none is given). A path with a conflict is left out."""
        found: dict[str, Entry] = {}
        for field in self.run("ls-files", "--stage", "-z", "--", *paths).fields:
            about, _, path = field.partition("\t")
            mode, blob, stage = about.split()
            if stage == "0":
                found[path] = Entry(mode, blob)
        return found

    def changed(self, paths: Iterable[str]) -> dict[str, Literal["staged", "edited", "untracked"]]:
        """Which of `paths` are not as in HEAD, and how. Bytes are compared but for line ends; no filter runs."""
        wanted = tuple(paths)
        if not wanted:
            return {}
        head = self.entries("HEAD", *wanted) if self.head else {}
        index = self.staged(*wanted)
        found: dict[str, Literal["staged", "edited", "untracked"]] = {}
        for path in wanted:
            there = self._work_bytes(path)
            if index.get(path) != head.get(path):
                found[path] = "staged"
            elif path not in index and there is not None:
                found[path] = "untracked"
            elif path in index and not _holds(there, index[path].blob):
                found[path] = "edited"
        return found

    def with_crlf(self, paths: Iterable[str]) -> frozenset[str]:
        """Those of `paths` that lie in the working tree with CRLF where the index has LF, as `eol=crlf` asks for."""
        wanted = tuple(paths)
        index = self.staged(*wanted) if wanted else {}
        work = {path: self._work_bytes(path) or b"" for path in index}
        return frozenset(
            path
            for path, data in work.items()
            if not _names(index[path].blob, data) and _names(index[path].blob, _lf(data))
        )

    def _work_bytes(self, path: str) -> bytes | None:
        """What lies in the working tree, None for no file; a link stands for what it points to."""
        target = self.folder / path
        with contextlib.suppress(OSError):
            return str(target.readlink()).encode() if target.is_symlink() else read_inside(self.folder, path)
        return None

    def log(self, revs: str = "HEAD", *, limit: int | None = None, grep: str = "") -> tuple[Commit, ...]:
        """The commits that `revs` names, newest first, along first parents; those whose message matches `grep`."""
        few = () if limit is None else (f"--max-count={limit}",)
        about = (f"--grep={grep}",) if grep else ()
        said = self.run(
            "log",
            "--first-parent",
            "--date=raw",
            "--encoding=UTF-8",
            f"--format={_RECORD}",
            *few,
            *about,
            "--end-of-options",
            revs,
        )
        return tuple(_commit(record.lstrip("\n")) for record in said.text.split("\x1e") if record.strip())

    def write_blob(self, data: bytes) -> str:
        """Store `data` and return its id. No filter changes a byte."""
        return self.run("hash-object", "-w", "--stdin", "--no-filters", data=data).text

    def write_tree(self, base: str | None, changes: Mapping[str, Entry | None]) -> str:
        """The id of the tree `base` with some files put in or (None) left out; index and work tree stay."""
        with self._scratch_index() as env:
            if base:
                self.run("read-tree", base, env=env)
            self._put(changes, env)
            # --missing-ok: a partial clone need not fetch every blob to name a tree.
            return self.run("write-tree", "--missing-ok", env=env).text

    def write_commit(
        self, tree: str, parents: Iterable[str], message: str, *, author: Signature, committer: Signature
    ) -> str:
        """The id of a new, unsigned commit: the same id wherever the same is written."""
        flags = [flag for parent in parents for flag in ("-p", parent)]
        env = {**author.env("AUTHOR"), **committer.env("COMMITTER")}
        return self.run("commit-tree", "--no-gpg-sign", *flags, "-F", "-", tree, data=message.encode(), env=env).text

    def move(self, ref: str, new: str, *, old: str, why: str) -> None:
        """Point `ref` (or what HEAD stands for) to `new` if it still points to `old`."""
        try:
            self.run("update-ref", "-m", why, ref, new, old)
        except GitError as error:
            raise ApplyError(
                f"{ref} of {self.folder} moved meanwhile", details=error.details, hint="run it again"
            ) from error

    def stage(self, changes: Mapping[str, Entry | None]) -> None:
        """Put files into the index, or (None) take them out, without touching the work tree."""
        try:
            self._put(changes, {})
        except GitError as error:
            raise ApplyError(
                f"cannot change the index of {self.folder}", details=error.details, hint=error.hint
            ) from error

    def format_patch(self, commit: str) -> bytes:
        """A commit as `git am` takes it: the same bytes in every repository and with every git."""
        return self.run(
            "format-patch", "--stdout", "-1",
            "--zero-commit",  # the id of a commit says nothing about its patch
            "--full-index",  # an abbreviation grows with the repository; whole ids let a merge find its base
            "--no-signature",  # it would be git's version
            "--no-numbered", "--subject-prefix=PATCH", "--no-thread", "--no-attach", "--no-notes", "--no-base",
            "--no-cover-letter", "--no-to", "--no-cc", "--no-add-header", "--no-encode-email-headers",
            "--no-from", "--no-ext-diff", "--no-textconv", "--no-color", "--no-relative", "--no-indent-heuristic",
            "--no-signoff", "-O/dev/null",
            "--diff-algorithm=myers", "--unified=3", "--inter-hunk-context=0", "--src-prefix=a/", "--dst-prefix=b/",
            "--no-stat", "--no-renames", "--end-of-options", commit,
            # Some of the repository's settings make git ask who is formatting; it does not show in the patch.
            env=Signature("nobody", "nobody@localhost", "0 +0000").env("COMMITTER"),
        ).out  # fmt: skip

    def _put(self, changes: Mapping[str, Entry | None], env: Mapping[str, str]) -> None:
        gone = Entry("0", "0" * len(self.head or ABSENT))
        lines = (f"{(entry or gone).mode} {(entry or gone).blob}\t{path}\0" for path, entry in changes.items())
        self.run("update-index", "-z", "--index-info", data="".join(lines).encode("utf-8", "surrogateescape"), env=env)

    @contextlib.contextmanager
    def _scratch_index(self) -> Iterator[dict[str, str]]:
        with tempfile.TemporaryDirectory(prefix="index-") as folder:
            yield {"GIT_INDEX_FILE": f"{folder}/index"}


def blob_id(data: bytes, algorithm: str = "sha1") -> str:
    """The id git gives to `data` as a blob, in a repository with ids of that kind."""
    return hashlib.new(algorithm, b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()


def _names(blob: str, data: bytes) -> bool:
    """Whether `blob` is git's id for `data`; its length tells the kind."""
    return blob_id(data, "sha1" if len(blob) == len(ABSENT) else "sha256") == blob


def _holds(data: bytes | None, blob: str) -> bool:
    """Whether a file with `data` is as the index says, but for CRLF where it says LF."""
    return data is not None and (_names(blob, data) or _names(blob, _lf(data)))


def _lf(data: bytes) -> bytes:
    return data.replace(b"\r\n", b"\n")


def open_repo(folder: Path) -> Repo | None:
    """The repository whose working tree's top is `folder` itself, or None: one further up is another's."""
    if not (folder / ".git").exists():
        return None
    repo = Repo(folder)
    said = repo.run("rev-parse", "--is-inside-work-tree", "--show-prefix", check=False)
    return repo if said.code == 0 and said.text.strip() == "true" else None


def new_repo(folder: Path) -> Repo:
    """A new bare repository in `folder`, without templates or hooks."""
    folder.mkdir(parents=True, exist_ok=True)
    repo = Repo(folder)
    repo.run("init", "--bare", "--quiet", "--template=", "--initial-branch=main", str(folder))
    return repo


class Blobs:
    """Reads many objects through one process: `with Blobs(repo) as blobs: blobs.read("HEAD:README.md")`."""

    def __init__(self, repo: Git) -> None:
        self._repo = repo
        self._process: Any = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def read(self, name: str) -> bytes | None:
        """The bytes of the blob `name` (an id, or `REV:path`), or None."""
        if "\n" in name:
            return None
        if self._process is None:
            self._process = self._repo.start("cat-file", "--batch")
        process = self._process
        process.stdin.write(name.encode("utf-8", "surrogateescape") + b"\n")
        process.stdin.flush()
        header = process.stdout.readline()
        if not header:
            self._raise(name)
        if header.endswith((b" missing\n", b" ambiguous\n")):
            return None
        _, kind, size = header.split(b" ")
        data = process.stdout.read(int(size) + 1)[:-1]
        return bytes(data) if kind == b"blob" else None

    def __del__(self) -> None:
        self.close()

    def close(self) -> None:
        """End the process."""
        process, self._process = self._process, None
        if process is not None:
            process.stdin.close()
            process.stdout.close()
            process.stderr.close()
            process.wait()

    def _raise(self, name: str) -> None:
        said = self._process.stderr.read().decode("utf-8", "replace")
        self.close()
        raise GitError(f"git cannot read {name} in {self._repo.folder}", details=tuple(said.splitlines()[-20:]))


def _split_entry(field: str) -> tuple[str, str, str, str]:
    about, _, path = field.partition("\t")
    mode, kind, blob = about.split()
    return mode, kind, blob, path


def _commit(record: str) -> Commit:
    identity, tree, parents, *people, message, trailers = record.split("\0")
    pairs = (line.partition(":") for line in trailers.splitlines() if ":" in line)
    return Commit(
        id=identity,
        tree=tree,
        parents=tuple(parents.split()),
        author=Signature(*people[:3]),
        committer=Signature(*people[3:]),
        message=message,
        trailers=tuple((key, value.strip()) for key, _, value in pairs),
    )
