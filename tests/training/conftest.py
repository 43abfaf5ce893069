"""Tiny feature stores, and a process group of one."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.distributed as dist

from sonorant.audio.wav import write_wav
from sonorant.corpus.manifest import Utterance
from sonorant.features.feature_writer import write_features
from sonorant.text import TextConfig
from testbed.synthetic_corpus import TINY, store_beside
from testbed.tiny_training import tiny_features

TEXTS = ("a red fox", "the blue sea", "seven old men", "go home now", "we like tea", "it may rain", "no, thank you",
         "look at me")  # fmt: skip


@pytest.fixture(scope="session")
def features(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """20 utterances of tones, 1.0 to 1.6 s; 16 for training."""
    folder, random, rate = tmp_path_factory.mktemp("tiny"), np.random.default_rng(0), TINY.sample_rate
    utterances = []
    for number in range(20):
        text, seconds = TEXTS[number % len(TEXTS)], 1.0 + 0.6 * random.random()
        time = np.arange(int(rate * seconds)) / rate
        tone = sum(
            np.sin(2 * np.pi * (120 + 9 * ord(letter)) * time + place)
            * np.exp(-((time * len(text) / seconds - place) ** 2))
            for place, letter in enumerate(text)
        )
        wave, path = 0.3 * tone + 0.01 * random.standard_normal(len(time)), f"{number}.wav"
        write_wav(folder / path, wave.astype(np.float32), rate)
        split = "validation" if number >= 16 else "train"
        utterances.append(
            Utterance(id=f"u{number:02d}", audio=path, text=text, spoken=text, speaker=f"s{number % 2}", split=split,
                      language="en-us", seconds=seconds, sample_rate=rate)
        )  # fmt: skip
    store, text = store_beside(folder / "features"), TextConfig(frontend="gruut")
    write_features(folder, utterances, folder / "features", TINY, text, 1, store=store)
    return folder / "features"


@pytest.fixture
def alone(tmp_path: Path) -> Iterator[None]:
    """A process group of this process alone."""
    dist.init_process_group("gloo", init_method=f"file://{tmp_path}/group", rank=0, world_size=1)
    yield
    dist.destroy_process_group()


@pytest.fixture(scope="session")
def tones(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """As `features`, without the packages of the text frontend."""
    return tiny_features(tmp_path_factory.mktemp("tones"))


@pytest.fixture
def alone_on_a_gpu(tmp_path: Path) -> Iterator[None]:
    """As `alone`, on a GPU; skipped without one."""
    if not torch.cuda.is_available():
        pytest.skip("needs a GPU")
    dist.init_process_group("cpu:gloo,cuda:nccl", init_method=f"file://{tmp_path}/group", rank=0, world_size=1)
    yield
    dist.destroy_process_group()
