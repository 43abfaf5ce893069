"""The journeys in docs/DESIGN.md name every file in which a function runs."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import soundfile
import yaml

from sonorant.export.choice import ChooseConfig, choose
from sonorant.speech import Voice
from tasks.params import load
from testbed.tiny_training import tiny_recipe
from tests.export.choice.figures import figures, variant
from tests.support.imports import ROOT
from tests.support.journey import Journey
from tests.support.serving import ask, started
from tests.training.trainings import trainer_of

DESIGN = (ROOT / "docs/DESIGN.md").read_text(encoding="utf-8")
SENTENCE = "Good morning, Dr. Smith, it is 9 o'clock."


def named(title: str) -> set[str]:
    """Files that a journey of the page names; `a/{b,c}.py` means two."""
    section = DESIGN.split(f"### {title}\n", 1)[1].split("\n## ", 1)[0].split("\n### ", 1)[0]
    found = re.findall(r"`((?:sonorant|tasks|flows)/\S*?)(?:\{(\S+)\})?(\.py)`", section)
    return {start + name + end for start, names, end in found for name in names.split(",")}


def test_a_sentence_passes_these_files(voice_bundle: Path, tmp_path: Path) -> None:
    voice, journey = Voice.load(voice_bundle), Journey(tmp_path)
    voice.say("Warm up.")
    with journey.on():
        voice.say(SENTENCE)
    assert journey.files == named("A sentence")


def test_a_batch_passes_these_files(features: Path, tmp_path: Path, alone: None) -> None:
    trainer = trainer_of(tiny_recipe("acoustic", features, precision="fp32"), tmp_path / "run")
    journey = Journey(tmp_path)
    trainer.trained.set_precision("fp32")
    steps = trainer.steps()
    trainer.take_step(*next(steps))
    with journey.on():
        trainer.take_step(*next(steps))
    assert journey.files == named("A batch")


def test_a_request_passes_these_files(voice_bundle: Path, tmp_path: Path) -> None:
    """From HTTP to samples; the sentence's own files are those of its journey."""
    journey = Journey(tmp_path)
    body = json.dumps({"model": "tiny", "voice": "anna", "input": SENTENCE, "response_format": "wav"}).encode()
    with started(f"tiny={voice_bundle}", env=os.environ | journey.environment) as (_, url):
        assert ask(url, "/v1/audio/speech", body).read()
        with journey.on():
            assert ask(url, "/v1/audio/speech", body).read()
    clock = "sonorant/serving/server.py"  # polls the registry and idle voices, by chance during the request
    assert journey.files - named("A sentence") - {clock} == named("A request")


def test_a_recording_passes_these_files(tmp_path: Path, murmur: Callable[..., np.ndarray]) -> None:
    """From a corpus in the layout of LJSpeech to shards, without the audit."""
    journey, corpus = Journey(tmp_path), tmp_path / "corpus"
    (corpus / "wavs").mkdir(parents=True)
    texts = (
        "Many people like apples.",
        "Small plums need much sun.",
        "Good fruit is yellow.",
        "He likes plums better.",
    )
    with (corpus / "metadata.csv").open("w", encoding="utf-8") as table:
        for number, text in enumerate(texts):
            soundfile.write(corpus / f"wavs/{number}.wav", murmur(2.0, number), 16000)
            table.write(f"{number}|{text}|{text}\n")
    settings = {
        "corpus": {"kind": "ljspeech", "path": "corpus"},
        "prepare": {"validation": 0.25, "test": 0.25},
    }
    (tmp_path / "params.yaml").write_text(yaml.safe_dump(settings), encoding="utf-8")
    with journey.on():
        for words in (
            "corpus --source corpus --out listed",
            "prepare --corpus listed --out prepared",
            "features --corpus listed --prepared prepared --out features",
        ):
            command = [sys.executable, "-m", *f"tasks.{words}".split()]
            subprocess.run(command, cwd=tmp_path, env=os.environ | journey.environment, check=True)
    assert journey.files == named("A recording")


def test_a_setting_passes_these_files(tmp_path: Path) -> None:
    """`choose.min_speedup`, from params.yaml to the decision."""
    journey, metrics = Journey(tmp_path), figures(variant("onnxruntime/int8", 1.6))
    with journey.on():
        choose(metrics, load("choose", ChooseConfig, ROOT / "params.yaml"))
    assert journey.files == named("A setting")
