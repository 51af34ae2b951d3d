"""What will be smoked and how: the asked settings as one record, and the commands that follow from it."""

from __future__ import annotations

import shlex

from rocmfix.model import Record
from rocmfix.smoke.profile import Profile
from rocmfix.smoke.records import Depth

MODEL_IN_CONTAINER = "/model"
DRAFT_IN_CONTAINER = "/draft"
PORT_IN_CONTAINER = 30000
CUSTOM_ALL_REDUCE_OFF = "--disable-custom-all-reduce"


class SmokePlan(Record):
    """Everything asked for on the command line, checked and made explicit."""

    run: str
    image: str | None = None
    model: str | None = None
    draft_model: str | None = None
    urls: tuple[str, ...] = ()
    flavour: str | None = None
    profile: Profile
    runtime: str = "docker"
    python: str = "python3"
    algorithm: str = "EAGLE"
    depths: tuple[Depth, ...] = ()
    tp: int = 1
    pp: int = 1
    args: tuple[str, ...] = ()
    env: tuple[tuple[str, str], ...] = ()
    effort: str = "full"
    concurrency: tuple[int, ...] = (16, 32)
    crowd_depths: tuple[int, ...] = ()
    gsm8k: int = 0
    gsm8k_data: str | None = None
    start_seconds: float = 1800.0
    stall_seconds: float = 120.0
    has_host_network: bool = False
    runs_known_bad: bool = False

    @property
    def gfx(self) -> str | None:
        """The GPU the flavour is for: mi30x images hold gfx942 code, mi35x images gfx950 (upstream's tags)."""
        families = {"mi30x": "gfx942", "mi35x": "gfx950"}
        return next((gfx for family, gfx in families.items() if family in (self.flavour or "")), None)

    def flags(self, depth: Depth) -> tuple[str, ...]:
        """The server flags of one depth, the user's own last so that they win."""
        own = set(self.args)
        profile = self.profile.flags + (self.profile.parallel_flags if self.tp * self.pp > 1 else ())
        flags = [*(flag for flag in profile if flag not in own)]
        if self.tp > 1:
            flags += ["--tp-size", str(self.tp)]
        if self.pp > 1:
            flags += ["--pp-size", str(self.pp)]
        flags += self._speculation(depth)
        return (*flags, *self.args)

    def crowds(self, depth: Depth) -> tuple[int, ...]:
        """How many streams at once this depth is asked, in order."""
        asked = not self.crowd_depths or depth.steps in self.crowd_depths
        return self.concurrency if asked else ()

    def launch(self, depth: Depth, *, host: str, port: int) -> tuple[str, ...]:
        """The whole launch command of one depth, as sglang's own documentation writes it."""
        inside = self.runtime != "process"
        model = MODEL_IN_CONTAINER if inside else self.model or ""
        return (
            self.python, "-m", "sglang.launch_server",
            "--model-path", model,
            "--served-model-name", self.served_name(depth),
            "--host", host,
            "--port", str(port),
            *self.flags(depth),
        )  # fmt: skip

    def served_name(self, depth: Depth) -> str:
        """A name nobody else's server has: on a taken port /health is answered by somebody else's."""
        return f"rocmfix-{self.run}-{depth.label}"

    def _speculation(self, depth: Depth) -> list[str]:
        if depth.is_off:
            return []
        draft = DRAFT_IN_CONTAINER if self.runtime != "process" else self.draft_model
        return [
            "--speculative-algorithm", self.algorithm,
            *(["--speculative-draft-model-path", draft] if self.draft_model and draft else []),
            "--speculative-num-steps", str(depth.steps),
            "--speculative-eagle-topk", str(depth.topk),
            "--speculative-num-draft-tokens", str(depth.draft_tokens),
        ]  # fmt: skip


def flag_value(command: tuple[str, ...], flag: str) -> str | None:
    """The value a command gives a flag, in either spelling; the last one counts, as argparse has it."""
    value = None
    for place, word in enumerate(command):
        if word.startswith(f"{flag}="):
            value = word.partition("=")[2]
        elif word == flag and place + 1 < len(command):
            value = command[place + 1]
    return value


def shown(command: tuple[str, ...]) -> str:
    """A command as a line to paste into a shell."""
    return shlex.join(command)
