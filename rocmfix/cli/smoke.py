"""`rocmfix smoke`: proves a server, from an image or at a URL."""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rocmfix.cli._options import json_option

if TYPE_CHECKING:
    from rocmfix.smoke.checks import Check
    from rocmfix.smoke.plan import SmokePlan
    from rocmfix.smoke.records import SmokeReport
    from rocmfix.smoke.view import View


@click.command(epilog="Exit codes: 0 passed, 1 a check failed, 14 could not run (7: the Docker engine).")
@click.argument("image", required=False)
@click.argument("server_args", nargs=-1, type=click.UNPROCESSED)
@click.option("--url", "urls", multiple=True, help="A server that runs already; several make a ladder of them.")
@click.option("--model", type=click.Path(), help="The checkpoint's folder on this machine, mounted read-only.")
@click.option("--draft-model", type=click.Path(), help="A draft checkpoint of its own; an MTP head needs none.")
@click.option("--flavour", help="The image's flavour, such as mi35x-rocm720: tells the expected GPU.")
@click.option(
    "--depth", "depths", default="1,3,4,5", show_default=True, help="Depths to walk, such as 3,4,5-1-6; off goes first."
)
@click.option("--tp", type=click.IntRange(1), default=1, show_default=True, help="Tensor-parallel size.")
@click.option("--pp", type=click.IntRange(1), default=1, show_default=True, help="Pipeline-parallel size.")
@click.option("--algorithm", default="EAGLE", show_default=True, help="Speculative algorithm; NEXTN is EAGLE.")
@click.option(
    "--device", type=click.Choice(["amd", "nvidia", "cpu"]), default="amd", show_default=True, help="What serves."
)
@click.option(
    "--runtime",
    type=click.Choice(["docker", "process", "slurm", "k8s"]),
    default="docker",
    show_default=True,
    help="docker runs IMAGE; process starts servers here, inside the image; slurm and k8s print the job.",
)
@click.option("--python", default="python3", show_default=True, help="The interpreter that has sglang.")
@click.option(
    "--env",
    "envs",
    multiple=True,
    metavar="NAME=VALUE",
    help="Set in the server's environment; NAME alone takes yours.",
)
@click.option("--host-network", is_flag=True, help="Share the host's network instead of a loopback port.")
@click.option("--no-off", is_flag=True, help="Leave out the server without speculation: same words go unjudged.")
@click.option("--run-known-bad", is_flag=True, help="Run flag combinations that are known to abort or hang.")
@click.option("--concurrency", default="16,32", show_default=True, help="Streams at once; empty for none.")
@click.option("--crowd-depth", "crowd_depths", default="", help="Ask many streams at these depths only.")
@click.option("--effort", type=click.Choice(["full", "brief"]), help="How much is asked; brief on a CPU.")
@click.option("--gsm8k", type=click.IntRange(0), default=0, help="Questions for the image's own GSM8K test module.")
@click.option("--gsm8k-data", help="Its test.jsonl, as the server sees it.")
@click.option("--bounds", "bounds_file", type=click.Path(path_type=Path), help="Your bounds (TOML); they win.")
@click.option("--questions", "questions_file", type=click.Path(path_type=Path), help="Your questions (JSON Lines).")
@click.option("--only", multiple=True, metavar="CHECK", help="Judge these checks only; see --list.")
@click.option("--start-limit", type=click.FloatRange(1), default=1800, show_default=True, help="Seconds to get ready.")
@click.option(
    "--stall-limit", type=click.FloatRange(1), default=120, show_default=True, help="Seconds without a token."
)
@click.option("--api-key-env", metavar="NAME", help="The environment variable that holds the server's API key.")
@click.option("--out", type=click.Path(path_type=Path), default=Path("smoke"), show_default=True, help="Reports, logs.")
@click.option("--list", "lists", is_flag=True, help="Name every check and what it asks, and stop.")
@click.option("--dry-run", is_flag=True, help="Print the docker run and launch commands, and stop.")
@json_option
@click.pass_context
def command(ctx: click.Context, /, **options: Any) -> None:
    """Prove that MTP works: start a server at each draft depth, ask it, and judge the answers.

    IMAGE is started once a depth (depth is a launch flag); with --url nothing is started. What follows -- goes to
    the server as it is. Writes report.json, report.md, report.xml and the servers' logs to --out.
    """
    from rocmfix.smoke.request import plan_from

    if options["lists"]:
        _list()
        return
    plan = plan_from(options)
    if plan.runtime in {"slurm", "k8s"}:
        _print_job(plan, options)
    elif options["dry_run"]:
        _print_plan(plan, as_json=options["as_json"])
    else:
        report = _run(plan, options)
        _print_report(report, as_json=options["as_json"])
        ctx.exit(0 if report.is_passed else 1)


