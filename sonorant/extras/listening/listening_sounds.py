r"""Sounds of a listening test: the same sentences by each system, at one sample rate and loudness.

The low anchor is the recording low-passed at 3.5 kHz (ITU-R BS.1534-3, section 5.1).
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
"""Loudness of all sounds in LUFS (EBU R 128); lower for sentences whose peak would exceed PEAK."""
PEAK = -1.0
"""Maximum true peak in dBTP."""
CUTOFF = 3500.0
"""Upper passband edge of the anchor in Hz; lower for recordings at low sample rates."""
PASSED = 0.91
"""Passband of the resampler as a fraction of the Nyquist frequency."""
SILENCE = (0.1, 0.4)
"""Range of the random seconds of silence after a sound, which make copies of a recording differ in size."""


@dataclass(frozen=True, kw_only=True)
class Sounds:
    rate: int
    """Sample rate in Hz."""
    by_system: Mapping[str, Mapping[str, Floats]]
    """Samples, float32 (S,), by system and sentence; the recordings and the anchor may be missing."""
    texts: Mapping[str, str]
    content: str
    """Hash of the source files and voices."""
    notes: tuple[str, ...]
    """Omissions and adjustments to report to the user."""

    @property
    def sentences(self) -> tuple[str, ...]:
        return tuple(self.by_system[A])

    @property
    def rated(self) -> bool:
        """Whether there are recordings, which ratings need as the reference."""
        return RECORDINGS in self.by_system

    def wav(self, system: str, sentence: str, token: str) -> bytes:
        """Return a sound as a 16-bit WAV. `token` (hexadecimal) seeds dither and trailing silence, so that neither
        bytes nor size reveal equal sounds."""
        noise = np.random.default_rng(int(token, 16))
        silence = np.zeros(round(noise.uniform(*SILENCE) * self.rate), np.float32)
        samples = np.concatenate([self.by_system[system][sentence], silence])
        dither = (noise.random(len(samples)) - noise.random(len(samples))) / 32768
        return wav_header(self.rate, len(samples)) + pcm16(samples + dither).tobytes()


def gather(places: Mapping[str, str], sentences: Sequence[Sentence], *, count: int, seed: int) -> Sounds:
    """Read or synthesise `count` sentences that all systems have, chosen at random with `seed`. `places`: folder or
    voice of each system. `sentences`: texts for voices. Raises SonorantError naming the faulty place."""
    asked = {sentence.name: sentence for sentence in sentences}
    systems = {name: open_system(place, asked) for name, place in places.items()}
    common = sorted(frozenset.intersection(*(system.names for system in systems.values())))
    if not common:
        some = ", ".join(f"{place} has '{min(systems[name].names)}'" for name, place in places.items())
        raise SonorantError(f"no sentence is in all folders ({some}); give all files of a sentence the same name")
    notes = [
        f"note: {len(system.names) - len(common)} of {len(system.names)} sentences of {places[name]} "
        "are not in all folders"
        for name, system in systems.items()
        if len(system.names) > len(common)
    ]
    names = random.Random(seed).sample(common, min(count, len(common)))
    heard = {name: system.read(names) for name, system in systems.items()}
    rates = {name: max(rate for _, rate in own.values()) for name, own in heard.items()}
    rate = max(rates.values())
    notes += [
        f"note: {places[name]} is at {own} Hz and played at {rate} Hz" for name, own in rates.items() if own < rate
    ]
    sounds = {
        name: {key: resample(samples, own, rate) for key, (samples, own) in read.items()}
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
    """Scale each sentence's sounds to LOUDNESS, or to the highest common level that keeps peaks below PEAK."""
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
    """Low-pass at CUTOFF by downsampling and upsampling."""
    low = round(2 * min(CUTOFF, rate / 4) / PASSED)
    return resample(resample(samples, rate, low), low, rate)
