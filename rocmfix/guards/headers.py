"""Which headers exist only where CUDA is installed, and what HIP offers in their place."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import Final


@dataclass(frozen=True, slots=True)
class CudaOnly:
    """A family of headers that hipcc cannot find."""

    patterns: tuple[str, ...]
    library: str
    counterpart: str | None = None
    """The HIP header that declares the same things under HIP names."""
    alias: str | None = None
    """The line after it that gives them CUDA's: nothing hipifies a kernel that is compiled when the server runs."""

    @property
    def in_its_place(self) -> tuple[str, ...]:
        """The lines that do for it on ROCm."""
        return tuple(filter(None, (self.counterpart and f"#include <{self.counterpart}>", self.alias)))


FAMILIES: Final = (
    # Counterparts as in torch's hipify (torch/utils/hipify/cuda_to_hip_mappings.py).
    CudaOnly(("cuda_runtime.h", "cuda_runtime_api.h", "cuda.h"), "CUDA runtime", "hip/hip_runtime.h"),
    CudaOnly(("cuda_fp16.h", "cuda_fp16.hpp"), "CUDA runtime", "hip/hip_fp16.h"),
    CudaOnly(("cuda_bf16.h", "cuda_bf16.hpp"), "CUDA runtime", "hip/hip_bf16.h"),
    CudaOnly(("cuda_fp8.h",), "CUDA runtime", "hip/hip_fp8.h"),
    CudaOnly(("cuda_fp4.h",), "CUDA runtime", "hip/hip_fp4.h"),
    CudaOnly(("vector_types.h", "vector_functions.h"), "CUDA runtime", "hip/hip_vector_types.h"),
    CudaOnly(("cooperative_groups.h",), "cooperative groups", "hip/hip_cooperative_groups.h"),
    CudaOnly(("cooperative_groups/*",), "cooperative groups"),
    CudaOnly(("cub/*",), "CUB", "hipcub/hipcub.hpp", "namespace cub = hipcub;"),
    CudaOnly(("math_constants.h",), "CUDA runtime", "hip/hip_math_constants.h"),
    CudaOnly(("nvrtc.h",), "NVRTC", "hip/hiprtc.h"),
    CudaOnly(("curand*.h",), "cuRAND", "hiprand/hiprand.h"),
    CudaOnly(("cublas_v2.h", "cublas.h"), "cuBLAS", "hipblas/hipblas.h"),
    CudaOnly(("cublas*", "cusparse*", "cusolver*", "cufft*", "cudnn*"), "CUDA math libraries"),
    CudaOnly(
        (
            "cuda_*.h", "cuda*.h", "cudaTypedefs.h", "mma.h", "crt/*", "sm_*_intrinsics.h", "device_functions.h",
            "device_launch_parameters.h", "device_atomic_functions.h", "driver_types.h", "nvml.h", "nvtx3/*",
            "nv/target", "nvToolsExt.h", "builtin_types.h", "texture_*.h", "surface_*.h",
        ),
        "CUDA runtime",
    ),
    CudaOnly(("cuda/*",), "libcu++"),
    CudaOnly(("cutlass/*", "cute/*"), "CUTLASS"),
    CudaOnly(("flashinfer/*", "tensorrt_llm/*", "nv_internal/*"), "FlashInfer"),
    CudaOnly(("nvshmem*", "deep_gemm/*", "deep_ep/*", "cudnn_frontend*"), "NVIDIA libraries"),
    # torch's ROCm wheels hold these two, but they include cuda_runtime_api.h: torch hipifies sources before use.
    CudaOnly(("ATen/cuda/*", "c10/cuda/*", "torch/csrc/cuda/*"), "torch for CUDA"),
    CudaOnly(("tvm/ffi/extra/cuda/*",), "tvm-ffi for CUDA"),
)  # fmt: skip


@lru_cache(maxsize=4096)
def cuda_only(name: str) -> CudaOnly | None:
    """The CUDA-only family that the header `name` (as written in an `#include`) belongs to, or None."""
    return next((family for family in FAMILIES for pattern in family.patterns if _matches(name, pattern)), None)


def _matches(name: str, pattern: str) -> bool:
    """`cub/*` is everything in that folder; any other `*` stays within one name."""
    return fnmatchcase(name, pattern) and (pattern.endswith("/*") or name.count("/") == pattern.count("/"))
