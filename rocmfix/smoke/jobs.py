"""Writes the same smoke test as a Slurm script or a Kubernetes Job, for fleets that run it there; pure."""

from __future__ import annotations

import json
from functools import partial
from importlib.resources import files

from jinja2 import Environment, StrictUndefined

from rocmfix import __version__
from rocmfix.smoke.plan import DRAFT_IN_CONTAINER, MODEL_IN_CONTAINER, SmokePlan, shown
from rocmfix.smoke.records import Depth
from rocmfix.smoke.secrecy import redacted
from rocmfix.system.redact import names_secret


def slurm_script(plan: SmokePlan, more: tuple[str, ...] = ()) -> str:
    """A batch script that runs this smoke test on one GPU node, in a container of the node's engine.

    `more` are options that are not in the plan, such as the files of bounds and questions.
    """
    place = [*(["--draft-model", plan.draft_model] if plan.draft_model else [])]
    place += ["--host-network"] if plan.has_host_network else []
    return _render("slurm.sh.j2", plan, command=shown(("rocmfix", "smoke", *_options(plan, plan.model, *place, *more))))


def kubernetes_job(plan: SmokePlan, more: tuple[str, ...] = ()) -> str:
    """A Job whose container is the image itself; the ladder runs inside it, servers as its processes."""
    place = [*(["--draft-model", DRAFT_IN_CONTAINER] if plan.draft_model else [])]
    options = _options(plan.model_copy(update={"image": None}), MODEL_IN_CONTAINER, *place, *more)
    smoke = shown(("python3", "-m", "rocmfix", "smoke", "--runtime", "process", *options))
    install = shown(("python3", "-m", "pip", "install", "--quiet", f"rocmfix=={__version__}"))
    command = f"{install} && {smoke}".replace("$(", "$$(")  # Kubernetes would put a variable in its place
    return _render("job.yaml.j2", plan, command=command)


def _options(plan: SmokePlan, model: str | None, *more: str) -> tuple[str, ...]:
    """The command-line options that say this plan again. A secret is named only: its value comes from the job's own
    environment.
    """
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
    said += ["--python", plan.python] if plan.python != "python3" else []
    for option, seconds in (("--start-limit", plan.start_seconds), ("--stall-limit", plan.stall_seconds)):
        said += [option, f"{seconds:g}"]
    for name, value in plan.env:
        said += ["--env", name if names_secret(name) else f"{name}={value}"]
    said += ["--run-known-bad"] if plan.runs_known_bad else []
    return (*said, *more, *(["--", *redacted(plan.args)] if plan.args else []))


def _render(template: str, plan: SmokePlan, *, command: str) -> str:
    environment = Environment(  # noqa: S701 - YAML and shell, quoted by shlex and json
        undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True
    )
    environment.filters["json"] = partial(json.dumps, ensure_ascii=False)
    environment.tests["secret"] = names_secret
    text = files("rocmfix.smoke").joinpath("templates", template).read_text(encoding="utf-8")
    return environment.from_string(text).render(
        plan=plan, profile=plan.profile, gpus=plan.tp * plan.pp, command=command
    )
