"""A report vouches for one image, for a while, and only if it passed."""

from __future__ import annotations

import datetime as dt

import pytest

from rocmfix.smoke.gate import judge_report
from rocmfix.smoke.records import Outcome, SmokeReport, Start, Subject, Verdict
from tests.smoke.scenes import rung

NOW = dt.datetime(2026, 11, 30, 12, tzinfo=dt.timezone.utc)
DAY = dt.timedelta(days=1)
DIGEST = "sha256:" + "a" * 64
GOOD = Verdict(check="same-words", outcome=Outcome.PASSED, measured="1", bound="1", reason="it did")
BAD = Verdict(check="speed", outcome=Outcome.FAILED, measured="6.9 tok/s", bound="at least 0.5", reason="slow")


def report(**changes: object) -> SmokeReport:
    whole = SmokeReport(
        rocmfix="0",
        started="2026-11-30T02:00:00+00:00",
        seconds=1,
        subject=Subject(image="r/i:t", image_id=DIGEST, digests=("r/i@sha256:" + "b" * 64,)),
        rungs=(rung("4", verdicts=(GOOD,)),),
    )
    return whole.model_copy(update=changes)


def reasons(digest: str = DIGEST, age: dt.timedelta = DAY, **changes: object) -> tuple[str, ...]:
    return judge_report(report(**changes), digest, NOW, age)


@pytest.mark.parametrize("digest", [DIGEST, "sha256:" + "b" * 64, "r/i@sha256:" + "b" * 64])
def test_a_fresh_passed_report_of_this_image_has_no_reasons_against_it(digest):
    assert reasons(digest) == ()


def test_another_images_report_is_refused():
    assert "not of sha256:cccc" in reasons("sha256:" + "c" * 64)[0]
    assert "no image digest" in reasons(subject=Subject(urls=("http://x",)))[0]
    assert "is not a digest" in reasons("latest")[0]


def test_an_old_report_is_refused():
    assert "0.4 days old, at most 0.2" in reasons(age=dt.timedelta(hours=5))[0]
    assert "from the future" in reasons(started="2026-12-02T00:00:00+00:00")[0]
    assert "no date" in reasons(started="yesterday")[0]
    assert "no time zone" in reasons(started="2026-11-30T02:00:00")[0]


def test_a_failed_report_is_refused_and_says_which_check():
    assert reasons(rungs=(rung("4", verdicts=(GOOD, BAD)),)) == ("4-1-5: speed failed (6.9 tok/s; at least 0.5)",)
    assert reasons(before=(BAD,)) == ("before: speed failed (6.9 tok/s; at least 0.5)",)


def test_a_report_that_proved_nothing_is_refused():
    assert reasons(rungs=()) == ("no depth with speculation was proved",)
    assert reasons(rungs=(rung("off", verdicts=(GOOD,)),)) == ("no depth with speculation was proved",)
    unjudged = Verdict(check="x", outcome=Outcome.NOT_JUDGED, reason="no bound")
    assert reasons(rungs=(rung("4", verdicts=(unjudged,)),)) == ("nothing in the report passed",)
    other = GOOD.model_copy(update={"check": "starts"})
    assert "--no-off" in reasons(rungs=(rung("4", verdicts=(other,)),))[0]
    assert reasons(left_out=("speed", "log")) == ("--only left out speed, log",)
    down = rung("4", verdicts=(GOOD,), start=Start(is_ready=False, seconds=1, limit=1))
    assert reasons(rungs=(down,)) == ("no depth with speculation was proved",)
