"""Renders a `docker buildx bake` file for fleets that build on remote BuildKit workers. Pure."""

from __future__ import annotations

import json
from typing import Any

from rocmfix.system.reference import Reference
from rocmfix.upstream.builds import CiPlan, Job

CONTEXTS = "contexts"


def render(plan: CiPlan, target: Reference) -> str:
    """One target for each image to build. Its context is what `rocmfix build --context contexts/FLAVOUR` wrote."""
    targets: dict[str, Any] = {job.flavour: _target(job, target) for job in plan.include}
    said = {"group": {"default": {"targets": sorted(targets)}}, "target": targets}
    return json.dumps(said, indent=2) + "\n"


def _target(job: Job, target: Reference) -> dict[str, Any]:
    return {
        "context": f"{CONTEXTS}/{job.flavour}",
        "dockerfile": "Dockerfile",
        "platforms": ["linux/amd64"],
        "tags": [str(target.with_tag(job.tag))],
        # The image says itself what it is: an attestation by the builder would make an index of it.
        "attest": ["type=provenance,disabled=true"],
        "output": ["type=registry"],
    }
