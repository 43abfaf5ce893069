"""The judged sentences as recorded, as the vocoder copies them, and as the voice speaks them. Knows nothing of how they are judged."""

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

KINDS = ("recording", "vocoder", "voice")


@dataclass(frozen=True)
class Rendering:
    """One sentence in its three forms, each samples float32 (S,) at the voice's rate."""

    id: str
    tokens: NDArray[np.int64]
    """Phoneme ids (N, 3) that the voice spoke."""
    recording: NDArray[np.float32]
    vocoder: NDArray[np.float32]
    """The recording's mel through the vocoder: what is lost after the acoustic model."""
    voice: NDArray[np.float32]
    """The text through the whole voice."""

    def samples(self, kind: str) -> NDArray[np.float32]:
        """Samples of one of `KINDS`."""
        return {"recording": self.recording, "vocoder": self.vocoder, "voice": self.voice}[kind]


def render(voice: Voice, utterances: Sequence[Utterance], corpus: Path) -> list[Rendering]:
    """Render each utterance with the voice's own graphs; the text is the manifest's, through the voice's frontend.

    `corpus`: folder that audio paths are relative to. Raises SonorantError naming the utterance or file that cannot be rendered.
    """
    progress = tqdm(utterances, desc="synthesize", unit="sentence", file=sys.stderr)
    return [_render(voice, utterance, corpus) for utterance in progress]


def _render(voice: Voice, utterance: Utterance, corpus: Path) -> Rendering:
    recording, _ = read_audio(corpus / str(utterance.audio), voice.sample_rate)
    if utterance.speaker not in voice.speakers:
        raise SonorantError(
            f"utterance '{utterance.id}': its speaker '{utterance.speaker}' is not one of the voice's; train the voice again"
        )
    tokens = voice.symbols.encode(voice.frontend.speak(utterance.text).phonemes).astype(np.int64)
    if len(tokens) <= 2:  # ^ and $ alone
        raise SonorantError(
            f"utterance '{utterance.id}': nothing of '{spoken_text(utterance)}' can be spoken; run the stage prepare again"
        )
    speaker = np.array([voice.speakers.index(utterance.speaker)])
    samples, _ = voice.synthesize(tokens[None], np.array([len(tokens)]), speaker, np.ones(1, np.float32))
    return Rendering(utterance.id, tokens, recording, vocoder_copy(voice, recording), samples[0])


def vocoder_copy(voice: Voice, recording: NDArray[np.float32]) -> NDArray[np.float32]:
    """A recording (S,) at the voice's rate -> mel -> the voice's vocoder -> samples (S,) in -1..1."""
    import torch  # here, because the processes that recognise import this module too and need no torch

    from sonorant.audio.mel import MelConfig, log_mel

    mel = log_mel(torch.from_numpy(recording)[None], MelConfig(**asdict(voice.description.audio)))
    return np.clip(voice.runtime.vocode(mel.numpy(), np.array([mel.shape[2]]))[0, : len(recording)], -1.0, 1.0)
