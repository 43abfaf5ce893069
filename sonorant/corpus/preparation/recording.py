"""One utterance's recording, examined."""

import hashlib
from functools import cached_property
from pathlib import Path

import numpy as np

from sonorant.audio.channels import ChannelFinding, channel_finding, mix
from sonorant.audio.conditioning import ConditionConfig, Conditioning, plan
from sonorant.audio.decoding import Header, decode, header
from sonorant.audio.measures import FULL_SCALE, Measures, measure
from sonorant.audio.voice_activity import locate_speech, speech_probability
from sonorant.corpus.manifest import Utterance
from sonorant.corpus.sound import recording_of
from sonorant.text import Frontend, SpokenText

LEVEL_SECONDS = 0.05


class ExaminedRecording:
    """Measurements of one utterance, each made once and when first asked for."""

    def __init__(self, utterance: Utterance, corpus: Path, frontend: Frontend, condition: ConditionConfig) -> None:
        self.utterance = utterance
        self.corpus = corpus
        self.frontend = frontend
        self.condition = condition

    @cached_property
    def path(self) -> Path:
        """The audio file. Raises SonorantError as `recording_of`."""
        return recording_of(self.corpus, self.utterance)

    @cached_property
    def header(self) -> Header:
        """The file's own description. Raises UndecodableError if it cannot be opened as audio."""
        return header(self.path)

    @property
    def part(self) -> tuple[float, float]:
        """Start and end of the utterance in its file, in seconds by the header."""
        whole = self.header.seconds
        return min(self.utterance.start or 0.0, whole), min(self.utterance.end or whole, whole)

    @cached_property
    def channels(self) -> np.ndarray:
        """All channels, float32 (S, C), at the recording's rate. Raises UndecodableError if decoding fails."""
        return decode(self.path, self.utterance.start or 0.0, self.utterance.end)[0]

    @cached_property
    def samples(self) -> np.ndarray:
        """Mono float32 (S,) at the recording's rate. Raises UndecodableError if decoding fails."""
        return mix(self.channels)

    @cached_property
    def channel_finding(self) -> ChannelFinding:
        """What the channels, if they are finite, are to each other."""
        return channel_finding(self.channels, self.header.sample_rate)

    @property
    def seconds(self) -> float:
        """Duration as decoded."""
        return len(self.samples) / self.header.sample_rate

    @cached_property
    def level_db(self) -> float:
        """RMS of the loudest 50 ms in dB of full scale (a sine at full scale: -3); -200 for digital silence."""
        window = max(min(round(LEVEL_SECONDS * self.header.sample_rate), len(self.samples)), 1)
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

    @cached_property
    def probability(self) -> np.ndarray:
        """Probability of speech float32 (F,) of each 32 ms. The samples must be finite."""
        return speech_probability(self.samples, self.header.sample_rate)

    @cached_property
    def conditioning(self) -> Conditioning:
        """What is to be done to the recording before it is learned from."""
        rate = self.header.sample_rate
        return plan(self.samples, rate, locate_speech(self.samples, rate, self.probability), self.condition)

    @cached_property
    def measures(self) -> Measures:
        """What the recording sounds like, in figures."""
        return measure(self.samples, self.header.sample_rate, self.probability)

    @property
    def characters_per_second(self) -> float:
        """Speaking rate: characters of the spoken text, with blanks, a second of the conditioned recording."""
        return len(self.spoken.text) / self.conditioning.after.seconds

    @cached_property
    def sound(self) -> str:
        """Hex SHA-256 of the decoded samples: equal for copies, also in another lossless format."""
        return hashlib.sha256(self.samples.tobytes()).hexdigest()
