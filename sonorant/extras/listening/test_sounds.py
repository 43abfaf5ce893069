"""What is played in a listening test: the same sentences by each system, at one rate and one loudness.

A recording low-passed at 3.5 kHz is the low anchor of ITU-R BS.1534-3, section 5.1.
"""

import hashlib
import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from sonorant.audio.arrays import Floats
from sonorant.audio.loudness import loudness, true_peak
from sonorant.audio.wav import pcm16, resample, wav_header
from sonorant.errors import SonorantError
from sonorant.extras.listening.systems import Sentence, open_system

A, B, RECORDINGS, ANCHOR = "A", "B", "recordings", "anchor"
LOUDNESS = -23.0
"""LUFS of every sound (EBU R 128); less for all sounds of a sentence if the peaks of one would not fit."""
PEAK = -1.0
"""dBTP, at most."""
CUTOFF = 3500.0
"""Hz up to which the anchor is whole; less where the recordings' rate holds little more."""
PASSED = 0.91
"""The resampler passes this part of what a rate can hold."""
SILENCE = (0.1, 0.4)
"""Seconds after a sound, drawn each time it is shown, so that two copies of a recording differ in size."""


@dataclass(frozen=True, kw_only=True)
class Sounds:
    """All that is played: float32 (S,) by system and sentence."""

    rate: int
    """Hz of all."""
    by_system: Mapping[str, Mapping[str, Floats]]
    """A and B; with recordings also these and the anchor."""
    texts: Mapping[str, str]
    """What is said, where that is known."""
    content: str
    """Hash of the files and voices that the sounds come from."""
    notes: tuple[str, ...]
    """What had to be left out or made alike, a line each."""

    @property
    def sentences(self) -> tuple[str, ...]:
        return tuple(self.by_system[A])

    @property
    def rated(self) -> bool:
        """Whether there are recordings, beside which all is rated."""
        return RECORDINGS in self.by_system

    def wav(self, system: str, sentence: str, token: str) -> bytes:
        """16-bit WAV of a sound. Its dither and the silence after it are drawn from `token` (hexadecimal), so that
        neither bytes nor size tell that two sounds are one."""
        noise = np.random.default_rng(int(token, 16))
        silence = np.zeros(round(noise.uniform(*SILENCE) * self.rate), np.float32)
        samples = np.concatenate([self.by_system[system][sentence], silence])
        dither = (noise.random(len(samples)) - noise.random(len(samples))) / 32768
        return wav_header(self.rate, len(samples)) + pcm16(samples + dither).tobytes()


def gather(places: Mapping[str, str], sentences: Sequence[Sentence], *, count: int, seed: int) -> Sounds:
    """Read or speak `count` sentences that all systems have, drawn by `seed`.

    `places`: folder or voice of A and B, and the recordings' folder if there is one. `sentences`: what voices say; may
    be empty if there are none. Raises SonorantError naming the place in which something is wrong.
    """
    asked = {sentence.name: sentence for sentence in sentences}
    systems = {name: open_system(place, asked) for name, place in places.items()}
    common = sorted(frozenset.intersection(*(system.names for system in systems.values())))
    if not common:
        some = ", ".join(f"{place} has '{min(systems[name].names)}'" for name, place in places.items())
        raise SonorantError(f"no sentence is in all of them ({some}); name the sounds of a sentence alike")
    notes = [
        f"note: not all have {len(system.names) - len(common)} of the {len(system.names)} sentences of {places[name]}"
        for name, system in systems.items()
        if len(system.names) > len(common)
    ]
    names = random.Random(seed).sample(common, min(count, len(common)))
    heard = {name: system.read(names) for name, system in systems.items()}
    rates = {name: max(rate for _, rate in own.values()) for name, own in heard.items()}
    rate = max(rates.values())
    notes += [f"note: {places[name]} is at {own} Hz, played at {rate} Hz" for name, own in rates.items() if own < rate]
    sounds = {
        name: {key: samples if own == rate else resample(samples, own, rate) for key, (samples, own) in read.items()}
        for name, read in heard.items()
    }
    if RECORDINGS in sounds:
        sounds[ANCHOR] = {key: low_passed(samples, rate) for key, samples in sounds[RECORDINGS].items()}
    content = json.dumps([names, {name: system.content(names) for name, system in systems.items()}])
    return Sounds(
        rate=rate,
        by_system=equally_loud(sounds, rate),
        texts={name: asked[name].text for name in names if name in asked},
        content=hashlib.sha256(content.encode()).hexdigest(),
        notes=tuple(notes),
    )


def equally_loud(sounds: Mapping[str, Mapping[str, Floats]], rate: int) -> dict[str, dict[str, Floats]]:
    """All sounds of a sentence at the same loudness, LOUDNESS or what the peaks of all allow; silence stays silence."""
    levelled: dict[str, dict[str, Floats]] = {name: {} for name in sounds}
    for sentence in next(iter(sounds.values())):
        found = {name: loudness(own[sentence], rate) for name, own in sounds.items()}
        known = {name: value for name, value in found.items() if value is not None}
        peaks = {name: true_peak(sounds[name][sentence], rate) or 0.0 for name in known}
        target = min([LOUDNESS, *(PEAK - peaks[name] + value for name, value in known.items())])
        for name, own in sounds.items():
            gain = target - known.get(name, target)
            levelled[name][sentence] = (own[sentence] * 10 ** (gain / 20)).astype(np.float32)
    return levelled


def low_passed(samples: Floats, rate: int) -> Floats:
    """A sound without what lies above CUTOFF: down to a rate that cannot hold it, and back."""
    low = round(2 * min(CUTOFF, rate / 4) / PASSED)
    return resample(resample(samples, rate, low), low, rate)
