"""The probe reads a machine's files, wherever they lie; what runs it takes its last line."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from rocmfix.errors import SmokeError
from rocmfix.smoke import probe
from rocmfix.smoke.launch import host_facts, script
from rocmfix.smoke.logs import lookup_key
from rocmfix.smoke.records import Gpu, HostFacts, TunedRow

ROW = "gfx950,256,16,6144,512,257,9,ActivationType.Silu,torch.bfloat16,q,q,QuantType.per_1x32,True,False,flydsl_a,flydsl_b"
COLUMNS = (
    "gfx,cu_num,token,model_dim,inter_dim,expert,topk,act_type,dtype,q_dtype_a,q_dtype_w,q_type,use_g1u1,"
    "doweight_stage1,kernelName1,kernelName2"
)


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    """An eight-XCD MI355X in SPX mode beside a CPU node, as the kernel driver shows them."""
    files = {
        "dev/kfd": "",
        "dev/dri/renderD128": "",
        "sys/class/kfd/kfd/topology/nodes/0/properties": "cpu_cores_count 64\nsimd_count 0\n",
        "sys/class/kfd/kfd/topology/nodes/1/properties": "simd_count 1024\nsimd_per_cu 4\ndrm_render_minor 128\n"
        "gfx_target_version 90500\n",
        "sys/class/drm/renderD128/device/current_compute_partition": "SPX\n",
        "sys/class/drm/renderD128/device/mem_info_vram_used": "298844160\n",
        "sys/class/drm/renderD128/device/mem_info_vram_total": "309220868096\n",
        "sys/class/drm/renderD128/device/ras/umc_err_count": "ue: 0\nce: 2\n",
        "sys/class/drm/renderD128/device/ras/gfx_err_count": "ue: 1\nce: 0\n",
        "proc/sys/kernel/numa_balancing": "0\n",
        "proc/cmdline": "root=/dev/sda iommu=pt\n",
        "proc/self/environ": "SGLANG_USE_AITER=1\0HOME=/root\0SGLANG_API_KEY=geheim\0AITER_CONFIG_FMOE=/t/a.csv:/t/none.csv\0",
        "t/a.csv": f"{COLUMNS}\n{ROW}\n",
        "etc/rocmfix/manifest.json": "{}",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def test_a_machine_is_read_whole(machine):
    done = subprocess.run(
        [sys.executable, "-c", script("probe.py"), machine], capture_output=True, text=True, check=True
    )
    host = host_facts(f"== a banner of the image ==\n{done.stdout}")
    assert (host.kfd, host.dri) == ("usable", "usable")
    assert host.gpus == (
        Gpu(gfx="gfx950", compute_units=256, partition="SPX", vram_used_bytes=298844160,
            vram_total_bytes=309220868096, ras_errors=3),
    )  # fmt: skip
    assert (host.numa_balancing, host.iommu_passthrough, host.has_manifest) == (0, True, True)
    assert host.env("SGLANG_USE_AITER") == "1"
    key = ROW.replace("True", "1").replace("False", "0").rpartition(",flydsl_a")[0]
    assert host.rows == (TunedRow(key=key, compute_units=256, kernels=("flydsl_a", "flydsl_b")),)


def test_a_row_has_the_key_that_the_log_shows(machine):
    logged = "'gfx950', 256, 16, 6144, 512, 257, 9, 'ActivationType.Silu', 'torch.bfloat16', 'q', 'q', 'QuantType.per_1x32', True, False"
    assert probe.rows(machine, "/t/a.csv")[0]["key"] == lookup_key(logged)


def test_secrets_and_strangers_stay_out_of_the_facts(machine):
    names = dict(HostFacts.model_validate(probe.look(machine)).environment)
    assert set(names) == {"SGLANG_USE_AITER", "AITER_CONFIG_FMOE"}


def test_a_machine_without_gpus_is_read_as_one(tmp_path):
    host = HostFacts.model_validate(probe.look(tmp_path))
    assert (host.kfd, host.dri, host.gpus) == ("missing", "missing", ())


@pytest.mark.parametrize(
    ("version", "name"), [(90402, "gfx942"), (90500, "gfx950"), (90010, "gfx90a"), (110000, "gfx1100")]
)
def test_a_target_version_is_spelt_as_compilers_do(version, name):
    assert probe.gfx(version) == name


def test_a_checkout_called_aiter_is_an_empty_namespace(tmp_path, monkeypatch):
    (tmp_path / "aiter").mkdir()
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    assert probe.aiter_package()[0] == "empty namespace"
    (tmp_path / "aiter/__init__.py").touch()
    assert probe.aiter_package() == ("package", str(tmp_path / "aiter/__init__.py"))


def test_an_image_without_python_says_what_to_do():
    with pytest.raises(SmokeError, match="could not look") as caught:
        host_facts("sh: python3: not found\n")
    assert caught.value.details == ("sh: python3: not found",)
