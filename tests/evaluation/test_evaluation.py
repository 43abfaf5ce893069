import json
import re
import socket
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile

from sonorant.corpus.manifest import Utterance
from sonorant.errors import SonorantError
from sonorant.evaluation.evaluation import EvaluateConfig, why_unheard
from sonorant.evaluation.measured_candidates import certainly_slower, judged_variants, read_parity, timed_candidates
from sonorant.features.codes import write_no_codes
from sonorant.files import read_json, read_jsonl, write_json
from sonorant.registry.limits import NaturalnessLimits
from tests.evaluation.planted import PLANTED_NAN, plant
from tests.evaluation.stages import EVALUATE, RECOGNIZE, lay_out, run_stage
from tests.evaluation.variants import replace_graph, with_copies
from tests.support.imports import ROOT

Figures = dict[str, Any]


def parity() -> Figures:
    """bf16 has an undetected fault, int8 a detected one."""
    agrees = {"max_abs_diff": 1e-6, "tolerance": 1e-3, "cases": []}
    graphs = {"encoder": agrees, "decoder": agrees, "vocoder": agrees}
    passed = {"passed": True, "failed": None, "graphs": graphs}
    return {
        **{f"onnxruntime/{variant}": passed for variant in ("fp32", "fp16", "bf16")},
        "onnxruntime/int8": {"passed": False, "failed": "values: graph decoder: differs by 3"},
        "torch/fp32": passed,
        "torch-compiled/fp32": passed,
        "tensorrt/fp32": "not run: TensorRT is not installed",
    }


@pytest.fixture(scope="module")
def place(spoken_corpus: tuple[Path, list[Utterance]], voice_bundle: Path, trained: tuple[Path, Path]) -> Path:
    folder, _ = spoken_corpus
    lay_out(folder, trained)
    bundle = with_copies(voice_bundle, folder / "voice", "fp16", "bf16", "int8")
    replace_graph(bundle, "vocoder", "bf16", plant(bundle / "vocoder.fp32.onnx", folder / "nan.onnx", PLANTED_NAN))
    write_json(folder / "parity.json", parity())
    write_no_codes(folder / "codes", "parallel")
    return folder


@pytest.fixture(scope="module")
def recordings(place: Path) -> Figures:
    done = run_stage(place, "recognize_recordings", *RECOGNIZE)
    assert done.returncode == 0, done.stderr
    return read_json(place / "recordings.json")


@pytest.fixture(scope="module")
def metrics(place: Path, recordings: Figures) -> Figures:
    done = run_stage(place, "evaluate", *EVALUATE)
    assert done.returncode == 0, done.stderr
    return read_json(place / "metrics.json")


def test_error_rates_stand_beside_their_intervals_and_their_judge(metrics: Figures, recordings: Figures) -> None:
    assert recordings["requested"] == 160
    assert {row["id"] for row in recordings["sentences"]} == {"set/0", "set/1", "set/2"}  # the others are for training
    assert recordings["wer"] < 20
    judged = metrics["intelligibility"]
    assert judged["recordings"]["wer"] == recordings["wer"]
    for kind in ("recordings", "vocoder", "fp32", "fp16"):
        assert judged[kind]["wer_ci95"][0] <= judged[kind]["wer"] <= judged[kind]["wer_ci95"][1]
        assert (judged[kind]["recognizer"], judged[kind]["revision"]) == ("pocketsphinx", recordings["revision"])
    assert judged["fp32"]["wer"] > 60  # random weights
    above = judged["fp32"]["wer"] - recordings["wer"]
    assert judged["fp32"]["above_recordings"]["wer"] == pytest.approx(above, abs=0.01)
    assert judged["fp16"]["above_fp32"] == {"wer": 0, "wer_ci95": [0, 0], "cer": 0, "cer_ci95": [0, 0]}
    assert not {"above_fp32"} & (judged["fp32"].keys() | judged["vocoder"].keys())


def test_a_variant_that_gives_nan_is_named_and_not_judged(metrics: Figures) -> None:
    for section in ("intelligibility", "naturalness"):
        assert metrics[section]["bf16"].startswith("failed: NaN or infinity in 3 of 3 sentences, first in 'set/")
        assert "int8" not in metrics[section], "it did not pass verify"


def test_every_candidate_length_and_number_of_threads_is_timed(metrics: Figures) -> None:
    speed = metrics["speed"]
    for candidate in ("onnxruntime/fp32", "onnxruntime/fp16", "torch/fp32"):
        assert list(speed[candidate]) == ["short", "medium", "long"]
        for threads in speed[candidate].values():
            assert set(threads) == {"threads_1", "threads_all"}
            for figure in threads.values():
                assert 0 < figure["p50_ms"] <= figure["p95_ms"] <= figure["p99_ms"]
                assert figure["rtf"] == pytest.approx(figure["p50_ms"] / 1000 / figure["seconds"], rel=0.02, abs=1e-5)
    assert speed["onnxruntime/int8"] == "not run: failed verify: values: graph decoder: differs by 3"
    assert speed["tensorrt/fp32"] == metrics["memory"]["tensorrt/fp32"] == "not run: TensorRT is not installed"
    assert speed["torch-compiled/fp32"].startswith("not run: ")
    assert metrics["memory"]["onnxruntime/fp16"]["loaded_mib"] > 0


