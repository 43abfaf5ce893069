"""Evaluated sentences as recorded, copied by the waveform model (from mel or codes), and spoken by each variant."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from sonorant.audio.arrays import Floats, Ints
from sonorant.corpus.manifest import Utterance
from sonorant.corpus.sound import read_sound
from sonorant.errors import SonorantError
from sonorant.evaluation.recordings import RECORDINGS, VOCODER, spoken_text
from sonorant.plugins import load_family
from sonorant.speech.speaking import FinishReason
from sonorant.speech.voice import Voice
from sonorant.speech.word_times import WordTiming, timed
from sonorant.text.frontend import SpokenText
from sonorant.text.written_words import place_words
from sonorant.training.intervals import wilson_interval

TOGETHER = 16
"""Batch size of autoregressive decoding."""


@dataclass(frozen=True, kw_only=True)
class Decoded:
    """Decoding results of autoregressive speech, one entry per sentence."""

    finish_reasons: tuple[str, ...]
    """Final attempt's guard result, lower case."""
    attempts: tuple[int, ...]
    """1 = no retry."""

    def of(self, chosen: NDArray[np.bool_]) -> Decoded:
        """Select sentences by mask (S,)."""
        places = np.flatnonzero(chosen)
        reasons, attempts = ([column[place] for place in places] for column in (self.finish_reasons, self.attempts))
        return Decoded(finish_reasons=tuple(map(str, reasons)), attempts=tuple(map(int, attempts)))

    @property
    def ran_away(self) -> tuple[bool, ...]:
        """Sentences whose first attempt was stopped by a guard."""
        return tuple(
            finish_reason != "well" or count > 1
            for finish_reason, count in zip(self.finish_reasons, self.attempts, strict=True)
        )


@dataclass(frozen=True, kw_only=True)
class Renderings:
    """All renderings; every tuple has one entry per sentence."""

    ids: tuple[str, ...]
    tokens: tuple[Ints, ...]
    """Phoneme ids (N, 3)."""
    sounds: dict[str, tuple[Floats, ...]]
    """By kind: samples (S,) in -1..1 at `rate` Hz. Copies show the loss of the waveform model alone."""
    decoded: dict[str, Decoded]
    """By variant; empty for non-autoregressive families."""
    unspoken: dict[str, str]
    """Variants without evaluated sound, and why."""
    rate: int
    """Hz."""
    timings: dict[str, tuple[tuple[WordTiming, ...], ...]] = field(default_factory=dict)
    """Word timings by variant, where available."""
    untimed: str = ""
    """Why there are no timings, or empty."""

    @property
    def kinds(self) -> tuple[str, ...]:
        """Copies, then variants."""
        return tuple(kind for kind in self.sounds if kind != RECORDINGS)

    @property
    def variants(self) -> tuple[str, ...]:
        return tuple(kind for kind in self.kinds if kind != VOCODER)

    def without(self, unheard: Mapping[str, str]) -> Renderings:
        """Drop the sound of some variants; `unheard` holds the reasons."""
        sounds = {kind: found for kind, found in self.sounds.items() if kind not in unheard}
        return replace(self, sounds=sounds, unspoken=self.unspoken | dict(unheard))


def render(
    bundle: Path, sound: Path | None, variants: Sequence[str], utterances: Sequence[Utterance], corpus: Path
) -> Renderings:
    """Render each utterance by the bundle's graphs under ONNX Runtime.

    The first of `variants` makes the copies. `sound`: trained waveform model, None = no copies; `corpus`: base folder
    of audio paths. Raises SonorantError naming the utterance or file, also if the first variant yields NaN; other
    variants then become `unspoken`.
    """
    voice = Voice.load(bundle, variant=variants[0])
    recordings = tuple(read_sound(corpus, utterance, voice.sample_rate)[0] for utterance in utterances)
    texts = tuple(voice.frontend.speak(utterance.text) for utterance in utterances)
    tokens = tuple(_tokens(voice, *each) for each in zip(utterances, texts, strict=True))
    speakers = [_speaker(voice, utterance) for utterance in utterances]
    sounds: dict[str, tuple[Floats, ...]] = {RECORDINGS: recordings}
    decoded: dict[str, Decoded] = {}
    unspoken: dict[str, str] = {}
    timings: dict[str, tuple[tuple[WordTiming, ...], ...]] = {}
    if sound:
        copied = copier(voice, sound)
        sounds[VOCODER] = tuple(
            copied(recording) for recording in tqdm(recordings, desc="copy", unit="clip", file=sys.stderr)
        )
    for variant in variants:
        speaking = Voice.load(bundle, variant=variant)
        try:
            spoken, went, ends = speak_all(speaking, tokens, speakers, f"speak {variant}")
            _refuse_nan(spoken, utterances)
        except SonorantError as error:
            if variant == variants[0]:
                raise SonorantError(f"{bundle}: variant {variant}: {error}; train and export the voice again") from None
            unspoken[variant] = f"failed: {error}"
            continue
        sounds[variant] = spoken
        decoded |= {variant: went} if went else {}
        timings |= {variant: _timings(speaking, utterances, texts, ends)} if ends and not voice.why_untimed else {}
    return Renderings(
        ids=tuple(utterance.id for utterance in utterances),
        tokens=tokens,
        sounds=sounds,
        decoded=decoded,
        unspoken=unspoken,
        rate=voice.sample_rate,
        timings=timings,
        untimed=voice.why_untimed,
    )


