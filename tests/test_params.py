import copy
import json
import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import pytest
import yaml

from flows.workspace import edit
from sonorant.errors import SonorantError
from tasks import check_params, params
from tests.support.command import error_line, run_command
from tests.support.imports import ROOT
from tests.support.settings import project_settings


@dataclass(frozen=True, kw_only=True)
class Example:
    channels: int
    rate: float
    kind: Literal["one", "two"]

    def __post_init__(self) -> None:
        if self.channels < 1:
            raise ValueError(f"channels must be at least 1, not {self.channels}")


def load(tmp_path: Path, text: str) -> Example:
    path = tmp_path / "params.yaml"
    path.write_text(text, encoding="utf-8")
    return params.load("vocoder", Example, path)


def test_a_good_section_is_read(tmp_path: Path) -> None:
    assert load(tmp_path, "vocoder: {channels: 3, rate: 2, kind: one}") == Example(channels=3, rate=2.0, kind="one")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("vocoder: {chanels: 3, rate: 2.0, kind: one}", "unknown key 'vocoder.chanels'; did you mean 'channels'?"),
        ("vocoder: {channels: 3, rate: 2.0, x: 1}", "unknown key 'vocoder.x'; allowed: channels, rate, kind"),
        ("vocoder: {channels: 3, rate: 2.0}", "key 'vocoder.kind' is missing"),
        ("vocoder: {channels: three, rate: 2.0, kind: one}", "key 'vocoder.channels': input should be a valid integer"),
        ("vocoder: {channels: true, rate: 2.0, kind: one}", "key 'vocoder.channels'"),
        ("vocoder: {channels: 3, rate: 2.0, kind: three}", "'one' or 'two', not 'three'"),
        ("vocoder: {channels: 0, rate: 2.0, kind: one}", "channels must be at least 1, not 0"),
        ("vocodr: {}", "unknown section 'vocodr'; did you mean 'vocoder'?"),
        ("vocoder: 3", "section 'vocoder' is not a mapping"),
        ("[1, 2", "not valid YAML"),
        ("3", "is not a mapping of sections"),
    ],
)
def test_what_is_wrong_is_one_line_that_names_it(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(SonorantError) as caught:
        load(tmp_path, text)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_missing_file_says_where_to_stand(tmp_path: Path) -> None:
    with pytest.raises(SonorantError, match=r"run this command in the folder with params\.yaml"):
        params.read(tmp_path / "params.yaml")


def test_a_contradiction_stops_a_stage_in_one_line_before_it_writes(tmp_path: Path) -> None:
    settings = project_settings()
    settings["prepare"]["min_seconds"] = 20.0
    (tmp_path / "params.yaml").write_text(yaml.safe_dump(settings), encoding="utf-8")
    done = run_command("tasks.prepare", "--corpus", "corpus", "--out", "out", cwd=tmp_path)
    assert error_line(done).startswith("params.yaml: prepare: ")
    assert not (tmp_path / "out").exists()


def test_the_real_file_is_in_order_and_short() -> None:
    check_params.check(ROOT / "params.yaml")
    assert len((ROOT / "params.yaml").read_text(encoding="utf-8").splitlines()) <= 150


@pytest.mark.parametrize("section", params.sections())
def test_every_setting_has_a_default_and_a_meaning(section: str, tmp_path: Path) -> None:
    path = tmp_path / "params.yaml"
    path.write_text("{}")
    rows = params.table(section, path)
    assert rows and all(row["meaning"] and row["value"] == row["default"] and not row["set"] for row in rows)


def test_a_training_takes_what_all_share_and_its_own_section_goes_before(tmp_path: Path) -> None:
    path = tmp_path / "params.yaml"
    path.write_text("training: {seed: 3, warmup_steps: 7}\ntrain_codec: {seed: 4}\n")
    codec, vocoder = (params.effective(f"train_{kind}", path) for kind in ("codec", "vocoder"))
    assert (codec["seed"], codec["warmup_steps"]) == (4, 7)
    assert (vocoder["seed"], vocoder["warmup_steps"], vocoder["steps"]) == (3, 7, 1200)
    rows = {row["setting"]: row for row in params.table("train_vocoder", path)}
    assert rows["train_vocoder.seed"]["set"] and rows["train_vocoder.seed"]["default"] == 1


def test_a_mapping_may_be_set_in_part(tmp_path: Path) -> None:
    path = tmp_path / "params.yaml"
    path.write_text(
        "promote: {max_rtf: {parallel: 0.5}, naturalness_below_recordings: {codec_lm: {treble_db: [0, 1]}}}"
    )
    promote = params.effective("promote", path)
    assert promote["max_rtf"] == {"parallel": 0.5, "codec_lm": 0.1}
    found = promote["naturalness_below_recordings"]
    assert (found["codec_lm"]["treble_db"], found["codec_lm"]["pulses_db"]) == ([0.0, 1.0], [-13.0, 2.0])
    assert found["parallel"]["treble_db"] == [-6.0, 6.0]


def test_the_command_prints_settings_of_a_section(tmp_path: Path) -> None:
    (tmp_path / "params.yaml").write_text("audio: {n_mels: 100}")
    done = run_command("tasks.params", "audio", cwd=tmp_path)
    assert "audio.n_mels: 100 (default 80)\n    " in done.stdout, done.stderr
    assert "unknown section 'promot'; did you mean 'promote'?" in error_line(
        run_command("tasks.params", "promot", cwd=tmp_path)
    )


def test_a_bad_key_in_a_late_section_is_found_before_anything_runs(tmp_path: Path) -> None:
    text = (ROOT / "params.yaml").read_text(encoding="utf-8").replace("  max_rtf:", "  max_rft:")
    (tmp_path / "params.yaml").write_text(text, encoding="utf-8")
    with pytest.raises(SonorantError, match=r"unknown key 'promote\.max_rft'; did you mean 'max_rtf'"):
        check_params.check(tmp_path / "params.yaml")


ODD = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf, "-1": -1, "0": 0, "huge": 10**30, "empty": ""}
VALID = json.loads(Path(__file__).with_name("params_valid.json").read_text())
"""Settings for which an odd value is valid."""


