"""The rules of the house, where a linter cannot see them."""

from __future__ import annotations

import ast
import importlib
import inspect
import os
import re
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

import rocmfix
from rocmfix import errors
from rocmfix.cli import SECTIONS, main

ROOT = Path(rocmfix.__file__).parent
MODULES = sorted(ROOT.rglob("*.py"))
EFFECTS = {"subprocess", "socket", "shutil", "tempfile", "docker", "git", "requests", "urllib.request", "http.client"}
CALLS = {"os.environ", "os.getenv", "os.system", "sys.exit", "time.time", "datetime.now", "os.replace", "os.remove"}
WRITERS = {"write_text", "write_bytes", "unlink", "rmdir", "mkdir", "rename", "replace", "touch", "symlink_to", "chmod"}
FORBIDDEN = {"utils", "util", "helpers", "common", "manager", "lib", "misc"}


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


def outside_system() -> list[Path]:
    return [path for path in MODULES if "system" not in path.relative_to(ROOT).parts]


def imported(tree: ast.AST) -> set[str]:
    names = set[str]()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return names


@pytest.mark.parametrize("path", outside_system(), ids=name)
def test_effects_have_one_address(path):
    """Processes, network, docker, git and the environment are reached through `rocmfix/system` only."""
    tree = ast.parse(path.read_text())
    used = {
        module for module in imported(tree) if module in EFFECTS or module.split(".")[0] in EFFECTS - {"http.client"}
    }
    used |= {ast.unparse(node) for node in ast.walk(tree) if isinstance(node, ast.Attribute)} & CALLS
    assert not used, f"{name(path)} uses {sorted(used)}"


@pytest.mark.parametrize("path", [p for p in MODULES if "system" in p.relative_to(ROOT).parts], ids=name)
def test_the_system_knows_nothing_of_the_project(path):
    """An edge module may raise our errors and read other edge modules; it may not know patches, tables or GPUs."""
    ours = {module for module in imported(ast.parse(path.read_text())) if module.startswith("rocmfix.")}
    foreign = {m for m in ours if not m.startswith(("rocmfix.system", "rocmfix.errors"))}
    assert not foreign, f"{name(path)} imports {sorted(foreign)}"


@pytest.mark.parametrize("path", MODULES, ids=name)
def test_a_module_is_short_named_well_and_says_what_it_is(path):
    text = path.read_text()
    assert path.stem not in FORBIDDEN
    assert ast.get_docstring(ast.parse(text)), "no docstring"
    assert text.count("\n") <= 400, "split it"


def test_exit_codes_are_unique_and_documented():
    classes = [c for _, c in inspect.getmembers(errors, inspect.isclass) if issubclass(c, errors.RocmfixError)]
    codes = [c.exit_code for c in classes]
    assert len(set(codes)) == len(codes)
    assert not {0, 2, 10, 11, 12} & set(codes), "0 is success, 2 is click's usage error, 10 to 12 are verdicts"
    assert all(f" {code} " in (main.help or "").replace("\n", " ").replace(".", " ") for code in codes)


def commands(group: click.Command, path: tuple[str, ...] = ()) -> list[tuple[str, click.Command]]:
    found = [(" ".join(path), group)]
    if isinstance(group, click.Group):
        context = click.Context(group)
        for each in group.list_commands(context):
            command = group.get_command(context, each)
            assert command, each
            found += commands(command, (*path, each))
    return found


@pytest.mark.parametrize(("path", "command"), commands(main), ids=lambda value: value if isinstance(value, str) else "")
def test_every_verb_and_option_has_help(path, command):
    assert command.help, path
    for parameter in command.params:
        if isinstance(parameter, click.Option):
            assert parameter.help, f"{path} {parameter.opts[0]}"


def test_the_help_names_each_verb_once():
    named = [verb for verbs in SECTIONS.values() for verb in verbs]
    assert sorted(named) == main.list_commands(click.Context(main))


