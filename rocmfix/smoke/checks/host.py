"""Checks of the machine and the image, before anything is started."""

from __future__ import annotations

from rocmfix.smoke.checks import Scene, Stage, check, failed, not_judged, passed, warning
from rocmfix.smoke.records import HostFacts, Verdict

NO_PROBE = "nothing was probed: only a URL was given"


def _amd(scene: Scene) -> HostFacts | None:
    return scene.host if scene.plan.profile.name == "amd" else None


@check("gpu-devices", stage=Stage.BEFORE)
def devices(scene: Scene) -> Verdict | None:
    """The device nodes /dev/kfd and /dev/dri can be opened where the server runs: without them ROCm sees no GPU."""
    if scene.plan.profile.name != "amd":
        return None
    if scene.host is None:
        return not_judged(NO_PROBE)
    measured = f"/dev/kfd {scene.host.kfd}, /dev/dri {scene.host.dri}"
    if scene.host.kfd == scene.host.dri == "usable":
        return passed(measured, "both usable", "the GPU device nodes open for reading and writing")
    return failed(
        measured,
        "both usable",
        "ROCm finds no GPU without its device nodes",
        "on the host: is the amdgpu driver loaded (ls -l /dev/kfd)? then give the container --device /dev/kfd "
        "--device /dev/dri and the numeric groups that own them",
    )


@check("gpu-count", stage=Stage.BEFORE)
def gpu_count(scene: Scene) -> Verdict | None:
    """At least TP x PP GPUs are visible, and HIP_VISIBLE_DEVICES and ROCR_VISIBLE_DEVICES do not hide one another."""
    host = _amd(scene)
    if host is None:
        return None
    wanted = scene.plan.tp * scene.plan.pp
    masks = {name: _count(host.env(name)) for name in ("ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES")}
    visible = min([len(host.gpus), *(count for count in masks.values() if count is not None)])
    bound = f"at least {wanted}"
    if visible < wanted:
        return failed(
            str(visible), bound, f"TP {scene.plan.tp} x PP {scene.plan.pp} needs {wanted} GPUs",
            "pass more devices, unset HIP_VISIBLE_DEVICES and ROCR_VISIBLE_DEVICES, or lower --tp",
        )  # fmt: skip
    rocr, hip = masks["ROCR_VISIBLE_DEVICES"], masks["HIP_VISIBLE_DEVICES"]
    if rocr is not None and hip is not None and hip > rocr:
        return failed(
            f"ROCR shows {rocr}, HIP asks for {hip}", bound, "HIP counts within what ROCR shows: the rest is not there",
            "set one of the two only; Slurm sets ROCR_VISIBLE_DEVICES itself",
        )  # fmt: skip
    return passed(str(visible), bound, "enough GPUs are visible")


@check("gpu-target", stage=Stage.BEFORE)
def gpu_target(scene: Scene) -> Verdict | None:
    """The GPUs are what the image's flavour holds code for."""
    host, wanted = _amd(scene), scene.plan.gfx
    if host is None or not host.gpus:
        return None
    found = ", ".join(sorted({gpu.gfx for gpu in host.gpus}))
    if wanted is None:
        return not_judged("no flavour was given, so no GPU target is expected", found)
    if found == wanted:
        return passed(found, wanted, f"{scene.plan.flavour} is for these GPUs")
    return failed(
        found, wanted, f"{scene.plan.flavour} holds {wanted} code only",
        "take the mi30x image for MI300X and MI325X, the mi35x image for MI350X and MI355X",
    )  # fmt: skip


@check("vram", stage=Stage.BEFORE)
def vram(scene: Scene) -> Verdict | None:
    """The GPUs' memory is free: a leftover server makes a start fail or measure wrong."""
    host = _amd(scene)
    if host is None:
        return None
    used = [gpu.vram_used_bytes / gpu.vram_total_bytes for gpu in host.gpus
            if gpu.vram_used_bytes is not None and gpu.vram_total_bytes]  # fmt: skip
    if not used:
        return not_judged("the driver shows no memory counters here")
    measured, bound = f"{max(used):.0%} used", "at most 10%"
    if max(used) <= 0.10:
        return passed(measured, bound, "no other process holds GPU memory")
    return failed(measured, bound, "somebody else is on these GPUs", "rocm-smi --showpids, then end what is left over")