def _timings(
    voice: Voice, utterances: Sequence[Utterance], texts: Sequence[SpokenText], ends: Sequence[Ints]
) -> tuple[tuple[WordTiming, ...], ...]:
    """Timings of the words that were reached; `ends`: see `Synthesized.ends`."""
    found = []
    for utterance, spoken, told in zip(utterances, texts, ends, strict=True):
        [words] = place_words(utterance.text, 0, [spoken])
        reached = [word for word in words if told[word.phonemes[1]] >= 0]
        found.append(tuple(timed(word, spoken.phonemes, told, voice.sample_rate) for word in reached))
    return tuple(found)


def _refuse_nan(spoken: Sequence[Floats], utterances: Sequence[Utterance]) -> None:
    broken = [
        utterance.id for utterance, samples in zip(utterances, spoken, strict=True) if not np.isfinite(samples).all()
    ]
    if broken:
        raise SonorantError(f"NaN or infinity in {len(broken)} of {len(spoken)} sentences, first in '{broken[0]}'")


def _tokens(voice: Voice, utterance: Utterance, spoken: SpokenText) -> Ints:
    tokens = voice.symbols.to_tokens(spoken.phonemes).astype(np.int64)
    if len(tokens) <= 2:  # ^ and $ only
        raise SonorantError(
            f"utterance '{utterance.id}': nothing of '{spoken_text(utterance)}' can be spoken; "
            "run the stage prepare again"
        )
    return tokens


def _speaker(voice: Voice, utterance: Utterance) -> int:
    if utterance.speaker not in voice.speakers:
        raise SonorantError(
            f"utterance '{utterance.id}': its speaker '{utterance.speaker}' is not one of the voice's; "
            "train the voice again"
        )
    return voice.speakers.index(utterance.speaker)


class SpokenSentences(NamedTuple):
    sounds: tuple[Floats, ...]
    decoded: Decoded | None
    """Only for autoregressive voices."""
    ends: tuple[Ints, ...]
    """See `Synthesized.ends`; empty without timings."""


def speak_all(voice: Voice, tokens: Sequence[Ints], speakers: Sequence[int], label: str) -> SpokenSentences:
    """Speak every sentence; autoregressive voices batch sentences of similar length."""
    guarded = load_family(voice.description.family).autoregressive
    together, numbers = TOGETHER if guarded else 1, range(len(tokens))
    order = sorted(numbers, key=lambda index: -len(tokens[index])) if guarded else numbers
    sounds: dict[int, Floats] = {}
    ends: dict[int, Ints] = {}
    reasons, attempts = {}, {}
    with tqdm(total=len(tokens), desc=label, unit="sentence", file=sys.stderr) as progress:
        for start in range(0, len(tokens), together):
            chosen = order[start : start + together]
            lengths = np.array([len(tokens[index]) for index in chosen])
            batch = np.zeros((len(chosen), lengths.max(), 3), np.int64)
            for row, index in enumerate(chosen):
                batch[row, : lengths[row]] = tokens[index]
            said_by, speed = np.array([speakers[index] for index in chosen]), np.ones(len(chosen), np.float32)
            spoken = voice.synthesize_judged(batch, lengths, said_by, speed)
            for row, index in enumerate(chosen):
                sounds[index] = spoken.samples[row, : spoken.lengths[row]]
                if spoken.ends is not None:
                    ends[index] = spoken.ends[row, : lengths[row]]
                reasons[index] = FinishReason(int(spoken.finish_reasons[row])).name.lower()
                attempts[index] = int(spoken.attempts[row])
            progress.update(len(chosen))
    went = Decoded(finish_reasons=tuple(reasons[i] for i in numbers), attempts=tuple(attempts[i] for i in numbers))
    all_ends = tuple(ends[index] for index in numbers) if ends else ()
    return SpokenSentences(tuple(sounds[index] for index in numbers), went if guarded else None, all_ends)


def summarize(decoded: Decoded) -> dict[str, Any]:
    """`{sentences, runaways, runaway_rate, runaway_rate_ci95, retries, unrecovered, finish_reasons: {name: count}}`.

    `runaways`: a guard stopped the first attempt; `retries`: further attempts; `unrecovered`: no attempt succeeded.
    """
    sentences, runaways = len(decoded.finish_reasons), sum(decoded.ran_away)
    return {
        "sentences": sentences,
        "runaways": runaways,
        "runaway_rate": round(runaways / sentences, 5),
        "runaway_rate_ci95": [round(bound, 5) for bound in wilson_interval(runaways, sentences)],
        "retries": sum(decoded.attempts) - sentences,
        "unrecovered": sum(finish_reason != "well" for finish_reason in decoded.finish_reasons),
        "finish_reasons": {
            finish_reason: decoded.finish_reasons.count(finish_reason)
            for finish_reason in sorted(set(decoded.finish_reasons))
        },
    }


def copier(voice: Voice, waveform: Path) -> Callable[[Floats], Floats]:
    """Copy synthesis of a recording (S,) at the voice's rate. `waveform`: trained folder, for parts that are not
    exported, such as a codec's encoder."""
    import torch  # torch; worker processes import this module

    from sonorant.audio.mel import MelConfig, log_mel

    audio = MelConfig(**asdict(voice.description.audio))
    hear = load_family(voice.description.family).hear(voice.description, waveform)

    def copied(recording: Floats) -> Floats:
        mel_MT = log_mel(torch.from_numpy(recording), audio).numpy()
        padded = np.pad(recording, (0, mel_MT.shape[1] * audio.hop - len(recording)))
        heard, frames = hear(mel_MT, padded)
        return np.clip(voice.runtime.vocode(heard[None], np.array([frames]))[0, : len(recording)], -1.0, 1.0)

    return copied
