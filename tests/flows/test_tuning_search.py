from pathlib import Path
from typing import Any

import optuna
import pytest
import yaml

from flows.graph import read_graph
from flows.tuning.begin import base_of, check_search
from flows.tuning.figures import Figure, NoFigure, found_in
from flows.tuning.search import Search, read_search
from sonorant.errors import SonorantError
from sonorant.files import read_json, write_json
from tests.support.imports import ROOT
from tests.support.tuned import LOSS, SEARCH

RATE = "train_acoustic.learning_rate"
GRAPH = read_graph(ROOT)


def search(tmp_path: Path, **changes: Any) -> Search:
    file = tmp_path / "search.yaml"
    file.write_text(yaml.safe_dump(SEARCH | changes))
    return read_search(file)


def check(tmp_path: Path, **changes: Any) -> None:
    check_search(search(tmp_path, **changes), GRAPH, ROOT)


@pytest.mark.parametrize("file", sorted((ROOT / "tuning").glob("*.yaml")), ids=lambda file: file.name)
def test_searches_that_come_with_the_project_fit_it(file: Path) -> None:
    found = read_search(file)
    check_search(found, GRAPH, ROOT)
    assert found.study == file.stem


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"space": {"train_acoustic.learning_rat": {"choices": [1]}}}, "did you mean 'train_acoustic.learning_rate'?"),
        (
            {"space": {"acoustic.channels": {"choices": [128, "wide"]}}},
            "key 'acoustic.channels': input should be a valid integer, not 'wide'",
        ),
        ({"space": {"acoustic.channels": {"low": 1.5, "high": 3}}}, "acoustic.channels"),
        (
            {"space": {"train_acoustic.precision": {"choices": ["auto", "fp8"]}}},
            "key 'train_acoustic.precision': input should be 'auto'",
        ),
        (
            {"space": {"train_acoustic.ema_decay": {"low": 0.9, "high": 1.0}}},
            "train_acoustic.ema_decay': input should be less",
        ),
        ({"space": {"vocoder.channels": {"choices": [128]}}}, "vocoder.channels affects none of the figures"),
        ({"space": {"data.preload": {"choices": ["none"]}}}, "data.preload affects none of the figures"),
        ({"fixed": {"train_acoustic.stepps": 3}}, "did you mean 'train_acoustic.steps'?"),
        (
            {"fixed": {"train_acoustic.steps": "many"}},
            "fixed: key 'train_acoustic.steps': input should be a valid int",
        ),
        ({"objectives": {"train_acustic/validation/loss": "minimize"}}, "did you mean 'train_acoustic'?"),
        ({"prune": {"by": "validation/loss"}}, "prune: by: 'validation/loss' is not a figure"),
    ],
)
def test_what_the_project_has_not_is_named(changes: dict[str, Any], says: str, tmp_path: Path) -> None:
    with pytest.raises(SonorantError) as caught:
        check(tmp_path, **changes)
    assert says in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"objectives": [LOSS]}, "objectives: each figure needs a direction"),
        ({"objectives": {}}, "give at least one objective"),
        ({"space": {RATE: {"low": 1e-2, "high": 1e-3}}}, "low (0.01) must be below high (0.001)"),
        ({"space": {RATE: {"low": 0.0, "high": 1e-3, "log": True}}}, "a logarithmic range must start above 0"),
        ({"space": {RATE: {"low": 1e-3, "high": 1e-2, "choices": [1]}}}, "give either choices, or low and high"),
        ({"sampler": "grid"}, "train_acoustic.learning_rate: the sampler grid requires choices or a range with step"),
        ({"study": "a study"}, "study: 'a study' must consist of"),
        ({"trails": 3}, "unknown key 'trails'; did you mean 'trials'?"),
        ({"fixed": {RATE: 1e-3}}, f"{RATE} is in both space and fixed"),
        ({"prune": {"by": LOSS}, "objectives": {LOSS: "minimize", "a": "maximize"}}, "prune supports only one"),
    ],
)
def test_a_contradiction_names_the_file(changes: dict[str, Any], says: str, tmp_path: Path) -> None:
    with pytest.raises(SonorantError) as caught:
        search(tmp_path, **changes)
    assert str(caught.value).startswith(f"{tmp_path / 'search.yaml'}: ")
    assert says in str(caught.value) and "\n" not in str(caught.value)