def replaced(value: Any, odd: Any) -> Iterator[Any]:
    """Copies of a value, each with another leaf replaced."""
    places: Any = value if isinstance(value, dict) else range(len(value)) if isinstance(value, list | tuple) else None
    if places is None:
        yield odd
    for place in places or ():
        for new in replaced(value[place], odd):
            changed: Any = copy.copy(value) if isinstance(value, dict) else list(value)
            changed[place] = new
            yield changed


@pytest.mark.parametrize("section", params.sections())
def test_an_odd_value_of_any_setting_is_refused_in_one_line_or_valid(section: str, tmp_path: Path) -> None:
    path, config = tmp_path / "params.yaml", params.owner(section)
    defaults = json.loads(json.dumps(asdict(config())))
    for word, odd in ODD.items():
        accepted = set()
        for name, value in defaults.items():
            for changed in replaced(value, odd):
                path.write_text(yaml.safe_dump({section: {name: changed}}))
                try:
                    params.load(section, config, path)
                    accepted.add(name)
                except SonorantError as refused:
                    assert name in str(refused) and "\n" not in str(refused), (name, odd, refused)
        assert accepted == set(VALID[word].get(section, ())), word


def test_numbers_with_an_exponent_are_numbers(tmp_path: Path) -> None:
    """DVC writes 1e-05, which YAML 1.1 reads as text."""
    path = tmp_path / "params.yaml"
    for text, value in {"1e-5": 1e-5, "1e-05": 1e-5, "5E-1": 0.5, ".5e0": 0.5, "1.e-3": 1e-3, "+1.5e-2": 0.015}.items():
        path.write_text(f"train_acoustic: {{learning_rate: {text}, betas: [{text}, 9e-1]}}")
        found = params.effective("train_acoustic", path)
        assert (found["learning_rate"], found["betas"]) == (value, [value, 0.9])
        edit(path, {"train_acoustic.learning_rate": text, "train_vocoder.learning_rate": value})
        assert params.effective("train_acoustic", path)["learning_rate"] == value
        assert params.effective("train_vocoder", path)["learning_rate"] == value
