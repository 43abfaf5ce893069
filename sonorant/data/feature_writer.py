"""Compute the features of accepted utterances in several processes, and write the feature store.

The arrays are streamed to disk in the manifest's order: memory does not grow with the corpus, and the store does not
depend on the number of processes.
"""

from __future__ import annotations

import dataclasses
import multiprocessing
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
import torch
from tqdm import tqdm

from sonorant.audio.mel import MelConfig, frames_of, log_mel
from sonorant.audio.pitch import ROWS, track_pitch
from sonorant.data.array_file import ArrayWriter, content_hash
from sonorant.data.features import AUDIO, MELS, PITCH, TOKENS, VERSION
from sonorant.data.index import IndexWriter
from sonorant.data.manifest import SPLITS, Utterance
from sonorant.data.short_clips import ShortClip, cut, phonemes_of
from sonorant.data.sound import read_sound
from sonorant.errors import SonorantError
from sonorant.files import atomic_folder, write_json
from sonorant.processes import usable_cores
from sonorant.text import Frontend, SymbolTable, TextConfig, frontend_description

_IN_FLIGHT_PER_PROCESS = 8
_Row = Utterance | ShortClip


@dataclass(frozen=True)
class _Job:
    corpus: Path
    audio: MelConfig
    text: TextConfig


@dataclass(frozen=True)
class _Features:
    mel: np.ndarray  # float16 (T, M)
    pitch: np.ndarray  # float16 (T, 2)
    samples: np.ndarray  # int16 (T * hop,)
    tokens: np.ndarray  # int16 (N, 3)


def write_features(
    corpus: Path,
    utterances: list[Utterance],
    out: Path,
    audio: MelConfig,
    text: TextConfig,
    processes: int | None = None,
    short_clips: Sequence[ShortClip] = (),
) -> None:
    """Write the feature store `out` of `utterances`, whose audio lies in the folder `corpus`, and after them of
    `short_clips` of theirs, atomically.

    `processes`: None = one per usable core. Raises SonorantError naming the utterance whose audio cannot be read, whose
    text is silent or whose split is missing, and for a corpus without a training split or with two languages.
    """
    language = _check(utterances)
    frontend = text.load(language)
    speakers = sorted({utterance.speaker for utterance in utterances})
    speaker_ids = {speaker: number for number, speaker in enumerate(speakers)}
    job = _Job(corpus, audio, text)
    statistics = _Statistics()
    with atomic_folder(out) as folder, ExitStack() as stack:
        index = stack.enter_context(IndexWriter(folder))
        mels = stack.enter_context(ArrayWriter(folder / MELS, np.float16, (audio.n_mels,)))
        pitch = stack.enter_context(ArrayWriter(folder / PITCH, np.float16, (ROWS,)))
        samples = stack.enter_context(ArrayWriter(folder / AUDIO, np.int16))
        tokens = stack.enter_context(ArrayWriter(folder / TOKENS, np.int16, (3,)))
        rows: list[_Row] = [*utterances, *short_clips]
        for row, features in zip(rows, _computed(job, rows, processes), strict=True):
            utterance = _utterance_of(row)
            index.append(
                id=row.id,
                split=SPLITS.index(str(utterance.split)),
                speaker=speaker_ids[utterance.speaker],
                frames=len(features.mel),
                tokens=len(features.tokens),
            )
            if utterance.split == "train":
                statistics.add(features.mel)
            mels.append(features.mel)
            pitch.append(features.pitch)
            samples.append(features.samples)
            tokens.append(features.tokens)
        stack.close()
        header = {
            "version": VERSION,
            "audio": dataclasses.asdict(audio),
            "frontend": frontend_description(frontend),
            "symbols": list(frontend.symbols),
            "speakers": speakers,
            "splits": list(SPLITS),
            "mel_mean": statistics.mean,
            "mel_std": statistics.std,
            "content": content_hash([array.sha256 for array in (mels, pitch, samples, tokens)]),
            "index": index.content,
        }
        write_json(folder / "header.json", header)


def _check(utterances: list[Utterance]) -> str:
    """Check that the utterances can form a store; return their one language."""
    if not any(utterance.split == "train" for utterance in utterances):
        raise SonorantError(f"features: none of {len(utterances)} utterances is in the training split; see the report")
    for utterance in utterances:
        if utterance.split is None or utterance.audio is None:
            raise SonorantError(f"features: utterance '{utterance.id}' has no split or audio; run: dvc repro prepare")
    languages = sorted({utterance.language for utterance in utterances})
    if len(languages) > 1:
        raise SonorantError(f"features: the corpus mixes the languages {', '.join(languages)}; a voice has only one")
    return languages[0]


