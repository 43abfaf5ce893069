import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from sonorant.audio.mel import MelConfig
from sonorant.audio.wav import write_wav
from sonorant.corpus.manifest import Utterance
from sonorant.features.feature_writer import write_features
from sonorant.files import read_json
from sonorant.speech.bundle import content_hash, read_bundle
from sonorant.text import TextConfig
from tasks.params import load
from testbed.synthetic_corpus import store_beside
from tests.export.planted import CONSTANT, plant
from tests.support.command import run_command
from tests.support.stores import rows_of

ROOT = Path(__file__).parents[2]
TEXTS = [
    "No.", "Come in.", "What is it?", "The kettle sings.", "She walked along the river.",
    "We never saw the old boat again, did we?",
    "A narrow path led through the wood to a small white house.",
    "On Monday the post came late, because the bridge was under water.",
    "He wrote three letters, sealed them with red wax, and left them on the table for the boy to find in the morning.",
]  # fmt: skip


@pytest.fixture(scope="module")
def features(murmur: Callable[..., np.ndarray], tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("store")
    utterances = []
    for number, text in enumerate(TEXTS):
        write_wav(folder / f"{number}.wav", murmur(1.0, number), 16000)
        words = {"text": text, "spoken": text, "speaker": "anna", "language": "en-us", "split": "train"}
        utterances.append(Utterance(id=str(number), audio=f"{number}.wav", **words))
    audio = load("audio", MelConfig, ROOT / "params.yaml")
    store = store_beside(folder / "features")
    write_features(folder, utterances, folder / "features", audio, TextConfig(frontend="gruut"), 1, store=store)
    return folder / "features"


def arguments(trained: tuple[Path, Path], features: Path, out: Path) -> list[str]:
    return f"--predictor {trained[0]} --waveform {trained[1]} --features {features} --out {out}".split()


def verify(voice: Path, trained: tuple[Path, Path], features: Path, out: Path) -> subprocess.CompletedProcess[str]:
    return run_command("tasks.verify", "--voice", voice, *arguments(trained, features, out), cwd=ROOT)


def test_report_covers_one_phoneme_to_the_longest(
    voice_bundle: Path, trained: tuple[Path, Path], features: Path, tmp_path: Path
) -> None:
    done = verify(voice_bundle, trained, features, tmp_path / "parity.json")
    assert done.returncode == 0, done.stderr
    everything = read_json(tmp_path / "parity.json")
    assert done.stdout.splitlines()[0] == "onnxruntime/fp32: passed"
    assert everything["torch/fp32"]["passed"]
    assert everything["tensorrt/fp32"].startswith("not run: ")
    [line] = [line for line in done.stdout.splitlines() if "not run" in line]
    assert "tensorrt" in line and "tensorrt/" not in line and line.endswith(f"why: {tmp_path / 'parity.json'}")
    report = everything["onnxruntime/fp32"]["graphs"]
    longest = max(row["tokens"] for row in rows_of(features))
    alone = [case["length"] for case in report["encoder"]["cases"] if case["batch"] == 1]
    assert len(set(alone)) >= 8 and (min(alone), max(alone)) == (3, longest)


@pytest.mark.long  # two whole exports
def test_the_export_stage_in_two_processes_gives_the_same_bundle(
    trained: tuple[Path, Path], features: Path, tmp_path: Path
) -> None:
    report = ["--report", str(tmp_path / "precision.json")]
    here, there = ([*arguments(trained, features, tmp_path / name), *report] for name in ("here", "there"))
    command, env = [sys.executable, "-m", "tasks.export", *there], os.environ | {"PYTHONHASHSEED": "7"}
    elsewhere = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True)
    for done in (run_command("tasks.export", *here, cwd=ROOT), elsewhere):
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    bundles = [read_bundle(tmp_path / name) for name in ("here", "there")]
    assert content_hash(bundles[0]) == content_hash(bundles[1])
    assert bundles[0].description.lengths.tokens[-1] == max(row["tokens"] for row in rows_of(features))


def test_a_fault_is_one_line_and_no_report(
    voice_bundle: Path, trained: tuple[Path, Path], features: Path, tmp_path: Path
) -> None:
    faulty = plant(voice_bundle, "vocoder", "fp32", CONSTANT, tmp_path / "planted")
    done = verify(faulty.folder, trained, features, tmp_path / "parity.json")
    assert done.returncode == 1
    assert "error: onnxruntime/fp32: values: graph vocoder, output samples, length" in done.stderr.splitlines()[-1]
    assert not (tmp_path / "parity.json").exists()
