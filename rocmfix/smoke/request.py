"""Reads the words of the command line into a plan; whatever is wrong with them is said here."""

from __future__ import annotations

import re
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import click

from rocmfix.smoke.checkpoint import stray
from rocmfix.smoke.plan import SmokePlan
from rocmfix.smoke.profile import load_profile
from rocmfix.smoke.records import Depth
from rocmfix.system.surroundings import variable

OURS = frozenset({"--host", "--port", "--served-model-name", "--model-path", "--model"})
"""Flags that the launch command has already; a second one would win, and the server would not be found."""


def plan_from(options: Mapping[str, Any]) -> SmokePlan:
    """Check the options against one another and make them explicit."""
    urls = tuple(url(text) for text in options["urls"])
    runtime = "url" if urls else options["runtime"]
    arguments = tuple(options["server_args"])
    image = options["image"]
    if runtime == "process" and image:  # without an IMAGE, the first word after -- lands there
        image, arguments = None, (image, *arguments)
    _refuse_contradictions(options, runtime, image)
    device = options["device"]
    return SmokePlan(
        run=secrets.token_hex(4),
        image=image,
        model=_folder(options["model"]),
        draft_model=_folder(options["draft_model"]),
        urls=urls,
        flavour=options["flavour"],
        profile=load_profile(device),
        runtime=runtime,
        python=options["python"],
        algorithm=options["algorithm"],
        depths=depths(options["depths"], with_off=not options["no_off"]),
        tp=options["tp"],
        pp=options["pp"],
        args=arguments,
        env=tuple(pair(text) for text in options["envs"]),
        effort=options["effort"] or ("brief" if device == "cpu" else "full"),
        concurrency=numbers(options["concurrency"], "--concurrency"),
        crowd_depths=numbers(options["crowd_depths"], "--crowd-depth"),
        gsm8k=options["gsm8k"],
        gsm8k_data=options["gsm8k_data"],
        start_seconds=options["start_limit"],
        stall_seconds=options["stall_limit"],
        has_host_network=options["host_network"],
        runs_known_bad=options["run_known_bad"],
    )


def _refuse_contradictions(options: Mapping[str, Any], runtime: str, image: str | None) -> None:
    if runtime == "url":
        if image:
            raise click.UsageError("give IMAGE or --url, not both")
        return
    if runtime != "process" and not image:
        raise click.UsageError("give IMAGE, or --url for a server that runs already")
    if image and not re.fullmatch(r"[\w.:@/-]{1,512}", image):
        raise click.UsageError(f"{image!r} is no image reference")
    if taken := sorted(OURS & {word.partition("=")[0] for word in options["server_args"]}):
        raise click.UsageError(f"{taken[0]} is given to the server by rocmfix: leave it out")
    model = options["model"]
    if not model:
        raise click.UsageError("--model is missing: the checkpoint's folder")
    _refuse_folders(options, runtime)


def _refuse_folders(options: Mapping[str, Any], runtime: str) -> None:
    """Refuse checkpoints that a server started here would not see."""
    if runtime not in {"docker", "process"} or options["dry_run"]:
        return
    for option in ("model", "draft_model"):
        folder = Path(options[option] or "/")
        if not folder.is_dir():
            raise click.UsageError(f"--{option.replace('_', '-')} {folder}: no such folder")
        if runtime == "docker" and options[option] and (outside := stray(folder)):
            raise click.UsageError(
                f"{outside} is a link out of its folder, which a container does not see; "
                f"hf download REPO --local-dir DIR  makes a folder of its own"
            )


def depths(text: str, *, with_off: bool) -> tuple[Depth, ...]:
    """Depths, shallow first, off in front: a deeper one is judged against the shallower ones."""
    asked = {Depth.parse(word) for word in text.split(",") if word.strip()}
    if not asked:
        raise click.BadParameter("name at least one depth", param_hint="--depth")
    if with_off:
        asked.add(Depth(steps=0))
    return tuple(sorted(asked, key=lambda depth: (depth.steps, depth.topk, depth.draft_tokens)))


def numbers(text: str, option: str) -> tuple[int, ...]:
    """A list such as 16,32; may be empty."""
    words = [word.strip() for word in text.split(",") if word.strip()]
    if any(not word.isdigit() or not 0 < int(word) <= 1024 for word in words):
        raise click.BadParameter(f"{text!r} is no list of numbers from 1 to 1024", param_hint=option)
    return tuple(sorted({int(word) for word in words}))


def pair(text: str) -> tuple[str, str]:
    """NAME=VALUE; or NAME alone, whose value is in this environment, so that a secret need not be typed."""
    name, equals, value = text.partition("=")
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name) or "\0" in value:
        raise click.BadParameter(f"{name!r} is not NAME=VALUE", param_hint="--env")
    known = value if equals else variable(name)
    if known is None:
        raise click.BadParameter(f"{name} is not set here, and not NAME=VALUE", param_hint="--env")
    return name, known


def url(text: str) -> str:
    """A server's URL: no credentials, no query."""
    try:
        port = urlsplit(text).port  # raises on a port or an IPv6 address that is none
    except ValueError:
        port = 0
    if port == 0 or not text.isascii() or not re.fullmatch(r"https?://[^\s/?#@]+(/[^\s?#]*)?", text):
        raise click.BadParameter(f"{text!r} is no http(s) URL of a server", param_hint="--url")
    return text.rstrip("/")


def _folder(path: str | None) -> str | None:
    return None if path is None else str(Path(path).absolute())
