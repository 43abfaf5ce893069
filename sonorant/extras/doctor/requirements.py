"""Versions that need each other, with sources. Packages that state their own needs are asked instead: torch's metadata
pins its NVIDIA libraries, ONNX Runtime's libraries name the CUDA, cuDNN and TensorRT that they link."""

Version = tuple[int, ...]

DRIVER_OF_CUDA: dict[int, Version] = {11: (450, 80, 2), 12: (525, 60, 13), 13: (580,)}
"""Oldest Linux driver for any CUDA of a major version, from CUDA's release notes and
https://docs.nvidia.com/deploy/cuda-compatibility/minor-version-compatibility.html"""

CUDNN_MAJOR_OF_CUDA: dict[int, tuple[int, ...]] = {11: (8, 9), 12: (8, 9), 13: (9,)}
"""cuDNN majors built for a CUDA major.
https://docs.nvidia.com/deeplearning/cudnn/backend/latest/reference/support-matrix.html"""

PYTHON: tuple[Version, Version] = ((3, 11), (3, 13))
"""From the first, below the second: `requires-python` of pyproject.toml."""

ONNXRUNTIME: Version = (1, 17)
"""First to run opset 20, which Sonorant exports.
https://onnxruntime.ai/docs/reference/compatibility.html#onnx-opset-support"""

TENSORRT_MAJORS = (10, 11)
"""Majors whose Python interface Sonorant uses. https://docs.nvidia.com/deeplearning/tensorrt/latest/"""


def parse(text: str) -> Version:
    """The leading numbers of a version; `2.13.0+cpu` is (2, 13, 0) and `580.65.06` is (580, 65, 6)."""
    numbers = []
    for part in text.split("+")[0].split("."):
        digits = part[: len(part) - len(part.lstrip("0123456789"))]
        if not digits:
            break
        numbers.append(int(digits))
        if digits != part:
            break
    return tuple(numbers)


def show(version: Version) -> str:
    return ".".join(map(str, version))


def at_least(found: Version, needed: Version) -> bool:
    """Whether `found` is `needed` or newer; missing numbers count as zeros."""
    length = max(len(found), len(needed))
    return found + (0,) * (length - len(found)) >= needed + (0,) * (length - len(needed))
