"""How speech sounds to networks that learned from people: DNSMOS' scores summed up (`sonorant/audio/dnsmos.py`), and
whether a voice sounds like its speaker.

Speaker similarity: cosines between speaker embeddings (Wan et al., "Generalized end-to-end loss for speaker
verification", ICASSP 2018; 256 values, none below 0), by the network in the package resemblyzer. Cosines of two
networks cannot be compared; those beside each other here can."""

import importlib.util
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sonorant.audio.arrays import Doubles, Floats
from sonorant.audio.dnsmos import SCORES
from sonorant.audio.wav import resample
from sonorant.evaluation.likeness import paired_below
from sonorant.evaluation.renderings import Renderings
from sonorant.processes import spread
from sonorant.training.intervals import bootstrap

RATE = 16_000
"""Hz that the networks listen at."""
Clip = tuple[Floats, int]
"""Samples (S,) in -1..1 and their rate in Hz."""

SPEAKER_BELOW = "speaker_below_recordings"
LEVEL = 0.1
"""RMS that clips get before embedding, -20 dB: the network's mel is linear, a tenth of the amplitude costs 0.08."""
MODULES = ("resemblyzer", "webrtcvad", "pkg_resources")
"""What embeddings need; webrtcvad needs the last, which setuptools had until version 81."""

_model: Any = None
"""The network of this process; loaded once, used for every clip it is given."""


def summarize(scores: Doubles, resamples: int) -> dict[str, Any]:
    """Mean of each score over clips (U, 3) with its 95 % interval."""
    figures: dict[str, Any] = {"utterances": len(scores)}
    for name, column in zip(SCORES, scores.T, strict=True):
        figures[name] = round(float(column.mean()), 3)
        figures[f"{name}_ci95"] = [round(end, 3) for end in bootstrap(np.mean, column, resamples=resamples)]
    return figures


def embed_renderings(renderings: Renderings) -> dict[str, Doubles] | str:
    """The embeddings (U, 256) of the recordings and every kind, or "not run: <why>"."""
    if why := not_installed():
        return why
    sounds = renderings.sounds
    embedded = embed_clips([(samples, renderings.rate) for clips in sounds.values() for samples in clips])
    return dict(zip(sounds, np.split(embedded, len(sounds)), strict=True))


def not_installed() -> str:
    """Why nothing can be embedded here; empty if it can."""
    missing = [module for module in MODULES if importlib.util.find_spec(module) is None]
    return f"not run: {missing[0]} is not installed; pip install 'sonorant[similarity]'" if missing else ""


def embed_clips(clips: Sequence[Clip]) -> Doubles:
    """Samples (S,) in -1..1 with rates in Hz -> embeddings (clips, 256) of length 1, or 0 if no voice is found."""
    return np.array(spread(_embed, clips, label="speakers", unit="clip", prepare=_load_encoder))


def compare(
    spoken: Doubles, recordings: Doubles, speakers: Sequence[str], resamples: int, of: str | None = None
) -> dict[str, Any]:
    """Mean cosines of embeddings (U, D) of spoken sentences and recordings with the recordings of other sentences.
    `speakers`: of each sentence; `of`: the speaker whose sentences count, None: everyone's.

    `mean`: spoken, with the same speaker's recordings; `others`: spoken, with other speakers' (the floor; absent if
    there are none); `recordings`: the recordings with the same speaker's (the ceiling). Never with the same sentence,
    whose words alone would make it alike; a speaker of one sentence is left out. Each sentence counts alike. Beside it
    `SPEAKER_BELOW` with its 95 % interval: how far they lie below the recordings', sentence by sentence.
    """
    same = np.equal.outer(speakers, speakers)
    others = ~same
    np.fill_diagonal(same, False)
    several = bool(others.any())
    used = same.any(axis=1) & np.array([of in (None, speaker) for speaker in speakers])
    if not used.any():
        why = "not run: no speaker of two judged sentences"
        return {"speaker_similarity": why, SPEAKER_BELOW: why}

    def cosines(rows: Doubles, pairs: NDArray[np.bool_]) -> Doubles:
        return np.average((rows @ recordings.T)[used], axis=1, weights=pairs[used])

    own, ceiling = cosines(spoken, same), cosines(recordings, same)
    found = {"mean": own.mean(), "recordings": ceiling.mean()}
    if several:
        found["others"] = cosines(spoken, others).mean()
    rounded = {key: round(float(value), 4) for key, value in found.items()}
    return {
        "speaker_similarity": rounded | {"utterances": int(used.sum())},
        **paired_below(own, ceiling, SPEAKER_BELOW, resamples),
    }


def _load_encoder() -> None:
    global _model
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the package imports what newer setuptools and SciPy call deprecated
        import resemblyzer
    import torch

    torch.set_num_threads(1)  # each core has a process of its own
    _model = resemblyzer.VoiceEncoder("cpu", verbose=False)


def _embed(clip: Clip) -> Doubles:
    from resemblyzer import preprocess_wav

    heard = _at_rate(clip)
    loudness = np.sqrt(np.mean(np.square(heard)))
    voiced = preprocess_wav(np.clip(heard * (LEVEL / loudness), -1.0, 1.0)) if loudness > 0 else heard[:0]
    found = _model.embed_utterance(voiced).astype(np.float64)
    return found if len(voiced) else np.zeros_like(found)  # nothing is alike: two silences are not one speaker


def _at_rate(clip: Clip) -> Floats:
    samples, rate = clip
    return samples if rate == RATE else resample(samples, rate, RATE)