@pytest.mark.parametrize("path", [path for path, _ in commands(main)])
def test_help_has_no_holes(path):
    """A docstring joined with another text keeps its indentation, which shows as blanks amid a sentence."""
    said = CliRunner().invoke(main, [*path.split(), "--help"]).stdout.partition("Options:")[0]
    assert not [line for line in said.splitlines() if "   " in line.strip()], said


def test_help_imports_nothing_heavy():
    """`rocmfix --help` and each verb's `--help` are instant: they load click and the verb's module, nothing else."""
    code = (
        "import sys; from click.testing import CliRunner; from rocmfix.cli import main;"
        "verbs = [[], *([verb] for verb in main.list_commands(None))];"
        "assert all(CliRunner().invoke(main, [*verb, '--help']).exit_code == 0 for verb in verbs);"
        "print(*sorted({m.split('.')[0] for m in sys.modules}))"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT.parent)
    heavy = {"pydantic", "rich", "docker", "git", "unidiff", "jinja2", "requests", "packaging", "tomllib"}
    assert not heavy & set(out.stdout.split())


@pytest.mark.parametrize("path", [p for p in MODULES if p.name != "__main__.py"], ids=name)
def test_importing_a_module_has_no_effect(path, tmp_path, monkeypatch):
    """Nothing is written, printed or started at import time."""
    monkeypatch.chdir(tmp_path)
    module = "rocmfix." + ".".join(path.relative_to(ROOT).with_suffix("").parts)
    importlib.import_module(module.removesuffix(".__init__"))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("path", MODULES, ids=name)
def test_text_is_utf_8_whatever_the_locale(path):
    """A pod's locale is often POSIX: a file read or a program heard in it would fail at the first accent."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            continue
        given = {word.arg for word in node.keywords}
        positional = {"read_text": 1, "write_text": 2}.get(node.func.attr)
        said = positional is None or len(node.args) >= positional or "encoding" in given
        assert said, f"{name(path)}:{node.lineno} reads or writes text in the locale's encoding"
        assert "text" not in given or node.func.attr not in {"run", "Popen"}, (
            f"{name(path)}:{node.lineno} uses text=True"
        )


PROSE = [
    "added",
    "applied",
    "applies",
    "are",
    "built",
    "did",
    "flavour",
    "has",
    "here",
    "inside",
    "is",
    "itself",
    "keep",
    "knows",
    "left",
    "made",
    "merged",
    "never",
    "patched",
    "put",
    "that",
    "unless",
    "with",
    "would",
    "wrote",
]


def test_every_command_that_a_text_names_exists():
    """A hint is copied into a shell: `rocmfix WORD` in a message, table of causes or template is a verb, or prose."""
    shipped = [path for path in ROOT.rglob("*") if path.suffix in {".toml", ".j2"}] + [
        *(ROOT.parent / "patches").rglob("*.toml"), *(ROOT.parent / "dockerfiles").rglob("*.toml"),
    ]  # fmt: skip
    said = [(path, path.read_text(encoding="utf-8")) for path in shipped]
    for path in MODULES:
        nodes = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        said += [(path, node.value) for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)]
    named = {word: path for path, text in said for word in re.findall(r"\brocmfix ([a-z]+)\b", text)}
    verbs = {path.split()[0] for path, _ in commands(main) if path}
    assert not {word: str(path) for word, path in named.items() if word not in verbs | set(PROSE)}


def test_ctrl_c_while_modules_are_read_is_no_traceback(tmp_path):
    (tmp_path / "click.py").write_text("raise KeyboardInterrupt\n", encoding="utf-8")
    argv = [sys.executable, "-m", "rocmfix", "--help"]
    done = subprocess.run(
        argv, env={**os.environ, "PYTHONPATH": f"{tmp_path}:{ROOT.parent}"}, capture_output=True, check=False
    )
    assert (done.returncode, done.stderr) == (130, b"")
