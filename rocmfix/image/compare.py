"""Two images side by side: layers, size, files, fixes, ENV, tables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from rocmfix.image.inspect import ImageReport, Seen
from rocmfix.model import Record


class Difference(Record):
    """One thing that the two say differently; None where one of them lacks it."""

    name: str
    one: str | None
    other: str | None


class Comparison(Record):
    """What tells two images apart."""

    one: str
    other: str
    sizes: tuple[int, int]
    shared_layers: int
    own_layers: tuple[int, int]
    releases: tuple[str | None, str | None]
    commits: tuple[str | None, str | None]
    aiter: tuple[str | None, str | None]
    files: tuple[Difference, ...]
    fixes: tuple[Difference, ...]
    env: tuple[Difference, ...]
    tables: tuple[Difference, ...]
    labels: tuple[Difference, ...]

    @property
    def is_same(self) -> bool:
        """Whether nothing that was looked at differs."""
        return not (self.files or self.fixes or self.env or self.tables or self.labels)


def compare(one: tuple[Seen, ImageReport], other: tuple[Seen, ImageReport]) -> Comparison:
    """Compare two X-rays. Pure."""
    (a, seen_a), (b, seen_b) = one, other
    shared = sum(1 for _ in _common(a.layers, b.layers))
    return Comparison(
        one=a.name,
        other=b.name,
        sizes=(a.size, b.size),
        shared_layers=shared,
        own_layers=(len(a.layers) - shared, len(b.layers) - shared),
        releases=(seen_a.release, seen_b.release),
        commits=(seen_a.commit, seen_b.commit),
        aiter=(seen_a.aiter, seen_b.aiter),
        files=_differences(_short(a.tree.digests), _short(b.tree.digests)),
        fixes=_differences(_verdicts(seen_a), _verdicts(seen_b)),
        env=_differences(dict(a.env), dict(b.env)),
        tables=_differences(_tables(seen_a), _tables(seen_b)),
        labels=_differences(a.labels, b.labels),
    )


def _common(one: Iterable[str], other: Iterable[str]) -> Iterable[str]:
    for left, right in zip(one, other, strict=False):
        if left != right:
            return
        yield left


def _differences(one: Mapping[str, str], other: Mapping[str, str]) -> tuple[Difference, ...]:
    return tuple(
        Difference(name=name, one=one.get(name), other=other.get(name))
        for name in sorted(one.keys() | other.keys())
        if one.get(name) != other.get(name)
    )


def _short(digests: Mapping[str, str]) -> dict[str, str]:
    return {path: digest[:12] for path, digest in digests.items()}


def _verdicts(report: ImageReport) -> dict[str, str]:
    return {verdict.fix: verdict.verdict.value for verdict in report.report.verdicts}


def _tables(report: ImageReport) -> dict[str, str]:
    return {table.path: f"{table.rows} rows, sha256:{table.sha256[:12]}" for table in report.tables}
