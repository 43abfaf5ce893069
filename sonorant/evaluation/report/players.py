"""Audio players with mel spectrogram and transcript."""

import base64
import io
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

import numpy as np
import soundfile
import torch

from sonorant.audio.arrays import Floats
from sonorant.audio.mel import FLOOR, MelConfig, log_mel
from sonorant.audio.wav import read_audio
from sonorant.evaluation.report.document import label
from sonorant.evaluation.report.naturalness_section import pitch_curves
from sonorant.evaluation.report.sentences_section import Sentence, Timed, Words, marked
from sonorant.pages.blocks import Block
from sonorant.pages.charts import Chart

QUIETEST, LOUDEST = float(np.log(FLOOR)), 1.0
"""Range of the colour scale in natural log of magnitude; the same in all pictures."""


@dataclass(frozen=True, kw_only=True)
class Player:
    name: str
    ships: bool
    errors: str
    heard: Sequence[Words]
    sound: str
    """FLAC file as a data URL."""
    picture: str
    """PNG file as a data URL."""
    shown: str
    times: Sequence[Timed] | str = ()
    """Word times, or why there are none."""
    width: float
    """Width in percent of the card; all players of a sentence have one time scale."""


@dataclass(frozen=True, kw_only=True)
class Article(Block):
    template = "article.html"
    id: str
    reference: str
    players: Sequence[Player]
    folded: Sequence[Player]
    melodies: Sequence[Chart] = ()
    """Pitch curves of the players that are not folded."""


@dataclass(frozen=True, kw_only=True)
class Presentation:
    audio: MelConfig
    normalized: Callable[[str], str]
    shipped: str

    def article(self, sentence: Sentence, first: Collection[str] | None = None) -> Article:
        """Create a sentence's players, folding kinds of sound not in `first`. None folds nothing."""
        sounds = {kind: read_audio(file, self.audio.sample_rate)[0] for kind, file in sentence.samples.items()}
        longest = max(len(sound) for sound in sounds.values())
        shown = {kind: sound for kind, sound in sounds.items() if first is None or kind in first}
        melodies = pitch_curves(shown, self.audio.sample_rate)
        return Article(
            id=sentence.id,
            reference=sentence.reference,
            players=[self._player(sentence, kind, sound, longest) for kind, sound in shown.items()],
            folded=[
                self._player(sentence, kind, sound, longest) for kind, sound in sounds.items() if kind not in shown
            ],
            melodies=[melodies] if melodies else [],
        )

    def _player(self, sentence: Sentence, kind: str, sound: Floats, longest: int) -> Player:
        seconds, wrong, heard = len(sound) / self.audio.sample_rate, sentence.errors[kind], sentence.heard[kind]
        counted = f"{wrong} of {sentence.words} wrong" if wrong else "no error"
        return Player(
            name=label(kind),
            ships=kind == self.shipped,
            errors=heard if wrong is None else counted,
            heard=[] if wrong is None else marked(self.normalized(sentence.reference), self.normalized(heard)),
            sound=_address("audio/flac", _flac(sound, self.audio.sample_rate)),
            picture=_address("image/png", spectrogram(sound, self.audio)),
            shown=f"Mel spectrogram, {label(kind)}, {seconds:.1f} s, up to {self.audio.f_max / 1000:g} kHz",
            times=sentence.times.get(kind, []),
            width=round(100 * len(sound) / longest, 1),
        )


def _address(kind: str, data: bytes) -> str:
    return f"data:{kind};base64,{base64.b64encode(data).decode('ascii')}"


def _flac(sound: Floats, rate: int) -> bytes:
    buffer = io.BytesIO()
    integers = np.clip(np.rint(sound.astype(np.float64) * 32768), -32768, 32767).astype(np.int16)
    soundfile.write(buffer, integers, rate, format="FLAC", subtype="PCM_16")
    return buffer.getvalue()


def spectrogram(samples: Floats, audio: MelConfig) -> bytes:
    """Draw the log-mel of samples (S,) as a 256-colour PNG with one pixel per frame."""
    from matplotlib import colormaps
    from PIL import Image

    mel_MT = log_mel(torch.from_numpy(samples), audio).numpy()
    levels = np.clip((mel_MT[::-1] - QUIETEST) / (LOUDEST - QUIETEST) * 255, 0, 255)
    picture = Image.fromarray(np.rint(levels).astype(np.uint8)).convert("P")
    picture.putpalette((colormaps["magma"](np.arange(256))[:, :3] * 255).astype(np.uint8).tobytes())
    buffer = io.BytesIO()
    picture.save(buffer, "PNG", optimize=True)
    return buffer.getvalue()
