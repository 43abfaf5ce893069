"""Register a voice bundle as a model version, with figures and report."""

import importlib.metadata
import json
import tempfile
import time
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sonorant.errors import SonorantError
from sonorant.files import read_json, write_json
from sonorant.registry import figures
from sonorant.registry.aliases import NEWEST, all_versions, registry
from sonorant.registry.content import HASH_TAG, content_of, still_holds, versions_of
from sonorant.registry.download import keep_trained, point_mlflow_at
from sonorant.registry.figures import Shipped, number, shipped
from sonorant.registry.tracking.mlflow_run import PARENT_TAG, RunSpec, close_run, flat, open_run
from sonorant.registry.tracking.mlflow_store import Store
from sonorant.speech.bundle import Bundle, read_bundle

METRICS, CHOICE, REPORT = "metrics.json", "choice.json", "report"
"""Artifacts of a version's run."""
PACKAGE = Path(__file__).parents[1]
# Packages needed to speak, without torch.
REQUIREMENTS = ("mlflow", "numpy", "pandas", "soundfile", "onnxruntime", "gruut", "array-api-compat", "pydantic")


@dataclass(frozen=True, kw_only=True)
class RegisterConfig:
    """Section `register` of params.yaml."""

    model: str = "sonorant-demo"
    """Name of the registered model."""

    def __post_init__(self) -> None:
        if not self.model or any(character in self.model for character in "/:.%\"'"):
            raise ValueError(f"model: '{self.model}' must be a name without / : . % and quotes")


@dataclass(frozen=True, kw_only=True)
class Registered:
    """A registered voice."""

    name: str
    version: int
    run_id: str
    """MLflow run with the report; child runs hold the variants."""
    new: bool
    """False if the same bundle was already registered."""
    without: tuple[str, ...]
    """Missing trained models, which cannot be fine-tuned from this version."""

    def says(self) -> str:
        found = "registered" if self.new else "this bundle is registered already"
        line = f"models:/{self.name}/{self.version}: {found}"
        return line + (f", without the trained {' and '.join(self.without)} to fine-tune" if self.without else "")


def register(
    bundle: Path,
    metrics: Mapping[str, Any],
    report: Path,
    config: RegisterConfig,
    origin: Mapping[str, str],
    execution: str | None = None,
    trained: Mapping[str, Path] | None = None,
) -> Registered:
    """Register the voice bundle, or find the version with the same content, and update its figures.

    Measurements are not content: a voice measured again is the same version. The newest version becomes `challenger`.

    `metrics`: content of reports/metrics.json; `report`: folder with the page and, in `evaluation`, the evaluated
    sentences; may be absent; `origin`: tags; `execution`: pipeline execution; `trained`: trained folders by kind,
    uploaded if the bundle was exported from them. Raises SonorantError if the bundle is damaged or changes during the
    call, TrackingUnavailable if MLflow does not answer.
    """
    voice = read_bundle(bundle)
    content = content_of(voice)
    belonging = {kind: folder for kind, folder in (trained or {}).items() if _exported_from(voice, kind, folder)}
    with registry() as store:
        _ensure_model(store, config.model)
        found = versions_of(store, config.model, content)
        if found:
            version, new = found[0], False
        else:
            spec = RunSpec(key=f"{config.model}-{content}", stage="register", execution=execution, tags=dict(origin))
            version, new = _make_version(store, config.model, content, bundle, spec)
        _describe(store, version, voice, metrics, origin)
        _log_files(store, version.run_id, voice, metrics, report)
        keep_trained(store, version.run_id, belonging)
        close_run(store, version.run_id, "FINISHED")
        store.client.set_registered_model_alias(config.model, NEWEST, str(max(all_versions(store, config.model))))
        number, run_id = int(version.version), version.run_id
        without = tuple(kind for kind in trained or {} if kind not in belonging)
        return Registered(name=config.model, version=number, run_id=run_id, new=new, without=without)


def _exported_from(voice: Bundle, kind: str, folder: Path) -> bool:
    if not (folder / "weights.pt").is_file():
        return False
    return bool(read_json(folder / "model.json").get("provenance") == voice.description.provenance.get(kind))


def _ensure_model(store: Store, model: str) -> None:
    from mlflow.exceptions import MlflowException

    try:
        store.client.create_registered_model(model, description="A voice made by Sonorant: text in, speech out")
    except MlflowException as error:
        if error.error_code != "RESOURCE_ALREADY_EXISTS":
            raise


def _make_version(store: Store, model: str, content: str, bundle: Path, spec: RunSpec) -> tuple[Any, bool]:
    """A version of the bundle, and whether it is new. If another clone registered the same bundle at the same time,
    the lower number is kept."""
    run_id, own = open_run(store, spec)
    logged = _log_model(store, run_id, bundle)
    if not still_holds(bundle, content):  # hashed before waiting for the lock
        store.client.delete_logged_model(logged.model_id)
        close_run(store, run_id, "FAILED")
        raise SonorantError(f"{bundle}: changed while it was registered; evaluate what it holds now and register it")
    version = store.client.create_model_version(
        model, source=logged.model_uri, run_id=run_id, tags={HASH_TAG: content}, model_id=logged.model_id
    )
    first = versions_of(store, model, content)[0]
    if first.version == version.version:
        return version, True
    store.client.delete_model_version(model, str(version.version))
    store.client.delete_logged_model(logged.model_id)
    close_run(store, run_id, "FINISHED")
    if own and first.run_id != run_id:  # same key, same run, unless both made one at once
        store.client.delete_run(run_id)
    return first, False


