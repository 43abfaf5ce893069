"""Register a voice bundle as a model version, with figures and report."""

import dataclasses
import importlib.metadata
import shutil
import tempfile
import time
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sonorant.errors import SonorantError
from sonorant.files import read_json
from sonorant.registry.aliases import NEWEST, all_versions, registry
from sonorant.registry.download import keep_trained, point_mlflow_at
from sonorant.registry.figures import BESIDE, Shipped, entry, number, of_variant, shipped, variants
from sonorant.registry.tracking.mlflow_run import PARENT_TAG, RunSpec, close_run, flat_numbers, open_run
from sonorant.registry.tracking.mlflow_store import Store, answering, models_page, store_uri
from sonorant.speech.bundle import Bundle, content_hash, read_bundle

METRICS, CHOICE, REPORT = "metrics.json", "choice.json", "report"
PACKAGE = Path(__file__).parents[1]
# Packages required for speaking without torch.
REQUIREMENTS = ("mlflow", "numpy", "pandas", "soundfile", "onnxruntime", "gruut", "array-api-compat", "pydantic")


@dataclass(frozen=True, kw_only=True)
class RegisterConfig:
    """Section `register` of params.yaml."""

    model: str = "sonorant-demo"
    """Name of the registered model."""

    def __post_init__(self) -> None:
        if not self.model or any(character in self.model for character in "/:.%\"'"):
            raise ValueError(f"model: '{self.model}' must be a name without / : . % or quotes")


@dataclass(frozen=True, kw_only=True)
class Registered:
    name: str
    version: int
    run_id: str
    """MLflow run with the report; its child runs have the variants' metrics."""
    new: bool
    """Whether the bundle was registered for the first time."""
    without: tuple[str, ...]
    """Missing kinds of trained models, which fine-tuning requires."""

    def says(self) -> str:
        found = "registered" if self.new else "already registered"
        line = f"models:/{self.name}/{self.version}: {found}"
        line += f"; cannot be fine-tuned: no trained {' or '.join(self.without)}" if self.without else ""
        page = models_page(store_uri(), self.name, self.version)
        return line + (f"; {page}" if page else "")


def register(
    bundle: Path,
    metrics: Mapping[str, Any],
    report: Path,
    config: RegisterConfig,
    origin: Mapping[str, str],
    execution: str | None = None,
    trained: Mapping[str, Path] | None = None,
) -> Registered:
    """Register the voice bundle, or find the version with the same content, and update its metrics.

    Measurements are not part of the content, so a voice that is measured again keeps its version. The newest version
    becomes `challenger`.

    `metrics` are the contents of reports/metrics.json. The folder `report` contains the page and, in `evaluation`, the
    evaluated sentences; it may be absent. `origin` are tags. `trained` maps kinds to folders, which are uploaded if the
    bundle was exported from them. Raises SonorantError if the bundle is damaged, TrackingUnavailable if MLflow does not
    answer.
    """
    read_bundle(bundle).check_files()
    with tempfile.TemporaryDirectory() as folder:
        # Copied because the bundle may change during the wait for the lock or the upload.
        voice = read_bundle(Path(shutil.copytree(bundle, Path(folder) / bundle.name)))
        spec = RunSpec(
            key=f"{config.model}-{content_of(voice)}", stage="register", execution=execution, tags=dict(origin)
        )
        with registry(create=True) as store:
            version, new = _version(store, config.model, voice, spec)
            _describe(store, version, voice, metrics, origin)
            _log_files(store, version.run_id, voice, metrics, report)
            belonging = {kind: path for kind, path in (trained or {}).items() if _exported_from(voice, kind, path)}
            keep_trained(store, version.run_id, belonging)
            close_run(store, version.run_id, "FINISHED")
            store.client.set_registered_model_alias(config.model, NEWEST, str(max(all_versions(store, config.model))))
    without = tuple(kind for kind in trained or {} if kind not in belonging)
    return Registered(name=config.model, version=int(version.version), run_id=version.run_id, new=new, without=without)


def _version(store: Store, model: str, voice: Bundle, spec: RunSpec) -> tuple[Any, bool]:
    from mlflow.exceptions import MlflowException

    try:
        store.client.create_registered_model(model, description="A voice made by Sonorant: text in, speech out")
    except MlflowException as error:
        if error.error_code != "RESOURCE_ALREADY_EXISTS":
            raise
    content = content_of(voice)
    if found := versions_of(store, model, content):
        return found[0], False
    run_id = open_run(store, spec)
    logged = _log_model(store, run_id, voice.folder)
    tags = {HASH_TAG: content}
    store.client.create_model_version(model, logged.model_uri, run_id, tags=tags, model_id=logged.model_id)
    return versions_of(store, model, content)[0], True


def _exported_from(voice: Bundle, kind: str, folder: Path) -> bool:
    if not (folder / "weights.pt").is_file():
        return False
    return bool(read_json(folder / "model.json").get("provenance") == voice.description.provenance.get(kind))


