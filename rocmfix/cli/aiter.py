"""`rocmfix aiter`: examine, merge, explain and tune AITER's tables."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from rocmfix.cli._options import dry_run_option, json_option, print_json
from rocmfix.cli._tables import contents, opened, say, table_file, writable

if TYPE_CHECKING:
    from rocmfix.aiter.launch import Model

F = TypeVar("F", bound=Callable[..., Any])

TREE_HELP = "An AITER tree: a checkout, an unpacked wheel, a .whl file, git:REF, git:URL@REF, or an image."
CSV = click.Path(path_type=Path, exists=True, dir_okay=False)
QUANT = click.Choice(["mxfp4", "fp8", "fp8-token", "bf16"])
LARGEST_LOG = 256 << 20
MOST = 1 << 60
"""Of tokens or calls: above it their product says nothing."""


@click.group()
def command() -> None:
    """Tuned tables of AITER: find what is wrong, see what a launch hits, merge, explain, tune.

    TREE is an AITER checkout, an unpacked wheel, a .whl file, git:REF of ROCm/aiter, git:URL@REF, a release, or
    an image (in the engine or its registry; nothing is pulled), whose ENV says which tables it reads.
    """


def gfx_option(function: F) -> F:
    """`--gfx`: the chip."""
    return click.option(
        "--gfx", type=click.Choice(["gfx942", "gfx950"]), default="gfx950", show_default=True, help="The chip."
    )(function)


def in_option(function: F) -> F:
    """`--in TREE`: the AITER whose tables are asked."""
    return click.option("--in", "tree", required=True, metavar="TREE", help=TREE_HELP)(function)


@command.command()
@click.argument("what", nargs=-1, required=True, metavar="TREE|CSV...")
@click.option("--for", "tree", metavar="TREE", help="The AITER that will read the CSVs. " + TREE_HELP)
@gfx_option
@click.option("--fmoe", is_flag=True, help="Only the fused-MoE tables.")
@click.option("--all", "everything", is_flag=True, help="Print every finding, not the first five of each kind.")
@json_option
@click.pass_context
def doctor(
    ctx: click.Context,
    *,
    what: tuple[str, ...],
    tree: str | None,
    gfx: str,
    fmoe: bool,
    everything: bool,
    as_json: bool,
) -> None:
    """Find every defect in the tables of an AITER, or in CSVs that it is to read.

    Exits 1 when something stops the server or may give wrong answers, 0 otherwise.
    """
    from rocmfix.aiter.doctor import examine
    from rocmfix.aiter.findings import Severity
    from rocmfix.aiter.schema import FAMILIES, FMOE
    from rocmfix.aiter.show import report_lines

    files = [Path(item) for item in dict.fromkeys(what) if item.endswith(".csv")]
    trees = [item for item in what if not item.endswith(".csv")] + ([] if tree is None else [tree])
    if len(trees) != 1:
        taken = f"; {' and '.join(trees)} are taken for one, since tables end in .csv" if trees else ""
        raise click.UsageError(f"name one AITER: TREE, or --for TREE with CSVs{taken}")
    report = examine(
        opened(trees[0]), [table_file(path) for path in files], gfx, families=(FMOE,) if fmoe else FAMILIES
    )
    if as_json:
        print_json(report)
    else:
        say(report_lines(report, most=0 if everything else 5))
    ctx.exit(1 if report.worst in {Severity.BOOT, Severity.WRONG_OUTPUT} else 0)


@command.command()
@click.argument("model", type=click.Path(path_type=Path, exists=True), required=False, metavar="[MODEL_DIR|CONFIG]")
@in_option
@click.option("--tp", type=click.IntRange(1), required=True, help="Tensor parallel size.")
@click.option("--dp", type=click.IntRange(1), default=1, help="Attention data parallel size.")
@click.option("--ep", type=click.IntRange(1), default=1, help="Expert parallel size.")
@click.option("--shared-fusion/--no-shared-fusion", default=None, help="Shared expert in the MoE kernel, or not.")
@click.option("--quant", type=QUANT, help="How the experts are quantised; by default as the config says.")
@click.option("--draft-tokens", type=click.IntRange(0), default=0, help="--speculative-num-draft-tokens of the launch.")
@click.option("--batch", "batches", type=click.IntRange(1), multiple=True, help="A decode batch size. Repeatable.")
@click.option("--chunk", type=click.IntRange(1), default=16384, show_default=True, help="--chunked-prefill-size.")
@click.option("--hidden", type=click.IntRange(1), help="Hidden size, for a model without config.json.")
@click.option("--inter", type=click.IntRange(1), help="Inner size of an expert.")
@click.option("--experts", type=click.IntRange(1), help="Routed experts.")
@click.option("--topk", type=click.IntRange(1), help="Experts a token.")
@click.option("--shared", type=click.IntRange(0, 1), default=0, help="Shared experts.")
@click.option("--workload", multiple=True, metavar="TOKENS=CALLS", help="Calls with so many tokens. Repeatable.")
@click.option("--table", "tables", type=CSV, multiple=True, help="Use these CSVs.")
@click.option("--cu-num", type=click.IntRange(1), help="Compute units, where they are not the chip's usual ones.")
@click.option("--untuned", type=click.Path(path_type=Path), help="Write what no row answers, for the tuner.")
@gfx_option
@json_option
@click.pass_context
def coverage(
    ctx: click.Context, /, model: Path | None, tree: str, untuned: Path | None, *, as_json: bool, **flags: Any
) -> None:
    """See which fused-MoE lookups of a launch hit a tuned row, and which run the heuristic.

    Exits 1 when none hits, 0 otherwise: as for doctor, a hole is slow and stops nothing.
    """
    from rocmfix.aiter.coverage import cover, share, table_of
    from rocmfix.aiter.launch import Launch, untuned as asking
    from rocmfix.aiter.schema import UNTUNED_FMOE
    from rocmfix.aiter.show import coverage_lines

    described, workload = _model(model, flags), _workload(flags["workload"])
    target = untuned and writable(untuned, *flags["tables"], *([model] if model else []))
    table = table_of(opened(tree), tuple(table_file(path) for path in flags["tables"]), flags["gfx"])
    names = ("tp", "dp", "ep", "shared_fusion", "draft_tokens", "chunk", "gfx", "cu_num", "batches")
    launch = Launch(quant=described.quant, **{name: flags[name] for name in names if flags[name] not in {None, ()}})
    found = cover(table, described, launch)
    if target is not None:
        from rocmfix.system import files

        files.write_atomic(target, asking(found.missing, UNTUNED_FMOE).encode())
    if as_json:
        print_json(found)
    else:
        say(coverage_lines(found))
        if workload:
            click.echo(f"{share(table, described, launch, workload):.1%} of the workload's tokens hit")
    ctx.exit(0 if found.hit else 1)


def _model(path: Path | None, flags: dict[str, Any]) -> Model:
    from rocmfix.aiter.launch import Model, read_model

    sizes = {name: flags[name] for name in ("hidden", "inter", "experts", "topk")}
    if path is not None:
        if given := [f"--{name}" for name, value in sizes.items() if value is not None]:
            raise click.UsageError(f"{', '.join(given)} and a config.json: give one or the other")
        config = path / "config.json" if path.is_dir() else path
        return read_model(contents(config).decode("utf-8", "replace"), flags["quant"])
    if None in sizes.values():
        raise click.UsageError("give MODEL_DIR, or --hidden, --inter, --experts and --topk")
    if sizes["topk"] > sizes["experts"]:
        raise click.UsageError(f"--topk {sizes['topk']}, of --experts {sizes['experts']}")
    return Model(name="flags", shared=flags["shared"], quant=flags["quant"] or "mxfp4", **sizes)


def _workload(parts: tuple[str, ...]) -> dict[int, float]:
    try:
        pairs = [part.split("=", 1) for part in parts]
        found = {int(count): float(often) for count, often in pairs}
    except ValueError:
        found = {0: 0.0}
    if any(not 0 < count < MOST or not 0 < often < MOST for count, often in found.items()):
        raise click.UsageError("--workload is TOKENS=CALLS, such as 64=1000")
    return found


@command.command()
@click.argument("csvs", nargs=-1, required=True, type=CSV, metavar="CSV...")
@click.option("--for", "tree", required=True, metavar="TREE", help=TREE_HELP)
@click.option("--prefer", "preferred", multiple=True, type=CSV,
              metavar="CSV", help="A further file, whose rows win over all others. Repeatable.")  # fmt: skip
@click.option("-o", "--output", type=click.Path(path_type=Path), required=True, help="The merged table.")
@gfx_option
@dry_run_option
def merge(
    *,
    csvs: tuple[Path, ...],
    tree: str,
    preferred: tuple[Path, ...],
    output: Path,
    gfx: str,
    dry_run: bool,
) -> None:
    """Merge tables offline by an AITER's rules: one row a key, the lower us, and no guessing."""
    from rocmfix.aiter.merging import merge_tables, without_rows
    from rocmfix.aiter.probing import probe
    from rocmfix.aiter.selection import family_by_content
    from rocmfix.errors import TableError
    from rocmfix.system import files

    rules = probe(opened(tree))
    if rules is None or not rules.known:
        raise TableError(f"{tree}: this AITER reads its tables in a way not seen before")
    tables = [table_file(path) for path in dict.fromkeys(csvs)]
    first, *others = families = [family_by_content(file) for file in tables]
    writable(output, *csvs, *preferred)
    if any(family is not first for family in others):
        raise TableError("these are tables of different families", details=tuple(family.name for family in families))
    merged = merge_tables(tables, first, rules, preferred=[table_file(path) for path in preferred], gfx=gfx)
    if merged.empty:
        raise without_rows(merged.empty)
    say((f"{gone.file}:{gone.line} gave way to {kept.file}:{kept.line}" for gone, kept in merged.dropped), err=True)
    if not dry_run:
        files.write_atomic(output, merged.data)
    say((f"{len(merged.origins)} rows{'' if dry_run else f' in {output}'}; use it with {first.variable}={output}",))


