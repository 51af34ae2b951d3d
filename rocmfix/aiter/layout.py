"""An AITER tree in either layout: a checkout, or a wheel that keeps `csrc` and `hsa` in `aiter_meta`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from rocmfix.errors import TableError
from rocmfix.tree import Tree

CORE = "aiter/jit/core.py"
FUSED_MOE = "aiter/fused_moe.py"
CHIP_INFO = "aiter/jit/utils/chip_info.py"
CONFIGS = "aiter/configs"
MODEL_CONFIGS = f"{CONFIGS}/model_configs"
META = ("csrc", "hsa")
FOLDERS = (CONFIGS, "aiter/ops/flydsl", "aiter/aot/flydsl", *META)
FILES = (CORE, FUSED_MOE)
"""With FOLDERS what is read of an AITER in an image. Not all of `aiter/`: its libraries are gigabytes."""
BAKED = "/etc/rocmfix/aiter"
"""Where tables are baked: outside AITER's own folders, where a file would be merged in directory order."""
VARIABLES = "AITER_CONFIG_"
"""How the variables begin that name tables."""


def is_told(path: str) -> bool:
    """Whether a file of FOLDERS says anything about tables or kernels."""
    return path.endswith((".py", ".csv"))


def named_tables(env: Mapping[str, str]) -> tuple[str, ...]:
    """The tables that an environment selects, by absolute path."""
    values = (value for name, value in sorted(env.items()) if name.startswith(VARIABLES))
    return tuple(path for value in values for path in value.split(":") if path.startswith("/"))


@dataclass(frozen=True)
class AiterTree:
    """An AITER tree read by the paths of AITER's repository; `root` is where it starts in `tree`.

    A path that begins with `/` is one of the image that the tree lies in.
    """

    tree: Tree
    root: str = field(default="")
    env: Mapping[str, str] = field(default_factory=dict)
    """The environment it is run in, where that is known (an image's): its variables may name other tables."""

    def __post_init__(self) -> None:
        if self.read(CORE) is None:
            raise TableError(
                f"{self.tree.source} holds no AITER: there is no {CORE}",
                hint="name the folder that has `aiter/` in it: a checkout, or where the wheel was unpacked",
            )

    @property
    def source(self) -> str:
        """What the user typed."""
        return self.tree.source

    @cached_property
    def meta(self) -> str:
        """The prefix of `csrc` and `hsa`: none in a checkout, `aiter_meta/` in a wheel (setup.py)."""
        for prefix in ("", "aiter_meta/"):
            if any(True for _ in self.tree.paths(f"{self.root}{prefix}csrc")):
                return prefix
        return ""

    def read(self, path: str) -> bytes | None:
        """The bytes of the file at repository path `path`."""
        return self.tree.read(self._stored(path))

    def text(self, path: str) -> str | None:
        """The text of a source file, or None."""
        data = self.read(path)
        return None if data is None else data.decode("utf-8", errors="replace")

    def shown(self, path: str) -> str:
        """`path` as the tree spells it, for messages."""
        return self.tree.shown(self._stored(path))

    def paths(self, under: str, suffix: str = "") -> tuple[str, ...]:
        """Every file below `under` that ends with `suffix`, as sorted repository paths."""
        stored = self._stored(under)
        cut = len(stored) - len(under)
        return tuple(path[cut:] for path in self.tree.paths(stored) if path.endswith(suffix))

    def _stored(self, path: str) -> str:
        if path.startswith("/"):
            return path
        prefix = self.meta if path.split("/", 1)[0] in META else ""
        return f"{self.root}{prefix}{path}"
