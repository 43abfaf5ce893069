import subprocess
from pathlib import Path
from typing import Any

import pytest

from sonorant.files import read_json, write_json
from sonorant.speech.bundle import read_bundle
from sonorant.speech.voice import Voice
from tests.evaluation.variants import with_copies
from tests.export.choice.figures import figures, variant
from tests.registry import planted
from tests.support.command import error_line, run_command
from tests.support.imports import ROOT


@pytest.fixture(scope="module")
def exported(voice_bundle: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return with_copies(voice_bundle, tmp_path_factory.mktemp("exported") / "variants", "int8")


def run_choose(place: Path, bundle: Path) -> subprocess.CompletedProcess[str]:
    arguments = ("--variants", str(bundle), "--metrics", "metrics.json", "--choice", "choice.json", "--out", "voice")
    arguments += ("--figures", "figures.json")
    (place / "params.yaml").write_bytes((ROOT / "params.yaml").read_bytes())
    return run_command("tasks.choose", *arguments, cwd=place)


def test_the_bundle_speaks_with_the_chosen_variant_and_has_none_that_failed(exported: Path, tmp_path: Path) -> None:
    bundle = with_copies(exported, tmp_path / "three", "fp16")
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


def test_a_fast_int8_in_which_one_speaker_babbles_does_not_ship(exported: Path, tmp_path: Path) -> None:
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
        done = run_choose(tmp_path, exported)
        assert done.returncode == 0, done.stderr
        choice = read_json(tmp_path / "choice.json")
        assert choice["variant"] == chosen, choice["sentence"]
        deciding = read_json(tmp_path / "figures.json")
        assert {*planted.FIGURES, "wer", "rtf"} <= deciding.keys() and len(deciding) <= 22
    said = "refused by gates that fp32 passes: wer_above_recordings_of_a_speaker: 1 of 2 speakers failed: ben: "
    assert said in choice["sentence"]


def merged(*figures: Any) -> Any:
    if not all(isinstance(each, dict) for each in figures):
        return figures[-1]
    keys = dict.fromkeys(key for each in figures for key in each)
    return {key: merged(*(each[key] for each in figures if key in each)) for key in keys}


def test_bad_figures_are_one_line_and_nothing_half_written(exported: Path, tmp_path: Path) -> None:
    write_json(tmp_path / "metrics.json", {"parity": {}})
    said = error_line(run_choose(tmp_path, exported))
    assert said.startswith("metrics.json: incomplete figures")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["metrics.json", "params.yaml"]
