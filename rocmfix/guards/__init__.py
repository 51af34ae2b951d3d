"""CUDA-only sources on ROCm: find them, guard them, prove the guard compiles."""
