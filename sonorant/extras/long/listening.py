"""Recognise the speech in a long recording.

pocketsphinx uses a language model of the text (Moreno et al. 1998, "A recursive algorithm for the forced alignment of
very long audio segments") and returns the time of each word. Other recognisers have an open vocabulary.
"""

import math
import tempfile
from collections import Counter
from collections.abc import Sequence
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
from sonorant.text.written_words import plain_words

AROUND = 0.2
"""Seconds of audio included before and after a stretch."""
_FRAME = 0.01
Heard = tuple[str, float, float]
"""A recognised word in lower case, and its start and end in seconds."""


@dataclass(frozen=True)
class HeardPassage:
    """Consecutive stretches of speech in one recording."""

    recording: Path
    stretches: tuple[tuple[float, float], ...]
    """Start and end of each stretch in seconds."""


_work: tuple[str, str, tuple[str, ...] | None] = ("", "", None)


def begin(recognizer: str, language: str, words: tuple[str, ...] | None) -> None:
    global _work
    _work = (recognizer, language, words)


def listen(passage: HeardPassage) -> list[list[Heard]]:
    """Return the recognised words of each stretch. If the recogniser returns no times, words are spread evenly."""
    listener = _listener(*_work)
    first = max(passage.stretches[0][0] - AROUND, 0.0)
    samples, _ = read_audio(passage.recording, RATE, start=first, end=passage.stretches[-1][1] + AROUND)
    found = []
    for start, end in passage.stretches:
        origin = max(start - AROUND, first)
        sound = samples[round((origin - first) * RATE) : round((end + AROUND - first) * RATE)]
        if isinstance(listener, _TextRecognizer):
            heard = [(word, round(origin + at, 3), round(origin + to, 3)) for word, at, to in listener.hear(sound)]
        else:
            words = plain_words(listener.transcribe(sound, RATE))
            edges = np.linspace(start, end, len(words) + 1).round(3).tolist()
            heard = list(zip(words, edges[:-1], edges[1:], strict=True))
        found.append(heard)
    return found


def understand(passage: HeardPassage) -> tuple[str, float | None]:
    """Return the recognised text of the passage, and the confidence (0 to 1) if known."""
    listener = _listener(*_work)
    assert not isinstance(listener, _TextRecognizer)
    (start, end), *_ = passage.stretches
    understood = listener.recognize(*read_audio(passage.recording, RATE, start=start, end=end))
    sure = understood.confidence
    return understood.text, None if sure is None else round(sure, 3)


@lru_cache(maxsize=1)
def _listener(recognizer: str, language: str, words: tuple[str, ...] | None) -> "_TextRecognizer | Recognizer":
    known = load_recognizer(recognizer, language)
    return _TextRecognizer(words, language) if words and isinstance(known, PocketSphinx) else known


class _TextRecognizer:
    """pocketsphinx with a language model of one text."""

    ACTIVE_HMMS = 1500

    def __init__(self, words: tuple[str, ...], language: str) -> None:
        from pocketsphinx import Decoder, NGramModel

        self._decoder: Any = Decoder(lm=None, loglevel="FATAL", maxhmmpf=self.ACTIVE_HMMS)
        known = [word for word in words if pronounced(self._decoder, word, language)]
        if not known:
            raise SonorantError("none of the text's words can be pronounced; check that it is in corpus.language")
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "text.lm"
            write_language_model(path, known)
            self._decoder.add_lm("text", NGramModel(self._decoder.config, self._decoder.logmath, str(path)))
        self._decoder.activate_search("text")

    def hear(self, samples: Floats) -> list[Heard]:
        integers = (np.clip(samples, -1.0, 1.0) * 32767.0).astype(np.int16)
        if not len(integers):
            return []
        self._decoder.reinit_feat()  # forget the previous stretch
        self._decoder.start_utt()
        self._decoder.process_raw(integers.tobytes(), full_utt=True)
        self._decoder.end_utt()
        return [
            (part.word.partition("(")[0], part.start_frame * _FRAME, (part.end_frame + 1) * _FRAME)
            for part in self._decoder.seg() or ()
            if part.word[0] not in "<["
        ]


_DISCOUNT = 0.3
_END = 0.05
"""Probability that a stretch ends after a word."""


def write_language_model(path: Path, words: Sequence[str]) -> None:
    ones, pairs, threes = (Counter(zip(*(words[place:] for place in range(n)), strict=False)) for n in (1, 2, 3))
    total = len(words) + 0.5 * len(ones)
    unigrams = {ngram: (1 - _END) * (count + 0.5) / total for ngram, count in ones.items()}
    bigrams, left_of_one = _interpolated(pairs, unigrams)
    trigrams, left_of_pair = _interpolated(threes, bigrams)
    lines = ["\\data\\", f"ngram 1={len(unigrams) + 2}", f"ngram 2={len(bigrams)}", f"ngram 3={len(trigrams)}", ""]
    lines += ["\\1-grams:", "-99 <s> 0", f"{math.log10(_END):.4f} </s>"]
    lines += _lines(unigrams, left_of_one)
    lines += ["", "\\2-grams:", *_lines(bigrams, left_of_pair), "", "\\3-grams:", *_lines(trigrams, None)]
    path.write_text("\n".join([*lines, "", "\\end\\", ""]), encoding="utf-8")


_Ngram = tuple[str, ...]


def _interpolated(
    counts: Counter[_Ngram], shorter: dict[_Ngram, float]
) -> tuple[dict[_Ngram, float], dict[_Ngram, float]]:
    """Return the probabilities of n-grams, and the probability mass that each context leaves to shorter n-grams."""
    totals, followers = Counter[_Ngram](), Counter[_Ngram]()
    for ngram, count in counts.items():
        totals[ngram[:-1]] += count
        followers[ngram[:-1]] += 1
    left = {context: _DISCOUNT * followers[context] / total for context, total in totals.items()}
    found = {
        ngram: (count - _DISCOUNT) / totals[ngram[:-1]] + left[ngram[:-1]] * shorter[ngram[1:]]
        for ngram, count in counts.items()
    }
    return found, left


def _lines(probabilities: dict[_Ngram, float], left: dict[_Ngram, float] | None) -> list[str]:
    return [
        f"{math.log10(probability):.4f} {' '.join(ngram)}"
        + ("" if left is None else f" {math.log10(left.get(ngram, 1.0)):.4f}")
        for ngram, probability in sorted(probabilities.items())
    ]
