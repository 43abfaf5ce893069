import json
import shutil
import signal
from collections.abc import Iterator, Sequence
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from optuna.trial import Trial

from flows.tuning import study as studies
from flows.tuning.curve import KEY, TUNED, curves_of, settings_from, write_report
from flows.tuning.figures import MINUTES
from flows.tuning.parts import details_of, parts_of
from flows.tuning.search import Search, Values
from flows.tuning.sizes import files_below, read_sizes
from flows.tuning.study import DETAILS, TuningStudy, make_comparison
from sonorant.errors import SonorantError
from sonorant.extras.learning_curve.fit import Curve
from sonorant.files import write_json, write_jsonl
from tests.support.imports import ROOT
from tests.support.processes import processes_of
from tests.support.tuned import TunedProject

CURVE, WORDS, SOUND = (
    "flows.curve",
    "intelligibility.fp32.above_recordings.wer",
    "naturalness.fp32.dnsmos_below_recordings",
)

INIT = "train_acoustic.init_from"


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv(studies.STORAGE, raising=False)
    return tmp_path


def made(sizes: Sequence[float | None], seeds: int = 3, base: str = "") -> TuningStudy:
    """`base`: the model from which one more training per size and seed is fine-tuned."""
    search = Search(
        study="curve",
        objectives={MINUTES: "maximize"},
        also=[WORDS, SOUND],
        space={KEY: Values(choices=list(sizes))},
    )
    arms = {
        f"{'all' if size is None else f'{size:g}'}{kind} {seed}": {KEY: size, "seed": seed, **settings}
        for seed in range(seeds)
        for size in sizes
        for kind, settings in {"": {}, **({TUNED: {INIT: base}} if base else {})}.items()
    }
    return make_comparison(search, "curve", arms, {"--init-from": base})


def voice(trial: Trial, settings: dict[str, Any]) -> Sequence[float]:
    """From 44.9 minutes of recordings: word errors by a power law with small differences by seed; no ratings of
    the sound."""
    minutes = min(settings[KEY] or 44.9, 44.9)
    wer = 2 + 12 * minutes**-0.5 + 0.02 * settings["seed"]
    wer -= 20 / minutes if INIT in settings else 0.0
    known = {"value": wer, "ci95": [wer - 1, wer + 1], "parts": [[10 * wer, 10.0]] * 30}
    trial.set_user_attr(DETAILS, {WORDS: known, SOUND: {"not_run": "not installed"}})
    return (minutes,)


def test_a_curve_of_what_is_done_and_why_there_is_none(here: Path) -> None:
    study = made([5.0, 10.0, 20.0, 45.0, None])
    for _ in range(7):
        assert study.next_trial(voice)
    found, notes = curves_of(study)
    assert notes == ["8 trainings are incomplete.", "45 minutes are omitted, because there are only 44.9."]
    while study.next_trial(voice):
        pass
    found, notes = curves_of(study)
    words, sound = found.values()
    assert isinstance(words, Curve) and sound == "not run: not installed" and len(notes) == 1
    assert [(point.minutes, len(point.values)) for point in words.points] == [(5, 3), (10, 3), (20, 3), (44.9, 3)]
    told = write_report(study)
    assert told[1].startswith("Another 20 minutes of recordings would change") and "by -0.3" in told[1], told
    page, report = unescape(Path("reports/curve.html").read_text()), json.loads(Path("reports/curve.json").read_text())
    assert told[1] in page and "<svg" in page and "not installed" in page and "<script" not in page
    assert report["figures"][WORDS]["paired_by_sentence"] and report["figures"][WORDS]["forecast"]["minutes"] == 20
    assert report["figures"][SOUND] == {"not_run": "not run: not installed"}
    with pytest.raises(SonorantError, match=r"there are 44\.9 minutes, .*give at most 44"):
        write_report(study, 50)


def test_fine_tuned_voices_stand_beside_as_many_from_scratch(here: Path) -> None:
    study = made([5.0, 10.0, None], base="models:/base/1")
    assert study.left() == 18
    while study.next_trial(voice):
        pass
    words = curves_of(study)[0][next(iter(curves_of(study)[0]))]
    assert isinstance(words, Curve) and len(words.points) == 3, "the curve is of those from scratch alone"
    told = write_report(study)
    page, report = unescape(Path("reports/curve.html").read_text()), json.loads(Path("reports/curve.json").read_text())
    rows = report["figures"][WORDS]["fine_tuned"]
    assert [(row["minutes"], row["seeds"]) for row in rows] == [(5, 3), (10, 3), (44.9, 3)]
    for row in rows:
        assert row["difference"] == pytest.approx(-20 / row["minutes"]) == pytest.approx(row["tuned"] - row["scratch"])
        assert row["ci95"][0] < row["difference"] < row["ci95"][1] < 0
    assert (
        report["init_from"] == "models:/base/1" and "Fine-tuned from models:/base/1, compared with from scratch" in page
    )
    [first] = [line for line in told if line.startswith("Fine-tuning with 5.0 minutes")]
    assert "-4 points of words misunderstood" in first and first in page
    assert report["figures"][SOUND]["fine_tuned"] == "not run: not installed"
    with pytest.raises(SonorantError, match=r"study 'curve' was started with --init-from = 'models:/base/1'"):
        made([5.0], base="models:/base/2")


