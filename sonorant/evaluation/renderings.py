"""The judged sentences as recorded, as the waveform model copies them, and as each variant speaks them.

A vocoder copies a recording from its mel, a codec from its codes. For a variant that decides while speaking when to
end: how often it ran away, and whether another attempt helped."""

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
"""Sentences that an autoregressive voice decodes at once: a step of many rows takes little longer than of one."""


@dataclass(frozen=True, kw_only=True)
class Decoded:
    """What became of sentences spoken token by token; one entry a sentence."""

    finish_reasons: tuple[str, ...]
    """What the guards said of the attempt that was kept, in small letters: well, or what went wrong."""
    attempts: tuple[int, ...]
    """How many attempts were made; 1 = the first went well, or there were no others."""

    def of(self, chosen: NDArray[np.bool_]) -> Decoded:
        """What became of some of them, bool (S,)."""
        places = np.flatnonzero(chosen)
        reasons, attempts = ([column[place] for place in places] for column in (self.finish_reasons, self.attempts))
        return Decoded(finish_reasons=tuple(map(str, reasons)), attempts=tuple(map(int, attempts)))

    @property
    def ran_away(self) -> tuple[bool, ...]:
        """Whether a guard had to end the first attempt."""
        return tuple(
            finish_reason != "well" or count > 1
            for finish_reason, count in zip(self.finish_reasons, self.attempts, strict=True)
        )


@dataclass(frozen=True, kw_only=True)
class Renderings:
    """The sentences in all their kinds; everything has one entry a sentence."""

    ids: tuple[str, ...]
    tokens: tuple[Ints, ...]
    """Phoneme ids (N, 3) that the voice spoke."""
    sounds: dict[str, tuple[Floats, ...]]
    """Samples (S,) in -1..1 at `rate`: the recordings, the waveform model's copies of them (what it alone loses), and
    each variant speaking the text."""
    decoded: dict[str, Decoded]
    """Of each variant that spoke token by token, how that went; empty in the other family."""
    unspoken: dict[str, str]
    """Variants whose sound is not judged, and why."""
    rate: int
    """Hz."""
    timings: dict[str, tuple[tuple[WordTiming, ...], ...]] = field(default_factory=dict)
    """Of each variant that tells: when the words of each sentence are spoken."""
    untimed: str = ""
    """Why the voice does not tell; empty where it does."""

    @property
    def kinds(self) -> tuple[str, ...]:
        """What the recordings are compared with: the copies, then the variants."""
        return tuple(kind for kind in self.sounds if kind != RECORDINGS)

    @property
    def variants(self) -> tuple[str, ...]:
        """Those that spoke."""
        return tuple(kind for kind in self.kinds if kind != VOCODER)

    def without(self, unheard: Mapping[str, str]) -> Renderings:
        """The same without the sound of some variants, each with why nobody is to hear it."""
        sounds = {kind: found for kind, found in self.sounds.items() if kind not in unheard}
        return replace(self, sounds=sounds, unspoken=self.unspoken | dict(unheard))


def render(
    bundle: Path, sound: Path | None, variants: Sequence[str], utterances: Sequence[Utterance], corpus: Path
) -> Renderings:
    """Render each utterance by the bundle's graphs under ONNX Runtime, from the manifest's text.

    The first of the `variants` makes the copies. `sound`: trained folder of the waveform model, None: no copies;
    `corpus`: folder of the audio paths. Raises SonorantError naming the utterance or file that cannot be rendered, also
    if the first variant gives NaN; another variant is then `unspoken`.
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
    """Words of each sentence that were reached; `ends`: of each sentence's tokens, as `Synthesized.ends`."""
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
    if len(tokens) <= 2:  # ^ and $ alone
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
    """Every sentence as a voice speaks it."""

    sounds: tuple[Floats, ...]
    decoded: Decoded | None
    """How each went, of a voice that may run away."""
    ends: tuple[Ints, ...]
    """As `Synthesized.ends`, of each sentence; empty where the family does not tell."""


def speak_all(voice: Voice, tokens: Sequence[Ints], speakers: Sequence[int], label: str) -> SpokenSentences:
    """Speak every sentence; of a voice that may run away, sentences of like length together."""
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

    A runaway is a sentence whose first attempt a guard had to end; `retries`: attempts after the first, all together;
    `unrecovered`: sentences that did not go well in any attempt.
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
    """A recording (S,) at the voice's rate -> the waveform model's copy of it: samples (S,) in -1..1. `waveform`:
    trained folder of that model, for parts that no graph holds, such as a codec's encoder."""
    import torch  # here, because the processes that recognise import this module too and need no torch

    from sonorant.audio.mel import MelConfig, log_mel

    audio = MelConfig(**asdict(voice.description.audio))
    hear = load_family(voice.description.family).hear(voice.description, waveform)

    def copied(recording: Floats) -> Floats:
        mel_MT = log_mel(torch.from_numpy(recording), audio).numpy()
        padded = np.pad(recording, (0, mel_MT.shape[1] * audio.hop - len(recording)))
        heard, frames = hear(mel_MT, padded)
        return np.clip(voice.runtime.vocode(heard[None], np.array([frames]))[0, : len(recording)], -1.0, 1.0)

    return copied
