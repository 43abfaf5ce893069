"""An error in params.yaml is one line with the key."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import pytest
import yaml

from sonorant.errors import SonorantError
from tasks import check_params, params
from tests.support.command import error_line, run_command
from tests.support.imports import ROOT


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
        ("vocoder: 3", "section 'vocoder' is missing or not a mapping"),
        ("[1, 2", "not valid YAML"),
        ("3", "must hold sections"),
    ],
)
def test_what_is_wrong_is_one_line_that_names_it(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(SonorantError) as caught:
        load(tmp_path, text)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_missing_file_says_where_to_stand(tmp_path: Path) -> None:
    with pytest.raises(SonorantError, match=r"run from the folder that holds params\.yaml"):
        params.read(tmp_path / "params.yaml")


def test_a_contradiction_stops_a_stage_in_one_line_before_it_writes(tmp_path: Path) -> None:
    settings = yaml.safe_load((ROOT / "params.yaml").read_text(encoding="utf-8"))
    settings["prepare"]["min_seconds"] = 20.0
    (tmp_path / "params.yaml").write_text(yaml.safe_dump(settings), encoding="utf-8")
    done = run_command("tasks.prepare", "--corpus", "corpus", "--out", "out", cwd=tmp_path)
    assert error_line(done).startswith("params.yaml: prepare: ")
    assert not (tmp_path / "out").exists()


def test_every_section_of_the_real_file_is_what_its_owner_takes() -> None:
    assert set(check_params.owners()) == set(params.sections())
    check_params.check(ROOT / "params.yaml")


def test_a_bad_key_in_a_late_section_is_found_before_anything_runs(tmp_path: Path) -> None:
    text = (ROOT / "params.yaml").read_text(encoding="utf-8").replace("  max_rtf:", "  max_rft:")
    (tmp_path / "params.yaml").write_text(text, encoding="utf-8")
    with pytest.raises(SonorantError, match=r"unknown key 'promote\.max_rft'; did you mean 'max_rtf'"):
        check_params.check(tmp_path / "params.yaml")


def test_models_that_do_not_fit_each_other_are_found_before_anything_runs(tmp_path: Path) -> None:
    text = (ROOT / "params.yaml").read_text(encoding="utf-8").replace("  prosody: true ", "  prosody: false ")
    (tmp_path / "params.yaml").write_text(text, encoding="utf-8")
    with pytest.raises(
        SonorantError, match=r"params.yaml: vocoder\.kind source_filter needs .* acoustic\.prosody true"
    ):
        check_params.check(tmp_path / "params.yaml")
