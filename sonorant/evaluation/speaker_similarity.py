"""Does a voice sound like its speaker, and not like its others? Knows nothing of words and of how well anything sounds.

Cosines between speaker embeddings: Wan et al., "Generalized end-to-end loss for speaker verification", ICASSP 2018; 256
values, none below 0. The network comes in the package resemblyzer. Cosines of two networks cannot be compared; those
beside each other here can.
"""

from __future__ import annotations

import importlib.util
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sonorant.audio.wav import resample
from sonorant.evaluation.renderings import RECORDINGS, Renderings
from sonorant.processes import spread

RATE = 16_000
"""Hz that the network listens at."""
LEVEL = 0.1
"""Root mean square that each clip is brought to, -20 dB: the network's mel is not logarithmic, a tenth of the amplitude
would cost 0.08."""
MODULES = ("resemblyzer", "webrtcvad", "pkg_resources")
"""What is needed; webrtcvad needs the last, which setuptools had until version 81."""

Clip = tuple[NDArray[np.float32], int]


def speaker_similarities(renderings: Renderings, speakers: Sequence[str]) -> dict[str, dict[str, Any] | str]:
    """What `compare` finds for each variant, or "not run: <why>" in its place; `speakers`: of each sentence."""
    if len(set(speakers)) == 1:
        return dict.fromkeys(renderings.variants, "not run: one speaker")
    missing = [module for module in MODULES if importlib.util.find_spec(module) is None]
    if missing:
        return dict.fromkeys(
            renderings.variants, f"not run: {missing[0]} is not installed; pip install 'sonorant[similarity]'"
        )
    kinds = (RECORDINGS, *renderings.variants)
    embedded = embed_clips([(samples, renderings.rate) for kind in kinds for samples in renderings.sounds[kind]])
    recordings, *variants = np.split(embedded, len(kinds))
    return {
        kind: compare(found, recordings, speakers) for kind, found in zip(renderings.variants, variants, strict=True)
    }


def embed_clips(clips: Sequence[Clip]) -> NDArray[np.float64]:
    """Samples (S,) in -1..1 with their rates in Hz -> embeddings (clips, 256) of length 1, or 0 where no voice is
    found."""
    return np.array(spread(_embed, clips, label="speakers", unit="clip", prepare=_load))


def compare(
    spoken: NDArray[np.float64], recordings: NDArray[np.float64], speakers: Sequence[str]
) -> dict[str, Any] | str:
    """Mean cosines of embeddings (U, D) of sentences spoken, and of their recordings, with the recordings of other
    sentences.

    `mean`: spoken, with the same speaker's recordings; `others`: spoken, with other speakers' (the floor);
    `recordings`: the recordings with the same speaker's (the ceiling). Never with the same sentence, whose words alone
    would make it alike; a speaker of one sentence is left out. Each sentence counts alike.
    """
    same = np.equal.outer(speakers, speakers)
    others = ~same
    np.fill_diagonal(same, False)
    used = same.any(axis=1) & others.any(axis=1)
    if not used.any():
        return "not run: no speaker of two judged sentences"

    def mean(rows: NDArray[np.float64], pairs: NDArray[np.bool_]) -> float:
        cosines = (rows @ recordings.T)[used]
        return round(float(np.average(cosines, axis=1, weights=pairs[used]).mean()), 4)

    return {
        "mean": mean(spoken, same),
        "recordings": mean(recordings, same),
        "others": mean(spoken, others),
        "utterances": int(used.sum()),
    }


_encoder: Any = None
"""Of this process; loaded once, used for every clip it is given."""


def _load() -> None:
    global _encoder
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the package imports what newer setuptools and SciPy call deprecated
        import resemblyzer
    import torch

    torch.set_num_threads(1)  # each core has a process of its own
    _encoder = resemblyzer.VoiceEncoder("cpu", verbose=False)


def _embed(clip: Clip) -> NDArray[np.float64]:
    from resemblyzer import preprocess_wav

    samples, rate = clip
    heard = samples if rate == RATE else resample(samples, rate, RATE)
    loudness = np.sqrt(np.mean(np.square(heard)))
    voiced = preprocess_wav(np.clip(heard * (LEVEL / loudness), -1.0, 1.0)) if loudness > 0 else heard[:0]
    found = _encoder.embed_utterance(voiced).astype(np.float64)
    return found if len(voiced) else np.zeros_like(found)  # nothing is alike: two silences are not one speaker
