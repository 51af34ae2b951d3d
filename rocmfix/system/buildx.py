"""`docker buildx`: what builds Dockerfiles that the engine's own builder cannot read."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rocmfix.errors import ToolMissingError
from rocmfix.system.docker_errors import BuildFailedError
from rocmfix.system.files import scratch_folder
from rocmfix.system.process import run


@dataclass(frozen=True)
class BuildxOrder:
    """One build. `secrets` are names of environment variables whose values only the build's own mounts see."""

    context: Path
    dockerfile: Path
    args: Mapping[str, str] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    secrets: tuple[str, ...] = ()
    attest: tuple[str, ...] = ()
    network: str | None = None

    def argv(self, iidfile: Path) -> list[str]:
        """The command line. Values of secrets are not on it."""
        argv = ["docker", "buildx", "build", "--load", "--progress", "plain", "--iidfile", str(iidfile)]
        argv += ["--file", str(self.dockerfile)]
        for name, value in sorted(self.args.items()):
            argv += ["--build-arg", f"{name}={value}"]
        for name, value in sorted(self.labels.items()):
            argv += ["--label", f"{name}={value}"]
        for name in self.secrets:
            argv += ["--secret", f"id={name},env={name}"]
        for kind in self.attest:
            argv += ["--attest", f"type={kind}"]
        if self.network:
            argv += ["--network", self.network]
        return [*argv, str(self.context)]


def version() -> str:
    """The version of buildx. Raises ToolMissingError when it is not there."""
    hint = "install Docker's buildx plugin (Debian 13: docker-buildx), or build an overlay: rocmfix build --base IMAGE"
    try:
        said = run(["docker", "buildx", "version"])
    except FileNotFoundError:
        raise ToolMissingError("the docker command is not there", hint=hint) from None
    if said.code:
        raise ToolMissingError("docker buildx is not there", details=said.tail[-1:], hint=hint)
    return said.out.split()[1] if len(said.out.split()) > 1 else said.out.strip()


def build(order: BuildxOrder, listen: Callable[[str], None], secrets: Sequence[str] = ()) -> str:
    """Run a build and return the image's id. `secrets` are values to keep out of a failure's lines."""
    lines: list[str] = []
    with scratch_folder() as folder:
        iidfile = folder / "iid"
        # BuildKit reads heredocs; buildx would otherwise follow a DOCKER_BUILDKIT=0 of the environment.
        env = {**os.environ, "DOCKER_BUILDKIT": "1"}
        with subprocess.Popen(
            order.argv(iidfile),
            env=env,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            errors="replace",
        ) as process:
            try:
                for line in process.stdout or ():
                    lines.append(line.rstrip())
                    listen(line.rstrip())
            except BaseException:
                process.terminate()
                raise
        if process.returncode or not iidfile.exists():
            raise BuildFailedError.of(lines[:-1], lines[-1] if lines else "buildx said nothing", secrets)
        return iidfile.read_text("ascii").strip()
