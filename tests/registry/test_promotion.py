import dataclasses
import json
import socket
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sonorant.errors import SonorantError
from sonorant.files import read_json
from sonorant.plugins import family_names
from sonorant.registry import Verdict, promote, register
from sonorant.registry.champion_gates import judge_beside
from sonorant.registry.tracking import TrackingUnavailable, open_store
from tests.registry.conftest import aliases, tags
from tests.registry.planted import CONFIG, GATES, RECORDINGS, figures, more_errors, renamed, write_report
from tests.support.command import run_command
from tests.support.edited import edited

ALONE = {
    "wer_above_recordings",
    "wer_above_recordings_of_a_speaker",
    "naturalness_below_recordings_of_a_speaker",
    "naturalness_below_recordings",
    "rtf",
    "parity",
    "faulty_short_texts",
    "faulty_sentences",
}
BESIDE = {"wer_above_champion", "latency_over_champion", "dnsmos_below_champion", "size_over_champion"}


def challenge(bundle: Path, errors: np.ndarray = RECORDINGS, **limits: Any) -> Verdict:
    """Register a challenger and check its gates."""
    register(bundle, figures(errors), write_report(bundle.parent / f"report of {bundle.name}", errors), CONFIG, {})
    return promote("test-voice", dataclasses.replace(GATES, **limits))


def refused_by(verdict: Verdict) -> set[str]:
    return {gate.name for gate in verdict.gates if not gate.passed}


def test_an_equal_voice_takes_the_place_and_the_verdict_is_kept_with_all_figures(second: Path, project: Path) -> None:
    assert aliases() == {"challenger": 1, "champion": 1}
    assert {key.removeprefix("gate.") for key in tags(1) if key.startswith("gate.")} == ALONE
    verdict = challenge(second, more_errors(0.3))
    assert verdict.passed and {gate.name for gate in verdict.gates} == ALONE | BESIDE
    assert aliases() == {"challenger": 2, "champion": 2, "previous": 1}
    version = open_store().client.get_model_version("test-voice", "2")
    assert version.tags["gate.wer_above_champion"].startswith("passed: ")
    assert version.tags["verdict"].endswith("is champion; version 1 is previous")
    kept = read_json(Path(open_store().client.download_artifacts(version.run_id, "verdict.json", str(project))))
    assert (kept["passed"], kept["version"], kept["champion"]) == (True, 2, 1)
    figure = next(gate for gate in kept["gates"] if gate["name"] == "wer_above_champion")
    assert figure["limit"] == 4.0 and figure["value"] == pytest.approx(0.3, abs=0.1)


def test_a_worse_voice_is_refused_and_a_person_may_skip_the_comparison(second: Path) -> None:
    lenient = {"max_wer_above_recordings": dict.fromkeys(family_names(), 20.0)}
    verdict = challenge(second, more_errors(5.0), **lenient)
    assert refused_by(verdict) == {"wer_above_champion"}
    assert "is refused by wer_above_champion; champion does not move" in verdict.says()[-1]
    assert aliases() == {"challenger": 2, "champion": 1}
    limits = dataclasses.replace(GATES, **lenient)
    assert promote("test-voice", limits, without_champion="another recogniser").passed
    assert aliases() == {"challenger": 2, "champion": 2, "previous": 1}
    assert tags(2)["without_champion"] == "another recogniser"


def test_a_champion_that_cannot_be_read_refuses_its_challengers_by_name(second: Path, project: Path) -> None:
    for file in project.glob("mlartifacts/**/voice.json"):
        with edited(file) as description:
            description["schema_version"] = 2
    verdict = challenge(second)
    assert refused_by(verdict) == {"champion"}
    assert "version 1 cannot be read" in verdict.says()[-2] and "schema version 2" in verdict.says()[-2]


def test_the_champion_judged_again_stays_what_it_is(champion: Path) -> None:
    before = tags(1)
    assert {gate.name for gate in promote("test-voice", GATES).gates} == ALONE
    strict = promote("test-voice", dataclasses.replace(GATES, max_rtf=dict.fromkeys(family_names(), 1e-6)))
    assert not strict.passed and "stays champion, although it now fails rtf" in strict.says()[-1]
    assert aliases() == {"challenger": 1, "champion": 1} and tags(1) == before


def test_a_verdict_beside_a_champion_that_another_clone_has_moved_decides_nothing(
    second: Path, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    register(second, figures(), write_report(project / "report"), CONFIG, {})

    def while_another_clone_promotes(*given: Any) -> Any:
        monkeypatch.setattr("sonorant.registry.promotion.judge_beside", judge_beside)
        with pytest.MonkeyPatch.context() as elsewhere:
            (project / "clone").mkdir()
            elsewhere.chdir(project / "clone")
            assert promote("test-voice", GATES, 2).passed
        return judge_beside(*given)

    monkeypatch.setattr("sonorant.registry.promotion.judge_beside", while_another_clone_promotes)
    moved = "champion moved from version 1 to version 2 while 3 was judged; promote it again"
    with pytest.raises(TrackingUnavailable, match=moved):
        challenge(renamed(second, project / "third"), more_errors(0.3))
    assert aliases() == {"challenger": 3, "champion": 2, "previous": 1}
    assert tags(3)["verdict"].endswith(moved)
    assert promote("test-voice", GATES).champion == 2


def test_unknown_versions_are_refused(project: Path, voice_bundle: Path) -> None:
    with pytest.raises(SonorantError, match=r"\(versions: none\); .* register a voice"):
        promote("test-voice", GATES)
    register(voice_bundle, figures(), project / "absent", CONFIG, {})
    for unknown in (7, 0):
        with pytest.raises(SonorantError, match=rf"no version {unknown} \(versions: 1\)"):
            promote("test-voice", GATES, unknown)


@pytest.mark.parametrize("uri", ["sqlite:///absent/a.db", "postgresql://u:1@127.0.0.1:1/a", "http://127.0.0.1:{}"])
def test_without_a_registry_promote_says_so_and_makes_none(
    uri: str, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as mute:  # accepts and does not answer
        monkeypatch.setenv("MLFLOW_TRACKING_URI", uri.format(mute.getsockname()[1]))
        with pytest.raises(SonorantError, match=r"absent/a.db: no such file; register|^MLflow at .* not answer"):
            promote("m", GATES)
    assert not (project / "absent").exists()


def test_the_command_says_every_gate_and_exits_by_the_verdict(second: Path, project: Path) -> None:
    settings = {"register": dataclasses.asdict(CONFIG), "promote": dataclasses.asdict(GATES)}
    (project / "params.yaml").write_text(json.dumps(settings))
    register(second, figures(more_errors(9.0)), project / "absent", CONFIG, {})
    done = run_command("tasks.promote", "--strict")
    assert done.returncode == 1 and done.stderr == ""
    assert all(f"gate {name} " in done.stdout for name in ALONE | BESIDE)
