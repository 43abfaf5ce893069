"""A third-party family works everywhere that a built-in family does.

Only an entry point registers it, so any table keyed by built-in families fails.
"""

import copy
import shutil
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import yaml

from sonorant import plugins
from sonorant.audio.wav import read_audio
from sonorant.errors import SonorantError
from sonorant.files import read_json
from sonorant.speech import Voice
from tasks.code_deps import generated
from tests.support.command import run_command
from tests.support.imports import ROOT
from tests.support.settings import project_settings

pytest.importorskip("pocketsphinx")
pytestmark = pytest.mark.skipif(shutil.which("flite") is None, reason="flite, which speaks, is not installed")

TRAIN: dict[str, Any] = {
    "steps": 6, "micro_batches_per_step": 2, "learning_rate": 2e-3, "warmup_steps": 1, "weight_decay": 0.01,
    "clip_norm": 1.0, "ema_decay": 0.5, "precision": "fp32", "seed": 1, "validate_every": 6, "checkpoint_every": 6,
    "log_every": 3, "learning_rate_batch": None,
}  # fmt: skip
SECTIONS = {
    "toy_hummer": {"width": 16, "frames": 4},
    "train_toy_hummer": TRAIN | {"frames_per_micro_batch": 2000, "diagonal_steps": 0},
    "toy_buzzer": {"width": 16},
    "train_toy_buzzer": TRAIN
    | {
        "segments_per_micro_batch": 2,
        "segment_frames": 32,
        "adversarial": False,
        "adversarial_width": 32,
        "adversarial_frames": 32,
    },
}


PROJECT = project_settings()
"""Read before the toy is registered, because the project has no limits for it."""


def settings() -> dict[str, Any]:
    """The project's settings for a small corpus, with sections and limits for the toy."""
    params = copy.deepcopy(PROJECT | SECTIONS)
    params["voice"]["family"] = "toy"
    params["corpus"] |= {"path": str(ROOT / "corpora/demo"), "sentences": 30}
    params["prepare"] |= {"validation": 0.1, "test": 0.1}
    params["quantize"] |= {"method": "ptq", "auto_trains": ["toy_hummer"], "calibration_utterances": 2}
    params["verify"] |= {"int8_size": 2.0, "runtimes": ["onnxruntime", "torch"]}
    for name, value in params["verify"]["relative_error"].items():
        if isinstance(value, dict):
            params["verify"]["relative_error"][name] = value | {"toy": 0.5}
    params["verify"]["correlation"] |= {"int8": 0.5, "int8_from_float": 0.1}
    params["recognizer"]["sentences"] = 3
    params["evaluate"] = {"latency_repeats": 3, "mos_sentences": 2, "rare_sentences": 2}
    of_words = ("max_wer_above_recordings", "max_wer_above_recordings_of_a_speaker")
    for name in (*of_words, "max_rtf", "max_faulty_short_texts", "max_faulty_sentences"):
        params["promote"][name] |= {"toy": 200.0}
    beside = params["promote"]["naturalness_below_recordings"]
    beside["toy"] = {name: [None, None] for name in beside["parallel"]}
    return params