def _run(plan: SmokePlan, options: dict[str, Any]) -> SmokeReport:
    """Gather what a run needs, run it, write the reports."""
    from rocmfix.errors import SmokeError
    from rocmfix.smoke.bounds import load_bounds
    from rocmfix.smoke.checkpoint import read_checkpoint
    from rocmfix.smoke.quality import QUESTIONS, read_questions
    from rocmfix.smoke.reach import reach
    from rocmfix.smoke.run import Judging, Site, smoke, write_report
    from rocmfix.system.files import alone_in
    from rocmfix.system.signals import interruptible
    from rocmfix.system.surroundings import add_to_step_summary, now

    bearer = _bearer(plan, options["api_key_env"])
    questions, out = options["questions_file"], options["out"]
    judging = Judging(
        bounds=load_bounds(options["bounds_file"]),
        questions=read_questions(questions) if questions else QUESTIONS,
        checkpoint=read_checkpoint(Path(plan.model)) if plan.model and not plan.urls else None,
        checks=_chosen(options["only"]),
    )
    reached = reach(plan, bearer)
    out.mkdir(parents=True, exist_ok=True)
    # Slurm and Kubernetes end a job by SIGTERM: leave no server behind.
    with alone_in(out) as is_alone, interruptible(), _view() as view:
        if not is_alone:
            raise SmokeError(f"another smoke test writes to {out}", hint="--out FOLDER gives this one its own")
        report = smoke(reached, judging, Site(out, view, bearer), now())
    add_to_step_summary(write_report(report, out))
    return report


def _bearer(plan: SmokePlan, name: str | None) -> str | None:
    """The key that the servers want: from the named variable, or the one that they are started with."""
    from rocmfix.smoke.secrecy import key_of
    from rocmfix.system.surroundings import variable

    if name is None:
        return key_of(plan.args)
    key = (variable(name) or "").strip()  # a key read from a file brings its line end along
    if not key or not key.isascii() or not key.isprintable():
        raise click.BadParameter(f"{name} holds no key", param_hint="--api-key-env")
    return key


def _view() -> contextlib.AbstractContextManager[View]:
    """A live view on a terminal, lines elsewhere."""
    from rocmfix.smoke.view import LiveView, PlainView

    return LiveView() if sys.stderr.isatty() else contextlib.nullcontext(PlainView())


def _chosen(only: tuple[str, ...]) -> tuple[Check, ...]:
    from rocmfix.smoke.checks import all_checks

    known = {check.id: check for check in all_checks()}
    for name in only:
        if name not in known:
            raise click.BadParameter(f"no check is called {name}; --list names them", param_hint="--only")
    return tuple(check for name, check in known.items() if not only or name in only)


def _list() -> None:
    from rocmfix.smoke.checks import all_checks

    for check in all_checks():
        click.echo(f"{check.id}\n    {check.explanation}")


def _print_job(plan: SmokePlan, options: dict[str, Any]) -> None:
    from rocmfix.smoke.jobs import kubernetes_job, slurm_script

    files = {name: options[name] for name in ("bounds_file", "questions_file") if options[name]}
    if files and plan.runtime == "k8s":
        raise click.UsageError("a file of bounds or questions is not in the Job's image: bake it in, or mount it")
    words = [word for name in options["only"] for word in ("--only", name)]
    words += [
        word for name, path in files.items() for word in (f"--{name.removesuffix('_file')}", str(path.absolute()))
    ]
    words += ["--api-key-env", options["api_key_env"]] if options["api_key_env"] else []
    make = slurm_script if plan.runtime == "slurm" else kubernetes_job
    click.echo(make(plan, tuple(words)), nl=False)


def _print_plan(plan: SmokePlan, *, as_json: bool) -> None:
    """What would run: the container's options once a depth, and the launch command in it."""
    from rocmfix.smoke.dryrun import lines
    from rocmfix.smoke.secrecy import scrubbed, secrets_of

    if as_json:
        click.echo(scrubbed(plan, secrets_of(plan)).model_dump_json(indent=2))
        return
    for line in lines(plan):
        click.echo(line)


def _print_report(report: SmokeReport, *, as_json: bool) -> None:
    from rocmfix.smoke.report import table

    click.echo(report.model_dump_json(indent=2) if as_json else table(report))
