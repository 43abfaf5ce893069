"""Download registered voices. Trained models are stored as artifacts of the version's run, so serving does not download
them."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sonorant.errors import SonorantError
from sonorant.registry.tracking.mlflow_store import Store, answering


def point_mlflow_at(store: Store) -> None:
    import mlflow

    mlflow.set_tracking_uri(store.uri)
    mlflow.set_registry_uri(store.uri)


def download_bundle(uri: str, out: Path) -> Path:
    """Download the bundle of models:/<name>@<alias> or models:/<name>/<version> and return its folder in `out`.

    Raises SonorantError for an unknown model, TrackingUnavailable if MLflow does not answer.
    """
    with answering(uri) as store:
        import mlflow

        point_mlflow_at(store)
        out.mkdir(parents=True, exist_ok=True)
        folder = mlflow.artifacts.download_artifacts(artifact_uri=uri, dst_path=str(out))
    bundles = sorted((Path(folder) / "artifacts").glob("*/voice.json"))
    if not bundles:
        raise SonorantError(f"{uri} has no voice bundle; give a model registered by Sonorant")
    return bundles[0].parent


FOLDER = "trained"
FILES = ("weights.pt", "model.json")


def keep_trained(store: Store, run_id: str, folders: Mapping[str, Path]) -> None:
    """Upload trained models (`folders` by kind) that a version's run lacks or has only in part. The last file marks
    completion."""
    for kind, folder in folders.items():
        present = {Path(file.path).name for file in store.client.list_artifacts(run_id, f"{FOLDER}/{kind}")}
        for name in FILES if FILES[-1] not in present else ():
            store.client.log_artifact(run_id, str(folder / name), f"{FOLDER}/{kind}")


def download_trained(uri: str, kind: str, out: Path) -> Path:
    """Download the trained model of `kind` (such as acoustic or codec) and return its folder in `out`. Raises
    SonorantError if the version has none, TrackingUnavailable if MLflow does not answer."""
    with answering(uri) as store:
        version = _version(store, uri)
        present = {Path(file.path).name for file in store.client.list_artifacts(version.run_id, f"{FOLDER}/{kind}")}
        if not set(FILES) <= present:
            raise SonorantError(
                f"{uri} was registered without the trained {kind} model; "
                "register it again with its models, or give a checkpoint"
            )
        return Path(store.client.download_artifacts(version.run_id, f"{FOLDER}/{kind}", str(out)))


def version_of(uri: str) -> str:
    """Resolve models:/<name>@<alias> or models:/<name>/<version> to <name>/<version>.

    Raises SonorantError for an unknown version, TrackingUnavailable if MLflow does not answer.
    """
    with answering(uri) as store:
        version = _version(store, uri)
        return f"{version.name}/{version.version}"


def _version(store: Store, uri: str) -> Any:
    parts = re.fullmatch(r"models:/([^/@]+)(?:@([^/@]+)|/(\d+))", uri)
    if not parts:
        raise SonorantError(f"'{uri}' is not a model; give models:/<name>@<alias> or models:/<name>/<version>")
    name, alias, number = parts.groups()
    client = store.client
    return client.get_model_version_by_alias(name, alias) if alias else client.get_model_version(name, number)
