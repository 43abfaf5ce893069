"""What a Sonorant of before 2026-11 wrote still works: settings, bundles, trained models, checkpoints, a registry.

`fixtures/before_2026_11.tar.xz` was written by commit 636d795: a tiny bundle of the family codec_lm and its trained
models, a registry whose champion is a tiny bundle of the family parallel, and what both said there.
"""

import logging
import shutil
import tarfile
from pathlib import Path

import numpy as np
import pytest
import torch

from sonorant.extras.codec_lm.language_model import LanguageModel
from sonorant.formerly import current_model, current_settings
from sonorant.layers.model_folder import load_model
from sonorant.speech.voice import Voice
from sonorant.training import checkpoint
from sonorant.training.initial import read_initial
from tasks.check_params import check
from tests.support.imports import ROOT

TEXT, SPEAKER = "Yes, one.", "ben"


@pytest.fixture(scope="module")
def before(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("before")
    with tarfile.open(ROOT / "tests" / "fixtures" / "before_2026_11.tar.xz") as archive:
        archive.extractall(folder, filter="data")
    return folder


def said(before: Path, family: str) -> np.ndarray:
    with np.load(before / "spoken.npz") as spoken:
        return np.asarray(spoken[family])


def test_a_bundle_of_schema_3_speaks_as_it_did(before: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        voice = Voice.load(before / "codec_lm")
    [line] = [record.getMessage() for record in caplog.records if "schema version" in record.getMessage()]
    assert "schema version 3, read as 4" in line and "\n" not in line
    np.testing.assert_allclose(voice.say(TEXT, SPEAKER), said(before, "codec_lm"), atol=1e-4)


def test_trained_models_and_checkpoints_load_under_the_new_names(
    before: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    model, description = load_model(before / "trained" / "language_model", "language_model")
    assert isinstance(model, LanguageModel) and description["codec"]["codebooks"] == 2
    codec, described = load_model(before / "trained" / "codec", "codec")
    assert described["config"]["codebook_dropout"] == 0.2 and "streams" not in described["config"]
    assert sum("earlier Sonorant" in record.getMessage() for record in caplog.records) == 2

    old = described["config"] | {"streams": 2, "stream_dropout": 0.2}
    old = {key: value for key, value in old.items() if not key.startswith("codebook")}
    checkpoint.save(tmp_path / "old.ckpt", {"description": described | {"config": old}, "ema": codec.state_dict()})
    initial = read_initial(tmp_path / "old.ckpt", "codec")
    assert initial.description == described
    assert all(torch.equal(initial.weights[name], value) for name, value in codec.state_dict().items())


def test_settings_of_before_are_read_with_a_line_for_each_key(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    text = (ROOT / "params.yaml").read_text(encoding="utf-8")
    old = text.replace("  codebooks:", "  streams:").replace("  codebook_dropout:", "  stream_dropout:")
    assert old != text
    (tmp_path / "params.yaml").write_text(old, encoding="utf-8")
    check(tmp_path / "params.yaml")
    lines = {record.getMessage().split(": ", 1)[1] for record in caplog.records}
    assert "key 'codec.streams' is 'codebooks: 2' now; rename it" in lines
    assert "key 'codec.stream_dropout' is 'codebook_dropout: 0.1' now; rename it" in lines


@pytest.mark.parametrize(("value", "now"), [(True, "all"), (False, "shippable"), ([], [])])
def test_values_that_have_other_names_are_read_too(value: object, now: object) -> None:
    """What is neither is left for the check of the settings to refuse."""
    assert current_settings("evaluate", {"hear_slower": value}, "params.yaml") == {"hear": now}


def test_what_is_of_today_passes_without_a_word(caplog: pytest.LogCaptureFixture) -> None:
    description = {"kind": "codec", "config": {"codebooks": 2}}
    assert current_model(description, "model.json") is description
    assert current_settings("codec", {"codebooks": 2}, "params.yaml") == {"codebooks": 2}
    assert not caplog.records


def test_a_registry_of_before_speaks_and_takes_a_new_version(
    before: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("mlflow")
    from sonorant.registry import download_bundle, promote, register, rollback
    from tests.registry.planted import CONFIG, GATES, figures, renamed, write_report

    shutil.copytree(before / "runs", tmp_path / "runs")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    champion = download_bundle("models:/test-voice@champion", tmp_path / "champion")
    np.testing.assert_allclose(Voice.load(champion).say(TEXT, SPEAKER), said(before, "parallel"), atol=1e-4)

    newer = renamed(champion, tmp_path / "newer")
    assert register(newer, figures(), write_report(tmp_path / "report"), CONFIG, {}).version == 2
    assert promote("test-voice", GATES).passed
    assert "models:/test-voice/1 is champion again" in rollback("test-voice", "it hums").says()
