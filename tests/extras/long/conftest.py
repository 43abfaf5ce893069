import shutil
from pathlib import Path

import numpy as np
import pytest

from sonorant.audio.arrays import Floats
from sonorant.audio.wav import read_audio
from sonorant.corpus.importers import CorpusConfig, import_corpus
from tests.extras.long.spoken import SENTENCES
from tests.support.shared import made_once

AUDIBLE = 0.002
"""Absolute value of an audible sample of flite's speech."""


@pytest.fixture(scope="session")
def speech(tmp_path_factory: pytest.TempPathFactory) -> list[Floats]:
    """Speech of each of `SENTENCES` without silence, at `RATE`."""
    if shutil.which("flite") is None:
        pytest.skip("flite is not installed")

    def speak(folder: Path) -> None:
        (folder / "prompts.txt").write_text("\n".join(SENTENCES), encoding="utf-8")
        config = CorpusConfig(kind="demo", path="unused", sentences=len(SENTENCES))
        import_corpus(folder, folder / "spoken", config)

    folder = made_once(tmp_path_factory, "sentences", speak)
    found = [read_audio(path)[0] for path in sorted((folder / "spoken" / "wavs").glob("*.wav"))]
    sounding = [np.flatnonzero(np.abs(samples) > AUDIBLE) for samples in found]
    return [samples[own[0] : own[-1]] for samples, own in zip(found, sounding, strict=True)]
