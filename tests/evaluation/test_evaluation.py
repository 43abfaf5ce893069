"""Both stages on real speech and a real bundle, through the commands that dvc.yaml runs."""

from __future__ import annotations

import base64
import json
import re
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from sonorant.data.manifest import Utterance
from sonorant.errors import SonorantError
from sonorant.evaluation.evaluation import EvaluateConfig, read_parity
from sonorant.evaluation.page import marked
from sonorant.files import read_json, write_json

ROOT = Path(__file__).parents[2]


def run_stage(place: Path, stage: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a stage's command in a folder with its own params.yaml."""
    environment = {"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", f"tasks.{stage}", *arguments]
    return subprocess.run(command, cwd=place, env=environment, capture_output=True, text=True, timeout=300)


@pytest.fixture(scope="module")
def place(spoken_corpus: tuple[Path, list[Utterance]], voice_bundle: Path, trained: tuple[Path, Path]) -> Path:
    """The folder of the corpus, settings for few sentences, and what the stages before would have left."""
    folder, _ = spoken_corpus
    params = yaml.safe_load((ROOT / "params.yaml").read_text(encoding="utf-8"))
    params["recognizer"] = {"name": "pocketsphinx", "sentences": 160}
    params["evaluate"] = {"bootstrap": 100, "latency_repeats": 3}
    (folder / "params.yaml").write_text(yaml.safe_dump(params), encoding="utf-8")
    for name, target in (("voice", voice_bundle), ("acoustic", trained[0]), ("vocoder", trained[1])):
        (folder / name).symlink_to(target)
    graph = {"max_abs_diff": 1e-6, "tolerance": 1e-3, "worst": {"length": 3, "output": "mel"}, "cases": []}
    write_json(folder / "parity.json", {"acoustic": graph, "vocoder": graph})
    return folder


RECOGNIZE = ("--corpus", ".", "--prepared", "prepared", "--out", "recordings.json")
EVALUATE = (
    "--corpus", ".", "--prepared", "prepared", "--recordings", "recordings.json", "--voice", "voice", "--acoustic", "acoustic",
    "--vocoder", "vocoder", "--parity", "parity.json", "--metrics", "metrics.json", "--out", "evaluation",
)  # fmt: skip


@pytest.fixture(scope="module")
def recordings(place: Path) -> dict[str, Any]:
    """What the stage recognize_recordings writes."""
    done = run_stage(place, "recognize_recordings", *RECOGNIZE)
    assert done.returncode == 0, done.stderr
    return read_json(place / "recordings.json")


@pytest.fixture(scope="module")
def metrics(place: Path, recordings: dict[str, Any]) -> dict[str, Any]:
    """What the stage evaluate writes."""
    done = run_stage(place, "evaluate", *EVALUATE)
    assert done.returncode == 0, done.stderr
    return read_json(place / "metrics.json")


def test_the_recordings_floor_tells_what_it_is_of(recordings: dict[str, Any]) -> None:
    assert recordings["requested"] == 160
    assert recordings["utterances"] == len(recordings["sentences"]) == 3  # the others are for training
    assert {row["id"] for row in recordings["sentences"]} == {"set/0", "set/1", "set/2"}
    assert recordings["wer"] < 20
    assert recordings["recognizer"] == "pocketsphinx"
    assert recordings["normalizer"] == "words-1"


def test_error_rates_stand_beside_their_intervals_and_their_judge(metrics: dict[str, Any], recordings: dict[str, Any]) -> None:
    judged = metrics["intelligibility"]
    assert judged["recordings"]["wer"] == recordings["wer"]
    for kind in ("recordings", "vocoder", "voice"):
        assert judged[kind]["wer_ci95"][0] <= judged[kind]["wer"] <= judged[kind]["wer_ci95"][1]
        assert judged[kind]["words"] == recordings["words"]
        assert (judged[kind]["recognizer"], judged[kind]["revision"]) == ("pocketsphinx", recordings["revision"])
    assert judged["voice"]["wer"] > 60  # random weights say nothing
    assert judged["voice"]["above_recordings"]["wer"] == pytest.approx(judged["voice"]["wer"] - recordings["wer"], abs=0.01)


def test_every_runtime_length_and_number_of_threads_is_timed(metrics: dict[str, Any]) -> None:
    for runtime in ("onnxruntime", "torch"):
        assert set(metrics["speed"][runtime]) == {"short", "medium", "long"}
        for threads in metrics["speed"][runtime].values():
            assert set(threads) == {"threads_1", "threads_all"}
            assert threads["threads_1"]["threads"] == 1
            for figure in threads.values():
                assert 0 < figure["p50_ms"] <= figure["p95_ms"] <= figure["p99_ms"]
                assert figure["rtf"] == pytest.approx(figure["p50_ms"] / 1000 / figure["seconds"], rel=0.02, abs=1e-5)
        phonemes = [metrics["speed"][runtime][name]["threads_1"]["phonemes"] for name in ("short", "medium", "long")]
        assert phonemes == sorted(phonemes)
    tensorrt = metrics["speed"]["tensorrt"]
    assert not isinstance(tensorrt, str) or tensorrt.startswith("not run: ")


def test_everything_else_of_the_schema_is_there(metrics: dict[str, Any]) -> None:
    assert metrics["parity"] == {graph: {"max_abs_diff": 1e-6, "tolerance": 1e-3} for graph in ("acoustic", "vocoder")}
    for kind in ("vocoder", "voice"):
        assert metrics["naturalness"][kind]["mcd_db"] > 1
    assert metrics["naturalness"]["vocoder"]["duration_ratio"] == pytest.approx(1, abs=0.01)
    assert metrics["evaluator"]["passed"]
    assert metrics["evaluator"]["repeated_equal"] == metrics["evaluator"]["repeated"] == 3
    assert metrics["size"]["bundle_bytes"] > sum(metrics["size"]["graph_bytes"]["acoustic"].values())


def test_reports_name_no_machine(metrics: dict[str, Any], place: Path) -> None:
    assert metrics["environment"]["cores"] >= 1
    figures = json.dumps(metrics)
    assert not re.search(rf"\b{re.escape(socket.gethostname())}\b", figures)
    for path in (str(ROOT), str(place)):
        assert path not in figures + (place / "evaluation" / "index.html").read_text(encoding="utf-8")


def test_the_page_plays_by_itself(metrics: dict[str, Any], place: Path) -> None:
    page = (place / "evaluation" / "index.html").read_text(encoding="utf-8")
    players = re.findall(r'src="data:audio/wav;base64,([^"]+)"', page)
    wavs = sorted((place / "evaluation" / "samples").glob("*.wav"))
    assert len(players) == len(wavs) == 9
    assert {base64.b64decode(player) for player in players} == {wav.read_bytes() for wav in wavs}
    assert 'src="http' not in page
    assert len((place / "evaluation" / "sentences.jsonl").read_text(encoding="utf-8").splitlines()) == 3


def test_a_failing_self_test_fails_the_stage_and_writes_nothing(metrics: dict[str, Any], place: Path) -> None:
    """Texts moved by one sentence, as a manifest with its columns mixed up would have them."""
    data = read_json(place / "recordings.json")
    texts = [row["reference"] for row in data["sentences"]]
    for row, text in zip(data["sentences"], [*texts[1:], texts[0]], strict=True):
        row["reference"] = text
    write_json(place / "moved.json", data)
    arguments = [argument.replace("recordings.json", "moved.json") for argument in EVALUATE[:-4]]
    done = run_stage(place, "evaluate", *arguments, "--metrics", "no.json", "--out", "no")
    assert done.returncode == 1
    assert done.stderr.strip().splitlines()[-1].startswith("error: the evaluator's self-test failed: ")
    assert not (place / "no.json").exists()
    assert not (place / "no").exists()


def test_recordings_heard_by_another_revision_are_refused(recordings: dict[str, Any], place: Path) -> None:
    write_json(place / "old.json", recordings | {"revision": "pocketsphinx 0.1"})
    arguments = [argument.replace("recordings.json", "old.json") for argument in EVALUATE]
    done = run_stage(place, "evaluate", *arguments)
    assert done.returncode == 1
    [line] = [line for line in done.stderr.splitlines() if line.startswith("error:")]
    assert "old.json: made with 'pocketsphinx 0.1'" in line
    assert "recognize_recordings" in line


def test_a_damaged_report_of_another_stage_is_named(tmp_path: Path) -> None:
    write_json(tmp_path / "parity.json", {"acoustic": {}})
    with pytest.raises(SonorantError, match=r"parity\.json: not what the stage verify writes"):
        read_parity(tmp_path / "parity.json")


def test_wrong_words_are_marked_and_markup_is_escaped() -> None:
    assert marked("a b c", "a x c d") == 'a <span class="wrong">x</span> c <span class="wrong">d</span>'
    assert marked("a b c", "a c") == 'a <span class="missing">b</span> c'
    assert "<script>" not in marked("a", "<script>")


@pytest.mark.parametrize("settings", [{"bootstrap": 10, "latency_repeats": 20}, {"bootstrap": 1000, "latency_repeats": 0}])
def test_settings_that_cannot_give_a_figure_are_refused(settings: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="must be at least"):
        EvaluateConfig(**settings)
