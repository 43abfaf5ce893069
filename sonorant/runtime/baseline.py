"""The two candidates (`<runtime>/<variant>`) that every other is held against. Knows nothing of how candidates run."""

from __future__ import annotations

BASELINE = "onnxruntime/fp32"
"""Without it there is no voice; what the others' speed and errors are relative to."""
REFERENCE = "torch/fp32"
"""The trained models themselves, which `verify` compares with; a bundle does not hold them."""
