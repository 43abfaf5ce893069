"""How fast the stage `features` is, and which part takes the time, in audio-seconds per second and core.

Claims that the project's mel is at least as fast as a plain loop of NumPy Fourier transforms over the frames, measured
beside it, and gives the same values.
"""

import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any, TypeVar

import numpy as np
import torch

from benchmarks.report import command, finish, options
from sonorant.audio.mel import FLOOR, MelConfig, log_mel, mel_filterbank
from sonorant.audio.wav import write_wav
from sonorant.data.feature_writer import write_features
from sonorant.data.manifest import Utterance, read_manifest
from sonorant.data.sound import read_sound
from sonorant.errors import SonorantError
from sonorant.text import TextConfig, load_frontend
from tasks.params import load
from tasks.stage import run

PROMPTS = (
    "The old lighthouse keeper counted {} ships before the fog came in.",
    "Nobody noticed that the {} clocks in the hall had stopped at noon.",
    "She packed {} oranges, a warm coat, and a map of the northern islands.",
    "Why would a careful gardener plant {} tulips beside the railway?",
)
REPETITIONS = 5
SHORT = {"utterances": 4}

Item = TypeVar("Item")
Result = TypeVar("Result")


def main() -> None:
    """Measure on a prepared corpus, or on a small one made here."""
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
            utterances, source = make_corpus(folder, arguments.utterances)
        else:
            utterances, source = read_manifest(arguments.prepared / "manifest.jsonl")[: arguments.utterances], "given"
        result, claims = measure(folder, utterances, Path(scratch) / "features")
    finish("features", {"corpus": source, **result}, claims, arguments)


def measure(folder: Path, utterances: list[Utterance], out: Path) -> tuple[dict[str, object], dict[str, bool]]:
    """Audio-seconds per second on one core for each part and for the whole stage, and the claims."""
    if not utterances:
        raise SonorantError("benchmark: the manifest holds no utterance; run: dvc repro prepare")
    audio, text = load("audio", MelConfig), load("text", TextConfig)
    frontend = load_frontend(text.frontend, utterances[0].language)
    reading, recordings = timed(lambda u: read_sound(folder, u, audio.sample_rate)[0], utterances)
    seconds = sum(map(len, recordings)) / audio.sample_rate
    frontend.speak("Warm.")
    speaking, _ = timed(lambda u: frontend.speak(u.text), utterances)
    ours, theirs = [], []
    mels: list[torch.Tensor] = []
    references: list[np.ndarray] = []
    for _ in range(REPETITIONS):  # taken in turns, so that a busy neighbour disturbs both alike
        duration, mels = timed(lambda samples: log_mel(torch.from_numpy(samples), audio), recordings)
        ours.append(duration)
        duration, references = timed(lambda samples: looped_log_mel(samples, audio), recordings)
        theirs.append(duration)
    pairs = zip(mels, references, strict=True)
    difference = max(float(np.abs(mel.numpy() - reference).max()) for mel, reference in pairs)
    training = [replace(u, split="train") for u in utterances]  # the first of a corpus may all be of another split
    whole, _ = timed(lambda _: write_features(folder, training, out, audio, text, processes=1), [None])
    parts = {"read": reading, "text": speaking, "mel": median(ours), "mel_numpy_loop": median(theirs), "stage": whole}
    result = {
        "utterances": len(utterances),
        "audio_seconds": round(seconds, 1),
        "audio_seconds_per_second_per_core": {name: round(seconds / took, 1) for name, took in parts.items()},
        "mel_max_abs_diff": difference,
    }
    claims = {
        "mel is at least as fast as a loop of numpy.fft.rfft over the frames": median(ours) <= median(theirs),
        "mel differs from that loop by less than 0.01": difference < 0.01,
    }
    return result, claims


def timed(function: Callable[[Item], Result], items: Iterable[Item]) -> tuple[float, list[Result]]:
    """Processor seconds of this thread that the calls took, and their results."""
    start = time.thread_time()
    results = [function(item) for item in items]
    return time.thread_time() - start, results


def looped_log_mel(samples: np.ndarray, config: MelConfig) -> np.ndarray:
    """The same log-mel (M, T) as a plain loop over frames."""
    frames = -(-len(samples) // config.hop)
    whole = np.pad(samples, (0, frames * config.hop - len(samples)))
    padded = np.pad(whole, (config.n_fft - config.hop) // 2, mode="reflect")
    window = np.hanning(config.n_fft + 1)[:-1].astype(np.float32)
    filters = mel_filterbank(config)
    columns = [filters @ np.abs(np.fft.rfft(window * padded[t * config.hop :][: config.n_fft])) for t in range(frames)]
    return np.log(np.maximum(np.stack(columns, axis=1), FLOOR))


def make_corpus(folder: Path, count: int) -> tuple[list[Utterance], str]:
    """`count` utterances spoken by flite, or noise of that length if flite is absent; and which of the two."""
    flite = shutil.which("flite")
    if flite is None:
        print("flite is not installed: measuring on noise instead of speech", file=sys.stderr)
    (folder / "audio").mkdir(parents=True)
    utterances = []
    for number in range(count):
        text = PROMPTS[number % len(PROMPTS)].format(number + 2)
        file = folder / "audio" / f"u{number:03}.wav"
        if flite:
            subprocess.run([flite, "-voice", "rms", "-t", text, "-o", str(file)], check=True)
        else:
            noise = np.random.default_rng(number).uniform(-0.3, 0.3, 16000 * len(text) // 15)
            write_wav(file, noise.astype(np.float32), 16000)
        said: dict[str, Any] = {"text": text, "speaker": "demo", "language": "en-us", "split": "train"}
        utterances.append(Utterance(id=file.stem, audio=f"audio/{file.name}", **said))
    return utterances, "flite" if flite else "noise"


if __name__ == "__main__":
    run(main)
