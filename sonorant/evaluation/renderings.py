"""Evaluated sentences as recorded, as copied by the waveform model (from mel or codes), and as spoken by each
variant."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
from tqdm import tqdm

from sonorant.audio.arrays import Floats, Ints
from sonorant.corpus.manifest import Utterance
from sonorant.corpus.sound import read_sound
from sonorant.errors import SonorantError
from sonorant.evaluation.estimates import Figures, estimate
from sonorant.evaluation.recordings import RECORDINGS, VOCODER, spoken_text
from sonorant.plugins import load_family
from sonorant.speech.speaking import FinishReason
from sonorant.speech.voice import Voice
from sonorant.speech.word_times import WordTiming, timed
from sonorant.text.frontend import SpokenText
from sonorant.text.written_words import place_words
from sonorant.training.intervals import wilson_interval

TOGETHER = 16


class Spoken(NamedTuple):
    sound: Floats
    """Samples (S,) in -1..1."""
    ends: Ints | None
    """Ends of the tokens as in `Synthesized.ends`; None without timings."""
    finish_reason: str
    """`FinishReason` of the final attempt in lower case."""
    attempts: int
    """Number of attempts; 1 means no retry."""

    @property
    def ran_away(self) -> bool:
        return self.finish_reason != "well" or self.attempts > 1


@dataclass(frozen=True, kw_only=True)
class Renderings:
    """Sounds of the evaluated sentences; every tuple has one entry per sentence."""

    ids: tuple[str, ...]
    tokens: tuple[Ints, ...]
    """Phoneme ids (N, 3) of each sentence."""
    sounds: dict[str, tuple[Floats, ...]]
    """Samples (S,) in -1..1 at `rate` Hz, for recordings, copies and each variant. Copies show the loss of the waveform
    model alone."""
    decoded: dict[str, tuple[Spoken, ...]]
    """Decoding results of each variant; empty for families that are not autoregressive."""
    unspoken: dict[str, str]
    """Variants that were not evaluated, and the reasons."""
    rate: int
    timings: dict[str, tuple[tuple[WordTiming, ...], ...]] = field(default_factory=dict)
    untimed: str = ""
    """Reason why timings are missing, or empty."""

    @property
    def kinds(self) -> tuple[str, ...]:
        return tuple(kind for kind in self.sounds if kind != RECORDINGS)

    @property
    def variants(self) -> tuple[str, ...]:
        return tuple(kind for kind in self.kinds if kind != VOCODER)

    def without(self, unheard: Mapping[str, str]) -> Renderings:
        """Remove the variants in `unheard`, which maps them to reasons."""
        sounds = {kind: found for kind, found in self.sounds.items() if kind not in unheard}
        return replace(self, sounds=sounds, unspoken=self.unspoken | dict(unheard))


def render(
    bundle: Path, sound: Path | None, variants: Sequence[str], utterances: Sequence[Utterance], corpus: Path
) -> Renderings:
    """Render each utterance with the bundle's graphs under ONNX Runtime.

    The first of `variants` makes the copies. `sound` is the trained waveform model; None means no copies. Raises
    SonorantError naming the utterance or file, also if the first variant outputs NaN; other variants that output NaN
    become `unspoken`.
    """
    voice = Voice.load(bundle, variant=variants[0])
    recordings = tuple(read_sound(corpus, utterance, voice.sample_rate)[0] for utterance in utterances)
    texts = tuple(voice.frontend.speak(utterance.text) for utterance in utterances)
    tokens = tuple(_tokens(voice, *each) for each in zip(utterances, texts, strict=True))
    speakers = [_speaker(voice, utterance) for utterance in utterances]
    found = Renderings(
        ids=tuple(utterance.id for utterance in utterances),
        tokens=tokens,
        sounds={RECORDINGS: recordings},
        decoded={},
        unspoken={},
        rate=voice.sample_rate,
        untimed=voice.why_untimed,
    )
    if sound:
        copied = copier(voice, sound)
        progress = tqdm(recordings, desc="copy", unit="clip", file=sys.stderr)
        found.sounds[VOCODER] = tuple(copied(recording) for recording in progress)
    for variant in variants:
        speaking = Voice.load(bundle, variant=variant)
        try:
            spoken = speak_all(speaking, tokens, speakers, f"speak {variant}")
            _refuse_nan(spoken, utterances)
        except SonorantError as error:
            if variant == variants[0]:
                raise SonorantError(f"{bundle}: variant {variant}: {error}; train and export the voice again") from None
            found.unspoken[variant] = f"failed: {error}"
            continue
        found.sounds[variant] = tuple(each.sound for each in spoken)
        if load_family(voice.description.family).autoregressive:
            found.decoded[variant] = tuple(spoken)
        if not voice.why_untimed:
            found.timings[variant] = tuple(map(partial(_timings, speaking), utterances, texts, spoken))
    return found


def _timings(voice: Voice, utterance: Utterance, text: SpokenText, spoken: Spoken) -> tuple[WordTiming, ...]:
    if (ends := spoken.ends) is None:
        return ()
    [words] = place_words(utterance.text, 0, [text])
    reached = [word for word in words if ends[word.phonemes[1]] >= 0]
    return tuple(timed(word, text.phonemes, ends, voice.sample_rate) for word in reached)


def _refuse_nan(spoken: Sequence[Spoken], utterances: Sequence[Utterance]) -> None:
    finite = [bool(np.isfinite(each.sound).all()) for each in spoken]
    if not all(finite):
        first = utterances[finite.index(False)].id
        raise SonorantError(f"NaN or infinity in {finite.count(False)} of {len(spoken)} sentences, first in '{first}'")


def _tokens(voice: Voice, utterance: Utterance, spoken: SpokenText) -> Ints:
    tokens = voice.symbols.to_tokens(spoken.phonemes).astype(np.int64)
    if len(tokens) <= 2:  # ^ and $ only
        raise SonorantError(
            f"utterance '{utterance.id}': '{spoken_text(utterance)}' has no phonemes; run the stage prepare again"
        )
    return tokens


def _speaker(voice: Voice, utterance: Utterance) -> int:
    if utterance.speaker not in voice.speakers:
        raise SonorantError(
            f"utterance '{utterance.id}': the voice has no speaker '{utterance.speaker}'; train it again"
        )
    return voice.speakers.index(utterance.speaker)


def speak_all(voice: Voice, tokens: Sequence[Ints], speakers: Sequence[int], label: str) -> list[Spoken]:
    """Speak every sentence; autoregressive voices batch sentences of similar length."""
    order, together = list(range(len(tokens))), 1
    if load_family(voice.description.family).autoregressive:
        order, together = sorted(order, key=lambda index: -len(tokens[index])), TOGETHER
    spoken: dict[int, Spoken] = {}
    with tqdm(total=len(tokens), desc=label, unit="sentence", file=sys.stderr) as progress:
        for start in range(0, len(tokens), together):
            chosen = order[start : start + together]
            lengths = np.array([len(tokens[index]) for index in chosen])
            batch = np.zeros((len(chosen), lengths.max(), 3), np.int64)
            for row, index in enumerate(chosen):
                batch[row, : lengths[row]] = tokens[index]
            said_by, speed = np.array([speakers[index] for index in chosen]), np.ones(len(chosen), np.float32)
            found = voice.synthesize(batch, lengths, said_by, speed)
            for row, index in enumerate(chosen):
                spoken[index] = Spoken(
                    sound=found.samples[row, : found.lengths[row]],
                    ends=None if found.ends is None else found.ends[row, : lengths[row]],
                    finish_reason=FinishReason(int(found.finish_reasons[row])).name.lower(),
                    attempts=int(found.attempts[row]),
                )
            progress.update(len(chosen))
    return [spoken[index] for index in range(len(tokens))]


def summarize(decoded: Sequence[Spoken]) -> Figures:
    """Return `{sentences, runaways, runaway_rate, runaway_rate_ci95, retries, unrecovered, finish_reasons: {name:
    count}}`.

    `runaways` counts first attempts that were stopped, `retries` further attempts, and `unrecovered` sentences without
    a successful attempt.
    """
    sentences, runaways = len(decoded), sum(each.ran_away for each in decoded)
    reasons = Counter(each.finish_reason for each in decoded)
    return {
        "sentences": sentences,
        "runaways": runaways,
        **estimate("runaway_rate", runaways / sentences, wilson_interval(runaways, sentences), 5),
        "retries": sum(each.attempts for each in decoded) - sentences,
        "unrecovered": sentences - reasons["well"],
        "finish_reasons": dict(sorted(reasons.items())),
    }


def copier(voice: Voice, waveform: Path) -> Callable[[Floats], Floats]:
    """Return a function that copies a recording (S,) at the voice's rate. `waveform` provides parts that are not
    exported, such as a codec's encoder."""
    import torch  # not at the top, because worker processes import this module

    from sonorant.audio.mel import MelConfig, log_mel

    audio = MelConfig(**asdict(voice.description.audio))
    hear = load_family(voice.description.family).hear(voice.description, waveform)

    def copied(recording: Floats) -> Floats:
        mel_MT = log_mel(torch.from_numpy(recording), audio).numpy()
        padded = np.pad(recording, (0, mel_MT.shape[1] * audio.hop - len(recording)))
        heard, frames = hear(mel_MT, padded)
        return np.clip(voice.runtime.vocode(heard[None], np.array([frames]))[0, : len(recording)], -1.0, 1.0)

    return copied
