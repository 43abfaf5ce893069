import dataclasses
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sonorant.errors import SonorantError
from sonorant.registry.tracking import TrackingUnavailable, open_store
from tests.registry.planted import GATES, figures, more_errors, of_bundle, write_report

pytestmark = pytest.mark.long

GRAPH = """\
stages:
  export:
    cmd: mkdir -p artifacts && cp -r corpora/voice artifacts/voice
    deps: [corpora/voice]
    outs: [artifacts/voice]
  evaluate:
    cmd:
      - mkdir -p reports && cp corpora/metrics.json reports && cp -r corpora/evaluation reports/evaluation
      - mkdir -p reports/evaluation/samples && touch reports/evaluation/samples/a.wav
      - echo '<!doctype html><title>page</title>' > reports/index.html
    deps: [artifacts/voice, corpora/metrics.json, corpora/evaluation]
    outs: [reports/evaluation, reports/index.html]
    metrics: [reports/metrics.json]
"""
SETTINGS = {"register": {"model": "flow-voice"}, "promote": dataclasses.asdict(GATES)}


@pytest.fixture
def project(make_project: Callable[..., Path], voice_bundle: Path) -> Path:
    root = make_project("project", GRAPH)
    shutil.copytree(voice_bundle, root / "corpora" / "voice")
    (root / "corpora" / "metrics.json").write_text(json.dumps(of_bundle(voice_bundle, figures(more_errors(0.6)))))
    write_report(root / "corpora", more_errors(0.6))
    (root / "params.yaml").write_text(json.dumps(SETTINGS))
    return root


def test_flow_registers_once_and_shows_its_results(run_flow: Callable[..., Any], project: Path) -> None:
    from prefect.client.orchestration import get_client

    from flows.results import summary

    found = run_flow(project).result()
    state = run_flow(project)
    for result, new in ((found, True), (state.result(), False)):
        assert (result["version"]["version"], result["version"]["new"]) == (1, new)
    assert found["champion"] and found["gates"]["wer_above_recordings"].startswith("passed: 14.1 %")
    store = open_store()
    runs = {run.data.tags["mlflow.runName"].split()[0]: run for run in store.client.search_runs([store.experiment])}
    assert runs["register"].data.tags["mlflow.parentRunId"] == runs["pipeline"].info.run_id
    assert {run.info.status for run in runs.values()} == {"FINISHED"}
    with get_client(sync_client=True) as client:
        kept = client.read_artifacts()
    artifacts = {each.key: str(each.data) for each in kept if each.flow_run_id == state.state_details.flow_run_id}
    rows = {row["gate"]: row for row in json.loads(artifacts["verdict"].replace("'", '"'))}
    wer = rows["wer_above_recordings"]
    assert (wer["verdict"], wer["95 % interval"]) == ("passed", "0.234 to 1.09")
    assert "the recordings" in artifacts["results"]
    logged = store.client.list_artifacts(runs["register"].info.run_id, "report")
    assert "report/index.html" in {item.path for item in logged}
    text = summary(found)
    assert "reports/evaluation/samples/a.wav" in text and "models:/flow-voice/1" in artifacts["report"]
    for part in ("the recordings", "14.1", "models:/flow-voice/1, alias champion", "evaluate"):
        assert part in text


def test_refused_voice_is_a_completed_run(run_flow: Callable[..., Any], project: Path, voice_bundle: Path) -> None:
    (project / "corpora" / "metrics.json").write_text(json.dumps(of_bundle(voice_bundle, figures(more_errors(10.0)))))
    found = run_flow(project).result()
    assert not found["champion"] and found["gates"]["wer_above_recordings"].startswith("failed")


@pytest.mark.parametrize(
    ("error", "attempts"), [(TrackingUnavailable("away"), 3), (OSError("reset"), 3), (SonorantError("bad"), 1)]
)
def test_actions_ask_again_only_where_an_answer_did_not_come(
    prefect_server: str, error: Exception, attempts: int
) -> None:
    from prefect import flow, task

    from flows.train_and_export import ACTION, refused

    calls = []

    @task(**{**ACTION, "retry_delay_seconds": 0})
    def act() -> Any:
        calls.append(1)
        if isinstance(error, SonorantError):
            return refused(error)
        raise error

    @flow
    def acting() -> Any:
        return act(return_state=True)

    state: Any = acting(return_state=True)
    assert state.is_failed()
    assert len(calls) == attempts
