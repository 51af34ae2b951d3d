"""The command line: one thin module per verb, imported only when its verb is typed."""

from __future__ import annotations

import errno
import importlib
import os
import pkgutil

import click

from rocmfix import __version__
from rocmfix.errors import Interrupted, RocmfixError

SECTIONS = {
    "Judge and mend a tree": {
        "check": "which known ROCm defects it has, and why",
        "apply": "the fixes it needs, all of them or nothing",
        "diff": "what apply would change",
        "revert": "take back what apply did, to the byte",
        "fixes": "the catalogue of defects and fixes",
    },
    "Images": {
        "inspect": "the real sglang, AITER, tables and ENV in it",
        "build": "the base by digest and one layer of fixes",
        "verify": "the image against its own manifest",
        "compare": "two images: layers, files, fixes, ENV, tables",
        "publish": "push, checked first; release tags never move",
        "tags": "which digest a tag is, which tags are near",
        "lock": "pin what a build takes, to build it again",
    },
    "AITER, MTP and kernels": {
        "aiter": "tuned tables: doctor, coverage, merge, explain",
        "smoke": "prove MTP at depth 4 and deeper on a server",
        "guards": "CUDA-only includes: scan, guard, compile as HIP",
    },
    "Give back and keep watch": {
        "pr": "branches and texts for upstream, and their state",
        "waiver": "what is patched and why, for benchmark fleets",
        "drift": "what changed since the last look, as a page",
        "ci": "which images to build, bake file, attestations",
    },
    "Look after the catalogue": {
        "lint": "everything that loading refuses",
        "refresh": "edited commits back into patch files",
        "export": "a source's tree in upstream's layout",
    },
}
"""What `rocmfix --help` says of each verb; no verb's module is imported for it."""


class Verbs(click.Group):
    """Finds verbs by file name: `cli/fixes.py` with a click object `command` is `rocmfix fixes`.

    A file whose name starts with an underscore is shared code, not a verb. Verb modules import the rest of
    rocmfix inside their functions, so that a verb's `--help` costs what importing click costs.
    """

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        names = (module.name for module in pkgutil.iter_modules(__path__))
        return sorted(name.replace("_", "-") for name in names if not name.startswith("_"))

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.list_commands(ctx):
            return None
        module = importlib.import_module(f"{__name__}.{cmd_name.replace('-', '_')}")
        command: click.Command = module.command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 - click's
        width = max(len(verb) for verbs in SECTIONS.values() for verb in verbs)
        for title, verbs in SECTIONS.items():
            with formatter.section(title):
                formatter.write_dl([(verb.ljust(width), what) for verb, what in verbs.items()])

    def invoke(self, ctx: click.Context) -> object:
        """Run the verb; Ctrl-C ends in exit code 130 after every `finally` has cleaned up.

        A file or folder that nobody foresaw as unusable (a cache on a read-only disk) is the user's to mend.
        """
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            raise Interrupted from None
        except OSError as error:
            if error.filename is not None:
                raise _unusable(error) from error
            if error.errno in _FULL:
                raise RocmfixError(f"cannot write: {error.strerror}", hint=f"make room; {_ELSEWHERE}") from error
            raise  # a closed pipe, which click ends quietly, or a fault of ours


def _unusable(error: OSError) -> RocmfixError:
    name = os.fsdecode(error.filename) if isinstance(error.filename, str | bytes | os.PathLike) else error.filename
    hint = f"check that it is there and that you may use it; {_ELSEWHERE}"
    return RocmfixError(f"cannot use {name}: {error.strerror}", hint=hint)


_ELSEWHERE = "ROCMFIX_CACHE and TMPDIR name other places for what is kept"
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


@click.command(cls=Verbs, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="rocmfix")
def main() -> None:
    """Turns an upstream sglang that misbehaves on AMD GPUs into an image you can trust.

    Exit codes: 0 clean or done, 1 failed, 2 usage, 3 source, 4 catalogue, 5 apply, 6 tool missing, 7 engine,
    8 registry, 9 verify, 10 fixes needed, 11 defects unmended, 12 conflict, 13 tables, 14 smoke could not
    run, 15 guards, 16 giving back, 130 interrupted.
    """
