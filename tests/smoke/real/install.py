"""Makes the environment in which upstream sglang serves on a CPU: once, kept in rocmfix's cache.

python tests/smoke/real/install.py [FOLDER]        prints the interpreter to give to --python
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent


PINS = HERE / "requirements.txt"


def environment(cache: Path) -> Path:
    """The interpreter of the environment, made if it is not there."""
    folder = _folder(cache)
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / f"{folder.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # two test workers make it once
        if not is_made(cache):
            _make(folder, folder / "bin/python")
            (folder / "complete").touch()
    return folder / "bin/python"


def is_made(cache: Path) -> bool:
    """Whether the environment is there, whole."""
    return (_folder(cache) / "complete").exists()


def _folder(cache: Path) -> Path:
    """The environment's folder, named by the digest of its pins."""
    name = hashlib.sha256(PINS.read_bytes() + sys.version.encode()).hexdigest()[:16]
    return cache / f"sglang-cpu-{name}"


def _make(folder: Path, python: Path) -> None:
    subprocess.run([sys.executable, "-m", "venv", "--clear", "--without-pip", folder], check=True)
    # Without dependencies: sglang's 80 hold several GB of CUDA. Without byte code: most modules are never imported;
    # those that are get theirs below, or each of a server's three processes would compile them anew.
    subprocess.run(
        [sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-deps", "--no-compile",
         "--requirement", PINS],
        check=True,
    )  # fmt: skip
    modules = "sglang.launch_server, sglang.srt.entrypoints.http_server, sglang.srt.managers.scheduler"
    env = {**os.environ, **variables(python)}
    subprocess.run([python, "-W", "ignore", "-c", f"import {modules}"], env=env, check=True)


def variables(python: Path) -> dict[str, str]:
    """The environment in which upstream serves with an MTP head on a CPU."""
    return {
        "PYTHONPATH": str(HERE / "shim"),
        "PYTHONDONTWRITEBYTECODE": "",
        "SGLANG_USE_CPU_ENGINE": "1",
        "TRITON_INTERPRET": "1",
        "TORCHDYNAMO_DISABLE": "1",
        "HF_HUB_OFFLINE": "1",
        "OMP_NUM_THREADS": "1",
        "SGLANG_DISABLED_MODEL_ARCHS": unused_models(python),
    }


def unused_models(python: Path) -> str:
    """The model files that sglang need not import: it reads this list from SGLANG_DISABLED_MODEL_ARCHS."""
    models = next(python.parent.parent.glob("lib/python*/site-packages/sglang/srt/models"))
    used = {"__init__", "mimo", "mimo_mtp", "qwen2"}
    return ",".join(sorted(file.stem for file in models.glob("*.py") if file.stem not in used))


if __name__ == "__main__":
    default = Path(os.environ.get("ROCMFIX_CACHE") or Path.home() / ".cache/rocmfix")
    print(environment(Path(sys.argv[1]) if len(sys.argv) > 1 else default))  # noqa: T201