def test_everything_else_of_the_schema_is_there(metrics: Figures) -> None:
    passed = metrics["parity"]["onnxruntime/fp16"]
    assert passed["passed"] and passed["max_abs_diff"] == dict.fromkeys(("encoder", "decoder", "vocoder"), 1e-6)
    assert metrics["parity"]["onnxruntime/int8"]["failed"] == "values: graph decoder: differs by 3"
    limits, measured = NaturalnessLimits().ranges(), metrics["naturalness"]
    for kind in ("vocoder", "fp32", "fp16"):
        assert limits.keys() <= measured[kind].keys()
        low, high = measured[kind]["noise_floor_db_ci95"]
        assert low <= measured[kind]["noise_floor_db"] <= high and measured[kind]["mcd_db"] > 1
    assert measured["fp32"] == measured["fp16"], "the same graphs"
    assert measured["recordings"]["mcd_db"] == "not run: compared with themselves"
    assert not [key for key in measured["recordings"] if key.endswith("_ci95")]
    assert metrics["speakers"] == [{"speaker": "anna", "sentences": 3}]
    assert set(metrics["confusion"]) == {"recordings", "vocoder", "fp32", "fp16"}
    tested = metrics["evaluator"]
    assert tested["passed"] and tested["planted_in"] == "vocoder, fp32, fp16"
    assert tested["repeated_equal"] == tested["repeated"] == 3
    for variant in ("fp32", "fp16", "bf16", "int8"):
        size = metrics["size"][variant]
        assert (size["bytes"] == sum(size["graphs"].values()) and size["over_fp32"] == 1) or variant == "bf16"
        assert set(size["sha256"]) == {"encoder", "decoder", "vocoder"}
    assert metrics["size"]["bundle_bytes"] > 4 * metrics["size"]["fp32"]["bytes"] * 0.99


def test_short_texts_are_counted_by_kind_for_everyone_who_spoke(metrics: Figures, place: Path) -> None:
    found = metrics["short_texts"]
    assert found["listener"].startswith("pocketsphinx ") and found["bf16"].startswith("failed: NaN")
    for variant in ("fp32", "fp16"):
        assert found[variant]["sentences"]["texts"] == 2 and found[variant]["short"]["texts"] > 100
        assert found[variant]["short"]["faulty_rate"] > 0.8, "random weights say nothing"
        assert found[variant]["held_out"]["texts"] == found["recordings"]["held_out"]["texts"] == 1
    assert found["recordings"]["held_out"]["faulty"] == 0
    assert "no aligner ran" in found["fp32"]["cut_words"]
    rows = read_jsonl(place / "evaluation" / "short_texts.jsonl")
    assert len(rows) == 1 + 2 * (found["fp32"]["short"]["texts"] + 2 + 1)
    samples = [row for row in rows if row["sample"]]
    assert {row["by"] for row in samples} == {"fp32", "fp16"} and len(samples) == 12
    assert all((place / "evaluation" / row["sample"]).exists() for row in samples)


def test_reports_name_no_machine(metrics: Figures, place: Path) -> None:
    assert metrics["environment"]["cores"] >= 1
    figures = json.dumps(metrics)
    assert not re.search(rf"\b{re.escape(socket.gethostname())}\b", figures)
    assert str(ROOT) not in figures and str(place) not in figures


def test_sentences_and_samples_are_kept(metrics: Figures, place: Path) -> None:
    rows = read_jsonl(place / "evaluation" / "sentences.jsonl")
    assert len(rows) == 3
    for row in rows:
        assert set(row["transcripts"]) == set(row["word_errors"]) == {"recordings", "vocoder", "fp32", "fp16"}
        times = [second for _, start, end in row["timings"]["fp32"] for second in (start, end)]
        assert set(row["timings"]) == {"fp32", "fp16"} and times == sorted(times)
        assert len(row["timings"]["fp32"]) == row["words"] and times[-1] > 0
    for kind in ("recordings", "fp32"):
        wer = 100 * sum(row["word_errors"][kind] for row in rows) / sum(row["words"] for row in rows)
        assert wer == pytest.approx(metrics["intelligibility"][kind]["wer"], abs=1e-3)
    wavs = sorted((place / "evaluation" / "samples").glob("*.wav"))
    assert len(wavs) == 12 and {wav.name.split(".")[1] for wav in wavs} == {"recording", "vocoder", "fp32", "fp16"}
    assert all(np.abs(soundfile.read(wav)[0]).max() > 0 for wav in wavs)


