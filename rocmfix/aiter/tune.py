"""Plans and judges a tuning run: AITER's own tuner in the image, one shape a container, so a kill costs one."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Annotated

from pydantic import StringConstraints

from rocmfix.aiter import frame as csv
from rocmfix.aiter.findings import Shown
from rocmfix.aiter.frame import UnreadableError
from rocmfix.aiter.layout import AiterTree
from rocmfix.aiter.reader import TableFile
from rocmfix.aiter.schema import MOE_TUNER, UNTUNED_FMOE
from rocmfix.errors import TableError
from rocmfix.model import Record

HOME = "/sgl-workspace/aiter"
"""Where sglang's ROCm images keep AITER (`docker/rocm.Dockerfile`)."""
SHAPE = tuple(name for name in UNTUNED_FMOE if name != "token")


class Options(Record):
    """What the user may change about the run."""

    image: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][\w./:@-]*$")]
    gpus: int = 8
    engine: str = "docker"
    timeout: int = 7200
    mxfp4: bool = False
    """A second pass with `--mxfp4-flydsl`, whose candidates AITER's normal pass never sees."""
    home: str = HOME


class Job(Record):
    """One shape with its token counts: what one run of the tuner does."""

    name: str
    untuned: str
    rows: int


class Run(Record):
    """One container: the job's command, ready to be run or shown."""

    job: Job
    mxfp4: bool
    argv: tuple[str, ...]
    output: str
    """The file the tuner writes, in the job's folder."""


class Rejected(Record):
    """A tuned row that is not taken."""

    line: int
    why: Shown


class Provenance(Record):
    """Where a tuned table came from."""

    image: str
    commands: tuple[tuple[str, ...], ...]
    shapes_sha256: str
    table_sha256: str
    rows: int
    missing: tuple[Shown, ...]
    rejected: tuple[Shown, ...]
    finished: str


def jobs(shapes: TableFile) -> tuple[Job, ...]:
    """One job a shape. Raises TableError for an untuned CSV the tuner would not take."""
    try:
        frame = csv.read(shapes.data, shapes.path)
    except UnreadableError as error:
        raise TableError(f"{error.at.file}:{error.at.line}: {error}") from None
    missing = [name for name in UNTUNED_FMOE if name not in frame.columns]
    if missing or not len(frame):
        raise TableError(
            f"{shapes.path}: {'no rows' if not missing else 'no column ' + ', '.join(missing)}",
            hint="rocmfix aiter coverage --untuned writes such a file",
        )
    groups: dict[tuple[object, ...], list[str]] = {}
    for row, cells in enumerate(frame.keys(UNTUNED_FMOE)):
        if None in cells:
            raise TableError(f"{shapes.path}:{frame.origins[row].line}: an empty cell")
        line = ",".join(csv.written(cell) for cell in cells)
        groups.setdefault(frame.keys(SHAPE)[row], []).append(line)
    return tuple(_job(lines) for lines in groups.values())


def _job(lines: Sequence[str]) -> Job:
    unique = tuple(dict.fromkeys(lines))
    text = "\n".join([",".join(UNTUNED_FMOE), *unique]) + "\n"
    return Job(name=hashlib.sha256(text.encode()).hexdigest()[:16], untuned=text, rows=len(unique))


def runs(job: Job, options: Options, folder: str, tree: AiterTree | None = None) -> tuple[Run, ...]:
    """The containers of a job. `tree` is the image's AITER, when it is at hand, to see that the tuner is there."""
    if tree is not None and tree.read(MOE_TUNER) is None:
        raise TableError(
            f"{tree.source} has no {MOE_TUNER}", hint="tuners before v0.1.11 are not driven: use a newer image to tune"
        )
    passes = (False, True) if options.mxfp4 else (False,)
    return tuple(_run(job, options, folder, mxfp4=mxfp4) for mxfp4 in passes)


def _run(job: Job, options: Options, folder: str, *, mxfp4: bool) -> Run:
    if ":" in folder:
        raise TableError(f"{folder}: a container engine cannot mount a path with a colon", hint="give another --work")
    output = "mxfp4.csv" if mxfp4 else "tuned.csv"
    # --all compares anew what a kept file already has; --shape_grouped and the rest as ROCm/aiter#4629 ran it.
    tuner = (
        "python3", f"{options.home}/{MOE_TUNER}",
        "-i", "/tune/untuned.csv",
        "-o", f"/tune/{output}",
        "--all", "--shape_grouped",
        "--mp", str(options.gpus),
        "--batch", "100", "--warmup", "5", "--iters", "101",
        "--timeout", str(options.timeout),
    )  # fmt: skip
    container = (
        options.engine, "run", "--rm", "--network=none", "--ipc=host",
        "--device=/dev/kfd", "--device=/dev/dri", "--group-add=video",
        "--security-opt=seccomp=unconfined",
        f"--volume={folder}:/tune",
        f"--workdir={options.home}",
        "--entrypoint=",
        options.image,
    )  # fmt: skip
    return Run(job=job, mxfp4=mxfp4, argv=(*container, *tuner, *(("--mxfp4-flydsl",) if mxfp4 else ())), output=output)


def accepted(file: TableFile, job: Job) -> tuple[TableFile, tuple[Rejected, ...]]:
    """The rows of a tuner's output that may be used: asked for, timed, and not FAILED."""
    frame = csv.read(file.data, file.path)
    missing = [name for name in (*UNTUNED_FMOE, "us", "kernelName1") if name not in frame.columns]
    if missing:
        raise TableError(f"{file.path}: the tuner wrote no column {', '.join(missing)}")
    asked = set(csv.read(job.untuned.encode(), "untuned.csv").keys(UNTUNED_FMOE))
    rejected = []
    for row, cells in enumerate(frame.keys(UNTUNED_FMOE)):
        if why := _why_not(frame.row(row), asked=cells in asked):
            rejected.append(Rejected(line=frame.origins[row].line, why=why))
    gone = {item.line for item in rejected}
    lines = file.data.decode("utf-8-sig").replace("\r\n", "\n").split("\n")
    kept = "\n".join(line for number, line in enumerate(lines, start=1) if number not in gone)
    return TableFile(file.path, kept.encode()), tuple(rejected)


def _why_not(row: dict[str, csv.Cell], *, asked: bool) -> str | None:
    names = [str(row.get(name) or "") for name in ("kernelName1", "kernelName2")]
    us = row.get("us")
    if any(name.startswith("FAILED") for name in names):
        return "the tuner failed on this shape"
    if not isinstance(us, int | float) or isinstance(us, bool) or not us > 0:
        return f"us is {us}: not timed"
    return None if asked else "a shape that was not asked for"


def missing_shapes(job: Job, file: TableFile) -> tuple[str, ...]:
    """The token counts of the job that no accepted row answers."""
    have = set(csv.read(file.data, file.path).keys(UNTUNED_FMOE))
    lines = job.untuned.splitlines()[1:]
    asked = csv.read(job.untuned.encode(), "untuned.csv").keys(UNTUNED_FMOE)
    return tuple(line for line, cells in zip(lines, asked, strict=True) if cells not in have)
