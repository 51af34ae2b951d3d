"""Runs on changed files those hooks of upstream's pre-commit configuration that can be run here as pinned."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from rocmfix.errors import GiveBackError
from rocmfix.system import process
from rocmfix.system.files import Copied, scratch_folder, write_out
from rocmfix.tree import Tree
from rocmfix.upstream.plain_hooks import CHECKS, LINKS, news
from rocmfix.upstream.records import HookResult, HookState

CONFIG = ".pre-commit-config.yaml"

# What the formatters read their settings from.
_SETTINGS = (
    *(".clang-format", ".isort.cfg", ".codespellrc", "setup.cfg", "tox.ini"),
    *("pyproject.toml", "python/pyproject.toml", "ruff.toml"),
)
_SECONDS = 120

Files = Mapping[str, bytes | None]


@dataclass(frozen=True)
class Hook:
    """One hook as upstream configures it; `pin` is the version without its `v`."""

    id: str
    pin: str
    args: tuple[str, ...] = ()
    files: str = ""
    exclude: str = r"^$"

    def takes(self, path: str) -> bool:
        """Whether upstream runs it on `path`."""
        kinds = _KINDS.get(self.id, "")
        return bool(re.search(self.files, path)) and not re.search(self.exclude, path) and path.endswith(kinds)


@dataclass(frozen=True)
class _Program:
    """A formatter that checks without writing."""

    name: str
    check: tuple[str, ...]
    complains: int = 1
    """The exit code for files that it would change; any other but 0 is trouble of its own."""


_PROGRAMS = {
    "isort": _Program("isort", ("--check-only", "--diff", "--quiet")),
    "black": _Program("black", ("--check", "--diff", "--quiet")),
    "black-jupyter": _Program("black", ("--check", "--diff", "--quiet")),
    "ruff": _Program("ruff", ("check", "--no-fix", "--no-cache", "--quiet", "--output-format=concise")),
    "ruff-check": _Program("ruff", ("check", "--no-fix", "--no-cache", "--quiet", "--output-format=concise")),
    "ruff-format": _Program("ruff", ("format", "--check", "--diff", "--no-cache")),
    "codespell": _Program("codespell", (), complains=65),
    "clang-format": _Program("clang-format", ("--dry-run", "--Werror")),
}
_PYTHON = (".py", ".pyi")
_CXX = (".c", ".cc", ".cpp", ".cu", ".cuh", ".h", ".hpp", ".hip")
_KINDS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("isort", "black", "black-jupyter", "ruff", "ruff-check", "ruff-format", "check-ast"), _PYTHON),
    "debug-statements": _PYTHON,
    "clang-format": _CXX,
    "check-yaml": (".yaml", ".yml"),
    "check-toml": (".toml",),
    "nbstripout": (".ipynb",),
    "fmt": (".rs",),
    "clippy": (".rs",),
}


def run_hooks(config: str | None, before: Files, after: Files, tree: Tree) -> tuple[HookResult, ...]:
    """Every hook of upstream's on the files that changed. What was not clean before a change is not blamed on it."""
    if config is None:
        return ()
    changed = {path: data for path, data in after.items() if data is not None and data != before[path]}
    settings = {path: data for path in _SETTINGS if (data := tree.read(path)) is not None}
    return tuple(_run(hook, {path: before[path] for path in changed}, changed, settings) for hook in parse(config))


def parse(config: str) -> tuple[Hook, ...]:
    """The hooks that a `.pre-commit-config.yaml` lists. Raises GiveBackError when it is none."""
    import yaml

    try:
        read = yaml.safe_load(config)
        general = str(read.get("exclude", "^$"))
        return tuple(_hook(hook, str(repo.get("rev", "")), general) for repo in read["repos"] for hook in repo["hooks"])
    except (yaml.YAMLError, AttributeError, KeyError, TypeError) as error:
        raise GiveBackError(f"upstream's {CONFIG} is not as pre-commit wants it: {error}") from None


