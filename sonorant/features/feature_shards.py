"""Compute the features of one shard and write it to the store."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch

import sonorant.audio
import sonorant.corpus.short_clips
import sonorant.corpus.sound
import sonorant.text
from sonorant.audio.mel import MelConfig, frames_of, log_mel
from sonorant.audio.pitch import track_pitch
from sonorant.corpus.cache import code_of, key_of
from sonorant.corpus.manifest import Utterance
from sonorant.corpus.short_clips import ShortClip, cut, phonemes_of
from sonorant.corpus.sound import read_sound
from sonorant.errors import SonorantError
from sonorant.features.array_file import ArrayWriter
from sonorant.features.feature_store import ARRAYS, MELS, TOKENS, arrays_of
from sonorant.features.store import open_store
from sonorant.features.store.shard_files import Shard, write_shard
from sonorant.files import sha256_file
from sonorant.text import Frontend, SymbolTable, TextConfig, frontend_description

VERSION = 1
"""Increase this version if shards change for a reason that `_code` does not cover."""
Row = Utterance | ShortClip
FRAMES, COUNT, SUM, SQUARES = "frames", "tokens", "sum", "squares"
"""Keys in a shard's rows: number of frames and tokens, sum of mel values and of their squares."""


@dataclass(frozen=True)
class Job:
    corpus: Path
    store: str
    audio: MelConfig
    text: TextConfig


def utterance_of(row: Row) -> Utterance:
    return row.utterance if isinstance(row, ShortClip) else row


def shard_keys(job: Job, shards: Sequence[Sequence[Row]], frontend: Frontend) -> list[str]:
    """Return each shard's key: a hash of its rows, settings and source code, excluding speakers, splits and ids."""
    settings = [VERSION, _code(), dataclasses.asdict(job.audio), frontend_description(frontend)]
    shared = key_of(*settings)
    return [key_of(shared, [_described(job.corpus, row) for row in rows]) for rows in shards]


@cache
def _code() -> str:
    here = sys.modules[__name__]
    return code_of(here, sonorant.audio, sonorant.text, sonorant.corpus.sound, sonorant.corpus.short_clips)


def _described(corpus: Path, row: Row) -> list[Any]:
    utterance = utterance_of(row)
    file = corpus / str(utterance.audio)
    sha256 = utterance.sha256 or (sha256_file(file) if file.is_file() else None)
    conditioning = utterance.conditioning and dataclasses.asdict(utterance.conditioning)
    described: list[Any] = [sha256, utterance.start, utterance.end, conditioning, utterance.text, utterance.language]
    if isinstance(row, ShortClip):
        described += [row.words.start, row.words.stop, row.before, row.after]
    return described


def write(job: Job, work: tuple[str, list[Row]]) -> Shard:
    """Compute a shard from its key and rows, and write it. Raises SonorantError if an utterance has no audio or
    text."""
    key, rows = work
    store, arrays = open_store(job.store), arrays_of(job.audio)
    known: dict[str, list[Any]] = {FRAMES: [], COUNT: [], SUM: [], SQUARES: []}
    with store.draft() as folder:
        files = {name: folder / f"{name}.npy" for name in ARRAYS}
        with ExitStack() as stack:
            writers = {name: stack.enter_context(ArrayWriter(files[name], *arrays[name])) for name in ARRAYS}
            for row in rows:
                features = features_of(job, row)
                for name, array in features.items():
                    writers[name].append(array)
                values = features[MELS].astype(np.float64)
                known[FRAMES].append(len(values))
                known[COUNT].append(len(features[TOKENS]))
                known[SUM].append(float(values.sum()))
                known[SQUARES].append(float(np.square(values).sum()))
        return write_shard(store, key, files, known)


@lru_cache
def _frontend(text: TextConfig, language: str) -> tuple[Frontend, SymbolTable]:
    frontend = text.load(language)
    return frontend, SymbolTable(frontend.symbols)


def features_of(job: Job, row: Row) -> dict[str, np.ndarray]:
    """Return the arrays of one row, see `arrays_of`. The mel is computed from 16-bit samples."""
    utterance, audio = utterance_of(row), job.audio
    frontend, symbols = _frontend(job.text, utterance.language)
    named, repair = f"features: utterance '{utterance.id}'", "run: dvc repro prepare"
    phonemes = frontend.speak(utterance.text).phonemes
    if not phonemes:
        raise SonorantError(f"{named}: nothing in {utterance.text!r} can be spoken; {repair}")
    heard, _ = read_sound(job.corpus, utterance, audio.sample_rate)
    if not len(heard) or not np.isfinite(heard).all():
        raise SonorantError(f"{named}: {utterance.audio} is empty or not finite; {repair}")
    if isinstance(row, ShortClip):
        heard = cut(heard, audio.sample_rate, row)
        try:
            phonemes = phonemes_of(phonemes, row.words)
        except ValueError as error:
            raise SonorantError(f"{named}: {error}, unlike in the audit; run: dvc repro audit") from None
    samples = np.zeros(frames_of(len(heard), audio) * audio.hop, dtype=np.int16)
    samples[: len(heard)] = np.clip(np.rint(heard * 32768.0), -32768, 32767)
    mel = log_mel(torch.from_numpy(samples.astype(np.float32) / 32768.0), audio)
    pitch = track_pitch(heard, audio.sample_rate, audio.hop, mel.shape[1])
    arrays = mel.T.numpy().astype(np.float16), pitch.astype(np.float16), samples, symbols.to_tokens(phonemes)
    return dict(zip(ARRAYS, arrays, strict=True))
