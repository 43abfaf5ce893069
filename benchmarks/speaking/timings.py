"""How accurate are a voice's own timings of its words? `python -m benchmarks timings`

The listener of the short texts (`sonorant/evaluation/short_texts`) finds the words in the sound. It errs too, so it
is also tested on flite's speech, whose times are known: single words cut out and joined, and whole sentences.
"""

import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from tqdm import tqdm

from benchmarks.report import command, finish, options
from benchmarks.speaking.random_voice import shipped, voice_of
from sonorant.audio.arrays import Floats
from sonorant.audio.wav import read_audio
from sonorant.errors import SonorantError
from sonorant.evaluation.short_texts.listener import REVISION, Listener
from sonorant.evaluation.short_texts.texts import suite
from sonorant.speech.voice import Voice
from sonorant.text.written_words import plain_words
from tasks.stage import run

MOST_MEDIAN_MS, MOST_95_MS = 25.0, 100.0
"""Maximum difference of the starts of words between a voice's timings and the sound."""
LEAST_HEARD = 0.8
"""Minimum fraction of words that the listener finds in place; only those are compared."""
WORDS_A_SENTENCE = 7
FAR_MS = 10_000.0
"""Replaces a distance if no word was found, as with random weights."""
FLITE_VOICE = "rms"
SHORT = {"sentences": 8}
_SEGMENT = re.compile(r"(\S+):([\d.]+)")


class Known(NamedTuple):
    """Speech with the times of its words."""

    samples: Floats
    rate: int
    words: tuple[str, ...]
    times: np.ndarray
    """(words, 2): start and end in seconds."""


def main() -> None:
    parser = command(__doc__)
    add = parser.add_argument
    add("--voice", type=Path, help="voice bundle (default: what the pipeline made here)")
    add("--sentences", type=int, default=150, help="for the voice and for the test of the listener")
    given = options(parser, SHORT)
    if shutil.which("flite") is None:
        raise SonorantError("flite: not found, the listener cannot be tested; run infra/install_system_packages.sh")
    with voice_of(given.voice or shipped(), "parallel") as (job, weights):
        voice = Voice.load(job["bundle"], threads=1)
        texts = suite(voice.description.frontend.language)
        if isinstance(texts, str):
            raise SonorantError(texts)
        sentences = [text.text for text in texts.sentences(given.sentences)]
        result = {"family": voice.description.family, "weights": weights} | measure(voice, sentences)
    ours = result["voice"]
    claims = {
        f"words start within {MOST_MEDIAN_MS:g} ms of where they are heard (median)": (
            ours["start_ms"]["median"] <= MOST_MEDIAN_MS
        ),
        f"95 % of them within {MOST_95_MS:g} ms": ours["start_ms"]["p95"] <= MOST_95_MS,
        f"{LEAST_HEARD:.0%} of the words could be compared": ours["heard"] >= LEAST_HEARD,
    }
    finish(f"timings_{voice.description.family}", result, claims, given)


def measure(voice: Voice, sentences: Sequence[str]) -> dict[str, Any]:
    listener = Listener(voice.description.frontend.language)
    speech = {
        "listener, words joined": joined_words(sentences),
        "listener, sentences of flite": spoken_by_flite(sentences),
        "voice": spoken_by(voice, sentences),
    }
    found = {name: compare(name, known, listener, len(sentences)) for name, known in speech.items()}
    return {"listener": REVISION, "sentences": len(sentences), **found}