def test_values_are_of_the_settings_type_and_floats_are_short(tmp_path: Path) -> None:
    space = {
        RATE: {"low": 1e-5, "high": 1e-1, "log": True},
        "acoustic.channels": {"low": 96, "high": 288, "step": 32},
        "codec.levels": {"choices": [[8, 5, 5, 5], [8, 8]]},
        "train_vocoder.adversarial": {"choices": [True, False]},
        "acoustic.dropout": {"low": 0.0, "high": 0.3, "step": 0.1},
    }
    found = search(tmp_path, space=space)
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=1))
    for _ in range(20):
        settings = found.suggest(study.ask())
        assert settings["train_acoustic.steps"] == 6, "what is fixed"
        assert type(settings["acoustic.channels"]) is int and (settings["acoustic.channels"] - 96) % 32 == 0
        assert settings["codec.levels"] in ([8, 5, 5, 5], [8, 8])
        assert type(settings["train_vocoder.adversarial"]) is bool
        assert len(repr(settings[RATE]).replace("e-05", "").replace("0.", "").lstrip("0")) <= 4
        assert 1e-5 <= settings[RATE] <= 1e-1
        for key, values in found.space.items():
            assert values.contains(settings[key])
    assert not found.space["acoustic.channels"].contains(100) and not found.space[RATE].contains(1.0)


def test_a_file_that_is_not_there_is_named_with_one_that_is() -> None:
    with pytest.raises(SonorantError, match=r"nope: No such file or directory; name a file such as tuning/") as caught:
        read_search(Path("nope"))
    assert (ROOT / str(caught.value).split()[-1]).exists()


def test_a_grid_ends_with_its_last_point(tmp_path: Path) -> None:
    space = {"acoustic.channels": {"low": 96, "high": 160, "step": 32}, RATE: {"choices": [1e-3, 2e-3]}}
    found = search(tmp_path, space=space, sampler="grid", trials=100)
    assert found.grid() == {"acoustic.channels": [96, 128, 160], RATE: [1e-3, 2e-3]}
    assert found.count == 6 and search(tmp_path, space=space, sampler="grid", trials=4).count == 4


METRICS = {
    "naturalness": {"fp32": {"dnsmos": {"ovrl": 2.9, "ovrl_ci95": [2.8, 3.0]}}, "fp16": "slower than fp32"},
    "speed": {"onnxruntime/fp32.medium": {"rtf": 0.003}},
}


def test_figures_are_found_with_their_intervals(tmp_path: Path) -> None:
    write_json(tmp_path / "reports" / "metrics.json", METRICS)
    assert Figure("naturalness.fp32.dnsmos.ovrl").measure(tmp_path) == (2.9, [2.8, 3.0])
    assert Figure("speed.onnxruntime/fp32.medium.rtf").measure(tmp_path) == (0.003, None), "keys may hold dots"
    with pytest.raises(NoFigure, match=r"naturalness\.fp16: slower than fp32"):
        Figure("naturalness.fp16.dnsmos.ovrl").measure(tmp_path)
    with pytest.raises(NoFigure, match="is not a number"):
        Figure("naturalness.fp16").measure(tmp_path)
    for wrong in ("naturalness.fp32.dnsmos.overl", "naturalness.fp32.dnsmos"):
        with pytest.raises(SonorantError, match=r"has no such figure; did you mean 'naturalness.fp32.dnsmos.ovrl'"):
            Figure(wrong).check(tmp_path)
    with pytest.raises(SonorantError, match="has no such figure; such as naturalness"):
        found_in(read_json(tmp_path / "reports" / "metrics.json"), "q")


def test_the_base_of_trials_is_all_that_they_share(tmp_path: Path) -> None:
    base = base_of(search(tmp_path), GRAPH, ROOT)
    assert {"train_acoustic.warmup_steps", "acoustic.dropout", "corpus.sentences", "text.frontend"} <= set(base)
    varied = {RATE, "acoustic.channels", "train_acoustic.steps"}
    assert not varied & set(base), "what trials vary is not shared"
    assert not any(key.startswith(("train_codec.", "train_vocoder.", "data.", "report.")) for key in base)
