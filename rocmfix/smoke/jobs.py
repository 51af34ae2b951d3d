"""Writes the same smoke test as a Slurm script or a Kubernetes Job, for fleets that run it there; pure."""

from __future__ import annotations

import json
from importlib.resources import files

from jinja2 import Environment, StrictUndefined

from rocmfix import __version__
from rocmfix.smoke.plan import MODEL_IN_CONTAINER, SmokePlan, shown
from rocmfix.smoke.records import Depth


def slurm_script(plan: SmokePlan) -> str:
    """A batch script that runs this smoke test on one GPU node, in a container of the node's engine."""
    return _render("slurm.sh.j2", plan, command=shown(("rocmfix", "smoke", *_options(plan, plan.model))))


def kubernetes_job(plan: SmokePlan) -> str:
    """A Job whose container is the image itself; the ladder runs inside it, servers as its processes."""
    options = _options(plan.model_copy(update={"image": None}), MODEL_IN_CONTAINER)
    smoke = shown(("python3", "-m", "rocmfix", "smoke", "--runtime", "process", *options))
    install = shown(("python3", "-m", "pip", "install", "--quiet", f"rocmfix=={__version__}"))
    return _render("job.yaml.j2", plan, command=f"{install} && {smoke}")


def _options(plan: SmokePlan, model: str | None) -> tuple[str, ...]:
    """The command-line options that say this plan again."""
    said = [*([plan.image] if plan.image else []), *(["--model", model] if model else [])]
    said += ["--device", plan.profile.name, "--tp", str(plan.tp)]
    said += ["--pp", str(plan.pp)] if plan.pp > 1 else []
    said += ["--flavour", plan.flavour] if plan.flavour else []
    said += ["--depth", ",".join(depth.label for depth in plan.depths)]
    said += [] if Depth(steps=0) in plan.depths else ["--no-off"]
    said += ["--concurrency", ",".join(map(str, plan.concurrency)), "--effort", plan.effort]
    said += ["--crowd-depth", ",".join(map(str, plan.crowd_depths))] if plan.crowd_depths else []
    said += ["--algorithm", plan.algorithm] if plan.algorithm != "EAGLE" else []
    said += ["--gsm8k", str(plan.gsm8k)] if plan.gsm8k else []
    said += ["--gsm8k-data", plan.gsm8k_data] if plan.gsm8k_data else []
    for name, value in plan.env:
        said += ["--env", f"{name}={value}"]
    said += ["--run-known-bad"] if plan.runs_known_bad else []
    return (*said, *(["--", *plan.args] if plan.args else []))


def _render(template: str, plan: SmokePlan, *, command: str) -> str:
    environment = Environment(  # noqa: S701 - YAML and shell, quoted by shlex and json
        undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True
    )
    environment.filters["json"] = json.dumps
    text = files("rocmfix.smoke").joinpath("templates", template).read_text(encoding="utf-8")
    return environment.from_string(text).render(
        plan=plan, profile=plan.profile, gpus=plan.tp * plan.pp, command=command
    )
