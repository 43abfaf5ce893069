"""How speech sounds to networks that learned from people: DNSMOS, and whether a voice sounds like its speaker.

DNSMOS: Reddy et al., "DNSMOS P.835", ICASSP 2022, a network that comes in the package speechmos. It learned from noisy
calls: differences between two renderings mean something, the score itself little.

Speaker similarity: cosines between speaker embeddings (Wan et al., "Generalized end-to-end loss for speaker
verification", ICASSP 2018; 256 values, none below 0), by the network in the package resemblyzer. Cosines of two
networks cannot be compared; those beside each other here can."""

import importlib.util
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sonorant.arrays import Doubles, Floats
from sonorant.audio.wav import resample
from sonorant.evaluation.renderings import RECORDINGS, Renderings
from sonorant.processes import spread
from sonorant.statistics import bootstrap

RATE = 16_000
"""Hz that the networks listen at."""
Clip = tuple[Floats, int]
"""Samples (S,) in -1..1 and their rate in Hz."""

WINDOW_SECONDS = 9.01
WINDOW = int(WINDOW_SECONDS * RATE)
"""Samples that DNSMOS hears at once."""
SCORES = {
    "ovrl": (-0.06766283, 1.11546468, 0.04602535),
    "sig": (-0.08397278, 1.22083953, 0.0052439),
    "bak": (-0.13166888, 1.60915514, -0.39604546),
}
"""Overall, speech and background, 1 to 5, with the polynomial that makes a score of what the network gives."""
OUTPUTS = ("sig", "bak", "ovrl")
"""What the network gives, in its order."""
NOT_INSTALLED = "not run: speechmos is not installed; pip install 'sonorant[mos]'"

LEVEL = 0.1
"""RMS that clips get before embedding, -20 dB: the network's mel is linear, a tenth of the amplitude costs 0.08."""
MODULES = ("resemblyzer", "webrtcvad", "pkg_resources")
"""What embeddings need; webrtcvad needs the last, which setuptools had until version 81."""

_model: Any = None
"""The network of this process; loaded once, used for every clip it is given."""


def rate_clips(clips: Sequence[Clip]) -> Doubles | str:
    """DNSMOS (clips, 3) of each clip in the order of `SCORES`, or "not run: <why>"."""
    if importlib.util.find_spec("speechmos") is None:
        return NOT_INSTALLED
    return np.array(spread(_rate, clips, label="DNSMOS", unit="clip", prepare=_load_dnsmos))


def summarize(scores: Doubles, resamples: int) -> dict[str, Any]:
    """Mean of each score over clips (U, 3) with its 95 % interval."""
    figures: dict[str, Any] = {"utterances": len(scores)}
    for name, column in zip(SCORES, scores.T, strict=True):
        figures[name] = round(float(column.mean()), 3)
        figures[f"{name}_ci95"] = [round(end, 3) for end in bootstrap(np.mean, column, resamples=resamples)]
    return figures


def _load_dnsmos() -> None:
    """Load the network directly: the package would compile librosa's functions and run a second network, for a score
    that is not among `SCORES`."""
    global _model
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1  # each core has a process of its own
    package = importlib.util.find_spec("speechmos")
    assert package is not None and package.submodule_search_locations
    folder = Path(package.submodule_search_locations[0]) / "dnsmos_models"
    _model = onnxruntime.InferenceSession(folder / "sig_bak_ovr.onnx", options)


def _rate(clip: Clip) -> list[float]:
    heard = np.clip(_at_rate(clip), -1.0, 1.0)
    if len(heard) < WINDOW:  # repeated until it fills one window
        heard = np.resize(heard, WINDOW)
    scores: dict[str, list[float]] = {name: [] for name in SCORES}
    for second in range(int(np.floor(len(heard) / RATE) - WINDOW_SECONDS) + 1):
        window = heard[second * RATE : int((second + WINDOW_SECONDS) * RATE)].astype(np.float32)
        if len(window) < WINDOW:
            continue
        for name, raw in zip(OUTPUTS, _model.run(None, {"input_1": window[None]})[0][0], strict=True):
            scores[name].append(float(np.polyval(SCORES[name], raw)))
    return [float(np.mean(scores[name])) for name in SCORES]


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
