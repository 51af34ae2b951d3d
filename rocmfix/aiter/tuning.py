"""Runs a tuning plan in containers, keeping what is done so that the next run goes on from there."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path

from rocmfix.aiter.generation import Generation
from rocmfix.aiter.merging import merge_tables
from rocmfix.aiter.reader import TableFile
from rocmfix.aiter.schema import FMOE
from rocmfix.aiter.tune import Job, Options, Provenance, Rejected, Run, accepted, jobs, missing_shapes, runs
from rocmfix.errors import EngineError, TableError
from rocmfix.system import files, process

DONE = "done"
"""Written last into a job's folder: its digest vouches for the output beside it."""


def tune(  # noqa: PLR0913 - one argument a thing the user chose
    shapes: TableFile,
    options: Options,
    work: Path,
    *,
    rules: Generation,
    finished: str,
    tell: Callable[[str], None],
) -> tuple[bytes, Provenance]:
    """The table of every shape in `shapes`; jobs that a killed run finished are not run again."""
    planned = jobs(shapes)
    done: list[Run] = []
    for number, job in enumerate(planned, start=1):
        folder = work / job.name
        for run in runs(job, options, str(folder.absolute())):
            tell(f"[{number}/{len(planned)}] {job.rows} token counts{' (mxfp4)' if run.mxfp4 else ''}")
            _ensure(run, folder, tell)
            done.append(run)
    return _gathered(done, shapes, options, work, rules, finished)


def _ensure(run: Run, folder: Path, tell: Callable[[str], None]) -> None:
    """Run the container unless its output is there, whole, from the same command."""
    if _vouched(run, folder):
        tell("  done before")
        return
    files.write_atomic(folder / "untuned.csv", run.job.untuned.encode())
    try:
        code = process.stream(run.argv)
    except FileNotFoundError:
        raise EngineError(f"{run.argv[0]} is not installed", hint="give --engine podman, or install Docker") from None
    if code:
        raise EngineError(
            f"the tuner ended with exit code {code}",
            details=(" ".join(run.argv),),
            hint="run the same command again: finished shapes are kept",
        )
    if not files.is_regular(folder / run.output):
        raise TableError("the tuner ended well and wrote nothing", details=(" ".join(run.argv),))
    files.write_atomic(folder / f"{run.output}.{DONE}", _voucher(run, folder))


def _voucher(run: Run, folder: Path) -> bytes:
    digest = hashlib.sha256("\0".join(run.argv).encode() + run.job.untuned.encode())
    digest.update((folder / run.output).read_bytes())
    return digest.hexdigest().encode()


def _vouched(run: Run, folder: Path) -> bool:
    note = folder / f"{run.output}.{DONE}"
    present = files.is_regular(note) and files.is_regular(folder / run.output)
    return present and note.read_bytes() == _voucher(run, folder)


def _gathered(  # noqa: PLR0913, PLR0917 - what the provenance records
    done: Sequence[Run], shapes: TableFile, options: Options, work: Path, rules: Generation, finished: str
) -> tuple[bytes, Provenance]:
    taken: list[TableFile] = []
    refused: list[str] = []
    missing: list[str] = []
    by_job: dict[Job, list[TableFile]] = {}
    for run in done:
        path = work / run.job.name / run.output
        table, rejected = accepted(TableFile(str(path), path.read_bytes()), run.job)
        taken.append(table)
        by_job.setdefault(run.job, []).append(table)
        refused += [_said(table, item) for item in rejected]
    for job, tables in by_job.items():
        missing += set.intersection(*(set(missing_shapes(job, table)) for table in tables))
    # An mxmoe row's us is the whole pipeline: the pass the user asked for in addition wins where it has a row.
    plain = [table for run, table in zip(done, taken, strict=True) if not run.mxfp4]
    extra = [table for run, table in zip(done, taken, strict=True) if run.mxfp4]
    merged = merge_tables(plain, FMOE, rules, preferred=extra)
    return merged.data, Provenance(
        image=options.image,
        commands=tuple(run.argv for run in done),
        shapes_sha256=hashlib.sha256(shapes.data).hexdigest(),
        table_sha256=hashlib.sha256(merged.data).hexdigest(),
        rows=len(merged.origins),
        missing=tuple(sorted(missing)),
        rejected=tuple(refused),
        finished=finished,
    )


def _said(table: TableFile, item: Rejected) -> str:
    return f"{table.path}:{item.line}: {item.why}"
