import subprocess
from pathlib import Path

import pytest

from sonorant.speech.bundle import Bundle, read_bundle
from sonorant.speech.runtimes import LoadOptions, Runtime, load_runtime
from tests.extras.tensorrt.bindings import TENSORRT, unpack


@pytest.fixture(scope="session", params=list(TENSORRT), ids=list(TENSORRT.values()))
def unpacked(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path, Path]:
    """Major version, folders of TensorRT's and CUDA's bindings; or skip."""
    try:
        return request.param, *unpack(request.param, tmp_path_factory.mktemp("bindings"))
    except (subprocess.SubprocessError, FileNotFoundError) as error:
        pytest.skip(f"the bindings' wheels or a C compiler cannot be had here ({type(error).__name__})")


@pytest.fixture(scope="module")
def bundle(voice_bundle: Path) -> Bundle:
    return read_bundle(voice_bundle)


@pytest.fixture(scope="module")
def expected(bundle: Bundle) -> Runtime:
    return load_runtime("onnxruntime", bundle, LoadOptions(variant="fp32", threads=1))
