"""Compiles a tree's kernels as HIP device code, as its own loader would, and says of each what came of it."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from difflib import get_close_matches
from enum import Enum
from functools import cached_property
from pathlib import Path
from threading import Event

from rocmfix.errors import SourceError
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
from rocmfix.system.process import Ran
from rocmfix.tree import Tree

_ERROR = re.compile(
    r"^(?:(?P<file>[^\s:][^:]*):(?P<line>\d+):(?:\d+:)? )?"
    r"(?:(?:clang|\S*lld)\S*: )?(?:fatal )?error: (?P<text>.*)$",
    re.MULTILINE,
)
_MOST_NEAR = 5
"""Files that are named to somebody who spelled none of the tree's."""
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
    left_out: tuple[str, ...] = ()
    """Files that a loader names and ROCm does not come to, where none was asked for by name."""
    unread: tuple[str, ...] = ()
    """Python files that are none, `file:line: why`: what they load is not known."""

    @property
    def is_clean(self) -> bool:
        """Whether nothing failed, and something was compiled."""
        came = {each.came for each in self.built}
        return Came.COMPILED in came and Came.FAILED not in came

    def leaving(self, kernels: Kernels) -> BuildReport:
        """The same, saying which files were not meant to be compiled: ROCm does not come to them."""
        left = sorted(kernels.roots.difference(kernels.reachable))
        return self.model_copy(update={"left_out": tuple(map(kernels.tree.shown, left))})


def is_open(met: Inclusion) -> bool:
    """Whether ROCm comes to an include that only CUDA has."""
    return met.found is None and met.active is not False and cuda_only(met.name) is not None


@dataclass(frozen=True)
class Job:
    """One unit to compile, or the reason why there is none."""

    loader: Loader | None
    file: str
    arch: str
    unit: Unit | None
    refusal: str = ""

    def place(self, tree: Tree) -> str:
        """`file:line` of the loader call, as `tree` shows it; empty where there is none."""
        return f"{tree.shown(self.loader.source.path)}:{self.loader.use.line}" if self.loader else ""


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
        """The files that `name`, a path or the end of one, can mean. Raises SourceError when there is none."""
        asked = posixpath.normpath(name).lstrip("/")
        files = self.sources.files
        matches = tuple(path for path in files if f"/{path}".endswith(f"/{asked}")) or tuple(
            path for path in files if f"/{asked}".endswith(f"/{self.tree.shown(path)}")
        )
        if not matches:
            near = get_close_matches(_stem(asked), {_stem(path) for path in files})
            raise SourceError(
                f"{self.tree.source} has no C++ file {name!r}",
                details=tuple(f"it has {self.tree.shown(path)}" for path in files if _stem(path) in near)[:_MOST_NEAR],
                hint="FILE is the end of a path in SOURCE; rocmfix guards scan SOURCE --all shows those with CUDA",
            )
        return matches

    def named(self, wanted: Sequence[str]) -> tuple[str, ...]:
        """The files that are compiled for what `wanted` spells: themselves, or those that include a header.

        A header that none of them reads stands for itself: of it, too, must be said what came.
        """
        paths = (path for name in wanted for path in self.spelled(name))
        return tuple(dict.fromkeys(root for path in paths for root in self.compiled_for(path) or (path,)))

    def compiled_for(self, path: str, macros: Macros = HIP) -> tuple[str, ...]:
        """`path` itself when a loader names it, else the files whose compilation where `macros` hold reads it."""
        if path in self.roots:
            return (path,)
        return tuple(sorted(each for each in self.roots if self.includes(each, path, macros)))

    def includes(self, root: str, header: str, macros: Macros = HIP) -> bool:
        """Whether compiling `root` where `macros` hold reads `header`."""
        return any(met.found == header and met.active is not False for met in inclusions(self.sources, root, macros))

    def jobs(self, files: Sequence[str], archs: Sequence[str]) -> tuple[Job, ...]:
        """One job for each loader call of each file and each architecture; one that says so where there is no call."""
        return tuple(
            self._job(loader, file, arch)
            for file in files
            for loader in tuple(each for each in self.loaders if file in each.files) or (None,)
            for arch in archs
        )

    def _job(self, loader: Loader | None, file: str, arch: str) -> Job:
        if loader is None:
            return Job(None, file, arch, None, "no loader call names it, nor a file that reads it on ROCm")
        if "gfx950" in file and arch != "gfx950":
            return Job(loader, file, arch, None, "its own name says gfx950 only")
        try:
            return Job(loader, file, arch, unit_of(loader, file, self.sources, self.program, arch))
        except NotReadableError as refusal:
            return Job(loader, file, arch, None, str(refusal))


def _stem(path: str) -> str:
    return posixpath.basename(path).partition(".")[0]


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
    return BuildReport(source=kernels.tree.source, toolchain=toolchain.name, built=built, unread=kernels.program.unread)


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
    where, shown = job.place(kernels.tree), kernels.tree.shown(job.file)
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
        came, text, at = _judged(done.ran, job)
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


def _judged(ran: Ran, job: Job) -> tuple[Came, str, str]:
    if ran.code == 0:
        return Came.COMPILED, "", ""
    found = _ERROR.search(ran.err)
    if found is None:
        last = (ran.err.strip().splitlines() or [f"the compiler ended with {ran.code}, without a word"])[-1]
        return (Came.NOT_COMPILABLE if _was_killed(ran) else Came.FAILED), last, ""
    at = f"{found['file']}:{found['line']}" if found["file"] else ""
    text = found["text"].strip() or "an #error without a word"
    missing = MISSING.search(text)
    if missing and cuda_only(missing[1]) is None:
        return Came.NOT_COMPILABLE, f"{missing[1]} is not in this tree nor in the toolchain", at
    unit = job.unit if "mask must be a 64-bit" not in text else None  # AMD's header, whatever was guessed
    if unit and unit.guessed and ("static assertion" in text or (found["file"] or "").startswith("unit_")):
        return Came.NOT_COMPILABLE, f"{text} (with our guess: {', '.join(unit.guessed)})", at
    return Came.FAILED, text, at


def _was_killed(ran: Ran) -> bool:
    """By a signal, such as where memory ran out: negative for a program, above 128 for one in a container."""
    return ran.code < 0 or ran.code > 128


def _shown(at: str, kernels: Kernels, folder: Path) -> str:
    path, _, line = at.removeprefix(f"{folder}/").removeprefix("./").rpartition(":")
    return (
        f"{kernels.tree.shown(path)}:{line}" if path in kernels.sources.known else at.rpartition("/")[2] if at else ""
    )
