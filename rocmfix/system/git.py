"""Runs git on one repository, isolated from its user's settings and from what a hostile repository configures."""

from __future__ import annotations

import contextlib
import os
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from rocmfix.errors import RocmfixError, ToolMissingError

ABSENT = "0" * 40
"""git's id for "no object": the old value of a ref that must not exist yet."""

# git sets these for hooks; inherited, they would turn every command to the hook's repository.
_INHERITED = (
    "GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY", "GIT_COMMON_DIR", "GIT_NAMESPACE",
    "GIT_ALTERNATE_OBJECT_DIRECTORIES", "GIT_PREFIX", "GIT_QUARANTINE_PATH", "GIT_CONFIG", "GIT_CONFIG_PARAMETERS",
    "GIT_CONFIG_COUNT", "GIT_EXTERNAL_DIFF", "GIT_DIFF_OPTS", "GIT_DEFAULT_HASH", "GIT_TRACE",
)  # fmt: skip

# Each of these can be set in a repository's own config and would run a program or change bytes.
_FIXED = (
    "core.autocrlf=false",
    "core.fsmonitor=false",
    "core.hooksPath=/dev/null",
    "core.quotePath=false",
    "diff.suppressBlankEmpty=false",
    "gc.auto=0",
    "i18n.commitEncoding=UTF-8",
    "log.showSignature=false",
    "maintenance.auto=false",
)

_SAFE_CONFIG = Path(__file__).with_name("safe.gitconfig")


class GitError(RocmfixError):
    """git refused; what it said is in the details."""


# What a person can do about what git says, by a piece of what it says.
_HINTS = {
    "index.lock': File exists": "wait for the git that is at work there; if none is, remove that file",
    "index file": "git's index there is damaged; rm .git/index && git reset makes it anew, and keeps the files",
    "index entry": "git's index there is damaged; rm .git/index && git reset makes it anew, and keeps the files",
}


def _hint(said: str) -> str | None:
    return next((hint for piece, hint in _HINTS.items() if piece in said), None)


@dataclass(frozen=True)
class Said:
    """What one git command answered."""

    code: int
    out: bytes
    err: str

    @property
    def text(self) -> str:
        """Standard output as text, without the last newline."""
        return self.out.decode("utf-8", "replace").rstrip("\n")

    @property
    def fields(self) -> tuple[str, ...]:
        """Standard output split at NUL bytes: the answer to `-z`. Paths that are no UTF-8 survive."""
        return tuple(field for field in self.out.decode("utf-8", "surrogateescape").split("\0") if field)


@dataclass(frozen=True)
class Git:
    """A git repository, or a folder to make one in.

    `user_config` lets the user's own settings in, for what talks to a network: proxy, credentials, URL rewrites.
    """

    folder: Path
    user_config: bool = False

    def run(
        self, *args: str, data: bytes | None = None, env: Mapping[str, str] | None = None, check: bool = True
    ) -> Said:
        """Run `git args`, with `data` as its input. Raises GitError when it fails, unless told not to `check`."""
        with _input(data) as stream:
            code, out, err = self._execute(
                args,
                env or {},
                istream=stream,
                with_extended_output=True,
                with_exceptions=False,
                stdout_as_string=False,
                strip_newline_in_stdout=False,
            )
        if code and check:
            verb = next(arg for arg in args if not arg.startswith("-") and "=" not in arg)
            said = tuple(err.splitlines()[-20:])
            raise GitError(f"git {verb} failed in {self.folder}", details=said, hint=_hint(err))
        return Said(code, out, err)

    def start(self, *args: str) -> Any:
        """Start `git args` with pipes on both sides: GitPython's process object, which ends with its owner."""
        return self._execute(args, {}, istream=subprocess.PIPE, as_process=True)

    def _execute(self, args: Sequence[str], env: Mapping[str, str], **options: Any) -> Any:
        config = (flag for setting in _FIXED for flag in ("-c", setting))
        command = ["git", "--no-pager", "--literal-pathspecs", "--no-replace-objects", *config, *args]
        isolated = _isolation(self.folder, user_config=self.user_config)
        git = _git_python()
        try:
            return git.Git(str(self.folder)).execute(command, env={**isolated, **env}, **options)
        except git.GitCommandNotFound as error:
            raise _missing() from error


def is_present() -> bool:
    """Whether there is a git to run."""
    try:
        version()
    except ToolMissingError:
        return False
    return True


def version() -> tuple[int, ...]:
    """The version of git, such as (2, 39, 5). Raises ToolMissingError when there is none."""
    words = Git(Path("/")).run("version").text.split()
    return tuple(int(part) for part in words[2].split(".") if part.isdigit())


def describe(folder: Path) -> str | None:
    """The newest release tag below HEAD and the distance to it, without the `v`; None without git or tags."""
    if not is_present():
        return None
    said = Git(folder).run("describe", "--tags", "--match", "v[0-9]*", check=False)
    return None if said.code else said.text.removeprefix("v")


def toplevel(folder: Path) -> Path | None:
    """The top of the working tree that `folder` is in, if any; with `.git` above it, whoever owns it."""
    for top in (folder, *folder.parents):
        if (top / ".git").exists():
            return top
    return None


def _git_python() -> Any:
    # GitPython looks for git when it is imported, and gives up loudly; ours is the clearer message.
    os.environ.setdefault("GIT_PYTHON_REFRESH", "quiet")
    for name in _INHERITED:
        os.environ.pop(name, None)
    import git

    return git


def _missing() -> ToolMissingError:
    return ToolMissingError(
        "git is not on PATH",
        hint="install git; releases, wheels, folders and --installed are judged without it",
    )


def _isolation(folder: Path, *, user_config: bool) -> dict[str, str]:
    """The environment that keeps git to `folder` and to what is given here."""
    env = {
        "GIT_CEILING_DIRECTORIES": str(folder.parent),
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_OPTIONAL_LOCKS": "0",
        # `ext::` and the like would run whatever a URL says.
        "GIT_ALLOW_PROTOCOL": "file:git:http:https:ssh",
    }
    if user_config:
        return env
    own = {"GIT_CONFIG_GLOBAL": str(_SAFE_CONFIG), "GIT_CONFIG_NOSYSTEM": "1", "GIT_ATTR_NOSYSTEM": "1"}
    return {**env, **own}


@contextlib.contextmanager
def _input(data: bytes | None) -> Iterator[BinaryIO | None]:
    if data is None:
        yield None
        return
    with tempfile.TemporaryFile() as stream:
        stream.write(data)
        stream.seek(0)
        yield stream
