"""Chapters joined from single sentences with everything that makes alignment hard: pauses, breaths, and sentences
that are skipped, repeated, begun twice or added. The place of each sentence is known exactly."""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import soundfile

from sonorant.audio.arrays import Floats
from sonorant.audio.voice_activity import locate_speech, speech_probability
from sonorant.audio.wav import pcm16

PAUSES = (0.3, 1.5)
"""Seconds between two sentences."""
BREATHS, BREATH_SECONDS, BREATH_DB = 0.35, (0.15, 0.45), (-26.0, -16.0)
"""Fraction of pauses with a breath, the breath's length in seconds, and its level in dB relative to the speech."""
SKIPPED, REPEATED, ADDED, BROKEN_OFF = 0.03, 0.03, 0.03, 0.015
"""Fractions of sentences: not read, read twice, read but not in the text, and begun and repeated."""
_JOINT = 0.005  # seconds of crossfade
_TONE = 20.0  # seconds of room tone that are collected


@dataclass(frozen=True)
class Sentence:
    samples: Floats
    """(S,): speech only, without silence at the edges."""
    text: str


@dataclass(frozen=True)
class Spoken:
    start: float
    end: float
    text: str | None
    """None if the chapter's text does not contain the sentence."""


@dataclass(frozen=True)
class Chapter:
    """A chapter's sentences."""

    spoken: tuple[Spoken, ...]
    skipped: tuple[str, ...]
    """Sentences of the text that are not read."""
    seconds: float


def trim(samples: Floats, rate: int) -> tuple[Floats, Floats]:
    """The speech of a recording, and the joined silence before and after it."""
    spans = locate_speech(samples, rate, speech_probability(samples, rate))
    if not spans:
        return samples[:0], samples
    first, last = round(spans[0][0] * rate), round(spans[-1][1] * rate)
    away = round(0.1 * rate)  # sound near speech is not only room tone
    return samples[first:last], np.concatenate([samples[: max(first - away, 0)], samples[last + away :]])


def room_tone(silences: Sequence[Floats], rate: int) -> Floats:
    """Silence from between sentences of the recordings, or digital silence if there is none."""
    tone = np.concatenate([np.zeros(0, np.float32), *silences])[: round(_TONE * rate)]
    return tone if len(tone) > rate else np.zeros(round(_TONE * rate), np.float32)


def write_chapter(
    folder: Path, name: str, sentences: Sequence[Sentence], tone: Floats, rate: int, seconds: float, seed: int
) -> Chapter:
    """Write `name`.flac and `name`.txt of at least `seconds` to `folder`, from sentences (repeated if needed) and
    room tone (S,). Memory does not grow with the length."""
    chance = random.Random(seed)
    spoken: list[Spoken] = []
    skipped, lines, written = [], [], 0
    with soundfile.SoundFile(folder / f"{name}.flac", "w", rate, 1, "PCM_16") as file:

        def put(samples: Floats) -> float:
            nonlocal written
            file.write(pcm16(samples))
            written += len(samples)
            return written / rate

        put(_pause(tone, rate, chance, 1.0))
        for one, fate, other in _fates(sentences, chance):
            if written / rate >= seconds:
                break
            if fate != "added":
                lines.append(one.text)
            if fate == "skipped":
                skipped.append(one.text)
                continue
            says = [(one.samples, None if fate == "added" else one.text)]
            if fate == "repeated":
                says.append((other.samples, one.text))
            if fate == "broken off":
                says.insert(0, (_faded(one.samples[: round(len(one.samples) * chance.uniform(0.25, 0.6))], rate), None))
            for samples, text in says:
                start = written / rate
                spoken.append(Spoken(start=start, end=put(samples), text=text))
                put(_pause(tone, rate, chance, float(np.sqrt(np.square(samples).mean()))))
    paragraphs = [" ".join(lines[first : first + 5]) for first in range(0, len(lines), 5)]
    (folder / f"{name}.txt").write_text("\n\n".join(paragraphs) + "\n", encoding="utf-8")
    return Chapter(tuple(spoken), tuple(skipped), written / rate)


def _fates(sentences: Sequence[Sentence], chance: random.Random) -> Iterator[tuple[Sentence, str, Sentence]]:
    """Endless sentences in random order, each with its fate and another take of it (or itself)."""
    takes: dict[str, list[Sentence]] = {}
    for sentence in sentences:
        takes.setdefault(sentence.text, []).append(sentence)
    shares = {"skipped": SKIPPED, "repeated": REPEATED, "added": ADDED, "broken off": BROKEN_OFF}
    while True:
        order = sorted(takes)
        chance.shuffle(order)
        for text in order:
            own = chance.sample(takes[text], len(takes[text]))
            draw = chance.random()
            fate = "read"
            for name, share in shares.items():
                if 0 <= draw < share:
                    fate = name
                draw -= share
            yield own[0], fate, own[-1]


def _pause(tone: Floats, rate: int, chance: random.Random, level: float) -> Floats:
    """Room tone, sometimes with a breath; `level` is the root mean square of the preceding speech."""
    seconds = chance.uniform(*PAUSES)
    first = chance.randrange(len(tone))
    pause = np.take(tone, np.arange(first, first + round(seconds * rate)), mode="wrap").copy()
    if chance.random() < BREATHS:
        length = min(round(chance.uniform(*BREATH_SECONDS) * rate), len(pause) - round(0.1 * rate))
        at = chance.randrange(round(0.05 * rate), len(pause) - length - round(0.04 * rate))
        noise = np.random.default_rng(chance.randrange(2**32)).standard_normal(length + 8)
        breath = np.convolve(noise, np.ones(8) / 8 * np.array([1, -0.2] * 4))[8 : 8 + length]  # duller than white noise
        gain = level * 10 ** (chance.uniform(*BREATH_DB) / 20) / max(float(breath.std()), 1e-9)
        pause[at : at + length] += (gain * breath * np.hanning(length)).astype(np.float32)
    return pause.astype(np.float32)


def _faded(samples: Floats, rate: int) -> Floats:
    width = min(round(_JOINT * rate), len(samples))
    faded = samples.copy()
    faded[len(faded) - width :] *= np.linspace(1, 0, width, dtype=np.float32)
    return faded