@command.command()
@click.argument("what", metavar="KEY|LOGFILE")
@in_option
@click.option("--table", "tables", type=CSV, multiple=True, help="Use these CSVs.")
@gfx_option
@click.pass_context
@json_option
def explain(ctx: click.Context, what: str, tree: str, tables: tuple[Path, ...], gfx: str, *, as_json: bool) -> None:
    """Say which row answers a lookup and why, or what the heuristic costs.

    KEY is the tuple of a [fused_moe] log line or the first cells of a row; of a LOGFILE every key is explained.
    Exits 1 when no row answers any.
    """
    from rocmfix.aiter.coverage import summed, table_of
    from rocmfix.aiter.lookup import keys_in, parse, rows_by_key
    from rocmfix.aiter.show import answer_lines
    from rocmfix.errors import TableError

    table = table_of(opened(tree), tuple(table_file(path) for path in tables), gfx)
    log = _log(what)
    if log is None and "," not in what:
        raise TableError(f"{what!r} is neither a key nor a file", hint="a key is the tuple of a [fused_moe] log line")
    keys = (parse(what),) if log is None else keys_in(log[-LARGEST_LOG:].decode(errors="replace"))
    if not keys:
        raise TableError(f"{what} has no [fused_moe] line", hint="start the server with AITER_LOG_LEVEL=INFO")
    found = summed(table, tuple(rows_by_key(table, keys)))
    if as_json:
        print_json(found)
    else:
        say(answer_lines(found.keys))
    ctx.exit(0 if found.hit else 1)


