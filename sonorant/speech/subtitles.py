"""Files of word times, written while speech is computed: JSON, SubRip (.srt) and WebVTT (.vtt).

WebVTT follows https://www.w3.org/TR/webvtt1. SubRip has no standard; it is written as plain text, with a comma in
times.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from html import escape
from pathlib import Path
from typing import TextIO

from sonorant.files import atomic_file, check_name
from sonorant.speech.word_times import WordTiming

LONGEST_CUE = 7
"""Maximum number of words in a cue."""
_PHRASE_END = (",", ";", ":", ",”", ',"', "—", "–", ")")


class JsonTimings:
    """`{"words": [{"text", "start", "end", "first", "last", "phonemes": [{"symbol", "start", "end"}]}]}`, one line per
    word. Times are in seconds, `first` and `last` as in `WordTiming`."""

    def __init__(self, file: TextIO) -> None:
        self.file = file
        self._before = '{"words": [\n'

    def add(self, words: Iterable[WordTiming]) -> None:
        for word in words:
            self.file.write(self._before + json.dumps(as_json(word), ensure_ascii=False, allow_nan=False))
            self._before = ",\n"

    def end(self) -> None:
        self.file.write(("" if self._before == ",\n" else self._before) + "\n]}\n")


class Subtitles:
    """SubRip or WebVTT with cues of a few words. A sentence is split into cues once it is complete, so that no word is
    alone in a cue."""

    def __init__(self, file: TextIO, *, vtt: bool = False) -> None:
        self.file, self.vtt = file, vtt
        self._sentence: list[WordTiming] = []
        self._number = self._latest = 0
        if vtt:
            file.write("WEBVTT\n\n")

    def add(self, words: Iterable[WordTiming]) -> None:
        for word in words:
            self._sentence.append(word)
            if word.ends_sentence:
                self._write()

    def end(self) -> None:
        self._write()

    def _write(self) -> None:
        for cue in cues(self._sentence):
            # A cue lasts at least a millisecond, and cues do not overlap.
            start = max(round(cue[0].start * 1000), self._latest)
            self._latest = max(round(cue[-1].end * 1000), start + 1)
            self._number += 1
            comma, text = "." if self.vtt else ",", " ".join(word.written for word in cue)
            times = f"{clock(start, comma)} --> {clock(self._latest, comma)}"
            self.file.write(f"{self._number}\n{times}\n{escape(text, quote=False) if self.vtt else text}\n\n")
        self._sentence = []


TimingsFile = JsonTimings | Subtitles
FORMATS: dict[str, Callable[[TextIO], TimingsFile]] = {
    ".json": JsonTimings,
    ".srt": Subtitles,
    ".vtt": partial(Subtitles, vtt=True),
}


@contextmanager
def timings_file(path: Path) -> Iterator[TimingsFile]:
    """Open a file of word times in the format of its suffix; it appears at `path` on success. Raises SonorantError if
    the suffix is not in `FORMATS`."""
    check_name(path, FORMATS)
    with atomic_file(path.resolve()) as place, place.open("w", encoding="utf-8", newline="\n") as file:
        written = FORMATS[path.suffix.lower()](file)
        yield written
        written.end()


def as_json(word: WordTiming) -> dict[str, object]:
    """Convert a word to the format of `JsonTimings`, with times rounded to 0.1 ms."""
    phonemes = [
        {"symbol": phoneme.text, "start": round(phoneme.start, 4), "end": round(phoneme.end, 4)}
        for phoneme in word.phonemes
    ]
    times = {"start": round(word.start, 4), "end": round(word.end, 4)}
    return {"text": word.text, **times, "first": word.first, "last": word.last, "phonemes": phonemes}


def clock(milliseconds: int, comma: str) -> str:
    seconds, rest = divmod(milliseconds, 1000)
    return f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}{comma}{rest:03}"


def cues(words: Sequence[WordTiming]) -> Iterator[Sequence[WordTiming]]:
    """Split a sentence into parts of at most `LONGEST_CUE` words. Phrases that end at a comma are kept whole and joined
    if they fit; a longer phrase is split evenly."""
    first, phrases = 0, []
    for place, word in enumerate(words, 1):
        if word.written.endswith(_PHRASE_END) or place == len(words):
            phrases.append(words[first:place])
            first = place
    waiting: list[WordTiming] = []
    for phrase in phrases:
        if len(waiting) + len(phrase) > LONGEST_CUE:
            yield from _evenly(waiting)
            waiting = []
        waiting += phrase
    yield from _evenly(waiting)


def _evenly(words: Sequence[WordTiming]) -> Iterator[Sequence[WordTiming]]:
    count = -(-len(words) // LONGEST_CUE)
    for part in range(count):
        yield words[part * len(words) // count : (part + 1) * len(words) // count]
