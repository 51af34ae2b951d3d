"""Where each release keeps its JIT loader, and a compiler for it that only counts how often it was run."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from packaging.version import Version

from tests.fixes.world import World, module, msgspec, torch

ERROR = "fatal error: 'cuda_runtime.h' file not found"


class Jit:
    """The JIT loader of one release: its module, the files it needs, and the one builder that depth 4 reaches."""

    def __init__(self, release: str) -> None:
        version = Version(release)
        self.release = release
        self.has_ninja = version >= Version("0.5.18")
        """From 0.5.18 the loader runs ninja itself; before, tvm-ffi's `load_inline` did."""
        self.base = "kernels/jit" if version >= Version("0.5.17") else "jit_kernel"
        self.utils = f"sglang.{self.base.replace('/', '.')}.utils"
        loader = f"{self.base}/utils/" if version >= Version("0.5.16") else f"{self.base}/utils.py"
        self.has_copy = version >= Version("0.5.9")
        ops = "kernels/ops/attention/dsa" if version >= Version("0.5.23") else "kernels/ops/attention"
        self.copy = f"{ops if version >= Version('0.5.17') else self.base}/fused_metadata_copy.py"
        renamed = version >= Version("0.5.13")
        self.attention = f"srt/layers/attention/{'dsa' if renamed else 'nsa'}_backend.py"
        self.step = f"init_forward_metadata_{'out_graph' if renamed else 'replay_cuda_graph'}"
        sources = (f"{self.base}/include/", f"{self.base}/csrc/elementwise/", loader, "srt/environ.py")
        self.files = (*sources, self.copy, self.attention) if self.has_copy else sources


class Compiler:
    """Stands where hipcc and nvcc would; fails unless `works`."""

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch, *, works: bool = False) -> None:
        self._log = folder / "compiler-runs"
        self._log.touch()
        self._works = works
        tools = folder / "bin"
        tools.mkdir(exist_ok=True)
        outcome = "exit 0" if works else f'echo "{ERROR}"; exit 1'
        script(tools / "ninja", f"echo run >> '{self._log}'; {outcome}")
        for name in ("hipcc", "nvcc"):
            script(tools / name, "echo version 1")
        patch.setenv("PATH", str(tools), prepend=":")
        patch.setenv("ROCM_HOME", str(folder))
        patch.setenv("CUDA_HOME", str(folder))
        patch.setenv("TVM_FFI_CACHE_DIR", str(folder / "tvm-cache"))
        patch.setenv("SGLANG_JIT_CACHE_DIR", str(folder / "jit-cache"))

    @property
    def runs(self) -> int:
        return self._log.read_text().count("run")

    def load_inline(self, *_: Any, **__: Any) -> Any:
        """What `tvm_ffi.cpp.load_inline` and `load` do: run the compiler, then load the module or raise."""
        with self._log.open("a") as log:
            log.write("run\n")
        if not self._works:
            raise RuntimeError(ERROR)
        return self.load_module("")

    @staticmethod
    def load_module(_: str) -> Any:
        return SimpleNamespace(fused_metadata_copy_multi=lambda *_: None)

    def modules(self) -> dict[str, Any]:
        paths = module(
            "tvm_ffi.libinfo",
            find_include_path=lambda: "/tvm/include",
            find_dlpack_include_path=lambda: "/dlpack/include",
            find_libtvm_ffi=lambda: "/tvm/lib/libtvm_ffi.so",
        )
        return {
            "tvm_ffi": module("tvm_ffi", __version__="0", load_module=self.load_module),
            "tvm_ffi.cpp": module("tvm_ffi.cpp", load_inline=self.load_inline, load=self.load_inline),
            "tvm_ffi.libinfo": paths,
        }


def script(path: Path, line: str) -> None:
    path.write_text(f"#!/bin/sh\n{line}\n")
    path.chmod(0o755)


def open_jit(world: World, compiler: Compiler, *, hip: str | None, warn: Any = None) -> None:
    """Make the loader in `world` importable, on a ROCm (`hip`) or CUDA build of torch."""
    common = module("sglang.srt.utils.common", is_cuda=lambda: not hip, get_cuda_version=lambda: (12, 9))
    world.open(
        {
            "torch": torch(hip=hip),
            "msgspec": msgspec(),
            "sglang.srt.model_executor": module("sglang.srt.model_executor"),
            "sglang.srt.model_executor.forward_batch_info": module("forward_batch_info", build_inner_fb_view=None),
            "sglang.utils": module("sglang.utils", is_in_ci=lambda: False),
            "sglang.srt.utils": module("sglang.srt.utils", print_warning_once=warn),
            "sglang.srt.utils.common": common,
            **compiler.modules(),
        }
    )


class Replays:
    """The draft backends of one multi-step attention backend, and the loop that replays their graphs."""

    def __init__(self, world: World, jit: Jit, *, hip: str | None) -> None:
        self.copied: list[str] = []
        switches = type("Switches", (), {"__getattr__": lambda *_: SimpleNamespace(get=lambda: True)})()
        self._step = world.function(
            f"sglang/{jit.attention}",
            jit.step,
            {
                "_is_hip": bool(hip),
                "_VERIFY_FUSED_METADATA_COPY": False,
                "envs": switches,
                "ForwardMode": SimpleNamespace(DECODE=0),
            },
            having="speculative_num_steps > 3",
        )
        self._takes_batch_size = jit.step.endswith("replay_cuda_graph")
        backends = [Backend(self.copied, f"backend {step}") for step in range(4)]
        self._self = SimpleNamespace(speculative_num_steps=5, attn_backends=backends)

    def run(self, times: int) -> None:
        """Replay the draft graph `times` times, at batch size 1."""
        batch = SimpleNamespace(batch_size=1, req_pool_indices=None, seq_lens=None, seq_lens_cpu=None, spec_info=None)
        for _ in range(times):
            self._step(self._self, batch, *([1] if self._takes_batch_size else []))


class Tensor:
    """Stands for any tensor: the metadata copy only asks for `contiguous`."""

    def contiguous(self) -> "Tensor":
        return self


class Metadata:
    """Any metadata: tensors, without FlashMLA and without a real page table."""

    flashmla_metadata = real_page_table = None

    def __getattr__(self, name: str) -> Any:
        return Tensor()


class Backend:
    """One draft step's attention backend: notes each copy that it makes in the loop."""

    experimental_kpool_metadata_fusion = False

    def __init__(self, copied: list[str], name: str) -> None:
        self._copied = copied
        self._name = name
        self.decode_cuda_graph_metadata = {1: Metadata()}

    def init_forward_metadata_replay_cuda_graph_from_precomputed(self, **_: Any) -> None:
        self._copied.append(self._name)

    def _precompute_replay_metadata(self, **_: Any) -> Metadata:
        return Metadata()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return lambda *_, **__: None
