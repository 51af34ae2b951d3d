"""Runs a whole smoke test: look, walk, report."""

from __future__ import annotations

import datetime as dt
import time
from dataclasses import dataclass, field
from pathlib import Path

from rocmfix import __version__
from rocmfix.smoke.bounds import Bounds
from rocmfix.smoke.checkpoint import Checkpoint
from rocmfix.smoke.checks import Check, all_checks
from rocmfix.smoke.ladder import Ladder
from rocmfix.smoke.quality import Question
from rocmfix.smoke.reach import Reach
from rocmfix.smoke.records import SmokeReport
from rocmfix.smoke.report import junit, markdown
from rocmfix.smoke.secrecy import scrub_logs
from rocmfix.smoke.view import View
from rocmfix.smoke.visit import Visitor


@dataclass(frozen=True)
class Judging:
    """What findings are judged with."""

    bounds: Bounds
    questions: tuple[Question, ...]
    checkpoint: Checkpoint | None
    checks: tuple[Check, ...]


@dataclass(frozen=True)
class Site:
    """Where a run writes, who watches, and the key its servers want."""

    folder: Path
    view: View
    bearer: str | None = field(default=None, repr=False)


def smoke(reach: Reach, judging: Judging, site: Site, now: dt.datetime) -> SmokeReport:
    """Walk the plan's ladder and return what was found; server logs lie in the site's folder."""
    wanted = frozenset(name for check in judging.checks for name in check.asks)
    visitor = Visitor(reach.plan, reach.launcher, judging.questions, wanted, site.folder, site.view, site.bearer)
    ladder = Ladder(visitor, judging.bounds, judging.checkpoint, judging.checks)
    began = time.monotonic()
    try:
        host, before = ladder.look()
        rungs = ladder.walk(host)
    finally:
        scrub_logs(site.folder.glob("*.log"), ladder.secrets)
    return SmokeReport(
        rocmfix=__version__,
        started=now.isoformat(timespec="seconds"),
        seconds=round(time.monotonic() - began, 3),
        subject=reach.subject,
        host=host,
        before=before,
        rungs=rungs,
        left_out=tuple(check.id for check in all_checks() if check not in judging.checks),
        unproved=reach.plan.profile.unproved,
    )


def write_report(report: SmokeReport, folder: Path) -> str:
    """Write report.json, report.md and report.xml into `folder`; returns the Markdown."""
    text = markdown(report, {check.id: check.explanation for check in all_checks()})
    (folder / "report.json").write_text(report.model_dump_json(indent=1) + "\n", encoding="utf-8")
    (folder / "report.md").write_text(text, encoding="utf-8")
    (folder / "report.xml").write_text(junit(report), encoding="utf-8")
    return text
