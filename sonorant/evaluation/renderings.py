"""The judged sentences as recorded, as the vocoder copies them, and as each variant speaks them. Knows nothing of how they are judged."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from sonorant.audio.wav import read_audio
from sonorant.data.manifest import Utterance
from sonorant.errors import SonorantError
from sonorant.evaluation.sentences import spoken_text
from sonorant.runtime.voice import Voice

RECORDINGS, VOCODER = "recordings", "vocoder"
"""The kinds of rendering that are no variant."""


@dataclass(frozen=True, kw_only=True)
class Renderings:
    """The sentences in all their kinds; everything has one entry a sentence."""

    ids: tuple[str, ...]
    tokens: tuple[NDArray[np.int64], ...]
    """Phoneme ids (N, 3) that the voice spoke."""
    sounds: dict[str, tuple[NDArray[np.float32], ...]]
    """Samples (S,) in -1..1 at `rate`: the recordings, the vocoder's copies of them (what is lost after the acoustic model), and each
    variant speaking the text."""
    unspoken: dict[str, str]
    """Variants that gave no sound to be judged, and why."""
    rate: int
    """Hz."""

    @property
    def kinds(self) -> tuple[str, ...]:
        """What the recordings are compared with: the vocoder, then the variants."""
        return tuple(kind for kind in self.sounds if kind != RECORDINGS)

    @property
    def variants(self) -> tuple[str, ...]:
        """Those that spoke."""
        return tuple(kind for kind in self.kinds if kind != VOCODER)


def render(bundle: Path, variants: Sequence[str], utterances: Sequence[Utterance], corpus: Path) -> Renderings:
    """Render each utterance by the bundle's graphs under ONNX Runtime; the text is the manifest's, through the voice's frontend.

    The vocoder's copies are by the first of the `variants`. `corpus`: folder that audio paths are relative to. Raises SonorantError
    naming the utterance or file that cannot be rendered, also where the first variant gives NaN; another variant is then `unspoken`.
    """
    voice = Voice.load(bundle, variant=variants[0])
    recordings = tuple(read_audio(corpus / str(utterance.audio), voice.sample_rate)[0] for utterance in utterances)
    tokens = tuple(_tokens(voice, utterance) for utterance in utterances)
    speakers = [_speaker(voice, utterance) for utterance in utterances]
    copies = tuple(vocoder_copy(voice, recording) for recording in tqdm(recordings, desc="vocode", unit="clip", file=sys.stderr))
    sounds, unspoken = {RECORDINGS: recordings, VOCODER: copies}, {}
    for variant in variants:
        speaking = Voice.load(bundle, variant=variant)
        progress = tqdm(
            zip(tokens, speakers, strict=True), desc=f"speak {variant}", total=len(tokens), unit="sentence", file=sys.stderr
        )
        spoken = tuple(_speak(speaking, *sentence) for sentence in progress)
        broken = [utterance.id for utterance, samples in zip(utterances, spoken, strict=True) if not np.isfinite(samples).all()]
        if not broken:
            sounds[variant] = spoken
            continue
        unspoken[variant] = f"NaN or infinity in {len(broken)} of {len(spoken)} sentences, first in '{broken[0]}'"
        if variant == variants[0]:
            raise SonorantError(f"{bundle}: variant {variant}: {unspoken[variant]}; train and export the voice again")
    return Renderings(ids=tuple(u.id for u in utterances), tokens=tokens, sounds=sounds, unspoken=unspoken, rate=voice.sample_rate)


def _tokens(voice: Voice, utterance: Utterance) -> NDArray[np.int64]:
    tokens = voice.symbols.encode(voice.frontend.speak(utterance.text).phonemes).astype(np.int64)
    if len(tokens) <= 2:  # ^ and $ alone
        raise SonorantError(
            f"utterance '{utterance.id}': nothing of '{spoken_text(utterance)}' can be spoken; run the stage prepare again"
        )
    return tokens


def _speaker(voice: Voice, utterance: Utterance) -> int:
    if utterance.speaker not in voice.speakers:
        raise SonorantError(
            f"utterance '{utterance.id}': its speaker '{utterance.speaker}' is not one of the voice's; train the voice again"
        )
    return voice.speakers.index(utterance.speaker)


def _speak(voice: Voice, tokens: NDArray[np.int64], speaker: int) -> NDArray[np.float32]:
    samples, _ = voice.synthesize(tokens[None], np.array([len(tokens)]), np.array([speaker]), np.ones(1, np.float32))
    return samples[0]


def vocoder_copy(voice: Voice, recording: NDArray[np.float32]) -> NDArray[np.float32]:
    """A recording (S,) at the voice's rate -> mel -> the voice's vocoder -> samples (S,) in -1..1."""
    import torch  # here, because the processes that recognise import this module too and need no torch

    from sonorant.audio.mel import MelConfig, log_mel

    mel = log_mel(torch.from_numpy(recording)[None], MelConfig(**asdict(voice.description.audio)))
    return np.clip(voice.runtime.vocode(mel.numpy(), np.array([mel.shape[2]]))[0, : len(recording)], -1.0, 1.0)