@check("partition", stage=Stage.BEFORE)
def partition(scene: Scene) -> Verdict | None:
    """The compute units of a device equal the cu_num of the tuned tables: in CPX mode every row misses."""
    host = _amd(scene)
    if host is None or not host.gpus:
        return None
    units = {gpu.compute_units for gpu in host.gpus}
    modes = {gpu.partition for gpu in host.gpus if gpu.partition}
    measured = f"{sorted(units)} compute units" + (f", {'/'.join(sorted(modes))}" if modes else "")
    tuned = {row.compute_units for row in host.rows}
    if not tuned:
        return not_judged("no tuned table is baked into this image to compare with", measured)
    bound = f"cu_num {sorted(tuned)}"
    if units <= tuned:
        return passed(measured, bound, "the tables are for these devices")
    return failed(
        measured, bound, "AITER looks rows up by compute units: none can be found",
        "put the GPUs into SPX mode (amd-smi set --compute-partition SPX), or tune for this partition",
    )  # fmt: skip


@check("aiter-import", stage=Stage.BEFORE)
def aiter_import(scene: Scene) -> Verdict | None:
    """`aiter` is a package with a file, seen from a neutral folder: a checkout beside it shadows it as an empty
    namespace (sglang#22363).
    """
    host = _amd(scene)
    if host is None:
        return None
    measured = f"{host.aiter}" + (f" at {host.aiter_origin}" if host.aiter_origin else "")
    if host.aiter == "package":
        return passed(measured, "package", "aiter is importable")
    if host.aiter == "absent" and host.env("SGLANG_USE_AITER") not in {"1", "true"}:
        return not_judged("the image does not use AITER", measured)
    return failed(measured, "package", "sglang would fail at its first AITER kernel",
                  "reinstall AITER in the image (pip install -e /sgl-workspace/aiter); see sglang#22363")  # fmt: skip


@check("simulated-acceptance", stage=Stage.BEFORE)
def simulated_acceptance(scene: Scene) -> Verdict | None:
    """SGLANG_SIMULATE_ACC_LEN is unset: it overwrites the accept length, so nothing could be judged."""
    asked = dict(scene.plan.env).get("SGLANG_SIMULATE_ACC_LEN")
    if scene.host is None and asked is None:
        return not_judged(NO_PROBE)
    value = asked or (scene.host.env("SGLANG_SIMULATE_ACC_LEN") if scene.host else None)
    if not value:
        return passed("unset", "unset", "the accept length is the server's own")
    return failed(value, "unset", "every accept length would be this made-up one", "unset it in image and command")


@check("image-env", stage=Stage.BEFORE)
def image_env(scene: Scene) -> Verdict | None:
    """The environment that AMD images are tuned for is there, and nothing in it loses precision unasked."""
    host = _amd(scene)
    if host is None:
        return None
    wanted = (
        (
            "HSA_NO_SCRATCH_RECLAIM",
            "1",
            "scratch memory is reclaimed between kernels: a stall on every large one",
        ),
        ("NCCL_MIN_NCHANNELS", "112", "RCCL opens too few channels for a full node"),
        ("SGLANG_USE_AITER", "1", "AITER kernels are off: Triton runs instead, slower"),
    )
    missing = [(name, why) for name, value, why in wanted if host.env(name) != value]
    found = ", ".join(f"{name}={host.env(name) or 'unset'}" for name, _, _ in wanted)
    bound = ", ".join(f"{name}={value}" for name, value, _ in wanted)
    lossy = host.env("ROCM_QUICK_REDUCE_QUANTIZATION")
    if lossy not in {None, "", "NONE", "FP"} and scene.plan.tp > 1:
        missing.append((f"ROCM_QUICK_REDUCE_QUANTIZATION={lossy}", "all-reduce is quantised, which loses precision"))
    if not missing:
        return passed(found, bound, "the image's environment is the tuned one")
    reasons = "; ".join(f"{name}: {why}" for name, why in missing)
    return warning(found, bound, reasons, "set them with --env NAME=VALUE or in the image")


@check("host-settings", stage=Stage.BEFORE)
def host_settings(scene: Scene) -> Verdict | None:
    """NUMA balancing is off and the IOMMU passes through, as AMD asks for multi-GPU hosts."""
    host = _amd(scene)
    if host is None:
        return None
    measured = f"numa_balancing={host.numa_balancing}, iommu passthrough {host.iommu_passthrough}"
    bound = "numa_balancing=0, iommu passthrough True"
    reasons = []
    if host.numa_balancing not in {0, None}:
        reasons.append("NUMA balancing moves pages under running kernels")
    if host.iommu_passthrough is False:
        reasons.append("peer-to-peer copies go through the IOMMU")
    if not reasons:
        return passed(measured, bound, "the host is set up for several GPUs")
    return warning(measured, bound, "; ".join(reasons),
                   "sysctl kernel.numa_balancing=0; boot with iommu=pt pci=realloc=off")  # fmt: skip


def _count(mask: str | None) -> int | None:
    if mask is None:
        return None
    return len([entry for entry in mask.split(",") if entry.strip()])
