"""Writes a container wish as the `docker run` line a person would type; pure but for looking at device nodes."""

from __future__ import annotations

from collections.abc import Iterator

from rocmfix.smoke.launch import container, environment
from rocmfix.smoke.plan import PORT_IN_CONTAINER, SmokePlan, shown
from rocmfix.smoke.secrecy import redacted
from rocmfix.system.containers import Wish
from rocmfix.system.redact import names_secret


def lines(plan: SmokePlan) -> Iterator[str]:
    """The commands of each depth, ready to paste."""
    for depth in plan.depths:
        yield f"# {depth.label}"
        if plan.runtime == "process":
            env = [f"{name}={value}" for name, value in environment(plan).items() if not names_secret(name)]
            yield shown(("env", *env, *redacted(plan.launch(depth, host="127.0.0.1", port=PORT_IN_CONTAINER))))
            continue
        host = "127.0.0.1" if plan.has_host_network else "0.0.0.0"  # noqa: S104 - inside the container
        command = redacted(plan.launch(depth, host=host, port=PORT_IN_CONTAINER))
        yield shown(docker_run(container(plan, command, PORT_IN_CONTAINER)))


def docker_run(wish: Wish) -> tuple[str, ...]:
    """A wish in the docker client's spelling. A secret is named only: the client takes it from its own environment."""
    words = ["docker", "run", "--rm", "--init", "--workdir", "/"]
    words += [word for device in wish.devices for word in ("--device", device)]
    words += [word for group in wish.groups for word in ("--group-add", str(group))]
    words += ["--gpus", "all"] if wish.has_all_gpus else []
    words += ["--ipc", wish.ipc] if wish.ipc else []
    words += ["--shm-size", wish.shm_size] if wish.shm_size and wish.ipc != "host" else []
    words += [word for name in wish.capabilities for word in ("--cap-add", name)]
    words += [word for option in wish.security for word in ("--security-opt", option)]
    words += [word for limit in wish.ulimits for word in ("--ulimit", limit)]
    for name, value in wish.env.items():
        words += ["--env", name if names_secret(name) else f"{name}={value}"]
    words += [word for mount in wish.mounts for word in ("--mount", _mount(*mount))]
    if wish.has_host_network:
        words += ["--network", "host"]
    elif wish.port:
        words += ["--publish", f"127.0.0.1::{wish.port}"]
    return (*words, "--entrypoint", wish.command[0], wish.image, *wish.command[1:])


def _mount(source: str, target: str) -> str:
    """A read-only bind mount; --volume would cut a path at its colons. The client reads this as a line of CSV."""
    field = f"source={source}"
    if any(char in source for char in ',"\n\r'):
        field = '"' + field.replace('"', '""') + '"'
    return f"type=bind,{field},target={target},readonly"
