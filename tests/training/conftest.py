"""A tiny corpus, really turned into features, and a process group of one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch.distributed as dist

from sonorant.audio.mel import MelConfig
from sonorant.audio.wav import write_wav
from sonorant.data.feature_writer import write_features
from sonorant.data.manifest import Utterance
from sonorant.text import TextConfig
from tests.support.tiny_training import settings

__all__ = ["settings"]

AUDIO = MelConfig(sample_rate=8000, n_fft=256, hop=64, n_mels=20, f_min=0.0, f_max=4000.0)
TEXTS = (
    "a red fox",
    "the blue sea",
    "seven old men",
    "go home now",
    "we like tea",
    "it may rain",
    "no, thank you",
    "look at me",
)


@pytest.fixture(scope="session")
def features(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A feature store of 20 utterances of tones that change with the text, 1.0 to 1.6 s long; 16 of them to train
    on."""
    folder = tmp_path_factory.mktemp("tiny")
    random = np.random.default_rng(0)
    utterances = []
    for number in range(20):
        text = TEXTS[number % len(TEXTS)]
        rate, seconds = AUDIO.sample_rate, 1.0 + 0.6 * random.random()
        time = np.arange(int(rate * seconds)) / rate
        tone = sum(
            np.sin(2 * np.pi * (120 + 9 * ord(letter)) * time + place)
            * np.exp(-((time * len(text) / seconds - place) ** 2))
            for place, letter in enumerate(text)
        )
        write_wav(
            folder / f"{number}.wav", (0.3 * tone + 0.01 * random.standard_normal(len(time))).astype(np.float32), rate
        )
        utterances.append(
            Utterance(id=f"u{number:02d}", audio=f"{number}.wav", text=text, speaker=f"s{number % 2}",
            language="en-us", spoken=text,
                      seconds=seconds, sample_rate=rate, sha256="", split="validation" if number >= 16 else "train")
        )  # fmt: skip
    write_features(folder, utterances, folder / "features", AUDIO, TextConfig(frontend="gruut"), processes=1)
    return folder / "features"


@pytest.fixture
def alone(tmp_path: Path) -> Iterator[None]:
    """This process as a process group of its own, for trainings that need no torchrun."""
    dist.init_process_group("gloo", init_method=f"file://{tmp_path}/group", rank=0, world_size=1)
    yield
    dist.destroy_process_group()
