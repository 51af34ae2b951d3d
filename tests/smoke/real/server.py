"""The words with which rocmfix smokes upstream's own server on a CPU, through the shim."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from click.testing import CliRunner

from rocmfix.cli import main
from rocmfix.smoke.records import SmokeReport
from tests.smoke.real.install import variables

FLAGS = (
    "--attention-backend", "triton",
    "--dtype", "float32",  # bfloat16 gives NaN in Triton's interpreter
    "--max-total-tokens", "8192",  # without it the KV cache takes 17 GB
    "--max-running-requests", "4",
    "--chunked-prefill-size", "64",
    "--grammar-backend", "none",
    "--disable-cuda-graph",
    "--disable-overlap-schedule",
    "--skip-server-warmup",
)  # fmt: skip
QUESTIONS = (("abc", "defgh"), ("the end of the list is xy", "z abc"), ("0123", "456789"))


def environment(python: Path, verify: str | None) -> tuple[str, ...]:
    asked = variables(python) | ({"ROCMFIX_SHIM_VERIFY": verify} if verify else {})
    return tuple(word for name, value in asked.items() for word in ("--env", f"{name}={value}"))


def smoke(
    python: Path, model: Path, out: Path, *options: str, verify: str | None = None, only: Sequence[str] = ()
) -> tuple[int, SmokeReport]:
    """Run `rocmfix smoke` on a tiny checkpoint; its exit code and report."""
    questions = out.parent / "questions.jsonl"
    questions.write_text("".join(json.dumps({"prompt": p, "answer": a}) + "\n" for p, a in QUESTIONS))
    words = [
        "smoke", "--runtime", "process", "--device", "cpu", "--python", str(python), "--model", str(model),
        "--out", str(out), "--questions", str(questions), "--start-limit", "900", "--stall-limit", "900", *options,
        *(word for name in only for word in ("--only", name)),
        *environment(python, verify), "--", *FLAGS,
    ]  # fmt: skip
    result = CliRunner().invoke(main, words)
    file = out / "report.json"
    assert file.exists(), result.output
    return result.exit_code, SmokeReport.model_validate_json(file.read_text())
