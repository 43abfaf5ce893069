import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml

from sonorant.registry import download
from sonorant.registry.tracking.mlflow_store import TrackingUnavailable
from tasks import external
from tasks.code_deps import ROOT
from tests.support.settings import project_settings
from tests.support.tiny_voice import write_trained

Run = Callable[..., dict[str, Any]]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Change params.yaml, run the stage and return its notes."""
    monkeypatch.chdir(tmp_path)
    settings = project_settings()

    def run(**changed: dict[str, Any]) -> dict[str, Any]:
        for section, values in changed.items():
            settings[section] |= values
        Path("params.yaml").write_text(yaml.safe_dump(settings), encoding="utf-8")
        monkeypatch.setattr("sys.argv", ["external", "--runs", "runs", "--models", "models", "--out", "notes"])
        external.main()
        return {path.stem: json.loads(path.read_text()) for path in Path("notes").glob("*.json")}

    return run


def test_settings_that_name_nothing_leave_empty_notes(run: Run) -> None:
    assert run() == {"corpus": {}, "prepare": {}, "text": {}, "train_waveform": {}, "train_predictor": {}}


def test_a_recording_replaced_under_its_name_changes_the_note_of_its_corpus(run: Run, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    table, audio = tmp_path / "mine/table.csv", tmp_path / "mine/one.wav"
    table.write_text("audio,text\none.wav,One.\n../secret.wav,Two.\nabsent.wav,Three.\n")
    audio.write_bytes(b"first")
    before = run(corpus={"kind": "table", "path": str(table)})
    assert before["corpus"]["named"] == str(table) and before["train_waveform"] == {}
    os.utime(audio, (1, 1))
    assert run()["corpus"] == before["corpus"], "touched, not changed"
    audio.write_bytes(b"other")  # same size
    after = run()
    assert after["corpus"] != before["corpus"]
    audio.write_bytes(b"first")
    assert run()["corpus"] == before["corpus"]
    (tmp_path / "secret.wav").write_bytes(b"outside of the table's folder")
    assert run()["corpus"] == before["corpus"]


def test_a_table_that_cannot_be_read_is_left_to_the_stage_that_reads_it(run: Run) -> None:
    assert run(corpus={"kind": "table", "path": "absent.csv"})["corpus"] == {"named": "absent.csv", "content": None}


def test_decisions_count_by_content_and_prepare_depends_on_their_note(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "decisions.csv"
    assert run(prepare={"decisions": str(file)})["prepare"] == {"named": str(file), "content": None}
    file.write_text("clip,decision\n")
    before = run()
    os.utime(file, (1, 1))
    assert run() == before, "touched, not changed"
    file.write_text("clip,decision\n0123456789ab,drop\n")
    after = run()
    assert after["prepare"] != before["prepare"] and after["corpus"] == before["corpus"]
    file.unlink()
    assert run() == after
    stages = yaml.safe_load((ROOT / "dvc.yaml").read_text(encoding="utf-8"))["stages"]
    assert "data/external/prepare.json" in stages["prepare"]["deps"]
    assert {"data/external/prepare.json": {"persist": True}} in stages["external"]["outs"]


def test_a_lexicon_counts_by_content_and_every_stage_that_reads_texts_depends_on_its_note(
    run: Run, tmp_path: Path
) -> None:
    file = tmp_path / "lexicon.txt"
    file.write_text("[en-us]\nA\tˈeɪ\n", encoding="utf-8")
    before = run(text={"lexicon": str(file)})
    file.write_text("[en-us]\nA\tə\n", encoding="utf-8")
    assert run()["text"] != before["text"]
    stages = yaml.safe_load((ROOT / "dvc.yaml").read_text(encoding="utf-8"))["stages"]
    assert all("data/external/text.json" in stages[stage]["deps"] for stage in ("prepare", "audit", "features"))
    assert {"data/external/text.json": {"persist": True}} in stages["external"]["outs"]


def test_weights_to_start_from_count_by_content_and_stay_known_when_they_are_gone(
    run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _, folder = write_trained(tmp_path / "trained")
    before = run(train_vocoder={"init_from": str(folder)})
    assert before["train_waveform"]["content"] and before["train_predictor"] == {}
    state = torch.load(folder / "weights.pt", weights_only=True)
    torch.save(state, folder / "weights.pt")
    assert run() == before, "the same weights, written again"
    torch.save({name: value + 1 for name, value in state.items()}, folder / "weights.pt")
    after = run()
    assert after["train_waveform"] != before["train_waveform"]
    folder.rename(tmp_path / "moved")
    assert run() == after
    assert f"is treated as unchanged: init_from: {folder} does not exist" in capsys.readouterr().out


def test_an_alias_counts_by_its_version_and_a_silent_registry_changes_nothing(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(download, "version_of", lambda uri: "voice/1")
    first = run(train_acoustic={"init_from": "models:/voice@champion"})
    assert first["train_predictor"]["content"] == "voice/1"
    monkeypatch.setattr(download, "version_of", lambda uri: "voice/2")
    moved = run()
    assert moved["train_predictor"]["content"] == "voice/2"

    def silent(uri: str) -> str:
        raise TrackingUnavailable(f"{uri}: no answer")

    monkeypatch.setattr(download, "version_of", silent)
    assert run() == moved


def test_a_pretrained_codec_counts_by_what_is_loaded_of_it(run: Run, tmp_path: Path) -> None:
    folder = tmp_path / "codec"
    folder.mkdir()
    (folder / "model.safetensors").write_bytes(b"weights")
    before = run(voice={"family": "codec_lm"}, codec={"pretrained": str(folder)})
    (folder / "README.md").write_text("not read")
    assert run() == before
    (folder / "model.safetensors").write_bytes(b"WEIGHTS")
    assert run()["train_waveform"] != before["train_waveform"]
    assert run(voice={"family": "parallel"})["train_waveform"] == {}, "another family's setting"
