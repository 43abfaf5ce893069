"""MLflow run of a study, with a child run per trial, which is the parent of the trial's stages. An unavailable store
never makes a trial fail."""

from collections.abc import Mapping
from typing import Any

from sonorant.files import locked
from sonorant.registry.tracking.mlflow_run import EXECUTION_TAG, PARENT_TAG, flat
from sonorant.registry.tracking.mlflow_store import DEFAULT_DATABASE, Store, open_store, unless_away

STUDY_TAG, TRIAL_TAG = "sonorant.study", "sonorant.trial"


def open_trial(study: str, number: int, execution: str, settings: Mapping[str, Any]) -> None:
    with unless_away(f"{study} {number}"):
        store = open_store()
        parent = study_run(store, study)
        tags = {EXECUTION_TAG: execution, PARENT_TAG: parent, STUDY_TAG: study, TRIAL_TAG: str(number)}
        run = store.client.create_run(store.experiment, run_name=f"{study} {number}", tags=tags)
        for key, value in flat(settings).items():
            store.client.log_param(run.info.run_id, key, value[:6000])


def close_trial(study: str, number: int, status: str, values: Mapping[str, float], why: str = "") -> None:
    """Close a trial's newest run as FINISHED, FAILED or KILLED, with its metrics or the reason there are none."""
    with unless_away(f"{study} {number}"):
        store = open_store()
        for found in _find(store, study, str(number)):
            run = found.info.run_id
            for name, value in values.items():
                store.client.log_metric(run, name, value)
            if why:
                store.client.set_tag(run, "ended", why[:5000])
            store.client.set_terminated(run, status)


def study_run(store: Store, study: str) -> str:
    with locked(DEFAULT_DATABASE.with_name("study.lock")):  # two workers may start simultaneously
        found = _find(store, study, "all")
        if found:
            return str(found[0].info.run_id)
        tags = {STUDY_TAG: study, TRIAL_TAG: "all"}
        run = store.client.create_run(store.experiment, run_name=f"study {study}", tags=tags)
        store.client.set_terminated(run.info.run_id, "FINISHED")  # only holds trials
    return str(run.info.run_id)


def _find(store: Store, study: str, trial: str) -> list[Any]:
    where = f"tags.`{STUDY_TAG}` = '{study}' and tags.`{TRIAL_TAG}` = '{trial}'"
    return list(store.client.search_runs([store.experiment], filter_string=where, max_results=1))
