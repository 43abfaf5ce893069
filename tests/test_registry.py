"""A voice in a real MLflow registry: one version a bundle, aliases moved by the gates, spoken through the pyfunc."""

import base64
import io
import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import soundfile

from sonorant.errors import SonorantError
from sonorant.registry import PromoteConfig, RegisterConfig, download_bundle, judge, promote, register
from sonorant.runtime.bundle import content_hash, read_bundle
from sonorant.tracking import open_store
from sonorant.training.initial import read_initial
from tasks.initial import find_initial

pytest.importorskip("mlflow")
CONFIG = RegisterConfig(model="test-voice")
GATES = PromoteConfig(max_wer_above_recordings=4.0, max_rtf=0.05, max_abs_diff=1e-3)


def figures(wer: float = 19.0, rtf: float = 0.01, difference: float = 1e-5) -> dict[str, Any]:
    return {
        "intelligibility": {
            "recordings": {"wer": 18.4, "cer": 7.0, "wer_ci95": [16.0, 21.0], "words": 900},
            "voice": {"wer": wer, "cer": 8.0, "wer_ci95": [wer - 2, wer + 2], "words": 900},
        },
        "speed": {"onnxruntime": {"medium": {"threads_1": {"rtf": rtf, "p50_ms": 30.0, "p95_ms": 31.0, "p99_ms": 32.0}}}},
        "parity": {"acoustic": {"max_abs_diff": difference}, "vocoder": {"max_abs_diff": 0.0}},
        "environment": {"cores": 2},
    }


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SONORANT_EXECUTION", raising=False)
    # mlflow keeps what it was told in the environment; the fixture puts it back.
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path}/mlflow.db")
    (tmp_path / "report").mkdir()
    (tmp_path / "report" / "index.html").write_text("<html></html>")
    return tmp_path


def variant(bundle: Path, to: Path) -> Path:
    """A bundle of other content: its provenance differs."""
    shutil.copytree(bundle, to)
    description = json.loads((to / "voice.json").read_text())
    description["provenance"]["note"] = to.name
    (to / "voice.json").write_text(json.dumps(description))
    return to


def aliases() -> dict[str, int]:
    return {name: int(version) for name, version in open_store().client.get_registered_model("test-voice").aliases.items()}


def test_version_is_the_bundle_and_aliases_follow_the_gates(voice_bundle: Path, project: Path) -> None:
    origin = {"git_commit": "abc", "dvc_lock": "def", "data": "123"}
    first = register(voice_bundle, figures(), project / "report", CONFIG, origin)
    again = register(Path(shutil.copytree(voice_bundle, project / "elsewhere")), figures(), project / "report", CONFIG, origin)
    assert (first.version, first.new, again.version, again.new) == (1, True, 1, False)
    assert promote("test-voice", GATES).passed
    assert aliases() == {"challenger": 1, "champion": 1}

    second = register(variant(voice_bundle, project / "second"), figures(wer=30.0), project / "report", CONFIG, origin)
    verdict = promote("test-voice", GATES, second.version)
    assert not verdict.passed
    assert "refused by wer" in verdict.says()[-1]
    assert aliases() == {"challenger": 2, "champion": 1}

    third = register(variant(voice_bundle, project / "third"), figures(), project / "report", CONFIG, origin)
    assert promote("test-voice", GATES, third.version).former == 1
    assert aliases() == {"challenger": 3, "champion": 3, "previous": 1}
    assert promote("test-voice", GATES, third.version).former is None, "the champion again is no change"
    assert aliases() == {"challenger": 3, "champion": 3, "previous": 1}

    client = open_store().client
    tags = client.get_model_version("test-voice", "2").tags
    assert tags.items() >= {**origin, "wer": "30.0", "wer_ci95": "[28.0, 32.0]", "wer_recordings": "18.4"}.items()
    assert tags["gate.wer"].startswith("failed: 30.0 % (95 % interval 28.0 - 32.0), recordings 18.4 %: +11.6 points")
    assert tags["gate.latency"].startswith("passed") and tags["gate.parity"].startswith("passed")
    assert {file.path for file in client.list_artifacts(first.run_id)} >= {"metrics.json", "report"}
    assert client.get_run(first.run_id).data.metrics["intelligibility.voice.wer"] == 19.0


