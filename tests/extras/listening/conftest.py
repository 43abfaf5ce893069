from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pytest
import soundfile

from sonorant.extras.listening.answers import AnswersFile
from sonorant.extras.listening.listening_server import ListenServer, Sitting
from sonorant.extras.listening.listening_sounds import RECORDINGS, A, B, gather
from sonorant.extras.listening.trials import ListeningTest
from tests.support.serving import in_thread

RATE = 16000
PITCH = {A: 310.0, B: 530.0, RECORDINGS: 870.0}
"""Hz of each system's tone; recordings add one at HIGH, which their anchor lacks."""
HIGH = 6000.0
LEVEL = {A: 0.5, B: 0.02, RECORDINGS: 0.1}
NAMES = tuple(f"sentence {number}" for number in range(7))


def tone(system: str, number: int, seconds: float = 0.3) -> np.ndarray:
    time = np.arange(round((seconds + 0.01 * number) * RATE)) / RATE
    high = np.sin(2 * np.pi * HIGH * time) * (system == RECORDINGS)
    return (LEVEL[system] * (np.sin(2 * np.pi * PITCH[system] * time) + high)).astype(np.float32)


@pytest.fixture
def places(tmp_path: Path) -> dict[str, str]:
    """Folders of A, B and the recordings, with revealing names."""
    folders = {A: tmp_path / "better", B: tmp_path / "worse", RECORDINGS: tmp_path / "person"}
    for system, folder in folders.items():
        folder.mkdir()
        for number, name in enumerate(NAMES):
            soundfile.write(folder / f"{name}.wav", tone(system, number), RATE)
    return {system: str(folder) for system, folder in folders.items()}


def heard(samples: np.ndarray, rate: int) -> str:
    """The system that made a sound, identified by its tone."""
    power = np.abs(np.fft.rfft(samples, 4 * rate))
    power = {name: power[round(4 * pitch)] for name, pitch in {**PITCH, "high": HIGH}.items()}
    system = max(PITCH, key=lambda name: power[name])
    return "anchor" if system == RECORDINGS and power["high"] < 0.1 * power[system] else system


Start = Callable[..., ListenServer]


@pytest.fixture
def start(places: dict[str, str], tmp_path: Path) -> Iterator[Start]:
    """Start a server with or without recordings, after the previous one ends."""
    with ExitStack() as running:

        def begin(*systems: str, count: int = 20, seed: int = 1) -> ListenServer:
            running.close()
            chosen = {system: places[system] for system in systems or places}
            test = ListeningTest(gather(chosen, [], count=count, seed=seed), chosen, seed)
            answers = running.enter_context(AnswersFile(tmp_path / "answers.jsonl", test.header))
            return running.enter_context(in_thread(ListenServer(Sitting(test, answers), 0)))

        yield begin
