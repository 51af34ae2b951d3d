"""Run profiles: how a container gets at its GPUs, and the flags that kind of machine needs; data, not code."""

from __future__ import annotations

import sys
from importlib.resources import files

from pydantic import ValidationError

from rocmfix.errors import SmokeError
from rocmfix.model import Record

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


class Profile(Record):
    """What `docker run` is given for one kind of device."""

    name: str
    devices: tuple[str, ...] = ()
    device_folders: tuple[str, ...] = ()
    gpus: bool = False
    group_of: tuple[str, ...] = ()
    ipc: str | None = None
    shm_size: str | None = None
    capabilities: tuple[str, ...] = ()
    security: tuple[str, ...] = ()
    ulimits: tuple[str, ...] = ()
    env: tuple[tuple[str, str], ...] = ()
    flags: tuple[str, ...] = ()
    parallel_flags: tuple[str, ...] = ()
    unproved: tuple[str, ...] = ()


def load_profile(name: str, text: str | None = None) -> Profile:
    """The shipped profile of this name (amd, nvidia, cpu)."""
    table = tomllib.loads(text or files("rocmfix.smoke").joinpath("profiles.toml").read_text(encoding="utf-8"))
    if name not in table:
        raise SmokeError(f"no run profile is called {name}", hint=f"one of: {', '.join(sorted(table))}")
    body = dict(table[name])
    body["env"] = tuple(body.get("env", {}).items())
    try:
        return Profile.model_validate({"name": name, **body})
    except ValidationError as error:
        raise SmokeError(f"run profile {name} is wrong", details=tuple(str(error).splitlines()[:6])) from error
