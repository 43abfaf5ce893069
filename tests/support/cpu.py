"""What this machine's CPU can do."""

from pathlib import Path

import pytest


def _flags() -> set[str]:
    cpus = Path("/proc/cpuinfo")
    lines = cpus.read_text(encoding="utf-8").splitlines() if cpus.exists() else []
    return {flag for line in lines if line.startswith("flags") for flag in line.partition(":")[2].split()}


def sums_of_bytes_overflow() -> bool:
    """Whether ONNX Runtime's int8 errs here: with AVX2 and without VNNI it adds products of bytes in 16 bits."""
    flags = _flags()
    return "avx2" in flags and not {"avx_vnni", "avx512_vnni"} & flags


right_int8 = pytest.mark.skipif(
    sums_of_bytes_overflow(), reason="ONNX Runtime's int8 overflows on a CPU with AVX2 and without VNNI (docs/LOG.md)"
)
"""For tests in which int8 must pass."""
