"""The readers of pull-request evidence know what smoke really writes."""

from __future__ import annotations


def test_what_is_read_of_a_report_is_what_smoke_writes():
    """The reader takes reports of other versions too, and so would not notice a field that was renamed."""
    from rocmfix.smoke import records
    from rocmfix.upstream import evidence

    for ours, theirs in (
        (evidence._Smoke, records.SmokeReport), (evidence._Subject, records.Subject), (evidence._Rung, records.Rung),
        (evidence._Verdict, records.Verdict), (evidence._Host, records.HostFacts), (evidence._Gpu, records.Gpu),
        (evidence._Info, records.ServerInfo), (evidence._Depth, records.Depth),
    ):  # fmt: skip
        assert set(ours.model_fields) <= set(theirs.model_fields), theirs.__name__
