"""Split a long recording into utterances, and list speech and text that no utterance contains.

If there is a text, recognised words are aligned with it and cut at pauses. Otherwise the recording is cut at pauses and
transcribed. Results are cached by content.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import sonorant.audio
import sonorant.audio.recognizers
import sonorant.extras.long
import sonorant.text
from sonorant.audio.arrays import Floats
from sonorant.audio.decoding import header
from sonorant.audio.voice_activity import Span
from sonorant.corpus.cache import code_of, compute_missing, key_of
from sonorant.extras.long.cutting import Cut, cut, join_stretches
from sonorant.extras.long.listening import Heard, HeardPassage, begin, listen, understand
from sonorant.extras.long.placing import place_words
from sonorant.extras.long.script import Script, read_script
from sonorant.extras.long.stretches import blocks, scan, stretches, widen
from sonorant.files import sha256_file

_PASSAGE = 20.0  # maximum seconds of a passage
_LEAST = 0.3  # minimum seconds of speech to list


@dataclass(frozen=True, kw_only=True)
class LongConfig:
    recognizer: str
    """Name of the recogniser, as in section `recognizer`."""
    revision: str
    language: str
    shortest: float
    """Minimum seconds of an utterance."""
    longest: float


@dataclass(frozen=True, kw_only=True)
class Placed:
    start: float
    """Start in seconds, including the margin."""
    end: float
    text: str
    """Text as written; as recognised if none was given."""
    confidence: float | None = None
    """Confidence of the recogniser; None if there is a text."""


@dataclass(frozen=True, kw_only=True)
class Placement:
    seconds: float
    speech: float
    """Seconds of speech."""
    words: int
    """Number of words in the text as spoken."""
    utterances: list[Placed]
    unplaced: list[dict[str, Any]]
    """Rows of unplaced.jsonl: speech (start, end, heard, why) and text (words, text, why) that no utterance
    contains."""


def place(recording: Path, name: str, text: str | None, config: LongConfig, cache: Path | None) -> Placement:
    """Split a recording into utterances, aligned with `text` if there is one. `name`: label of the progress bar;
    `cache`: folder of cached results. Raises SonorantError as `decode` does."""
    code = code_of(sonorant.audio, sonorant.extras.long, sonorant.audio.recognizers, sonorant.text)
    key = key_of(code, config.revision, config.language, sha256_file(recording))
    seconds = header(recording).seconds
    parts = blocks(recording, seconds)
    keys = [key_of(key, part.first, part.last) for part in parts]
    found = compute_missing(
        scan, parts, keys, cache, label=f"{name}: finding speech", unit="minute", reads=(recording,)
    )
    probability = np.array([value for values in found for value in values], dtype=np.float32)
    spans = stretches(probability)
    script = read_script(text or "", config.language)
    words = script.words or None

    def recognise(function: Callable[[HeardPassage], Any], passages: list[HeardPassage], unit: str) -> list[Any]:
        return compute_missing(
            function,
            passages,
            [key_of(key, words, passage.stretches) for passage in passages],
            cache,
            label=f"{name}: recognising",
            unit=unit,
            prepare=begin,
            arguments=(config.recognizer, config.language, words),
            reads=(recording,),
        )

    if text is None:
        joined = join_stretches(spans, config.shortest, config.longest)
        passages = [HeardPassage(recording, (part,)) for part in joined]
        utterances, unplaced = _as_recognised(spans, joined, recognise(understand, passages, "utterance"))
    elif not words:
        utterances, unplaced = [], _untold(spans, [], [], "its text is empty")
    else:
        said = recognise(listen, _passages(recording, spans), "passage")
        heard = _widened([tuple(word) for passage in said for stretch in passage for word in stretch], probability)
        utterances, unplaced = _in_text(spans, heard, script, config)
    return Placement(
        seconds=round(seconds, 3),
        speech=round(sum(end - start for start, end in spans), 3),
        words=len(script.words),
        utterances=utterances,
        unplaced=unplaced,
    )


_Result = tuple[list[Placed], list[dict[str, Any]]]


def _in_text(spans: list[Span], heard: list[Heard], script: Script, config: LongConfig) -> _Result:
    words = [word for word, _, _ in heard]
    places = place_words(words, script).tolist()
    why = "not recognised as written" if spans else "no speech was found"
    said = {*places}
    silent = [aside for aside in script.asides if said.isdisjoint(aside)]
    left_out = [{"words": len(aside), "text": script.text(aside.start, aside.stop), "why": why} for aside in silent]
    if silent:
        script = script.without({word for aside in silent for word in aside})
        places = place_words(words, script).tolist()
    cuts = cut(heard, places, script, config.shortest, config.longest)
    utterances = [Placed(start=one.start, end=one.end, text=script.text(one.first, one.last)) for one in cuts]
    covered = [(one.start, one.end) for one in cuts]
    untold = _untold(spans, covered, heard, "not in the text, or not spoken as written")
    return utterances, untold + _unheard(cuts, script, why) + left_out


def _as_recognised(spans: list[Span], parts: list[Span], said: list[tuple[str, float | None]]) -> _Result:
    utterances = [
        Placed(start=start, end=end, text=text, confidence=confidence)
        for (start, end), (text, confidence) in zip(parts, said, strict=True)
        if text
    ]
    silent = [part for part, (text, _) in zip(parts, said, strict=True) if not text]
    untold = _untold(spans, parts, [], "too short alone, or too long without a pause")
    return utterances, untold + _untold(silent, [], [], "no words were recognised")


def _passages(recording: Path, spans: Sequence[Span]) -> list[HeardPassage]:
    groups: list[list[Span]] = []
    for span in spans:
        if not groups or span[1] - groups[-1][0][0] > _PASSAGE:
            groups.append([])
        groups[-1].append(span)
    return [HeardPassage(recording, tuple(group)) for group in groups]


def _widened(heard: list[Heard], probability: Floats) -> list[Heard]:
    """Extend words over adjacent voice activity, up to the middle of each pause."""
    found = []
    for place, (word, start, end) in enumerate(heard):
        before = heard[place - 1][2] if place else 0.0
        after = heard[place + 1][1] if place + 1 < len(heard) else np.inf
        earliest, latest = min((before + start) / 2, start), max((end + after) / 2, end)
        found.append((word, *widen(start, end, earliest, latest, probability)))
    return found


def _unheard(cuts: Sequence[Cut], script: Script, why: str) -> list[dict[str, Any]]:
    """Return the parts of the text that no utterance contains."""
    spoken = [False] * len(script.words)
    for one in cuts:
        spoken[one.first : one.last] = [True] * (one.last - one.first)
    found, first = [], 0
    for place in range(1, len(spoken) + 1):
        if place == len(spoken) or spoken[place] != spoken[place - 1]:
            if not spoken[first]:
                found.append({"words": place - first, "text": script.text(first, place), "why": why})
            first = place
    return found


def _untold(spans: Sequence[Span], covered: Sequence[Span], heard: Sequence[Heard], why: str) -> list[dict[str, Any]]:
    """Return the parts of `spans` outside `covered`; both are sorted."""
    found = []
    place = word = 0
    for start, end in spans:
        while place < len(covered) and covered[place][1] <= start:
            place += 1
        left, at = start, place
        pieces = []
        while at < len(covered) and covered[at][0] < end:
            pieces.append((left, covered[at][0]))
            left, at = covered[at][1], at + 1
        for first, last in [*pieces, (left, end)]:
            if last - first < _LEAST:
                continue
            while word < len(heard) and heard[word][2] <= first:
                word += 1
            ahead, words = word, []
            while ahead < len(heard) and heard[ahead][1] < last:
                words.append(heard[ahead][0])
                ahead += 1
            found.append({"start": round(first, 3), "end": round(last, 3), "heard": " ".join(words), "why": why})
    return found
