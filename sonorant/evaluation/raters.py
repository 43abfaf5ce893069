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

from sonorant.arrays import Doubles, Floats
from sonorant.audio.dnsmos import SCORES
from sonorant.audio.wav import resample
from sonorant.evaluation.renderings import RECORDINGS, Renderings
from sonorant.processes import spread
from sonorant.statistics import bootstrap

RATE = 16_000
"""Hz that the networks listen at."""
Clip = tuple[Floats, int]
"""Samples (S,) in -1..1 and their rate in Hz."""

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


def embed_clips(clips: Sequence[Clip]) -> Doubles:
    """Samples (S,) in -1..1 with rates in Hz -> embeddings (clips, 256) of length 1, or 0 if no voice is found."""
    return np.array(spread(_embed, clips, label="speakers", unit="clip", prepare=_load_encoder))


def compare(spoken: Doubles, recordings: Doubles, speakers: Sequence[str]) -> dict[str, Any] | str:
    """Mean cosines of embeddings (U, D) of spoken sentences and recordings with the recordings of other sentences.

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

    def mean(rows: Doubles, pairs: NDArray[np.bool_]) -> float:
        cosines = (rows @ recordings.T)[used]
        return round(float(np.average(cosines, axis=1, weights=pairs[used]).mean()), 4)

    return {
        "mean": mean(spoken, same),
        "recordings": mean(recordings, same),
        "others": mean(spoken, others),
        "utterances": int(used.sum()),
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
