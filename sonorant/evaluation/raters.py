"""DNSMOS summaries and speaker similarity.

Similarity is the cosine of speaker embeddings (Wan et al., "Generalized end-to-end loss for speaker verification",
ICASSP 2018; 256 non-negative values) by resemblyzer.
"""

import importlib.util
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sonorant.audio.arrays import Doubles, Floats
from sonorant.audio.dnsmos import SCORES
from sonorant.audio.wav import resample
from sonorant.errors import install
from sonorant.evaluation.estimates import Figures, estimate
from sonorant.evaluation.likeness import paired_below
from sonorant.evaluation.renderings import Renderings
from sonorant.processes import spread
from sonorant.training.intervals import bootstrap, wilson_interval

RATE = 16_000
Clip = tuple[Floats, int]
"""Samples (S,) in -1..1 and rate in Hz."""

SPEAKER_BELOW = "speaker_below_recordings"
LEVEL = 0.1
"""RMS level for embedding, because the network's input depends on loudness."""
MODULES = ("resemblyzer", "webrtcvad", "pkg_resources")
"""Modules required for embeddings; webrtcvad imports pkg_resources (setuptools < 82)."""

_model: Any = None


def summarize(scores: Doubles) -> Figures:
    figures: Figures = {"utterances": len(scores)}
    for name, column in zip(SCORES, scores.T, strict=True):
        figures |= estimate(name, column.mean(), bootstrap(np.mean, column), 3)
    return figures


def embed_renderings(renderings: Renderings) -> dict[str, Doubles] | str:
    """Return speaker embeddings (U, 256) per kind of sound, or "not run: <why>"."""
    if why := not_installed():
        return why
    sounds = renderings.sounds
    embedded = embed_clips([(samples, renderings.rate) for clips in sounds.values() for samples in clips])
    return dict(zip(sounds, np.split(embedded, len(sounds)), strict=True))


def not_installed() -> str:
    missing = [module for module in MODULES if importlib.util.find_spec(module) is None]
    return f"not run: {missing[0]} is not installed; run: {install('similarity')}" if missing else ""


def embed_clips(clips: Sequence[Clip]) -> Doubles:
    """Return embeddings (clips, 256) with norm 1, or zeros for clips without detected speech."""
    return np.array(spread(_embed, clips, label="speakers", unit="clip", prepare=_load_encoder))


def compare(spoken: Doubles, recordings: Doubles, speakers: Sequence[str], of: str | None = None) -> Figures:
    """Compare embeddings (U, D) of spoken sentences and recordings with recordings of different sentences; return mean
    cosines. `of` restricts them to one speaker.

    `mean` is the cosine with the same speaker, `others` with different speakers (floor; absent if there are none),
    `recordings` that of recordings with the same speaker (ceiling). `SPEAKER_BELOW` is the paired difference from the
    ceiling with its 95 % interval. Speakers with one sentence are omitted.
    """
    same = np.equal.outer(speakers, speakers)
    others = ~same
    np.fill_diagonal(same, False)
    several = bool(others.any())
    used = same.any(axis=1) & np.array([of in (None, speaker) for speaker in speakers])
    if not used.any():
        why = "not run: no speaker has two evaluated sentences"
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
        **paired_below(own, ceiling, SPEAKER_BELOW),
    }


def _load_encoder() -> None:
    global _model
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # deprecations in newer setuptools and SciPy
        import resemblyzer
    import torch

    torch.set_num_threads(1)  # one process per core
    _model = resemblyzer.VoiceEncoder("cpu", verbose=False)


def _embed(clip: Clip) -> Doubles:
    from resemblyzer import preprocess_wav

    heard = resample(*clip, RATE)
    loudness = np.sqrt(np.mean(np.square(heard)))
    voiced = preprocess_wav(np.clip(heard * (LEVEL / loudness), -1.0, 1.0)) if loudness > 0 else heard[:0]
    found = _model.embed_utterance(voiced).astype(np.float64)
    return found if len(voiced) else np.zeros_like(found)  # two silences are not one speaker


NOBODY = "nobody"
"""Recognised speaker of sentences without detected speech."""


def confuse(spoken: Doubles, recordings: Doubles, speakers: Sequence[str]) -> list[Figures] | str:
    """Return a row per speaker: `speaker`, `sentences`, `as` (number of sentences per recognised speaker) and
    `recognised` (fraction correct) with its 95 % interval; "not run: <why>" for fewer than two speakers.

    A sentence is assigned to the speaker whose recordings of different sentences have the highest mean cosine. `spoken`
    and `recordings` are embeddings (U, D). Passing the recordings as `spoken` gives the ceiling. Speakers with one
    sentence are omitted.
    """
    said_by = np.array(speakers)
    names, counts = np.unique(said_by, return_counts=True)
    known = [str(name) for name in names[counts > 1]]
    if len(known) < 2:
        return "not run: fewer than two speakers have two evaluated sentences"
    cosines_UU = spoken @ recordings.T
    np.fill_diagonal(cosines_UU, np.nan)
    likeness_UN = np.stack([np.nanmean(cosines_UU[:, said_by == name], axis=1) for name in known], axis=1)
    found = np.where(spoken.any(axis=1), np.array(known)[likeness_UN.argmax(axis=1)], NOBODY)
    return [_row(name, found[said_by == name].tolist(), known) for name in known]


def _row(name: str, found: Sequence[str], known: Sequence[str]) -> Figures:
    counted = {other: found.count(other) for other in (*known, NOBODY)}
    own = counted[name]
    return {
        "speaker": name,
        "sentences": len(found),
        "as": {other: count for other, count in counted.items() if count or other in known},
    } | estimate("recognised", own / len(found), wilson_interval(own, len(found)), 4)
