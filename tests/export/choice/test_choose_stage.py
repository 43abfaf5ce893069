"""Faults in sound or speed keep a variant out of the bundle."""

import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sonorant.audio.recognizers import Clip, load_recognizer, transcribe
from sonorant.corpus.manifest import Utterance
from sonorant.errors import SonorantError
from sonorant.evaluation.error_rates import Normalizer
from sonorant.evaluation.latency import measure
from sonorant.evaluation.recordings import RecognizedRecordings, score
from sonorant.evaluation.renderings import Renderings
from sonorant.evaluation.words import intelligibility, listen
from sonorant.export.choice import ChooseConfig, choose
from sonorant.files import read_json, write_json
from sonorant.speech.bundle import read_bundle
from sonorant.speech.voice import Voice
from tests.evaluation.conftest import clips, references, spoken_corpus
from tests.evaluation.planted import PLANTED_WORK, plant
from tests.evaluation.variants import replace_graph, with_copies
from tests.export.choice.figures import figures, variant
from tests.registry import planted
from tests.support.command import error_line, run_command
from tests.support.imports import ROOT

CONFIG = ChooseConfig(target="latency", max_wer_above_fp32=2.0, min_speedup=1.05)
__all__ = ["clips", "references", "spoken_corpus"]


@pytest.fixture(scope="module")
def heard(
    clips: list[Clip], references: list[str], spoken_corpus: tuple[Path, list[Utterance]]
) -> RecognizedRecordings:
    return RecognizedRecordings(
        recognizer="pocketsphinx",
        revision=load_recognizer("pocketsphinx").revision,
        normalizer="words-1",
        language="en-us",
        requested=len(clips),
        ids=tuple(str(utterance.id) for utterance in spoken_corpus[1]),
        references=tuple(references),
        transcripts=tuple(transcribe(clips, "pocketsphinx", "en-us")),
    )


def renderings(clips: list[Clip], heard: RecognizedRecordings, **variants: list[np.ndarray]) -> Renderings:
    """Vocoder and voice copy the recordings by default."""
    recorded = tuple(clip.samples for clip in clips)
    sounds = {"recordings": recorded, "vocoder": recorded} | {name: tuple(sound) for name, sound in variants.items()}
    return Renderings(ids=heard.ids, tokens=(), sounds=sounds, decoded={}, unspoken={}, rate=clips[0].rate)


def test_a_silent_variant_is_heard_as_such_and_does_not_ship(clips: list[Clip], heard: RecognizedRecordings) -> None:
    sounds = [clip.samples for clip in clips]
    spoken = renderings(clips, heard, fp32=sounds, int8=[np.zeros_like(samples) for samples in sounds])
    normalizer = Normalizer("en-us")
    transcripts, tested = listen(spoken, clips, heard, "pocketsphinx", normalizer)
    assert tested["planted_in"] == "vocoder, fp32, int8"
    scores = {kind: score(heard.references, texts, normalizer) for kind, texts in transcripts.items()}
    judged = intelligibility(scores, 100, {})
    assert judged["fp32"]["wer"] == judged["recordings"]["wer"] < 20
    assert judged["int8"]["wer"] == 100

    found = choose(figures(variant("onnxruntime/int8", 1.6)) | {"intelligibility": judged}, CONFIG)
    assert found["variant"] == "fp32"
    [row] = [row for row in found["table"] if row["candidate"] == "onnxruntime/int8"]
    assert not row["passed"] and row["reason"].startswith("understood worse: WER +")


def test_an_evaluator_fed_silence_fails_loudly(clips: list[Clip], heard: RecognizedRecordings) -> None:
    spoken = renderings(clips, heard, fp32=[np.zeros_like(clip.samples) for clip in clips])
    with pytest.raises(SonorantError, match=r"self-test failed: 4 of 4 clips of fp32 are silent"):
        listen(spoken, clips, heard, "pocketsphinx", Normalizer("en-us"))


