"""An utterance under examination: everything measured about it, once and when first asked for. Judges nothing; the checks do."""

from __future__ import annotations

import hashlib
from functools import cached_property
from pathlib import Path

import numpy as np
import soundfile

from sonorant.audio.wav import read_audio
from sonorant.data.manifest import Utterance
from sonorant.text import Frontend, SpokenText

LEVEL_SECONDS = 0.05
FULL_SCALE = 0.999


class Candidate:
    """One utterance of the corpus folder `corpus`, to be spoken by `frontend`."""

    def __init__(self, utterance: Utterance, corpus: Path, frontend: Frontend) -> None:
        self.utterance = utterance
        self.corpus = corpus
        self.frontend = frontend

    @property
    def path(self) -> Path:
        """The audio file."""
        return self.corpus / (self.utterance.audio or "")

    @cached_property
    def header(self) -> soundfile._SoundFileInfo:
        """What the file says of itself. Raises soundfile.SoundFileError if it cannot be opened as audio."""
        return soundfile.info(str(self.path))

    @cached_property
    def samples(self) -> np.ndarray:
        """Mono float32 (S,) at the recording's rate. Raises SonorantError if decoding fails."""
        return read_audio(self.path)[0]

    @property
    def seconds(self) -> float:
        """Duration as decoded."""
        return len(self.samples) / self.header.samplerate

    @cached_property
    def level_db(self) -> float:
        """RMS of the loudest 50 ms in dB of full scale (a sine at full scale: -3); -200 for digital silence."""
        window = max(min(round(LEVEL_SECONDS * self.header.samplerate), len(self.samples)), 1)
        blocks = self.samples[: len(self.samples) // window * window].astype(np.float64).reshape(-1, window)
        loudest = np.square(blocks).mean(axis=1).max(initial=0.0)
        return float(10 * np.log10(max(loudest, 1e-20)))

    @property
    def clipped(self) -> float:
        """Fraction of samples at or beyond full scale."""
        return float(np.mean(np.abs(self.samples) >= FULL_SCALE))

    @cached_property
    def spoken(self) -> SpokenText:
        """The text as the frontend speaks it."""
        return self.frontend.speak(self.utterance.text)

    @property
    def characters_per_second(self) -> float:
        """Speaking rate: characters of the spoken text, blanks included, by duration."""
        return len(self.spoken.text) / self.seconds

    @cached_property
    def sound(self) -> str:
        """Hex SHA-256 of the decoded samples: equal for copies, also those in another lossless format."""
        return hashlib.sha256(self.samples.tobytes()).hexdigest()