def test_what_stands_beside_another_family_has_figures_and_names_their_sentences(metrics: Figures, place: Path) -> None:
    assert metrics["family"] == "parallel" and not {"codec", "decoding"} & metrics.keys()
    found = read_json(place / "family" / "family.json")
    assert found["family"] == "parallel" and found["sentences"]["count"] == 3
    assert set(found["variants"]) == {"fp32", "fp16"}
    for variant, figures in found["variants"].items():
        assert figures["intelligibility"] == metrics["intelligibility"][variant]
        assert figures["speed"] == metrics["speed"][f"onnxruntime/{variant}"]
        assert figures["size"] == metrics["size"][variant]
        assert 0 < figures["first_audio"]["p50_ms"] <= figures["first_audio"]["p95_ms"] and figures["decoding"] is None
    assert read_jsonl(place / "family" / "sentences.jsonl") == read_jsonl(place / "evaluation" / "sentences.jsonl")
    kept = sorted(path.name.split(".", 1)[1] for path in (place / "family" / "samples").glob("*.wav"))
    assert kept == ["fp32.wav"] * 3 + ["recording.wav"] * 3


def test_a_failing_self_test_fails_the_stage_and_writes_nothing(metrics: Figures, place: Path) -> None:
    """Texts are shifted by one sentence."""
    data = read_json(place / "recordings.json")
    rows = data["sentences"]
    moved = [row | {"reference": rows[number - 1]["reference"]} for number, row in enumerate(rows)]
    write_json(place / "moved.json", data | {"sentences": moved})
    arguments = [argument.replace("recordings.json", "moved.json") for argument in EVALUATE[:-4]]
    done = run_stage(place, "evaluate", *arguments, "--metrics", "no.json", "--out", "no")
    assert done.returncode == 1
    assert done.stderr.strip().splitlines()[-1].startswith("error: the evaluator's self-test failed: ")
    assert not (place / "no.json").exists() and not (place / "no").exists()


def test_recordings_heard_by_another_revision_are_refused(recordings: Figures, place: Path) -> None:
    write_json(place / "old.json", recordings | {"revision": "pocketsphinx 0.1"})
    arguments = [argument.replace("recordings.json", "old.json") for argument in EVALUATE]
    done = run_stage(place, "evaluate", *arguments)
    assert done.returncode == 1
    [line] = [line for line in done.stderr.splitlines() if line.startswith("error:")]
    assert "old.json: made with 'pocketsphinx 0.1'" in line and "recognize_recordings" in line


def test_parity_decides_what_is_judged_and_timed(tmp_path: Path) -> None:
    file = tmp_path / "parity.json"
    write_json(file, parity())
    found = read_parity(file)
    assert judged_variants(found) == ["fp32", "fp16", "bf16"]
    timed = [candidate for candidate, reason in timed_candidates(found).items() if reason is None]
    assert timed == ["onnxruntime/fp32", "onnxruntime/fp16", "onnxruntime/bf16", "torch/fp32"]
    write_json(file, parity() | {"onnxruntime/fp32": {"passed": False, "failed": "values: NaN"}})
    with pytest.raises(SonorantError, match="onnxruntime/fp32 failed: values: NaN"):
        read_parity(file)
    write_json(file, {"onnxruntime/fp32": {"passed": True}})
    with pytest.raises(SonorantError, match=r"parity\.json: not a report of the stage verify"):
        read_parity(file)


def speed(fp16: float, on_gpu: float | None = None) -> Figures:
    """Upper end of fp16's interval on one thread, and under another runtime."""

    def found(high: float) -> Figures:
        ends = {"threads_1": high, "threads_all": 0.9}
        cells = {name: {"over_fp32": end - 0.1, "over_fp32_ci95": [end - 0.2, end]} for name, end in ends.items()}
        return {"short": cells, "long": cells}

    fp32 = {"short": {"threads_1": {"rtf": 0.1}}}
    timed = {"onnxruntime/fp32": fp32, "onnxruntime/fp16": found(fp16), "torch/fp32": found(0.5)}
    return timed | {"onnxruntime-cuda/fp16": found(on_gpu) if on_gpu else "not run: no GPU"}


def test_only_a_variant_that_is_certainly_slower_everywhere_is_left_unheard() -> None:
    slower = str(certainly_slower(speed(0.95), "fp16"))
    assert slower.startswith("slower than fp32: at best 0.85 times its speed under ")
    assert certainly_slower(speed(1.01), "fp16") is None, "not beyond the interval"
    assert certainly_slower(speed(0.95, on_gpu=3.0), "fp16") is None, "another runtime may ship it"
    assert certainly_slower(speed(0.95), "fp32") is None and certainly_slower(speed(0.95), "int8") is None


def test_settings_choose_the_variants_to_transcribe() -> None:
    assert why_unheard(EvaluateConfig(hear="fp32"), "fp16", {}) == "evaluate.hear is fp32"
    assert why_unheard(EvaluateConfig(hear="fp32"), "fp32", {}) is None
    assert why_unheard(EvaluateConfig(hear="all"), "fp16", speed(0.95)) is None
    assert str(why_unheard(EvaluateConfig(), "fp16", speed(0.95))).startswith("slower than fp32")