def signature() -> Any:
    """Return the columns that `pyfunc.py` reads and writes."""
    from mlflow.models import ModelSignature
    from mlflow.types import ColSpec, DataType, Schema
    from mlflow.types.schema import AnyType

    string, number = DataType.string, DataType.double
    # Any type, so that a wrong value is the error of its row.
    names = ("text", "speaker", "speed", "pitch", "energy")
    inputs: list[Any] = [ColSpec(AnyType(), name, required=name == "text") for name in names]
    outputs = {"audio": string, "sample_rate": DataType.long, "seconds": number, "timings": string}
    outputs |= {"warning": string, "error": string}
    return ModelSignature(Schema(inputs), Schema([ColSpec(kind, name) for name, kind in outputs.items()]))


def _log_model(store: Store, run_id: str, bundle: Path) -> Any:
    import mlflow

    point_mlflow_at(store)
    with mlflow.start_run(run_id=run_id), warnings.catch_warnings():
        # mlflow would load the voice for an input example
        warnings.filterwarnings("ignore", message=".*input example", category=UserWarning)
        return mlflow.pyfunc.log_model(
            name="voice",
            python_model=str(PACKAGE / "registry" / "pyfunc.py"),
            artifacts={"bundle": str(bundle)},
            code_paths=[str(PACKAGE)],
            pip_requirements=[f"{name}=={importlib.metadata.version(name)}" for name in REQUIREMENTS],
            signature=signature(),
        )


def _describe(store: Store, version: Any, voice: Bundle, metrics: Mapping[str, Any], origin: Mapping[str, str]) -> None:
    """Tag the version; log the shipped variant's metrics on its run and every variant's on a child run, because MLflow
    attaches a run's metrics to all models of the run."""
    default = shipped(voice)
    for key, value in (dict(origin) | _tags(default, voice, metrics)).items():
        store.client.set_model_version_tag(version.name, str(version.version), key, value)
    beside = {kind: entry(metrics, "intelligibility", kind) or {} for kind in BESIDE}
    model_id = version.source.removeprefix("models:/")  # a version read back has only `source`
    _log_numbers(store, version.run_id, of_variant(metrics, default.variant) | beside, model_id)
    for variant in variants(metrics):
        chosen = str(variant == default.variant).lower()
        tags = {PARENT_TAG: version.run_id, "variant": variant, "shipped": chosen}
        run_id = open_run(store, RunSpec(key=f"{version.run_id}-{variant}", stage=f"variant {variant}", tags=tags))
        _log_numbers(store, run_id, of_variant(metrics, variant))
        close_run(store, run_id, "FINISHED")


def _tags(default: Shipped, voice: Bundle, metrics: Mapping[str, Any]) -> dict[str, str]:
    heard = entry(metrics, "intelligibility", default.variant)
    table = voice.description.choice.get("table") or []
    tags = {
        "family": voice.description.family,
        "speakers": ", ".join(voice.description.speakers),
        "variant": default.variant,
        "runtime": default.runtime,
        "speedup_over_fp32": next((row["speedup"] for row in table if row["candidate"] == default.candidate), None),
        "wer": heard if isinstance(heard, str) else entry(heard, "wer"),
        "wer_above_recordings": entry(heard, "above_recordings", "wer"),
        "rtf_1_thread": number(metrics, "speed", default.candidate, "medium", "threads_1", "rtf"),
        "variant_bytes": default.bytes,
    }
    return {key: str(value) for key, value in tags.items() if value is not None}


def _log_numbers(store: Store, run_id: str, values: dict[str, Any], model_id: str | None = None) -> None:
    from mlflow.entities import Metric

    now = round(time.time() * 1000)
    points = [Metric(key, value, now, 0, model_id=model_id) for key, value in flat_numbers(values).items()]
    for start in range(0, len(points), 500):
        store.client.log_batch(run_id, metrics=points[start : start + 500])


def _log_files(store: Store, run_id: str, voice: Bundle, metrics: Mapping[str, Any], report: Path) -> None:
    store.client.log_dict(run_id, dict(metrics), METRICS)
    store.client.log_dict(run_id, voice.description.choice, CHOICE)
    if report.is_dir():
        store.client.log_artifacts(run_id, str(report), REPORT)


HASH_TAG = "bundle_sha256"


def content_of(voice: Bundle) -> str:
    """Return the hash of the bundle's contents, excluding measurements."""
    choice = {key: value for key, value in voice.description.choice.items() if key in ("variant", "runtime")}
    return content_hash(dataclasses.replace(voice, description=dataclasses.replace(voice.description, choice=choice)))


def versions_of(store: Store, model: str, content: str) -> list[Any]:
    """Return the versions with this content hash, oldest first."""
    versions = all_versions(store, model)
    return [versions[key] for key in sorted(versions) if versions[key].tags.get(HASH_TAG) == content]


def find_version(bundle: Path, model: str) -> int:
    """Return the number of the bundle's version, not necessarily the newest.

    Raises SonorantError if the bundle is damaged or not registered, TrackingUnavailable if MLflow does not answer.
    """
    content = content_of(read_bundle(bundle))
    with answering("registry") as store:
        found = versions_of(store, model, content)
    if not found:
        raise SonorantError(f"{bundle}: not registered as a version of models:/{model}; run python -m tasks.register")
    return int(found[0].version)