def test_registered_voice_speaks_without_torch(voice_bundle: Path, project: Path) -> None:
    register(voice_bundle, figures(), project / "report", CONFIG, {})
    promote("test-voice", GATES)
    code = (
        "import sys, json, os, mlflow, pandas\n"
        "mlflow.set_registry_uri(os.environ['MLFLOW_TRACKING_URI'])\n"
        "model = mlflow.pyfunc.load_model('models:/test-voice@champion')\n"
        "out = model.predict(pandas.DataFrame({'text': ['One.', 'Two words.'], 'speaker': [None, 'ben'], 'speed': [None, 2.0]}))\n"
        "assert 'torch' not in sys.modules\n"
        "print(out.to_json(orient='records'))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=project, check=False)
    assert done.returncode == 0, done.stderr
    for row in json.loads(done.stdout.splitlines()[-1]):
        samples, rate = soundfile.read(io.BytesIO(base64.b64decode(row["audio"])))
        assert rate == row["sample_rate"] and len(samples) / rate == pytest.approx(row["seconds"]) and len(samples) > 0


def test_requirements_name_no_torch_and_exact_versions(voice_bundle: Path, project: Path) -> None:
    register(voice_bundle, figures(), project / "report", CONFIG, {})
    [file] = project.glob("mlartifacts/**/requirements.txt")
    lines = file.read_text().split()
    assert {line.split("==")[0] for line in lines} == {"mlflow", "numpy", "pandas", "soundfile", "onnxruntime", "gruut"}
    assert all("==" in line for line in lines)


def test_bundle_comes_back_from_the_registry(voice_bundle: Path, project: Path) -> None:
    register(voice_bundle, figures(), project / "report", CONFIG, {})
    downloaded = download_bundle("models:/test-voice@challenger", project / "got")
    assert content_hash(read_bundle(downloaded)) == content_hash(read_bundle(voice_bundle))
    assert not list((project / "got").rglob("weights.pt")), "whoever speaks does not download what training needs"
    with pytest.raises(SonorantError, match="champion"):
        download_bundle("models:/test-voice@champion", project / "got")


@pytest.mark.parametrize(
    ("change", "failing"),
    [
        ({}, set()),
        ({"wer": 22.4}, set()),
        ({"wer": 22.5}, {"wer"}),
        ({"wer": float("nan")}, {"wer"}),
        ({"rtf": 0.051}, {"latency"}),
        ({"difference": 2e-3}, {"parity"}),
        ({"wer": 90.0, "rtf": 1.0, "difference": 1.0}, {"wer", "latency", "parity"}),
    ],
)
def test_each_gate_judges_its_figure(change: dict[str, float], failing: set[str]) -> None:
    assert {gate.name for gate in judge(figures(**change), GATES) if not gate.passed} == failing


def test_what_was_not_measured_does_not_pass() -> None:
    assert [gate.says() for gate in judge({}, GATES)] == ["failed: not measured"] * 3
    assert not judge({**figures(), "speed": {"onnxruntime": "not run: no cores"}}, GATES)[1].passed


def test_a_registered_voice_can_be_fine_tuned_elsewhere(voice_bundle: Path, trained: tuple[Path, Path], project: Path) -> None:
    folders = dict(zip(("acoustic", "vocoder"), trained, strict=True))
    other = Path(shutil.copytree(folders["acoustic"], project / "other"))
    description = json.loads((other / "model.json").read_text())
    (other / "model.json").write_text(json.dumps(description | {"provenance": {"steps": 1}}))
    nowhere = project / "nowhere"
    of_another = register(voice_bundle, figures(), project / "report", CONFIG, {}, trained=folders | {"acoustic": other})
    assert of_another.says() == "models:/test-voice/1: registered, without the trained acoustic to fine-tune"
    with pytest.raises(SonorantError, match="registered without the trained acoustic model"):
        find_initial("models:/test-voice/1", "acoustic", nowhere, nowhere)
    assert register(voice_bundle, figures(), project / "report", CONFIG, {}, trained=folders).without == ()
    for kind, folder in folders.items():
        found = find_initial("models:/test-voice@challenger", kind, nowhere, nowhere)
        assert found.content() == read_initial(folder, kind).content()
        assert found.source == "models:/test-voice@challenger"
    for named in ("models:/test-voice@nobody", "models:/nothing/1", "models:/test-voice"):
        with pytest.raises(SonorantError, match=named) as refused:
            find_initial(named, "acoustic", nowhere, nowhere)
        assert "\n" not in str(refused.value)


def test_damaged_bundle_and_unknown_version_are_refused(voice_bundle: Path, project: Path) -> None:
    with pytest.raises(SonorantError, match="register a voice first"):
        promote("test-voice", GATES)
    broken = Path(shutil.copytree(voice_bundle, project / "broken"))
    (broken / "vocoder.fp32.onnx").write_bytes(b"")
    with pytest.raises(SonorantError, match=r"vocoder\.onnx"):
        register(broken, figures(), project / "report", CONFIG, {})
    assert not open_store().client.search_registered_models()
