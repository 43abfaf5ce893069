"""The real bindings, where pip and a C compiler can bring them."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.tensorrt.bindings import TENSORRT, unpack


@pytest.fixture(scope="session", params=list(TENSORRT), ids=list(TENSORRT.values()))
def unpacked(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path, Path]:
    """Major version, and the folders of TensorRT's and of CUDA's bindings; tests are skipped by name where they cannot
    be had."""
    try:
        return request.param, *unpack(request.param, tmp_path_factory.mktemp("bindings"))
    except (subprocess.SubprocessError, FileNotFoundError) as error:
        pytest.skip(f"the bindings' wheels or a C compiler cannot be had here ({type(error).__name__})")
