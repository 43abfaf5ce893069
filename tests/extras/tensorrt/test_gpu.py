from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from sonorant.audio.pitch import SourceRows
from sonorant.extras.tensorrt.key import missing
from sonorant.speech.buckets import Bucketed
from sonorant.speech.bundle import Bundle
from sonorant.speech.runtimes import LoadOptions, Runtime, load_runtime

pytestmark = pytest.mark.skipif(missing() is not None, reason=f"not run: {missing()}")
TOLERANCE = 1e-3


@pytest.fixture(scope="module")
def built(bundle: Bundle, tmp_path_factory: pytest.TempPathFactory) -> Path:
    from sonorant.extras.tensorrt.engines import Engines
    from sonorant.extras.tensorrt.key import this_machine
    from tests.extras.tensorrt.test_engines import CONFIG

    engines = Engines(bundle, this_machine(), tmp_path_factory.mktemp("engines"))
    assert [engines.build(graph, "fp32", CONFIG) for graph in bundle.graphs] == ["built"] * 3
    assert [engines.build(graph, "fp32", CONFIG) for graph in bundle.graphs] == ["up to date"] * 3
    assert engines.build("vocoder", "fp32", replace(CONFIG, workspace_mib=32)) == "rebuilt: workspace_mib was 64, is 32"
    return engines.folder


@pytest.fixture(scope="module")
def runtime(bundle: Bundle, built: Path) -> Bucketed:
    return load_runtime("tensorrt", bundle, LoadOptions(variant="fp32", engines=built, warm_up=True))


def speak(runtime: Runtime, batch: int, tokens: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Ends, mel and samples of random phonemes; rows differ in length."""
    random = np.random.default_rng(seed)
    lengths = np.maximum(1, tokens - np.arange(batch))
    ids = random.integers(3, 20, (batch, tokens, 3)) * np.array([1, 0, 0])
    zeros = np.zeros(batch, np.float32)
    states, ends = runtime.encode(ids, lengths, np.zeros(batch, np.int64), zeros + 1, zeros, zeros)
    frames = int(ends[:, -1].max())
    mel = runtime.decode(states, ends, np.arange(frames))
    return ends, mel, runtime.vocode(SourceRows(16000, 256).append(mel), ends[:, -1])


@pytest.mark.parametrize(("batch", "tokens"), [(1, 1), (1, 2), (1, 17), (1, 60), (3, 23), (8, 40), (9, 11), (1, 900)])
def test_it_speaks_as_onnx_runtime_does(runtime: Bucketed, expected: Runtime, batch: int, tokens: int) -> None:
    """Sizes of one, two, odd, optimal, several rows, and beyond all profiles."""
    for got, wanted in zip(speak(runtime, batch, tokens), speak(expected, batch, tokens), strict=True):
        assert got.dtype == wanted.dtype and got.shape == wanted.shape
        assert np.isfinite(got).all() and np.abs(got - wanted).max() < TOLERANCE