def compare(name: str, speech: Iterator[Known], listener: Listener, count: int) -> dict[str, Any]:
    """The times of words against those found by the listener, in ms: `start_ms` and `end_ms` with `median` and
    `p95` of the distance, and `later`, the median delay after the sound. `heard`: fraction of words found in
    place, which are compared."""
    differences, heard, words = [np.zeros((0, 2))], 0, 0
    for known in tqdm(speech, desc=name, total=count, unit="sentence"):
        said = [one for one in listener.hear(known.words, known.samples, known.rate) if one.word]
        words += len(known.words)
        for block in SequenceMatcher(None, known.words, [one.word for one in said], False).get_matching_blocks():
            own = [(one.start, one.end) for one in said[block.b : block.b + block.size]]
            differences.append(known.times[block.a : block.a + block.size] - np.reshape(own, (-1, 2)))
            heard += block.size
    starts, ends = 1000 * np.concatenate(differences).T
    found = {"start_ms": _summary(starts), "end_ms": _summary(ends)}
    print(f"{name}: {found}", file=sys.stderr)
    return {"heard": round(heard / max(words, 1), 3), **found}


def _summary(differences: np.ndarray) -> dict[str, Any]:
    count = len(differences)
    differences = differences if count else np.array([FAR_MS])
    distance = np.abs(differences)
    return {
        "words": count,
        "median": round(float(np.median(distance)), 1),
        "p95": round(float(np.percentile(distance, 95)), 1),
        "later": round(float(np.median(differences)), 1),
    }


def spoken_by(voice: Voice, sentences: Sequence[str]) -> Iterator[Known]:
    for number, sentence in enumerate(sentences):
        samples, words = voice.say_timed(sentence, voice.speakers[number % len(voice.speakers)])
        plain = [plain_words(word.text) for word in words]
        if all(len(parts) == 1 for parts in plain):
            times = np.array([(word.start, word.end) for word in words])
            yield Known(samples, voice.sample_rate, tuple(parts[0] for parts in plain), times)


def spoken_by_flite(sentences: Sequence[str]) -> Iterator[Known]:
    """Sentences with the times of flite's segments, if each word has as many segments as alone."""
    alone: dict[str, int] = {}
    for sentence in sentences:
        words = plain_words(sentence)
        samples, rate, segments = flite(sentence)
        spoken = [segment for segment in segments if segment[0] != "pau"]
        for word in words:
            if word not in alone:
                alone[word] = sum(segment[0] != "pau" for segment in flite(word)[2])
        borders = np.cumsum([0, *(alone[word] for word in words)])
        if borders[-1] == len(spoken) and all(first < last for first, last in pairwise(borders)):
            times = [(spoken[first][1], spoken[last - 1][2]) for first, last in pairwise(borders)]
            yield Known(samples, rate, tuple(words), np.array(times))


def joined_words(sentences: Sequence[str]) -> Iterator[Known]:
    """Words spoken alone by flite, cut out and joined without pauses, with silence around them all."""
    for sentence in sentences:
        words = plain_words(sentence)[:WORDS_A_SENTENCE]
        parts, rate = [], 0
        for word in words:
            samples, rate, segments = flite(word)
            spoken = [segment for segment in segments if segment[0] != "pau"]
            parts.append(samples[round(spoken[0][1] * rate) : round(spoken[-1][2] * rate)])
        edges = np.cumsum([rate // 5, *map(len, parts)]) / rate
        silence = np.zeros(rate // 5, np.float32)
        times = np.stack([edges[:-1], edges[1:]], axis=1)
        yield Known(np.concatenate([silence, *parts, silence]), rate, tuple(words), times)


def flite(text: str) -> tuple[Floats, int, list[tuple[str, float, float]]]:
    with tempfile.TemporaryDirectory() as folder:
        wav, said = Path(folder) / "said.wav", Path(folder) / "said.txt"
        said.write_text(text + "\n", encoding="utf-8")
        arguments = ["flite", "-voice", FLITE_VOICE, "-psdur", "-f", str(said), "-o", str(wav)]
        done = subprocess.run(arguments, capture_output=True, text=True, check=True, timeout=60)
        samples, rate = read_audio(wav)
    names, ends = zip(*((name, float(end)) for name, end in _SEGMENT.findall(done.stdout)), strict=True)
    return samples, rate, list(zip(names, (0.0, *ends[:-1]), ends, strict=True))


if __name__ == "__main__":
    run(main)
