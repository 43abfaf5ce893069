"""How fast is the stage `features`, in audio-seconds per second and core, and which part takes the time?

Claims that the project's mel is at least as fast as `torch.stft` with all filters written out, and that its phonemes
are made at least twice as fast as by unmodified gruut. Each pair is measured alternately. Without `--corpus` flite
speaks the demo's prompts.
"""

import tempfile
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import TypeVar

import numpy as np
import torch

from benchmarks.processes import ask
from benchmarks.report import command, finish, options
from sonorant.audio.mel import FLOOR, MelConfig, filters_of, log_mel
from sonorant.corpus.importers import CorpusConfig, import_corpus
from sonorant.corpus.manifest import Utterance, read_manifest
from sonorant.corpus.sound import read_sound
from sonorant.errors import SonorantError
from sonorant.features.feature_writer import write_features
from sonorant.text import TextConfig, load_frontend
from tasks.params import load
from tasks.stage import run
from testbed.synthetic_corpus import store_beside

REPETITIONS = 5
FASTER = {"mel": 1.0, "text": 2.0}
"""Minimum speed of mels relative to torch's plain mel, and of phonemes relative to gruut."""
SHORT = {"utterances": 4}

Item = TypeVar("Item")
Result = TypeVar("Result")


def main() -> None:
    parser = command(__doc__)
    add = parser.add_argument
    add("--corpus", type=Path, help="folder written by tasks.corpus; without it a small corpus is made")
    add("--prepared", type=Path, help="folder written by tasks.prepare, with manifest.jsonl")
    add("--utterances", type=int, default=60, help="how many utterances to measure (default 60)")
    arguments = options(parser, SHORT)
    if (arguments.corpus is None) != (arguments.prepared is None):
        parser.error("give both --corpus and --prepared, or neither")
    if arguments.utterances < 1:
        parser.error("--utterances must be at least 1")
    torch.set_num_threads(1)  # everything is measured on one core
    with tempfile.TemporaryDirectory() as scratch:
        folder = arguments.corpus or Path(scratch) / "corpus"
        if arguments.corpus is None:
            prompts = load("corpus", CorpusConfig).path
            import_corpus(Path(prompts), folder, CorpusConfig(kind="demo", sentences=arguments.utterances))
        utterances = read_manifest((arguments.prepared or folder) / "manifest.jsonl")[: arguments.utterances]
        result, claims = measure(folder, utterances, Path(scratch) / "features")
    source = "given" if arguments.corpus else "flite"
    finish("features", {"corpus": source} | result, claims, arguments)


def measure(folder: Path, utterances: list[Utterance], out: Path) -> tuple[dict[str, object], dict[str, bool]]:
    """Audio-seconds per second on one core for each part and the whole stage, and the claims."""
    if not utterances:
        raise SonorantError("benchmark: the manifest holds no utterance; run: dvc repro prepare")
    audio, text = load("audio", MelConfig), load("text", TextConfig)
    frontend = load_frontend(text.frontend, utterances[0].language)
    reading, recordings = timed(lambda u: read_sound(folder, u, audio.sample_rate)[0], utterances)
    seconds = sum(map(len, recordings)) / audio.sample_rate
    frontend.speak("Warm.")
    spoken = {"texts": [u.text for u in utterances], "language": frontend.language}
    took: dict[str, list[float]] = {name: [] for name in ("text", "text_gruut", "mel", "mel_torch")}
    for _ in range(REPETITIONS):  # alternating, so that other work affects all alike
        took["text"].append(timed(lambda u: frontend.speak(u.text), utterances)[0])
        took["text_gruut"].append(ask("benchmarks.corpus.plain_gruut", "speak", job=spoken))
        took["mel"].append(timed(lambda samples: log_mel(torch.from_numpy(samples), audio), recordings)[0])
        took["mel_torch"].append(timed(lambda samples: plain_log_mel(samples, audio), recordings)[0])
    training = [replace(u, split="train") for u in utterances]  # the first utterances may all be in another split
    store = store_beside(out, 128)
    whole, _ = timed(lambda _: write_features(folder, training, out, audio, text, 1, store=store), [None])
    parts = {"read": reading, **{name: median(all_) for name, all_ in took.items()}, "stage": whole}
    faster = {
        name: round(median(plain / ours for ours, plain in zip(took[name], took[than], strict=True)), 2)
        for name, than in (("text", "text_gruut"), ("mel", "mel_torch"))
    }
    result = {
        "utterances": len(utterances),
        "audio_seconds": round(seconds, 1),
        "audio_seconds_per_second_per_core": {name: round(seconds / took, 1) for name, took in parts.items()},
        "times_as_fast_as_plain": faster,
    }
    claims = {
        f"mel is at least {FASTER['mel']:g} times as fast as plain torch.stft": faster["mel"] >= FASTER["mel"],
        f"phonemes are made at least {FASTER['text']:g} times as fast as by gruut": faster["text"] >= FASTER["text"],
    }
    return result, claims


def timed(function: Callable[[Item], Result], items: Iterable[Item]) -> tuple[float, list[Result]]:
    start = time.thread_time()
    results = [function(item) for item in items]
    return time.thread_time() - start, results


def plain_log_mel(samples: np.ndarray, config: MelConfig) -> torch.Tensor:
    """The same log-mel (M, T) by torch's own functions."""
    short = -len(samples) % config.hop
    whole = torch.nn.functional.pad(torch.from_numpy(samples)[None], (0, short))
    padded = torch.nn.functional.pad(whole[None], [(config.n_fft - config.hop) // 2] * 2, mode="reflect")[0]
    window = torch.hann_window(config.n_fft)
    spectrum = torch.stft(padded, config.n_fft, config.hop, window=window, center=False, return_complex=True)[0]
    return torch.log(torch.clamp(filters_of(config, spectrum.device) @ spectrum.abs(), min=FLOOR))


if __name__ == "__main__":
    run(main)
