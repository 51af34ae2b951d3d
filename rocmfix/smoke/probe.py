"""Looks at the machine from where the server runs; standard library only, sent into the container as text.

Prints one JSON object. The optional argument is another root folder, so that a made-up /sys can be read.
"""

from __future__ import annotations

import csv
import importlib.machinery
import json
import os
import sys
from pathlib import Path

SHOWN = ("SGLANG_", "AITER_", "HIP_", "ROCR_", "HSA_", "NCCL_", "RCCL_", "ROCM_QUICK_REDUCE", "GPU_", "CUDA_VISIBLE")
SECRET = ("KEY", "TOKEN", "SECRET", "PASSWORD")
MOE_KEY = (
    "token", "model_dim", "inter_dim", "expert", "topk", "act_type", "dtype", "q_dtype_a", "q_dtype_w", "q_type",
    "use_g1u1", "doweight_stage1",
)  # fmt: skip


def text(file: Path) -> str | None:
    try:
        return file.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return None


def number(file: Path) -> int | None:
    value = text(file)
    return int(value) if value and value.lstrip("-").isdigit() else None


def usable(node: Path) -> str:
    if not node.exists():
        return "missing"
    return "usable" if os.access(node, os.R_OK | os.W_OK) else "not permitted"


def dri(root: Path) -> str:
    states = [usable(node) for node in sorted(root.glob("dev/dri/renderD*"))]
    return "missing" if not states else next((state for state in states if state != "usable"), "usable")


def gpus(root: Path) -> list[dict[str, object]]:
    """The kernel driver's nodes with SIMDs, in its order, each with the card that has its render minor."""
    found = []
    nodes = [node for node in root.glob("sys/class/kfd/kfd/topology/nodes/*") if node.name.isdigit()]
    for node in sorted(nodes, key=lambda node: int(node.name)):
        facts = properties(node / "properties")
        if facts.get("simd_count"):
            found.append(gpu(facts, root / f"sys/class/drm/renderD{facts.get('drm_render_minor')}/device"))
    return found


def gpu(facts: dict[str, int], card: Path) -> dict[str, object]:
    return {
        "gfx": gfx(facts.get("gfx_target_version", 0)),
        "compute_units": facts["simd_count"] // (facts.get("simd_per_cu") or 4),
        "partition": text(card / "current_compute_partition"),
        "vram_used_bytes": number(card / "mem_info_vram_used"),
        "vram_total_bytes": number(card / "mem_info_vram_total"),
        "ras_errors": ras(card),
    }


def properties(file: Path) -> dict[str, int]:
    pairs = (line.split(" ", 1) for line in (text(file) or "").splitlines() if " " in line)
    return {name: int(value) for name, value in pairs if value.strip().isdigit()}


def gfx(version: int) -> str:
    """90402 is gfx942: two decimal digits a part, the last two parts written in hexadecimal."""
    return f"gfx{version // 10000}{version // 100 % 100:x}{version % 100:x}"


def ras(card: Path) -> int | None:
    """The errors counted so far over all blocks, corrected ones too; None without RAS."""
    lines = [line for file in card.glob("ras/*_err_count") for line in (text(file) or "").splitlines()]
    counts = [int(value) for line in lines if (value := line.rpartition(":")[2].strip()).isdigit()]
    return sum(counts) if counts else None


def environment(root: Path) -> dict[str, str]:
    """This process's environment, as the kernel keeps it."""
    pairs = (entry.partition("=") for entry in (text(root / "proc/self/environ") or "").split("\0"))
    return {name: value for name, _, value in pairs if name}


def aiter_package() -> tuple[str, str | None]:
    """Whether `import aiter` finds a package, from a folder that holds no checkout; nothing is imported."""
    places = [place for place in sys.path if place not in ("", str(Path.cwd()))]
    spec = importlib.machinery.PathFinder.find_spec("aiter", places)
    if spec is None:
        return "absent", None
    return ("package", spec.origin) if spec.origin else ("empty namespace", str(spec.submodule_search_locations))


def rows(root: Path, tables: str) -> list[dict[str, object]]:
    """The rows of the MoE tables that AITER_CONFIG_FMOE names, by the key AITER logs; an unreadable one has none."""
    found = []
    for table in filter(None, tables.split(":")):
        file = root / table.lstrip("/")
        if file.is_file():
            with file.open(newline="") as lines:
                found += [row(entry) for entry in csv.DictReader(lines) if (entry.get("cu_num") or "").isdigit()]
    return found


def row(entry: dict[str, str]) -> dict[str, object]:
    key = [entry[name] for name in ("gfx", "cu_num") if entry.get(name)] + [entry.get(name) or "" for name in MOE_KEY]
    return {
        "key": ",".join({"True": "1", "False": "0"}.get(word, word) for word in key),
        "compute_units": int(entry["cu_num"]),
        "kernels": [entry[name] for name in ("kernelName1", "kernelName2") if entry.get(name)],
    }


def look(root: Path) -> dict[str, object]:
    variables = environment(root)
    command_line = text(root / "proc/cmdline")
    state, origin = aiter_package()
    return {
        "kfd": usable(root / "dev/kfd"),
        "dri": dri(root),
        "gpus": gpus(root),
        "environment": sorted(
            pair for pair in variables.items() if pair[0].startswith(SHOWN) and not any(s in pair[0] for s in SECRET)
        ),
        "aiter": state,
        "aiter_origin": origin,
        "numa_balancing": number(root / "proc/sys/kernel/numa_balancing"),
        "iommu_passthrough": command_line and ("iommu=pt" in command_line or "iommu.passthrough=1" in command_line),
        "has_manifest": (root / "etc/rocmfix/manifest.json").exists(),
        "rows": rows(root, variables.get("AITER_CONFIG_FMOE", "")),
    }


if __name__ == "__main__":
    print(json.dumps(look(Path(sys.argv[1] if len(sys.argv) > 1 else "/"))))  # noqa: T201 - its answer