def test_a_voice_begins_from_a_registered_one_or_a_folder_of_models(here: Path) -> None:
    shutil.copyfile(ROOT / "params.yaml", here / "params.yaml")
    kinds = ("acoustic", "vocoder")
    assert settings_from("models:/base@champion", []) == {
        f"train_{kind}.init_from": "models:/base@champion" for kind in kinds
    }
    for role in ("predictor", "waveform"):
        write_json(here / "base" / role / "model.json", {})
    assert settings_from("base", ["train_acoustic.steps=600", "train_acoustic.learning_rate=4.0e-4"]) == {
        "train_acoustic.init_from": str(here / "base/predictor"),
        "train_vocoder.init_from": str(here / "base/waveform"),
        "train_acoustic.steps": 600,
        "train_acoustic.learning_rate": 4.0e-4,
    }
    with pytest.raises(SonorantError, match=r"--with steps: give a setting and its value"):
        settings_from("base", ["steps"])


def test_sizes_are_read_and_new_recordings_noticed(tmp_path: Path) -> None:
    assert read_sizes("20, 5,all,10,5") == [5.0, 10.0, 20.0]
    for wrong in ("all", "", "0", "-5", "five", "nan", "inf"):
        with pytest.raises(SonorantError, match=r"--minutes .*such as 5,10,20,40"):
            read_sizes(wrong)
    (tmp_path / "corpus").mkdir()
    (tmp_path / "corpus/1.wav").write_bytes(b"one")
    before = files_below(tmp_path / "corpus")
    assert before == files_below(tmp_path / "corpus") and before.startswith("1 files, ")
    (tmp_path / "corpus/1.wav").write_bytes(b"longer")
    assert files_below(tmp_path / "corpus") != before


def test_figures_by_sentence_add_up_to_the_figure_or_are_left_out(tmp_path: Path) -> None:
    rows = [
        {"words": 10, "word_errors": {"recordings": 1, "fp32": 3}, "dnsmos": {"recordings": 3.5, "fp32": 3.0}},
        {"words": 30, "word_errors": {"recordings": 2, "fp32": 2}, "dnsmos": {}},
    ]
    faults = {"skipped": ["a"], "repeated": [], "babbled": [], "extra": 0}
    texts = [
        {"by": "fp32", "kind": "words", "faults": faults},
        {"by": "fp32", "kind": "numbers", "faults": faults | {"skipped": []}},
        {"by": "fp32", "kind": "sentences", "faults": faults},
        {"by": "recordings", "kind": "words", "faults": faults},
    ]
    write_jsonl(tmp_path / "reports/evaluation/sentences.jsonl", rows)
    write_jsonl(tmp_path / "reports/evaluation/short_texts.jsonl", texts)
    write_json(
        tmp_path / "reports/metrics.json",
        {
            "intelligibility": {"fp32": {"wer": 12.5, "above_recordings": {"wer": 5.0, "wer_ci95": [4.0, 6.0]}}},
            "naturalness": {"fp32": {"dnsmos_below_recordings": 0.5, "pitch_correlation": 0.7}},
            "short_texts": {"fp32": {"short": {"faulty_rate": 0.5}, "words": {"faulty_rate": 1.0}}},
        },
    )
    names = [WORDS, SOUND, "intelligibility.fp32.wer", "naturalness.fp32.pitch_correlation"]
    names += ["short_texts.fp32.short.faulty_rate", "short_texts.fp32.words.faulty_rate"]
    found = details_of(tmp_path, names)
    assert found[WORDS] == {"value": 5.0, "ci95": [4.0, 6.0], "parts": [(200.0, 10.0), (0.0, 30.0)]}
    assert found[SOUND]["parts"] == [(0.5, 1.0)]
    assert found["intelligibility.fp32.wer"]["parts"] == [(300.0, 10.0), (200.0, 30.0)]
    assert found["naturalness.fp32.pitch_correlation"] == {"value": 0.7, "ci95": None, "parts": None}
    assert found["short_texts.fp32.short.faulty_rate"]["parts"] == [(1.0, 1.0), (0.0, 1.0)]
    assert found["short_texts.fp32.words.faulty_rate"]["parts"] == [(1.0, 1.0)]
    assert parts_of(tmp_path, WORDS, 7.0) is None, "another figure than these sentences give"


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_a_curve_that_is_stopped_and_gone_on_with_repeats_and_loses_nothing(
    tmp_path: Path, tracked_project: Path, prefect_server: str
) -> None:
    project = TunedProject(tmp_path / "project", tracked_project, prefect_server)
    settings = project.root / "params.yaml"
    settings.write_text(settings.read_text().replace("  steps: 1500", "  steps: 6"))
    (project.root / "runs").mkdir(exist_ok=True)
    (project.root / "runs" / "hold").touch()
    command = [CURVE, "run", "--minutes", "5,15,30", "--seeds", "2", "--figure", WORDS, "--figure", SOUND]
    running = project.start(*command)
    project.wait(running, lambda: len(project.steps()) == 2)
    running.send_signal(signal.SIGINT)
    running.communicate()
    (project.root / "runs" / "hold").unlink()
    printed = project.run(*command, "--workers", "2")
    assert len(project.steps()) == 8 * 6 and len(set(project.steps())) == 8, "each of them once"
    assert project.stages().count("prepare") == 1 and project.stages().count("features") == 4
    assert "Another 20 minutes of recordings would change" in printed and "not run: not installed" in printed
    report = json.loads((project.root / "reports/curve.json").read_text())["figures"]
    assert [point["minutes"] for point in report[WORDS]["points"]] == [5, 15, 30, 60]
    assert report[WORDS]["paired_by_sentence"] and (project.root / "reports/curve.html").exists()
    (project.root / "corpora/demo").mkdir(parents=True)
    (project.root / "corpora/demo/more.txt").write_text("Another prompt.\n")
    status, printed = project.attempt(*command)
    assert status == 1 and "was started with the files of corpus.path" in printed and "another name" in printed
    assert processes_of(project.root) == []