def _utterance_of(row: _Row) -> Utterance:
    return row.utterance if isinstance(row, ShortClip) else row


def _computed(job: _Job, rows: list[_Row], processes: int | None) -> Iterator[_Features]:
    """Features in the order of the rows, few of them pending per process, so that memory stays small."""
    processes = min(processes or usable_cores(), len(rows))
    seconds = [_utterance_of(row).seconds or 0 for row in rows]
    with tqdm(total=sum(seconds) or None, unit=" audio s", unit_scale=True, desc="features") as bar:
        for read, features in zip(seconds, _in_order(job, rows, processes), strict=True):
            yield features
            bar.update(read)


def _in_order(job: _Job, rows: Iterable[_Row], processes: int) -> Iterator[_Features]:
    if processes == 1:
        yield from (_worker(job, row) for row in rows)
        return
    # Spawned, not forked: a fork copies the locks of torch's threads, but not the threads.
    context = multiprocessing.get_context("spawn")
    pending: deque[Future[_Features]] = deque()
    with ProcessPoolExecutor(processes, mp_context=context, initializer=torch.set_num_threads, initargs=(1,)) as pool:
        try:
            for row in rows:
                pending.append(pool.submit(_worker, job, row))
                if len(pending) >= processes * _IN_FLIGHT_PER_PROCESS:
                    yield pending.popleft().result()
            while pending:
                yield pending.popleft().result()
        except BrokenProcessPool:
            raise SonorantError("features: a worker died (out of memory?); run again with fewer --processes") from None
        finally:
            pool.shutdown(cancel_futures=True)


def _worker(job: _Job, row: _Row) -> _Features:
    return _features_of(job.corpus, row, job.audio, _frontend(job.text, _utterance_of(row).language))


@lru_cache
def _frontend(text: TextConfig, language: str) -> tuple[Frontend, SymbolTable]:
    frontend = text.load(language)
    return frontend, SymbolTable(frontend.symbols)


def _features_of(corpus: Path, row: _Row, audio: MelConfig, speaking: tuple[Frontend, SymbolTable]) -> _Features:
    """Features of one utterance or short clip; the mel is computed from the stored 16-bit samples."""
    frontend, symbols = speaking
    utterance = _utterance_of(row)
    named, repair = f"features: utterance '{utterance.id}'", "run: dvc repro prepare"
    phonemes = frontend.speak(utterance.text).phonemes
    if not phonemes:
        raise SonorantError(f"{named}: nothing in {utterance.text!r} can be spoken; {repair}")
    heard, _ = read_sound(corpus, utterance, audio.sample_rate)
    if not len(heard) or not np.isfinite(heard).all():
        raise SonorantError(f"{named}: {utterance.audio} is empty or not finite; {repair}")
    if isinstance(row, ShortClip):
        heard = cut(heard, audio.sample_rate, row)
        try:
            phonemes = phonemes_of(phonemes, row.words)
        except ValueError as error:
            raise SonorantError(f"{named}: {error} as the audit found; run: dvc repro audit") from None
    samples = np.zeros(frames_of(len(heard), audio) * audio.hop, dtype=np.int16)
    samples[: len(heard)] = np.clip(np.rint(heard * 32768.0), -32768, 32767)
    mel = log_mel(torch.from_numpy(samples.astype(np.float32) / 32768.0), audio)
    pitch = track_pitch(heard, audio.sample_rate, audio.hop, mel.shape[1])
    return _Features(mel.T.numpy().astype(np.float16), pitch.astype(np.float16), samples, symbols.to_tokens(phonemes))


class _Statistics:
    """Mean and standard deviation over all values of the mels added."""

    def __init__(self) -> None:
        self._count, self._sum, self._squares = 0, 0.0, 0.0

    def add(self, mel: np.ndarray) -> None:
        values = mel.astype(np.float64)
        self._count += values.size
        self._sum += float(values.sum())
        self._squares += float(np.square(values).sum())

    @property
    def mean(self) -> float:
        return self._sum / self._count

    @property
    def std(self) -> float:
        return max(self._squares / self._count - self.mean**2, 0.0) ** 0.5
