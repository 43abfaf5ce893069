from pathlib import Path
from typing import Any

import pytest

from flows.demo import overrides_of
from flows.results import summary
from flows.workspace import parse_overrides
from sonorant.errors import SonorantError


def test_a_family_is_an_override_unless_the_settings_have_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "params.yaml").write_text("voice: {family: parallel}\nregister: {model: mine}\n")
    monkeypatch.chdir(tmp_path)
    assert overrides_of(None) is None and overrides_of("parallel") is None
    assert overrides_of("codec_lm") == {"voice.family": "codec_lm", "register.model": "mine-codec_lm"}


def test_an_unknown_family_is_one_line() -> None:
    with pytest.raises(SonorantError, match=r"^unknown family 'codec'; use one of: parallel, codec_lm$"):
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
    with pytest.raises(SonorantError, match=r"--set a\.b=\[: '\[' is not valid YAML"):
        parse_overrides(["a.b=["], "--set")


@pytest.mark.parametrize("where", [".", "runs/workspaces/id"])
def test_paths_are_as_seen_from_the_shell(where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    sample = Path(where) / "reports/evaluation/samples/a.fp32.wav"
    sample.parent.mkdir(parents=True)
    sample.touch()
    found: dict[str, Any] = {
        "where": str(tmp_path / where),
        "seconds": {},
        "metrics": {},
        "choice": {},
        "version": None,
    }
    found["voice"] = str(tmp_path / "voices/anna")
    text = summary(found)
    for path in (sample, Path(where) / "reports/index.html", Path(where) / "reports/choice.json"):
        assert f"  {path}" in text or f": {path}" in text
    assert text.splitlines()[-1] == '  sonorant say --voice voices/anna "Good morning." -o morning.wav'
    assert ("already up to date" in text) == (where == ".")
