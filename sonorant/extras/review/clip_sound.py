"""WAV and spectrogram of a clip."""

from functools import lru_cache
from pathlib import Path

from sonorant.audio.mel import MelConfig
from sonorant.audio.wav import pcm16, wav_header
from sonorant.corpus.manifest import Utterance
from sonorant.corpus.sound import read_sound
from sonorant.evaluation.report.players import spectrogram

KEPT = 16
"""Number of clips kept in memory."""
WINDOW = 0.03
"""Minimum window of the spectrogram in seconds, long enough to separate a voice's harmonics."""
HIGHEST = 8000.0
"""Maximum frequency of a spectrogram in Hz."""
BINS = 80


class ClipSounds:
    """WAVs and spectrograms of the utterances in the folder `corpus`. Raises SonorantError naming a file that cannot be
    read."""

    def __init__(self, corpus: Path) -> None:
        self._read = lru_cache(KEPT)(lambda utterance: read_sound(corpus, utterance))
        self.wav = lru_cache(KEPT)(self._wav)
        self.picture = lru_cache(KEPT)(self._picture)

    def seconds(self, utterance: Utterance) -> float:
        samples, rate = self._read(utterance)
        return len(samples) / rate

    def _wav(self, utterance: Utterance) -> bytes:

        samples, rate = self._read(utterance)
        return wav_header(rate, len(samples)) + pcm16(samples).tobytes()

    def _picture(self, utterance: Utterance) -> bytes:
        samples, rate = self._read(utterance)
        n_fft = 1 << (int(WINDOW * rate) - 1).bit_length()
        top = min(HIGHEST, rate / 2)
        mel = MelConfig(sample_rate=rate, n_fft=n_fft, hop=n_fft // 8, n_mels=BINS, f_min=0.0, f_max=top)
        return spectrogram(samples, mel)