def _log(what: str) -> bytes | None:
    try:
        is_file = Path(what).is_file()
    except OSError:  # a key is longer than the name of a file may be
        return None
    return contents(Path(what)) if is_file else None


@command.command()
@click.option("--shapes", type=CSV, required=True,
              help="An untuned CSV: coverage --untuned writes one.")  # fmt: skip
@click.option("--image", required=True, help="The image whose AITER tunes, best by digest.")
@click.option("--for", "tree", required=True, metavar="TREE", help="The AITER of that image. " + TREE_HELP)
@click.option("-o", "--output", type=click.Path(path_type=Path), required=True, help="The tuned table.")
@click.option("--work", type=click.Path(path_type=Path, file_okay=False), default=Path("aiter-tune"), show_default=True,
              help="Where finished shapes are kept.")  # fmt: skip
@click.option("--gpus", type=click.IntRange(1), default=8, show_default=True, help="GPUs to tune on.")
@click.option("--engine", default="docker", show_default=True, help="The program that runs containers.")
@click.option("--timeout", type=click.IntRange(1), default=7200, show_default=True, help="Seconds a shape may take.")
@click.option("--mxfp4", is_flag=True, help="A second pass over the mxmoe kernels; its rows win.")
@dry_run_option
def tune(*, shapes: Path, image: str, tree: str, output: Path, work: Path, dry_run: bool, **flags: Any) -> None:
    """Run AITER's own tuner in an image on a GPU node; run it again after a kill and it goes on."""
    from rocmfix.aiter.probing import probe
    from rocmfix.aiter.tune import Options, jobs, runs
    from rocmfix.errors import TableError

    writable(output, shapes)
    opened_tree = opened(tree)
    rules = probe(opened_tree)
    if rules is None or not rules.known:
        raise TableError(f"{tree}: this AITER reads its tables in a way not seen before")
    try:
        options = Options(image=image, **flags)
    except ValueError:
        raise click.UsageError(f"--image {image} is no image name") from None
    planned = [
        run
        for job in jobs(table_file(shapes))
        for run in runs(job, options, str(work.absolute() / job.name), opened_tree)
    ]
    if dry_run:
        say(" ".join(run.argv) for run in planned)
        return
    from rocmfix.aiter.tuning import tune as run_tuner
    from rocmfix.system import clock, files

    table = table_file(shapes)
    data, provenance = run_tuner(table, options, work, rules=rules, finished=clock.now(), tell=_to_stderr)
    files.write_atomic(output, data)
    files.write_atomic(output.with_suffix(".json"), provenance.model_dump_json(indent=2).encode())
    say((*provenance.rejected, *(f"not tuned: {shape}" for shape in provenance.missing)), err=True)
    click.echo(f"{provenance.rows} rows in {output}, where they came from in {output.with_suffix('.json')}")


def _to_stderr(text: str) -> None:
    click.echo(text, err=True)
