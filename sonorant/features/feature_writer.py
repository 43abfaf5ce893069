"""Compute features shard by shard, and write the index that lists the shards.

Only shards that the store lacks are computed: a killed stage continues where it stopped, and a changed utterance
changes only its shard. The output does not depend on how the work was divided.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from sonorant.audio.mel import MelConfig
from sonorant.corpus.manifest import SPLITS, Utterance, corpus_files
from sonorant.corpus.short_clips import ShortClip
from sonorant.errors import SonorantError
from sonorant.features.computing import complete
from sonorant.features.feature_shards import (
    COUNT,
    FRAMES,
    SQUARES,
    SUM,
    Job,
    Row,
    shard_keys,
    utterance_of,
    write,
)
from sonorant.features.feature_store import objects_of, write_store
from sonorant.features.grouping import leaves
from sonorant.features.index import Rows
from sonorant.features.store import StoreConfig, open_store
from sonorant.features.store.marks import mark
from sonorant.features.store.shard_files import Shard
from sonorant.text import TextConfig, frontend_description


def write_features(
    corpus: Path,
    utterances: list[Utterance],
    out: Path,
    audio: MelConfig,
    text: TextConfig,
    processes: int | None = None,
    short_clips: Sequence[ShortClip] = (),
    *,
    store: StoreConfig,
) -> None:
    """Write the features of `utterances`, then of `short_clips`: missing shards to `store`, and the index to `out`,
    atomically.

    Raises SonorantError if an utterance has no readable audio, speakable text or split, or if the corpus has no
    training split or several languages.
    """
    language = _check(utterances)
    frontend = text.load(language)
    rows: list[Row] = [*utterances, *short_clips]
    shards = leaves([row.id for row in rows], store.utterances_per_shard)
    job = Job(corpus, store.place, audio, text)
    work = [[rows[place] for place in members] for members in shards]
    keys = shard_keys(job, work, frontend)
    mark(open_store(store.place), keys)
    todo, sizes, reads = list(zip(keys, work, strict=True)), [*map(len, work)], corpus_files(corpus, utterances)
    whole = complete(
        store.place, keys, todo, sizes, partial(write, job), label="features", processes=processes, reads=reads
    )

    splits = np.array([SPLITS.index(str(utterance_of(row).split)) for row in rows], dtype=np.uint8)
    speakers = sorted({utterance.speaker for utterance in utterances})
    speaker_ids = {speaker: number for number, speaker in enumerate(speakers)}
    frames = _column(whole, shards, FRAMES, np.int64)
    training = splits == SPLITS.index("train")
    sums, squares = (_column(whole, shards, name, np.float64)[training] for name in (SUM, SQUARES))
    mean, std = _statistics(int(frames[training].sum()) * audio.n_mels, sums, squares)
    index = Rows(
        ids=[row.id for row in rows],
        split=splits,
        speaker=np.array([speaker_ids[utterance_of(row).speaker] for row in rows], dtype=np.int64),
        frames=frames,
        tokens=_column(whole, shards, COUNT, np.int64),
        shards=shards,
        objects=objects_of(whole),
    )
    described = {
        "audio": dataclasses.asdict(audio),
        "frontend": frontend_description(frontend),
        "symbols": list(frontend.symbols),
        "speakers": speakers,
        "splits": list(SPLITS),
        "mel_mean": mean,
        "mel_std": std,
    }
    write_store(out, store.as_place(), keys, index, described)


def _check(utterances: list[Utterance]) -> str:
    """Return the corpus's language. Raises SonorantError if the utterances cannot form a store."""
    if not any(utterance.split == "train" for utterance in utterances):
        raise SonorantError(
            f"features: none of {len(utterances)} utterances is in the training split; see the corpus report"
        )
    for utterance in utterances:
        if utterance.split is None or utterance.audio is None:
            raise SonorantError(f"features: utterance '{utterance.id}' has no split or audio; run: dvc repro prepare")
    languages = sorted({utterance.language for utterance in utterances})
    if len(languages) > 1:
        raise SonorantError(
            f"features: the corpus mixes the languages {', '.join(languages)}; keep only one, because a voice has one"
        )
    return languages[0]


def _column(whole: list[Shard], shards: list[np.ndarray], name: str, dtype: Any) -> np.ndarray:
    column = np.zeros(sum(map(len, shards)), dtype)
    for shard, members in zip(whole, shards, strict=True):
        column[members] = shard.rows[name]
    return column


def _statistics(count: int, sums: np.ndarray, squares: np.ndarray) -> tuple[float, float]:
    """Return the mean and standard deviation of `count` values from the sums (U,) of utterances.

    Sums are added in row order, so that the division into shards changes no bit.
    """
    total, of_squares = (float(np.cumsum(values)[-1]) for values in (sums, squares))
    mean = total / count
    return mean, max(of_squares / count - mean**2, 0.0) ** 0.5
