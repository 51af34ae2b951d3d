"""Compiles a tree's kernels as HIP device code, as its own loader would, and says of each what came of it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from pathlib import Path
from threading import Event

from rocmfix.errors import GuardError
from rocmfix.guards.chain import Inclusion, Sources, inclusions
from rocmfix.guards.conditionals import HIP, Macros
from rocmfix.guards.headers import cuda_only
from rocmfix.guards.loaders import Loader, loaders
from rocmfix.guards.program import Program
from rocmfix.guards.reach import Reachable, reach
from rocmfix.guards.toolchain import Toolchain
from rocmfix.guards.units import NotReadableError, Unit, unit_of
from rocmfix.model import Record
from rocmfix.system.compiler import processors, workspace
from rocmfix.system.files import Copied, write_out
from rocmfix.tree import Tree

_ERROR = re.compile(
    r"^(?:(?P<file>[^\s:][^:]*):(?P<line>\d+):(?:\d+:)? )?(?:clang\S*: )?(?:fatal )?error: (?P<text>.*)$", re.MULTILINE
)
MISSING = re.compile(r"'([^']+)' file not found")


class Came(str, Enum):
    """How a compilation ended."""

    COMPILED = "compiled"
    FAILED = "failed"
    NOT_COMPILABLE = "not compilable here"


class Built(Record):
    """One file, one loader call, one architecture."""

    file: str
    arch: str
    loader: str
    came: Came
    kernels: int = 0
    """Template instantiations in the unit."""
    error: str | None = None
    at: str | None = None
    """`file:line` of the first error."""
    guessed: tuple[str, ...] = ()
    """Template arguments that the tree does not spell out, with the value taken."""
    seconds: float = 0.0


class BuildReport(Record):
    """What became of every file that was asked for."""

    source: str
    toolchain: str
    built: tuple[Built, ...]

    @property
    def is_clean(self) -> bool:
        """Whether nothing failed, and something was compiled."""
        came = {each.came for each in self.built}
        return Came.COMPILED in came and Came.FAILED not in came


def is_open(met: Inclusion) -> bool:
    """Whether ROCm comes to an include that only CUDA has."""
    return met.found is None and met.active is not False and cuda_only(met.name) is not None


@dataclass(frozen=True)
class Job:
    """One unit to compile, or the reason why there is none."""

    loader: Loader
    file: str
    arch: str
    unit: Unit | None
    refusal: str = ""


class Kernels:
    """The Python and C++ of a tree, read once, from which jobs are made."""

    def __init__(self, tree: Tree, *, like: Kernels | None = None) -> None:
        """`like` is the same tree with other C++: its Python is not read again."""
        self.tree = tree
        self.sources = Sources(tree)
        self.program: Program = like.program if like else Program(tree)
        self.loaders: tuple[Loader, ...] = like.loaders if like else tuple(loaders(self.program, self.sources))

    @cached_property
    def reachable(self) -> tuple[str, ...]:
        """Files that a loader names and that ROCm can come to, as far as can be told."""
        answers = zip(self.loaders, reach(self.program, self.loaders), strict=True)
        open_ = (loader for loader, answer in answers if answer.reachable is not Reachable.NO)
        return tuple(sorted({file for loader in open_ for file in loader.files}))

    @cached_property
    def roots(self) -> frozenset[str]:
        """Files that a loader names."""
        return frozenset(file for each in self.loaders for file in each.files)

    def guardable(self) -> tuple[str, ...]:
        """Every file, headers too, with a CUDA-only include that ROCm comes to."""
        met = (each for root in self.reachable for each in inclusions(self.sources, root, HIP))
        return tuple(sorted({each.hop.file for each in met if is_open(each)}))

    def spelled(self, name: str) -> tuple[str, ...]:
        """The files that `name`, a path or the end of one, can mean. Raises GuardError when there is none."""
        matches = tuple(path for path in self.sources.files if f"/{path}".endswith("/" + name.lstrip("/")))
        if not matches:
            raise GuardError(f"{self.tree.source} has no C++ file {name}", hint="rocmfix guards scan lists them")
        return matches

    def named(self, wanted: Sequence[str]) -> tuple[str, ...]:
        """The files that are compiled for what `wanted` spells: themselves, or those that include a header."""
        paths = (path for name in wanted for path in self.spelled(name))
        return tuple(dict.fromkeys(root for path in paths for root in self.compiled_for(path)))

    def compiled_for(self, path: str, macros: Macros = HIP) -> tuple[str, ...]:
        """`path` itself when a loader names it, else the files whose compilation where `macros` hold reads it."""
        if path in self.roots:
            return (path,)
        return tuple(sorted(each for each in self.roots if self.includes(each, path, macros)))

    def includes(self, root: str, header: str, macros: Macros = HIP) -> bool:
        """Whether compiling `root` where `macros` hold reads `header`."""
        return any(met.found == header and met.active is not False for met in inclusions(self.sources, root, macros))

    def jobs(self, files: Sequence[str], archs: Sequence[str]) -> tuple[Job, ...]:
        """One job for each loader call of each file and each architecture."""
        return tuple(
            self._job(loader, file, arch)
            for file in files
            for loader in self.loaders
            if file in loader.files
            for arch in archs
        )

    def _job(self, loader: Loader, file: str, arch: str) -> Job:
        if "gfx950" in file and arch != "gfx950":
            return Job(loader, file, arch, None, "its own name says gfx950 only")
        try:
            return Job(loader, file, arch, unit_of(loader, file, self.sources, self.program, arch))
        except NotReadableError as refusal:
            return Job(loader, file, arch, None, str(refusal))


def build(
    kernels: Kernels, files: Sequence[str], archs: Sequence[str], toolchain: Toolchain, *, until_failure: bool = False
) -> BuildReport:
    """Compile `files` for `archs`; `until_failure` leaves out what had not begun when one failed."""
    failed = Event()

    def one(number: int, job: Job) -> Built | None:
        if until_failure and failed.is_set():
            return None
        built = _compile(kernels, number, job, folder, toolchain)
        if built.came is Came.FAILED:
            failed.set()
        return built

    jobs = kernels.jobs(files, archs)
    with workspace() as folder:
        write_out(folder, copies(kernels, files))
        with ThreadPoolExecutor(processors()) as pool:
            built = tuple(each for each in pool.map(one, range(len(jobs)), jobs) if each)
    return BuildReport(source=kernels.tree.source, toolchain=toolchain.name, built=built)


def copies(kernels: Kernels, files: Sequence[str]) -> Iterator[Copied]:
    """The C++ that compiling `files` may read, where the tree has it."""
    tops = {
        next((root for root in kernels.sources.kernel_roots if file.startswith(root)), file.rpartition("/")[0])
        for file in files
    }
    for path in kernels.sources.files:
        if any(path.startswith(top + "/") for top in tops):
            yield Copied(path, kernels.tree.read(path) or b"")


def _compile(kernels: Kernels, number: int, job: Job, folder: Path, toolchain: Toolchain) -> Built:
    where = f"{kernels.tree.shown(job.loader.source.path)}:{job.loader.use.line}"
    shown = kernels.tree.shown(job.file)
    if job.unit is None:
        return Built(file=shown, arch=job.arch, loader=where, came=Came.NOT_COMPILABLE, error=job.refusal)
    source = f"unit_{number}.hip"
    (folder / source).write_text(job.unit.text, encoding="utf-8")
    came, text, at, seconds = Came.FAILED, "", "", 0.0
    for headers in toolchain.tvm_ffi:
        done = toolchain.run(
            toolchain.argv(source, job.arch, job.unit.flags, (*job.unit.includes, str(headers))), folder
        )
        seconds += done.seconds
        came, text, at = _judged(done.ran.err, job, ok=done.ok)
        if done.ok or "tvm" not in f"{text}{at}":  # written against another tvm-ffi: try the next older one
            break
    return Built(
        file=shown,
        arch=job.arch,
        loader=where,
        came=came,
        kernels=len(job.unit.kernels),
        error=text or None,
        at=_shown(at, kernels, folder) or None,
        guessed=job.unit.guessed,
        seconds=round(seconds, 2),
    )


def _judged(said: str, job: Job, *, ok: bool) -> tuple[Came, str, str]:
    if ok:
        return Came.COMPILED, "", ""
    found = _ERROR.search(said)
    if found is None:
        return Came.FAILED, (said.strip().splitlines() or ["the compiler failed without a word"])[-1], ""
    at = f"{found['file']}:{found['line']}" if found["file"] else ""
    missing = MISSING.search(found["text"])
    if missing and cuda_only(missing[1]) is None:
        return Came.NOT_COMPILABLE, f"{missing[1]} is not in this tree nor in the toolchain", at
    unit = job.unit if "mask must be a 64-bit" not in found["text"] else None  # AMD's header, whatever was guessed
    if unit and unit.guessed and ("static assertion" in found["text"] or (found["file"] or "").startswith("unit_")):
        return Came.NOT_COMPILABLE, f"{found['text']} (with our guess: {', '.join(unit.guessed)})", at
    return Came.FAILED, found["text"], at


def _shown(at: str, kernels: Kernels, folder: Path) -> str:
    path, _, line = at.removeprefix(f"{folder}/").removeprefix("./").rpartition(":")
    return (
        f"{kernels.tree.shown(path)}:{line}" if path in kernels.sources.known else at.rpartition("/")[2] if at else ""
    )
