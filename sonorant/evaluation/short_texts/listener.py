"""Word checker: pocketsphinx with a grammar of the expected text.

Each word may be said, skipped, or repeated from up to `BACK` words before; silence or a phone loop may be between words
(filler model; Rose and Paul, "A hidden Markov model based keyword recognition system", ICASSP 1990). Faults carry a
penalty, so only clear ones are reported.
"""

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from sonorant.audio.arrays import Floats
from sonorant.audio.recognizers import RATE, Clip
from sonorant.audio.wav import resample
from sonorant.audio.word_phones import PHONES, pronounced
from sonorant.errors import SonorantError
from sonorant.processes import spread

SKIP, AGAIN, PHONE, SILENCE = 1e-6, 1e-6, 1e-5, 0.1
"""Transition probabilities of skipping a word, going back, a babbled phone and silence."""
BEAM = 1e-20
"""Beam width; wider beams find the same faults and take a quarter longer."""
BACK = 3
_FRAME = 0.01  # seconds
_SILENCES = ("<sil>", "<s>", "</s>", "[NOISE]", "[SPEECH]")
REVISION = f"pocketsphinx {version('pocketsphinx')}, en-us, grammar 1"
"""Increase the grammar number when results for the same sound change."""


@dataclass(frozen=True)
class Said:
    word: str | None
    """Recognised word; None for a babbled phone."""
    start: float
    """Start in seconds."""
    end: float


def not_heard(language: str) -> str | None:
    """Return `not run: <why>` if the language is not supported, else None."""
    if language.split("-")[0] == "en":
        return None
    return f"not run: the word checker (pocketsphinx) supports English only, not '{language}'"


class Listener:
    """Checks clips against their texts. Deterministic and independent of earlier clips."""

    def __init__(self, language: str = "en-us") -> None:
        from pocketsphinx import Decoder, get_model_path

        if why := not_heard(language):
            raise SonorantError(why.removeprefix("not run: "))
        self._language = language
        with tempfile.TemporaryDirectory() as folder:
            fillers = Path(folder) / "fillers.dict"
            noises = Path(get_model_path("en-us/en-us/noisedict")).read_text(encoding="utf-8").splitlines()
            fillers.write_text("\n".join([*noises, *(f"++{phone}++ {phone}" for phone in PHONES), ""]))
            # Use probabilities unscaled (lw), and the best path of the first search.
            prices = {"lw": 1.0, "silprob": SILENCE, "fillprob": PHONE}
            beams = dict.fromkeys(("beam", "pbeam", "wbeam"), BEAM)
            self._decoder: Any = Decoder(
                lm=None, loglevel="FATAL", fdict=str(fillers), bestpath=False, **prices, **beams
            )

    def hear(self, words: Sequence[str], samples: Floats, rate: int) -> list[Said]:
        """Find the expected lower-case `words` and babble in samples (S,) in -1..1 at `rate` Hz, omitting silence.
        Raises SonorantError if a word cannot be pronounced."""
        mono = np.ascontiguousarray(samples, dtype=np.float32)
        heard = mono if rate == RATE or not len(mono) else resample(mono, rate, RATE)
        integers = (np.clip(heard, -1.0, 1.0) * 32767.0).astype(np.int16)
        if not len(integers):
            return []
        self._expect(words)
        self._decoder.reinit_feat()
        self._decoder.start_utt()
        self._decoder.process_raw(integers.tobytes(), full_utt=True)
        self._decoder.end_utt()
        return [
            Said(
                None if part.word.startswith("++") else part.word.partition("(")[0],
                part.start_frame * _FRAME,
                (part.end_frame + 1) * _FRAME,
            )
            for part in self._decoder.seg() or ()
            if part.word not in _SILENCES and part.word != "(NULL)"
        ]

    def _expect(self, words: Sequence[str]) -> None:
        missing = [word for word in words if not pronounced(self._decoder, word, self._language)]
        if missing or not words:
            raise SonorantError(f"'{' '.join(missing or words)}' has no pronunciation; use other words")
        count = len(words)
        said = [(place, place + 1, 1.0, word) for place, word in enumerate(words)]
        skips = [(a, b, SKIP ** (b - a)) for a in range(count) for b in range(a + 1, count + 1)]
        again = [(a, a - back, AGAIN) for a in range(1, count + 1) for back in range(1, min(BACK, a) + 1)]
        self._decoder.add_fsg("text", self._decoder.create_fsg("text", 0, count, [*said, *skips, *again]))
        self._decoder.activate_search("text")


_listener: Listener | None = None


def listen(
    clips: Sequence[Clip], texts: Sequence[Sequence[str]], language: str, *, processes: int | None = None
) -> list[list[Said]]:
    work = list(zip(clips, texts, strict=True))
    return spread(
        _hear, work, label="listen for words", unit="clip", processes=processes, prepare=_load, arguments=(language,)
    )


def _load(language: str) -> None:
    global _listener
    _listener = Listener(language)


def _hear(work: tuple[Clip, Sequence[str]]) -> list[Said]:
    assert _listener is not None
    clip, words = work
    return _listener.hear(words, clip.samples, clip.rate)
