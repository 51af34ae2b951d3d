"""What a scan finds: the records of `rocmfix guards scan`."""

from __future__ import annotations

from rocmfix.guards.reach import Reachable
from rocmfix.model import Record


class Finding(Record):
    """One CUDA-only include, or use of something CUDA-only, and what ROCm makes of it."""

    file: str
    line: int
    include: str
    """The header as written; for a construct, what it is."""
    guarded: bool
    """Never compiled with USE_ROCM."""
    reachable: Reachable
    chain: tuple[str, ...]
    """From the line outwards: the headers that pull it in, the loader call, its callers."""
    gate: str | None = None
    """What keeps ROCm away, or why that cannot be told."""
    condition: str | None = None
    """What must hold for ROCm to come here, such as `depth >= 4`."""

    @property
    def is_dangerous(self) -> bool:
        """Compiled on ROCm, as far as can be told."""
        return not self.guarded and self.reachable is not Reachable.NO

    @property
    def key(self) -> tuple[str, str]:
        """The same line in another release: files move, lines shift."""
        return (unmoved(self.file), self.include.partition(": ")[0])


class Scan(Record):
    """Everything found in one tree."""

    source: str
    findings: tuple[Finding, ...]
    unread: tuple[str, ...] = ()
    """Python files that are none, `file:line: why`: what ROCm comes to through them cannot be told."""


class Drift(Record):
    """What one tree has that another had not."""

    before: str
    after: str
    added: tuple[Finding, ...]
    """Unguarded lines that were not there, or were guarded or out of reach."""
    gone: tuple[Finding, ...]
    """Dangerous lines of the older tree that are gone, guarded or out of reach."""
    unread: tuple[str, ...] = ()
    """Python files of either tree that are none."""


def unmoved(path: str) -> str:
    """A kernel's path below `csrc` or `include`, which outlived the move to kernels/jit in 0.5.17."""
    for part in ("/csrc/", "/include/"):
        if part in path:
            return path.partition(part)[2]
    return path.rpartition("/")[2]


def drift(before: Scan, after: Scan) -> Drift:
    """What became dangerous from `before` to `after`, and what ceased to be."""
    old = {finding.key for finding in before.findings if finding.is_dangerous}
    new = {finding.key for finding in after.findings if finding.is_dangerous}
    return Drift(
        before=before.source,
        after=after.source,
        added=tuple(each for each in after.findings if each.is_dangerous and each.key not in old),
        gone=tuple(each for each in before.findings if each.is_dangerous and each.key not in new),
        unread=tuple(f"{scan.source}: {each}" for scan in (before, after) for each in scan.unread),
    )
