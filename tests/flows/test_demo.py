"""`make demo` for either family, and paths that a person can paste wherever the run worked."""

import re
from pathlib import Path

import pytest

from flows import demo, train_and_export
from flows.demo import overrides_of, summary
from flows.workspace import parse_overrides
from sonorant.errors import SonorantError
from sonorant.plugins import family_names
from tests.support.imports import ROOT


def test_a_family_is_an_override_unless_the_settings_have_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "params.yaml").write_text("voice: {family: parallel}\nregister: {model: mine}\n")
    monkeypatch.chdir(tmp_path)
    assert overrides_of(None) is None and overrides_of("parallel") is None
    assert overrides_of("codec_lm") == {"voice.family": "codec_lm", "register.model": "mine-codec_lm"}


def test_an_unknown_family_is_one_line() -> None:
    with pytest.raises(SonorantError, match=r"^unknown family 'codec'; there are: parallel, codec_lm$"):
        overrides_of("codec")


def test_settings_are_given_as_in_params_yaml() -> None:
    given = [
        "corpus.kind=speakers",
        "audio.f_max=8000",
        "train_acoustic.learning_rate=1.0e-3",
        "prepare.decisions=null",
    ]
    assert parse_overrides(given, "--set") == {
        "corpus.kind": "speakers",
        "audio.f_max": 8000,
        "train_acoustic.learning_rate": 1.0e-3,
        "prepare.decisions": None,
    }
    for wrong in ("corpus.kind", "=speakers"):
        with pytest.raises(SonorantError, match=f"--set {wrong}: give a setting and its value"):
            parse_overrides([wrong], "--set")
    with pytest.raises(SonorantError, match=r"--set a\.b=\[: '\[' is no value of params\.yaml"):
        parse_overrides(["a.b=["], "--set")


def test_a_value_that_a_stage_would_refuse_is_refused_before_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr("sys.argv", ["flows.demo", "--set", "evaluate.hear=int8"])
    monkeypatch.setattr(train_and_export, "train_and_export", lambda **_: pytest.fail("the flow was begun"))
    with pytest.raises(SonorantError, match=r"^params\.yaml with the overrides: .*evaluate\.hear.*int8"):
        demo.main()


def test_make_passes_the_family_on() -> None:
    [line] = re.findall(r"python -m flows\.demo(.*)", (ROOT / "Makefile").read_text(encoding="utf-8"))
    assert line == ' $(if $(FAMILY),--family $(FAMILY)) $(if $(CORPUS),--corpus "$(CORPUS)")'
    assert set(family_names()) == {"parallel", "codec_lm"}


@pytest.mark.parametrize("where", [".", "runs/workspaces/id"])
def test_paths_are_as_seen_from_the_shell(where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    sample = Path(where) / "reports/evaluation/samples/a.fp32.wav"
    sample.parent.mkdir(parents=True)
    sample.touch()
    found = {"where": str(tmp_path / where), "seconds": {}, "metrics": {}, "choice": {}, "version": None}
    text = summary(found)
    for path in (sample, Path(where) / "reports/index.html", Path(where) / "reports/choice.json"):
        assert f"  {path}" in text or f": {path}" in text
    assert f"--voice {Path(where) / 'artifacts/voice'} " in text
    assert ("nothing to be done" in text) == (where == ".")