@pytest.fixture(scope="module")
def registered(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder on the path, also of started processes, that registers the toy like an installed package."""
    folder = tmp_path_factory.mktemp("site")
    package = folder / "toy_voice-1.0.dist-info"
    package.mkdir()
    (package / "METADATA").write_text("Metadata-Version: 2.1\nName: toy-voice\nVersion: 1.0\n")
    (package / "entry_points.txt").write_text("[sonorant.plugins]\ntoy = tests.families.toy:PLUGIN\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(folder))
        patch.setenv("PYTHONPATH", f"{folder}:{ROOT}")
        _forget()
        yield folder
    _forget()


def _forget() -> None:
    plugins.load_family.cache_clear()
    plugins.plugins.cache_clear()


@pytest.fixture(scope="module")
def project(registered: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder in which every stage has run, from prompts to figures and a shipped voice."""
    place = tmp_path_factory.mktemp("project")
    (place / "params.yaml").write_text(yaml.safe_dump(settings()), encoding="utf-8")
    graph = yaml.safe_load((ROOT / "dvc.yaml").read_text(encoding="utf-8"))["stages"]
    for name in ("dvc.yaml", "sonorant", "tasks"):
        (place / name).symlink_to(ROOT / name)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(place)
        for described in graph.values():
            command = described["cmd"].replace("${voice.family}", "toy")
            command = command.replace("${corpus.path}", str(ROOT / "corpora/demo"))
            _, _, module, *arguments = command.split()
            patch.setattr(sys, "argv", [module, *arguments])
            import_module(module).main()
        yield place


@pytest.mark.long  # `project` is a whole pipeline
def test_it_is_trained_quantised_and_judged_by_its_own_kinds(project: Path) -> None:
    kinds = [read_json(project / "models" / name / "model.json")["kind"] for name in ("predictor", "waveform")]
    assert kinds == ["toy_hummer", "toy_buzzer"]
    assert read_json(project / "data/codes/header.json")["family"] == "toy"
    report = read_json(project / "reports/quantization.json")
    assert report["predictor"]["measure"] == "toy_error"
    parity = read_json(project / "reports/parity.json")
    passed = {name for name, found in parity.items() if isinstance(found, dict) and found["passed"]}
    assert passed == {"onnxruntime/fp32", "onnxruntime/int8", "torch/fp32", "torch/int8"}
    metrics = read_json(project / "reports/metrics.json")
    assert metrics["family"] == "toy"
    assert metrics["intelligibility"]["fp32"]["wer"] > 50  # it only hums
    assert "hummer" in (project / "reports/index.html").read_text(encoding="utf-8")


@pytest.mark.long  # `project` is a whole pipeline
def test_it_speaks_by_the_command_and_times_its_words(project: Path) -> None:
    out = [project / "one.wav", "--timings", project / "one.json"]
    done = run_command("sonorant.cli.main", "say", "One, two.", "--voice", project / "artifacts/voice", "-o", *out)
    assert (done.returncode, done.stderr) == (0, "")
    samples, rate = read_audio(project / "one.wav", None)
    assert len(samples) > 0.05 * rate and abs(samples).max() > 0
    words = read_json(project / "one.json")["words"]
    # `^` and every phoneme, also pauses, hum for 4 frames of one hop.
    places = [round(second * 16000 / (4 * 256), 3) for word in words for second in (word["start"], word["end"])]
    assert [word["text"] for word in words] == ["One", "two"] and places == [1, 4, 5, 7]
    assert "<rt>" in (project / "reports/index.html").read_text(encoding="utf-8")


@pytest.mark.long  # `project` is a whole pipeline
def test_a_runtime_that_it_has_not_is_refused_by_those_it_has(project: Path) -> None:
    with pytest.raises(
        SonorantError, match=r"tensorrt does not support the family toy; use one of: onnxruntime, torch$"
    ):
        Voice.load(project / "artifacts/voice", runtime="tensorrt")
    with pytest.raises(SonorantError, match=r"does not support prompts|speaks a text in only one way"):
        Voice.load(project / "artifacts/voice").prompt(Path("hello.wav"))


def test_the_stages_depend_on_its_settings(registered: Path) -> None:
    graph = generated((ROOT / "dvc.yaml").read_text(encoding="utf-8"))
    assert "toy_buzzer, train_toy_buzzer]" in graph and "toy_hummer, train_toy_hummer]" in graph


def test_settings_ask_for_its_sections_and_its_limits(registered: Path, tmp_path: Path) -> None:
    from tasks.check_params import check

    for change, message in (
        (lambda all: all["toy_buzzer"].update(widht=3), "unknown key 'toy_buzzer.widht'; did you mean 'width'"),
        (lambda all: all["promote"]["max_rtf"].pop("toy"), "max_rtf must have a limit for each of .*toy"),
        (lambda all: all["verify"]["relative_error"]["int8"].pop("toy"), "no tolerance for int8 of family toy"),
        (
            lambda all: all["voice"].update(family="choir"),
            "unknown family 'choir'; use one of: parallel, codec_lm, toy",
        ),
    ):
        changed = settings()
        change(changed)  # type: ignore[no-untyped-call]
        (tmp_path / "params.yaml").write_text(yaml.safe_dump(changed), encoding="utf-8")
        with pytest.raises(SonorantError, match=message):
            check(tmp_path / "params.yaml")


def test_a_registration_that_leads_nowhere_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    lost = plugins.Plugin(families={"lost": "tests.families.nowhere:LOST"})
    monkeypatch.setattr(plugins, "plugins", lambda: (lost,))
    with pytest.raises(SonorantError, match=r"cannot load tests\.families\.nowhere:LOST"):
        plugins.load_family("lost")
