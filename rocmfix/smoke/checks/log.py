"""Checks of what the log says, and of what it does not say."""

from __future__ import annotations

from rocmfix.smoke.checks import Scene, check, failed, not_judged, passed, warning
from rocmfix.smoke.logs import signatures
from rocmfix.smoke.records import LogFacts, LogFinding, Verdict

NO_LOG = "the server's log is not ours to read"
B11 = ("0.5.15", "0.5.15.post1", "0.5.16", "0.5.17", "0.5.18")


@check("log")
def log(scene: Scene) -> Verdict | None:
    """The log, standard output and error both, holds no line that betrays a fallback, a failed compile or a fault."""
    facts = scene.rung.log
    if not scene.rung.start.is_ready:
        return None
    if facts is None:
        return not_judged(NO_LOG)
    known = {signature.id: signature for signature in signatures()}
    bad = [found for found in facts.findings if known[found.signature].is_failure]
    odd = [found for found in facts.findings if not known[found.signature].is_failure]
    found = bad or odd
    if not found:
        return passed(f"0 signatures in {facts.lines} lines", "0", "nothing in the log betrays a fallback")
    measured = ", ".join(f"{one.signature} x {one.count}" for one in found)
    first = known[found[0].signature]
    make = failed if bad else warning
    return make(measured, "0", f"{first.why}: {_short(found[0])}", first.fix)


@check("graphs")
def graphs(scene: Scene) -> Verdict | None:
    """Steady decoding replays a CUDA (HIP) graph: `cuda graph: False` in decode lines means that it runs eagerly."""
    facts, info = scene.rung.log, scene.rung.info
    if facts is None or info is None or not info.has_graphs:
        return None
    total = facts.decodes_in_graph + facts.decodes_eager
    if not total:
        return not_judged("no decode line was logged: one comes every 40 steps")
    measured = f"{facts.decodes_in_graph} of {total} decode lines in a graph"
    if facts.decodes_in_graph * 2 >= total:
        return passed(measured, "at least half", "decoding replays a graph")
    return failed(measured, "at least half", "decoding runs eagerly although graphs are not disabled",
                  "raise --cuda-graph-max-bs, and see what the capture lines of the log say")  # fmt: skip


@check("draft-extend-graph")
def draft_extend_graph(scene: Scene) -> Verdict | None:
    """The draft-extend step is captured in a graph too. In 0.5.15 to 0.5.18 the DSA allowlist left HIP out, and each
    draft extend ran eagerly; the line that is missing is the finding (sglang#35672).
    """
    facts, info = scene.rung.log, scene.rung.info
    if facts is None or info is None or scene.depth.is_off or not info.has_graphs or not facts.captures:
        return None
    measured = ", ".join(facts.captures)
    if any("draft extend" in capture for capture in facts.captures):
        return passed(measured, "draft extend among them", "draft extend is captured")
    advice = "upgrade to 0.5.19, or apply the fix dsa-draft-extend-graph-hip"
    make = failed if info.version in B11 and scene.plan.profile.name == "amd" else warning
    return make(measured, "draft extend among them", "every draft extend runs eagerly", advice)


@check("aiter-ranks")
def aiter_ranks(scene: Scene) -> Verdict | None:
    """Every tensor-parallel rank logs the same AITER lookups: ranks that choose other kernels drift apart or hang."""
    facts = scene.rung.log
    if facts is None or not facts.lookups or not scene.rung.info:
        return None
    ranks = scene.rung.info.tp
    uneven = [lookup for lookup in facts.lookups if not _is_even(lookup.times, ranks)]
    measured = f"{len(uneven)} of {len(facts.lookups)} keys differ between ranks"
    if not uneven:
        return passed(measured, "0", f"all {ranks} ranks look the same keys up")
    return failed(measured, "0", f"{uneven[0].key}: {dict(uneven[0].times)}",
                  "the ranks see other tables or shapes: compare AITER_CONFIG_FMOE on every node")  # fmt: skip


def _is_even(times: tuple[tuple[str, int], ...], ranks: int) -> bool:
    """Each rank once and as often; without rank names, one count that the ranks divide."""
    counts = {count for _, count in times}
    if len(times) == 1 and times[0][0] == "":
        return times[0][1] % ranks == 0
    return len(times) == ranks and len(counts) == 1


@check("aiter-tables")
def aiter_tables(scene: Scene) -> Verdict | None:
    """The kernels AITER says it uses are those of the baked table's row for that key, and no key has no row."""
    facts = scene.rung.log
    if facts is None or not facts.lookups:
        return None
    if scene.host is None or not scene.host.rows:
        return _without_tables(facts)
    rows = {row.key: row.kernels for row in scene.host.rows}
    missed = [lookup for lookup in facts.lookups if not lookup.is_tuned]
    other = [lookup for lookup in facts.lookups
             if lookup.is_tuned and lookup.key in rows and rows[lookup.key] != lookup.kernels]  # fmt: skip
    measured = f"{len(missed)} keys without a row, {len(other)} with other kernels, of {len(facts.lookups)}"
    if not missed and not other:
        return passed(measured, "0 and 0", "what runs is what was baked")
    worst = (other or missed)[0]
    return failed(measured, "0 and 0", worst.key,
                  "rocmfix aiter coverage says what a launch asks for; bake the missing rows")  # fmt: skip


def _without_tables(facts: LogFacts) -> Verdict:
    missed = [lookup for lookup in facts.lookups if not lookup.is_tuned]
    measured = f"{len(missed)} of {len(facts.lookups)} keys without a tuned row"
    if not missed:
        return passed(measured, "0", "every lookup found a tuned row")
    return failed(
        measured,
        "0",
        missed[0].key,
        "bake tuned rows for this key (rocmfix build --table); rocmfix aiter explain says what answers it now",
    )


@check("ras")
def ras(scene: Scene) -> Verdict | None:
    """The GPUs' error counters (RAS) did not move while the server worked."""
    moved = scene.rung.ras_delta
    if moved is None:
        return None
    if moved == 0:
        return passed("0 new errors", "0", "no hardware error was counted")
    return failed(f"{moved} new errors", "0", "the GPUs counted memory or link errors",
                  "amd-smi metric --ecc; take the node out of service")  # fmt: skip


def _short(finding: LogFinding) -> str:
    return finding.line if len(finding.line) <= 160 else finding.line[:157] + "..."