def _hook(hook: Mapping[str, object], rev: str, general: str) -> Hook:
    args = hook.get("args", ())
    exclude = f"(?:{general})|(?:{hook['exclude']})" if "exclude" in hook else general
    # A verbose regex must say so at the start of the whole.
    exclude = "(?x)" + exclude.replace("(?x)", "") if "(?x)" in exclude else exclude
    return Hook(
        str(hook["id"]),
        rev.removeprefix("v"),
        tuple(str(arg) for arg in args) if isinstance(args, list) else (),
        str(hook.get("files", "")),
        exclude,
    )


def _run(hook: Hook, before: Files, after: Files, settings: Files) -> HookResult:
    paths = tuple(path for path in after if hook.takes(path))
    if not paths or hook.id in LINKS:
        return _result(hook, HookState.NO_FILES)
    check = CHECKS.get(hook.id)
    if check:
        said = tuple(line for path in paths for line in news(check, path, before[path], after[path] or b""))
        return _result(hook, HookState.WOULD_CHANGE if said else HookState.CLEAN, said=said)
    program = _PROGRAMS.get(hook.id)
    if program is None:
        return _result(hook, HookState.NOT_RUN, "rocmfix has no runner for it")
    missing = _missing(program, hook)
    return (
        _result(hook, HookState.NOT_RUN, missing)
        if missing
        else _compared(program, hook, paths, (before, after, settings))
    )


def _missing(program: _Program, hook: Hook) -> str:
    """Why the program cannot judge as upstream's does: absent, or of another version."""
    try:
        said = process.run((program.name, "--version"), timeout=_SECONDS)
    except FileNotFoundError:
        return f"{program.name} is not installed; upstream pins {hook.pin}"
    found = re.search(r"\d+(?:\.\d+)+", said.out + said.err)
    version = found[0] if found else "of unknown version"
    return "" if version == hook.pin else f"{program.name} here is {version}; upstream pins {hook.pin}"


def _compared(program: _Program, hook: Hook, paths: tuple[str, ...], files: tuple[Files, Files, Files]) -> HookResult:
    before, after, settings = files
    try:
        new = _said(program, hook, paths, {**settings, **after})
        there = tuple(path for path in paths if before[path] is not None)
        old = _said(program, hook, there, {**settings, **before}) if new and there else ()
    except _TroubleError as trouble:
        return _result(hook, HookState.NOT_RUN, str(trouble))
    if not new:
        return _result(hook, HookState.CLEAN)
    if old and not set(_complaints(new)) - set(_complaints(old)):
        return _result(hook, HookState.BEFORE_TOO, "its complaints were there before the change")
    return _result(hook, HookState.WOULD_CHANGE, said=new[:60])


class _TroubleError(Exception):
    """The program could not judge."""


def _said(program: _Program, hook: Hook, paths: tuple[str, ...], files: Files) -> tuple[str, ...]:
    """What the program says of `paths`; nothing when they are clean. Raises _TroubleError when it cannot judge."""
    with scratch_folder() as folder:
        write_out(folder, (Copied(path, data) for path, data in files.items() if data is not None))
        args = tuple(arg for arg in hook.args if arg not in {"--verbose", "--fix"} and not arg.startswith("--fixable"))
        done = process.run((program.name, *program.check, *args, *paths), cwd=Path(folder), timeout=_SECONDS)
    said = tuple((done.out + done.err).splitlines())
    if done.code not in (0, program.complains):
        raise _TroubleError(f"{program.name} ended with {done.code}: {said[-1] if said else 'it said nothing'}")
    return (said or ("it would change the files",)) if done.code else ()


def _complaints(said: tuple[str, ...]) -> Iterator[str]:
    """The lines of a diff that change something, or messages without the place, which the change moves."""
    is_diff = any(line.startswith("@@") for line in said)
    for line in said:
        if not is_diff:
            yield re.sub(r":\d+(?=[: ])", "", line)
        elif line[:1] in {"+", "-"} and not line.startswith(("+++", "---")):
            yield line


def _result(hook: Hook, state: HookState, why: str = "", said: tuple[str, ...] = ()) -> HookResult:
    return HookResult(hook=hook.id, pin=hook.pin, state=state, why=why, said=said)
