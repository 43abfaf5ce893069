import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

os.environ.setdefault("OMP_NUM_THREADS", "1")  # read when torch is imported; pytest's workers share the cores

import numpy as np
import pytest

from tasks.params import load
from tests.support.browser import Browser, start_browser
from tests.support.shared import made_once

if TYPE_CHECKING:  # absent where only GPU tests run
    from sonorant.corpus.preparation import PrepareConfig

ROOT = Path(__file__).parents[1]
with suppress(ImportError):  # absent where only GPU tests run
    from hypothesis import HealthCheck, settings

    # a busy machine must not fail a test
    settings.register_profile("busy", deadline=None, suppress_health_check=[HealthCheck.too_slow])
    settings.load_profile("busy")


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip a long proof that would start after `SONORANT_LONG_TESTS_UNTIL` (seconds since 1970)."""
    until = os.environ.get("SONORANT_LONG_TESTS_UNTIL")
    if until and item.get_closest_marker("long") and time.time() > float(until):
        pytest.skip("not run: the time for long proofs is over (SONORANT_LONG_TESTS_UNTIL)")


@pytest.fixture(scope="session")
def ljspeech_mini() -> Path:
    """Folder of the 20 real recordings, or skip."""
    folder = (ROOT / "../shared/data/ljspeech-mini").resolve()
    if not folder.is_dir():
        pytest.skip("the 20 real recordings (ljspeech-mini) are absent")
    return folder


@pytest.fixture(scope="session")
def prepare_config() -> "PrepareConfig":
    from sonorant.corpus.preparation import PrepareConfig

    return load("prepare", PrepareConfig, ROOT / "params.yaml")


@pytest.fixture(scope="session")
def murmur() -> Callable[..., np.ndarray]:
    """murmur(seconds, seed, rate=16000) -> float32 (S,): noise with swells that passes `prepare`."""

    def make(seconds: float, seed: int, rate: int = 16000) -> np.ndarray:
        count = round(seconds * rate)
        swell = 0.1 + 0.1 * np.sin(np.arange(count) / rate * 2 * np.pi * 3)
        return (np.random.default_rng(seed).uniform(-1, 1, count) * swell).astype(np.float32)

    return make


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A tiny acoustic model (speakers anna and ben) and vocoder, weights random."""
    from tests.support.tiny_voice import write_trained

    return write_trained(tmp_path_factory.mktemp("trained"))


@pytest.fixture(scope="session")
def voice_bundle(trained: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The bundle of `trained`; read-only."""
    return _exported(trained, tmp_path_factory, "voice")


@pytest.fixture(scope="session")
def trained_flow(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Like `trained`, with a flow decoder."""
    from tests.support.tiny_voice import write_trained

    return write_trained(tmp_path_factory.mktemp("trained_flow"), decoder="flow")


@pytest.fixture(scope="session")
def flow_bundle(trained_flow: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The bundle of `trained_flow`; read-only."""
    return _exported(trained_flow, tmp_path_factory, "flow")


@pytest.fixture(scope="session")
def trained_codec_lm(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A tiny codec language model (speakers anna and ben) and its codec, weights random."""
    from tests.support.tiny_voice import write_trained_codec_lm

    return write_trained_codec_lm(tmp_path_factory.mktemp("trained_codec_lm"))


@pytest.fixture(scope="session")
def codec_lm_bundle(trained_codec_lm: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The bundle of `trained_codec_lm`; read-only."""
    return _exported(trained_codec_lm, tmp_path_factory, "codec_lm")


def _exported(trained: tuple[Path, Path], factory: pytest.TempPathFactory, name: str) -> Path:
    from sonorant.export.bundling import export_voice
    from sonorant.export.onnx_graph import ExportConfig
    from tests.support.tiny_voice import CORPUS, DECODING

    config = load("export", ExportConfig, ROOT / "params.yaml")
    decoding = DECODING if name == "codec_lm" else None

    def export(folder: Path) -> None:
        export_voice(*trained, folder / "voice", CORPUS, config, decoding)

    return made_once(factory, name, export) / "voice"


@pytest.fixture(scope="session")
def tracked_project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder with an empty MLflow store, which takes seconds to create; copy it."""

    def make(folder: Path) -> None:
        from sonorant.registry.tracking import open_store

        (folder / "runs").mkdir()
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{folder}/runs/mlflow.db")
            open_store()

    return made_once(tmp_path_factory, "tracked_project", make)


@pytest.fixture(scope="session")
def cpp() -> None:
    """A C++ compiler for torch.compile, or skip."""
    if shutil.which("g++") is None:
        pytest.skip("g++, with which torch compiles, is not installed")


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """A headless Chromium, or skip."""
    started = start_browser()
    yield started
    started.driver.quit()
