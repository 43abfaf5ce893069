"""A corpus of tones, one a phoneme, written as a feature store: data for measurements that need no recordings.

    python -m testbed.synthetic_corpus FOLDER --hours 2

Needs torch and numpy alone, so that it can be made on a machine that only trains. Not speech: nothing is to be learned
of quality.
"""

import argparse
import dataclasses
from pathlib import Path

import numpy as np
import torch

from sonorant.audio.mel import MelConfig, frames_of, log_mel
from sonorant.audio.pitch import HIGHEST, REFERENCE
from sonorant.corpus.cache import key_of
from sonorant.features.feature_store import ARRAYS, objects_of, write_store
from sonorant.features.grouping import leaves
from sonorant.features.index import Rows
from sonorant.features.store import StoreConfig, open_store
from sonorant.features.store.marks import mark
from sonorant.features.store.shard_files import write_shard
from sonorant.text.frontend import Phoneme, SymbolTable

SPEECH = MelConfig(sample_rate=22050, n_fft=1024, hop=256, n_mels=80, f_min=0.0, f_max=8000.0)
"""The mel of LJSpeech's recipes."""
TINY = MelConfig(sample_rate=8000, n_fft=256, hop=64, n_mels=20, f_min=0.0, f_max=4000.0)
"""A mel that trains in seconds."""
SYMBOLS = tuple("abcdefghijklmnopqrstuvwxyz")
TONES_PER_SECOND = 12.0
"""About as many as a speaker's phonemes."""
VALIDATION = 0.2
"""Share of the utterances to validate with, at least one and at most 100."""


def write_corpus(
    out: Path,
    audio: MelConfig,
    utterances: int,
    seconds: tuple[float, float],
    seed: int = 0,
    config: StoreConfig | None = None,
) -> None:
    """Write a feature store of `utterances`, lengths drawn evenly from `seconds`, spoken by two voices in turn; its
    shards beside it if `config` names no store."""
    config = config or store_beside(out)
    random = np.random.default_rng(seed)
    table = SymbolTable(SYMBOLS)
    held_out = min(100, max(1, round(VALIDATION * utterances)))
    mels, pitch, samples, tokens = [], [], [], []
    for _ in range(utterances):
        spoken = random.integers(0, len(SYMBOLS), max(2, round(random.uniform(*seconds) * TONES_PER_SECOND)))
        wave, hertz = _tones(spoken, audio, random)
        mel = log_mel(torch.from_numpy(wave.astype(np.float32) / 32768.0), audio).T.numpy().astype(np.float16)
        phonemes = [Phoneme(SYMBOLS[symbol], place % 3, place % 4 == 0) for place, symbol in enumerate(spoken)]
        ids = table.to_tokens(phonemes)
        mels.append(mel)
        octaves = np.log2(np.minimum(hertz[:: audio.hop], HIGHEST) / REFERENCE)
        pitch.append(np.stack([octaves, np.ones(len(mel))], axis=1).astype(np.float16))
        samples.append(wave)
        tokens.append(ids)
    train = np.concatenate(mels[: utterances - held_out]).astype(np.float64)
    names, numbers = [f"u{number:05d}" for number in range(utterances)], np.arange(utterances)
    shards = leaves(names, config.utterances_per_shard)
    keys = [key_of(audio.sample_rate, seconds, seed, utterances, members.tolist()) for members in shards]
    store, written = open_store(config.place), []
    mark(store, keys)
    for key, members in zip(keys, shards, strict=True):
        with store.draft() as draft:
            files = {name: draft / f"{name}.npy" for name in ARRAYS}
            for name, arrays in zip(ARRAYS, (mels, pitch, samples, tokens), strict=True):
                np.save(files[name], np.ascontiguousarray(np.concatenate([arrays[place] for place in members])))
            written.append(write_shard(store, key, files, {}))
    index = Rows(
        ids=names,
        split=(numbers >= utterances - held_out).astype(np.uint8),
        speaker=numbers % 2,
        frames=np.array([len(mel) for mel in mels]),
        tokens=np.array([len(ids) for ids in tokens]),
        shards=shards,
        objects=objects_of(written),
    )
    described = {
        "audio": dataclasses.asdict(audio),
        "frontend": {"name": "gruut", "version": "none", "language": "en-us", "rules": 1},
        "symbols": list(SYMBOLS),
        "speakers": ["high", "low"],
        "splits": ["train", "validation", "test"],
        "mel_mean": float(train.mean()),
        "mel_std": float(train.std()),
    }
    write_store(out, config.as_place(), keys, index, described)


def store_beside(out: Path, utterances: int = 8) -> StoreConfig:
    """A store in a folder beside `out`, with shards of a few `utterances`."""
    beside = out.parent.absolute()
    place, cache = str(beside / f"{out.name}-store"), str(beside / "cache")
    return StoreConfig(place=place, utterances_per_shard=utterances, cache=cache, cache_gib=1.0)


def _tones(spoken: np.ndarray, audio: MelConfig, random: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """int16 (S,), S a whole number of hops: a decaying tone a symbol, in a little noise; and its pitch in Hz (S,)."""
    phrases, hertz = [], []
    for symbol in spoken:
        time = np.arange(int(audio.sample_rate / TONES_PER_SECOND * random.uniform(0.7, 1.3))) / audio.sample_rate
        pitch = 0.9 * audio.f_max * (0.05 + 0.95 * symbol / len(SYMBOLS))
        phrases.append(0.3 * np.sin(2 * np.pi * pitch * time) * np.exp(-6.0 * time))
        hertz.append(np.full(len(time), pitch))
    wave = np.concatenate(phrases)
    missing = frames_of(len(wave), audio) * audio.hop - len(wave)
    wave, pitches = np.pad(wave, (0, missing)), np.pad(np.concatenate(hertz), (0, missing), mode="edge")
    noisy = wave + 0.003 * random.standard_normal(len(wave))
    return np.clip(np.rint(32768.0 * noisy), -32768, 32767).astype(np.int16), pitches


def main() -> None:
    """Write a corpus of the length distribution of read sentences."""
    parser = argparse.ArgumentParser("python -m testbed.synthetic_corpus", description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path, metavar="FOLDER", help="feature store to write")
    parser.add_argument("--hours", type=float, default=1.0, help="length of the corpus (default 1)")
    arguments = parser.parse_args()
    seconds = (1.5, 10.0)
    write_corpus(arguments.out, SPEECH, round(arguments.hours * 3600 / (sum(seconds) / 2)), seconds)


if __name__ == "__main__":
    main()
