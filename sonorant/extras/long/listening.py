"""What is heard in stretches of a long recording, by recognisers that may know the text that is read.

pocketsphinx is given a language model of the text (Moreno et al. 1998, "A recursive algorithm for the forced alignment
of very long audio segments"): it hears nearly every word that is read, and tells when. Any other recogniser hears what
it hears, stretch by stretch.
"""

import tempfile
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from sonorant.audio.arrays import Floats
from sonorant.audio.recognizers import RATE, PocketSphinx, Recognizer, load_recognizer
from sonorant.audio.wav import read_audio
from sonorant.audio.word_phones import pronounced
from sonorant.errors import SonorantError
from sonorant.extras.long.trigrams import write_language_model
from sonorant.text.written_words import plain_words

AROUND = 0.2
"""Seconds heard before and after a stretch."""
_FRAME = 0.01
Heard = tuple[str, float, float]
"""A word in lower case, and where it sounds: seconds within the recording."""


@dataclass(frozen=True)
class Passage:
    """Neighbouring stretches of one recording, read at once."""

    recording: Path
    stretches: tuple[tuple[float, float], ...]
    """Start and end in seconds."""


_work: tuple[str, str, tuple[str, ...] | None] = ("", "", None)


def begin(recognizer: str, language: str, words: tuple[str, ...] | None) -> None:
    """Prepare this process: the recogniser's name, and the words of the text; None = there is none."""
    global _work
    _work = (recognizer, language, words)


def listen(passage: Passage) -> list[list[Heard]]:
    """What is heard in each stretch, as plain JSON. A recogniser that does not tell when a word sounds leaves the words
    spread over their stretch."""
    listener = _listener(*_work)
    first = max(passage.stretches[0][0] - AROUND, 0.0)
    samples, _ = read_audio(passage.recording, RATE, start=first, end=passage.stretches[-1][1] + AROUND)
    found = []
    for start, end in passage.stretches:
        origin = max(start - AROUND, first)
        sound = samples[round((origin - first) * RATE) : round((end + AROUND - first) * RATE)]
        if isinstance(listener, _Reader):
            heard = [(word, round(origin + at, 3), round(origin + to, 3)) for word, at, to in listener.hear(sound)]
        else:
            words = plain_words(listener.transcribe(sound, RATE))
            edges = np.linspace(start, end, len(words) + 1).round(3).tolist()
            heard = list(zip(words, edges[:-1], edges[1:], strict=True))
        found.append(heard)
    return found


def understand(passage: Passage) -> tuple[str, float | None]:
    """What is said in the whole passage, without its text, and how sure the recogniser is, 0 to 1."""
    listener = _listener(*_work)
    assert not isinstance(listener, _Reader)
    (start, end), *_ = passage.stretches
    understood = listener.recognize(*read_audio(passage.recording, RATE, start=start, end=end))
    sure = understood.confidence
    return understood.text, None if sure is None else round(sure, 3)


@lru_cache(maxsize=1)
def _listener(recognizer: str, language: str, words: tuple[str, ...] | None) -> "_Reader | Recognizer":
    known = load_recognizer(recognizer, language)
    return _Reader(words, language) if words and isinstance(known, PocketSphinx) else known


class _Reader:
    """pocketsphinx that expects one text."""

    ACTIVE_HMMS = 1500

    def __init__(self, words: tuple[str, ...], language: str) -> None:
        from pocketsphinx import Decoder, NGramModel

        self._decoder: Any = Decoder(lm=None, loglevel="FATAL", maxhmmpf=self.ACTIVE_HMMS)
        known = [word for word in words if pronounced(self._decoder, word, language)]
        if not known:
            raise SonorantError("none of the text's words can be pronounced; is it in the corpus' language?")
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "text.lm"
            write_language_model(path, known)
            self._decoder.add_lm("text", NGramModel(self._decoder.config, self._decoder.logmath, str(path)))
        self._decoder.activate_search("text")

    def hear(self, samples: Floats) -> list[Heard]:
        integers = (np.clip(samples, -1.0, 1.0) * 32767.0).astype(np.int16)
        if not len(integers):
            return []
        self._decoder.reinit_feat()  # what is heard does not depend on the stretch before
        self._decoder.start_utt()
        self._decoder.process_raw(integers.tobytes(), full_utt=True)
        self._decoder.end_utt()
        return [
            (part.word.partition("(")[0], part.start_frame * _FRAME, (part.end_frame + 1) * _FRAME)
            for part in self._decoder.seg() or ()
            if part.word[0] not in "<["
        ]