@pytest.fixture(scope="module")
def slower(voice_bundle: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("slower")
    bundle = with_copies(voice_bundle, folder / "variants", "int8")
    replace_graph(bundle, "vocoder", "int8", plant(bundle / "vocoder.fp32.onnx", folder / "slow.onnx", PLANTED_WORK))
    return bundle


def run_choose(place: Path, bundle: Path) -> subprocess.CompletedProcess[str]:
    arguments = ("--variants", str(bundle), "--metrics", "metrics.json", "--choice", "choice.json", "--out", "voice")
    (place / "params.yaml").write_bytes((ROOT / "params.yaml").read_bytes())
    return run_command("tasks.choose", *arguments, cwd=place)


def test_a_slower_int8_is_kept_and_not_the_default(slower: Path, trained: tuple[Path, Path], tmp_path: Path) -> None:
    tokens = np.zeros((20, 3), np.int64)
    tokens[:, 0] = np.arange(20) % 20 + 3
    candidates = {"onnxruntime/fp32": None, "onnxruntime/int8": None}
    speed = measure(slower, trained, candidates, dict.fromkeys(("short", "medium", "long"), tokens), 10)
    write_json(tmp_path / "metrics.json", figures(variant("onnxruntime/int8", 1.6)) | {"speed": speed})
    done = run_choose(tmp_path, slower)
    assert done.returncode == 0, done.stderr
    choice = read_json(tmp_path / "choice.json")
    assert (choice["variant"], choice["runtime"]) == ("fp32", "onnxruntime")
    assert "onnxruntime/int8 passed, and slower" in choice["sentence"] and choice["sentence"] in done.stdout
    bundle = read_bundle(tmp_path / "voice")
    bundle.check_files()
    assert bundle.description.choice == choice
    assert {graph.default_variant for graph in bundle.description.graphs.values()} == {"fp32"}
    assert {variant for graph in bundle.description.graphs.values() for variant in graph.variants} == {"fp32", "int8"}


def test_the_bundle_speaks_with_the_chosen_variant_and_has_none_that_failed(slower: Path, tmp_path: Path) -> None:
    """As `slower` with swapped times, and a third variant refused by verify."""
    bundle = with_copies(slower, tmp_path / "three", "fp16")
    third = variant("onnxruntime/fp16", 3.0)
    third["parity"]["onnxruntime/fp16"] = {"passed": False, "failed": "values: graph vocoder: NaN"}
    write_json(tmp_path / "metrics.json", figures(variant("onnxruntime/int8", 1.6), third))
    done = run_choose(tmp_path, bundle)
    assert done.returncode == 0, done.stderr
    shipped = read_bundle(tmp_path / "voice")
    assert shipped.description.choice["variant"] == "int8"
    for name, graph in shipped.description.graphs.items():
        assert (graph.default_variant, sorted(graph.variants)) == ("int8", ["fp32", "int8"])
        assert shipped.graph_file(name).name == f"{name}.int8.onnx"
    graphs = {f"{graph}.{name}.onnx" for graph in ("encoder", "decoder", "vocoder") for name in ("fp32", "int8")}
    assert {path.name for path in (tmp_path / "voice").iterdir()} == {"voice.json"} | graphs
    assert len(Voice.load(tmp_path / "voice").say("Hello there.")) > 0


def test_a_fast_int8_in_which_one_speaker_babbles_does_not_ship(slower: Path, tmp_path: Path) -> None:
    """The total passes, but `promote` would refuse that speaker."""
    fast = variant("onnxruntime/int8", 1.6)
    babbling = planted.RECORDINGS.copy()
    babbling[1::8] = planted.WORDS
    for errors, chosen in ((planted.RECORDINGS, "int8"), (babbling, "fp32")):
        metrics = merged(planted.figures(variant="fp32"), planted.figures(variant="int8"), figures(fast))
        metrics["speakers"] = [
            merged(planted.speaker_row(name, variant="fp32"), planted.speaker_row(name, errors, variant="int8"))
            for name in planted.SPEAKERS
        ]
        write_json(tmp_path / "metrics.json", metrics)
        done = run_choose(tmp_path, slower)
        assert done.returncode == 0, done.stderr
        choice = read_json(tmp_path / "choice.json")
        assert choice["variant"] == chosen, choice["sentence"]
    said = "refused by gates that fp32 passes: wer_above_recordings_of_a_speaker: 1 of 2 speakers failed: ben: "
    assert said in choice["sentence"]


def merged(*figures: Any) -> Any:
    if not all(isinstance(each, dict) for each in figures):
        return figures[-1]
    keys = dict.fromkeys(key for each in figures for key in each)
    return {key: merged(*(each[key] for each in figures if key in each)) for key in keys}


def test_bad_figures_are_one_line_and_nothing_half_written(slower: Path, tmp_path: Path) -> None:
    write_json(tmp_path / "metrics.json", {"parity": {}})
    said = error_line(run_choose(tmp_path, slower))
    assert said.startswith("metrics.json: not what the stage evaluate writes")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["metrics.json", "params.yaml"]
