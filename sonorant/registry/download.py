"""A registered voice back as files on this machine. Knows nothing of aliases, figures and gates."""

from __future__ import annotations

from pathlib import Path

from sonorant.errors import SonorantError
from sonorant.tracking.store import Store, answering


def use(store: Store) -> None:
    """Some of mlflow's functions take no client, only the process's setting."""
    import mlflow

    mlflow.set_tracking_uri(store.uri)
    mlflow.set_registry_uri(store.uri)


def download_bundle(uri: str, out: Path) -> Path:
    """Download the voice bundle of a registered model (models:/<name>@<alias> or models:/<name>/<version>).

    Returns the bundle's folder, below `out`. Raises SonorantError if there is no such model, TrackingUnavailable if MLflow does not answer.
    """
    with answering(uri) as store:
        import mlflow

        use(store)
        out.mkdir(parents=True, exist_ok=True)
        folder = mlflow.artifacts.download_artifacts(artifact_uri=uri, dst_path=str(out))
    bundles = sorted((Path(folder) / "artifacts").glob("*/voice.json"))
    if not bundles:
        raise SonorantError(f"{uri}: holds no voice bundle; name a model that sonorant registered")
    return bundles[0].parent