def _log_model(store: Store, run_id: str, bundle: Path) -> Any:
    import mlflow
    from mlflow.models import ModelSignature
    from mlflow.types import ColSpec, DataType, Schema

    string, number = DataType.string, DataType.double
    manner = [ColSpec(number, name, False) for name in ("speed", "pitch", "energy")]
    text: list[Any] = [ColSpec(string, "text"), ColSpec(string, "speaker", False), *manner]
    of_speech = {"audio": string, "sample_rate": DataType.long, "seconds": number, "timings": string}
    answers = of_speech | {"warning": string, "error": string}
    audio: list[Any] = [ColSpec(kind, name) for name, kind in answers.items()]
    point_mlflow_at(store)
    with mlflow.start_run(run_id=run_id), warnings.catch_warnings():
        # mlflow would load the voice for an input example
        warnings.filterwarnings("ignore", message=".*input example", category=UserWarning)
        return mlflow.pyfunc.log_model(
            name="voice",
            python_model=str(PACKAGE / "registry" / "pyfunc.py"),
            artifacts={"bundle": str(bundle.resolve())},
            code_paths=[str(PACKAGE)],
            pip_requirements=[f"{name}=={importlib.metadata.version(name)}" for name in REQUIREMENTS],
            signature=ModelSignature(inputs=Schema(text), outputs=Schema(audio)),
        )


def _describe(store: Store, version: Any, voice: Bundle, metrics: Mapping[str, Any], origin: Mapping[str, str]) -> None:
    """Tag the version; log the shipped variant's figures on its run and every variant's on a child run. MLflow
    attaches a run's metrics to all its models, so variants need runs of their own."""
    default = shipped(voice)
    for key, value in (dict(origin) | _tags(default, voice, metrics)).items():
        store.client.set_model_version_tag(version.name, str(version.version), key, value)
    beside = {kind: figures.entry(metrics, "intelligibility", kind) or {} for kind in figures.BESIDE}
    model_id = version.source.removeprefix("models:/")  # a version read back has only `source`
    _log_numbers(store, version.run_id, figures.of_variant(metrics, default.variant) | beside, model_id)
    for variant in figures.variants(metrics):
        chosen = str(variant == default.variant).lower()
        tags = {PARENT_TAG: version.run_id, "variant": variant, "shipped": chosen}
        run_id, _ = open_run(store, RunSpec(key=f"{version.run_id}-{variant}", stage=f"variant {variant}", tags=tags))
        _log_numbers(store, run_id, figures.of_variant(metrics, variant))
        close_run(store, run_id, "FINISHED")


def _tags(default: Shipped, voice: Bundle, metrics: Mapping[str, Any]) -> dict[str, str]:
    """Key figures as tags; missing ones are left out."""
    heard = figures.entry(metrics, "intelligibility", default.variant)
    medium = figures.entry(metrics, "speed", default.candidate, "medium", "threads_1")
    table = voice.description.choice.get("table") or []
    speedup = next((row.get("speedup") for row in table if row.get("candidate") == default.candidate), None)
    tags = {
        "family": voice.description.family,
        "speakers": ", ".join(voice.description.speakers),
        "variant": default.variant,
        "runtime": default.runtime,
        "speedup_over_fp32": speedup,
        "wer": heard if isinstance(heard, str) else figures.entry(heard, "wer"),
        "wer_ci95": figures.entry(heard, "wer_ci95"),
        "wer_recordings": number(metrics, "intelligibility", "recordings", "wer"),
        "wer_above_recordings": figures.entry(heard, "above_recordings", "wer"),
        "wer_above_recordings_ci95": figures.entry(heard, "above_recordings", "wer_ci95"),
        "runaway_rate": number(metrics, "decoding", default.variant, "runaway_rate"),
        "rtf_1_thread": figures.entry(medium, "rtf"),
        "p50_ms_1_thread": figures.entry(medium, "p50_ms"),
        "variant_bytes": default.bytes,
        "bundle_bytes": sum(file.stat().st_size for file in voice.folder.rglob("*") if file.is_file()),
    }
    present = {key: value for key, value in tags.items() if value is not None}
    return {key: value if isinstance(value, str) else json.dumps(value) for key, value in present.items()}


def _log_numbers(store: Store, run_id: str, values: dict[str, Any], model_id: str | None = None) -> None:
    from mlflow.entities import Metric

    now = round(time.time() * 1000)
    numbers = {key: _finite(value) for key, value in flat(values).items()}
    points = [Metric(key, value, now, 0, model_id=model_id) for key, value in numbers.items() if value is not None]
    for start in range(0, len(points), 500):
        store.client.log_batch(run_id, metrics=points[start : start + 500])


def _finite(text: str) -> float | None:
    try:
        return number({"value": float(text)}, "value")
    except ValueError:
        return None


def _log_files(store: Store, run_id: str, voice: Bundle, metrics: Mapping[str, Any], report: Path) -> None:
    with tempfile.TemporaryDirectory() as folder:
        for name, content in ((METRICS, metrics), (CHOICE, voice.description.choice)):
            write_json(Path(folder) / name, content)
            store.client.log_artifact(run_id, str(Path(folder) / name))
    for item in sorted(report.iterdir()) if report.is_dir() else ():
        if item.is_dir():
            store.client.log_artifacts(run_id, str(item), f"{REPORT}/{item.name}")
        elif not item.name.startswith("."):
            store.client.log_artifact(run_id, str(item), REPORT)
