"""Voices as versions of a model in the MLflow registry, and the gates of the alias `champion`. Knows nothing of how voices are made."""

from __future__ import annotations

import importlib.metadata
import json
import math
import tempfile
import time
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sonorant.errors import SonorantError
from sonorant.files import read_json, write_json
from sonorant.runtime.bundle import Bundle, content_hash, read_bundle
from sonorant.tracking.run import RunSpec, close_run, flat, open_run
from sonorant.tracking.store import DEFAULT_DATABASE, Store, answering, locked
from sonorant.tracking.trained import keep_trained

NEWEST, BEST, FORMER = "challenger", "champion", "previous"
HASH_TAG = "bundle_sha256"
PACKAGE = Path(__file__).parent
REQUIREMENTS = ("mlflow", "numpy", "pandas", "soundfile", "onnxruntime", "gruut")  # what speaking needs; no torch
METRICS = "metrics.json"


@dataclass(frozen=True, kw_only=True)
class RegisterConfig:
    """Section `register` of params.yaml."""

    model: str
    """Name of the registered model."""

    def __post_init__(self) -> None:
        if not self.model or any(character in self.model for character in "/:.%\"'"):
            raise ValueError(f"model: '{self.model}' must be a name without / : . % and quotes")


@dataclass(frozen=True, kw_only=True)
class PromoteConfig:
    """Section `promote` of params.yaml: what a voice must reach to become `champion`."""

    max_wer_above_recordings: float
    """Points of word error rate that the voice may have above the recordings."""
    max_rtf: float
    """Real-time factor of ONNX Runtime on one thread with sentences of medium length."""
    max_abs_diff: float
    """Largest difference of any exported graph from torch."""

    def __post_init__(self) -> None:
        if self.max_rtf <= 0 or self.max_abs_diff <= 0:
            raise ValueError("max_rtf and max_abs_diff must be above 0")


@dataclass(frozen=True, kw_only=True)
class Registered:
    """A voice's place in the registry."""

    name: str
    version: int
    run_id: str
    """MLflow run with the report."""
    new: bool
    """False: the same bundle was there already."""
    without: tuple[str, ...]
    """Kinds of trained models that were not at hand and so cannot be fine-tuned from this version."""

    def says(self) -> str:
        """One line for a person."""
        line = f"models:/{self.name}/{self.version}: " + ("registered" if self.new else "this bundle is registered already")
        return line + (f", without the trained {' and '.join(self.without)} to fine-tune" if self.without else "")


@dataclass(frozen=True, kw_only=True)
class Gate:
    """One condition of the alias `champion` and what came of it."""

    name: str
    passed: bool
    reason: str

    def says(self) -> str:
        """The verdict with its figures."""
        return f"{'passed' if self.passed else 'failed'}: {self.reason}"


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """What the gates said of a version, and what was done."""

    name: str
    version: int
    gates: tuple[Gate, ...]
    former: int | None
    """The version that was `champion` before, if it is another one."""

    @property
    def passed(self) -> bool:
        """Whether the version is `champion` now."""
        return all(gate.passed for gate in self.gates)

    def says(self) -> list[str]:
        """Lines for a person."""
        end = f"is {BEST}" + (f"; version {self.former} is {FORMER}" if self.former else "")
        end = end if self.passed else f"is refused by {', '.join(g.name for g in self.gates if not g.passed)}; {BEST} does not move"
        return [*(f"gate {gate.name} {gate.says()}" for gate in self.gates), f"models:/{self.name}/{self.version} {end}"]


def register(
    bundle: Path,
    metrics: Mapping[str, Any],
    report: Path,
    config: RegisterConfig,
    origin: Mapping[str, str],
    execution: str | None = None,
    trained: Mapping[str, Path] | None = None,
) -> Registered:
    """Make a version of the voice bundle, or find the one that has the same content, and give it the newest figures.

    `metrics`: content of reports/metrics.json; `report`: folder with the page and the samples, may be absent; `origin`: tags that say
    where the voice comes from; `execution`: pipeline execution to stand below; `trained`: trained model folders by kind, kept for
    fine-tuning where they are what the bundle was exported from. The newest version gets the alias `challenger`.

    Raises SonorantError if the bundle is damaged, TrackingUnavailable if MLflow does not answer.
    """
    voice = read_bundle(bundle)
    content = content_hash(voice)
    belonging = {kind: folder for kind, folder in (trained or {}).items() if _exported_from(voice, kind, folder)}
    with answering("registry") as store, locked(DEFAULT_DATABASE.with_name("registry.lock")):
        _ensure_model(store, config.model)
        found = [version for version in _versions(store, config.model) if version.tags.get(HASH_TAG) == content]
        if found:
            version = found[0]
        else:
            spec = RunSpec(key=f"{config.model}-{content}", stage="register", execution=execution, tags=dict(origin))
            run_id, _ = open_run(store, spec)
            model = _log_model(store, run_id, bundle)
            tags = {HASH_TAG: content}
            version = store.client.create_model_version(
                config.model, source=model.model_uri, run_id=run_id, tags=tags, model_id=model.model_id
            )
        _describe(store, version, metrics, report, origin)
        keep_trained(store, version.run_id, belonging)
        close_run(store, version.run_id, "FINISHED")
        newest = max(int(each.version) for each in _versions(store, config.model))
        store.client.set_registered_model_alias(config.model, NEWEST, str(newest))
        without = tuple(kind for kind in trained or {} if kind not in belonging)
        return Registered(name=config.model, version=int(version.version), run_id=version.run_id, new=not found, without=without)


def judge(metrics: Mapping[str, Any], config: PromoteConfig) -> tuple[Gate, ...]:
    """What each gate says of these figures (reports/metrics.json). What was not measured does not pass."""
    return (_judge_wer(metrics, config), _judge_speed(metrics, config), _judge_parity(metrics, config))


def promote(model: str, config: PromoteConfig, version: int | None = None) -> Verdict:
    """Let the gates decide whether a version (None = the alias `challenger`) becomes `champion`; write on it what each said.

    Raises SonorantError if there is no such version, TrackingUnavailable if MLflow does not answer.
    """
    with answering("registry") as store, locked(DEFAULT_DATABASE.with_name("registry.lock")):
        versions = {int(each.version): each for each in _versions(store, model)}
        aliases = store.client.get_registered_model(model).aliases if versions else {}
        chosen = version or int(aliases.get(NEWEST, 0))
        if chosen not in versions:
            known = ", ".join(map(str, sorted(versions))) or "none"
            raise SonorantError(f"models:/{model}: no version {version or NEWEST}; there are: {known}; register a voice first")
        with tempfile.TemporaryDirectory() as folder:
            metrics = read_json(Path(store.client.download_artifacts(versions[chosen].run_id, METRICS, folder)))
        gates = judge(metrics, config)
        for gate in gates:
            store.client.set_model_version_tag(model, str(chosen), f"gate.{gate.name}", gate.says())
        former = int(aliases[BEST]) if BEST in aliases and int(aliases[BEST]) != chosen else None
        moves = all(gate.passed for gate in gates)
        if moves:
            # `previous` first: killed in between, both point to the old one, and nothing is lost.
            if former:
                store.client.set_registered_model_alias(model, FORMER, str(former))
            store.client.set_registered_model_alias(model, BEST, str(chosen))
        return Verdict(name=model, version=chosen, gates=gates, former=former if moves else None)


def download_bundle(uri: str, out: Path) -> Path:
    """Download the voice bundle of a registered model (models:/<name>@<alias> or models:/<name>/<version>).

    Returns the bundle's folder, below `out`. Raises SonorantError if there is no such model, TrackingUnavailable if MLflow does not answer.
    """
    with answering(uri) as store:
        import mlflow

        _use(store)
        out.mkdir(parents=True, exist_ok=True)
        folder = mlflow.artifacts.download_artifacts(artifact_uri=uri, dst_path=str(out))
    bundles = sorted((Path(folder) / "artifacts").glob("*/voice.json"))
    if not bundles:
        raise SonorantError(f"{uri}: holds no voice bundle; name a model that sonorant registered")
    return bundles[0].parent


def _judge_wer(metrics: Mapping[str, Any], config: PromoteConfig) -> Gate:
    voice, recordings = (_get(metrics, "intelligibility", who, "wer") for who in ("voice", "recordings"))
    if voice is None or recordings is None:
        return Gate(name="wer", passed=False, reason="not measured")
    low, high = metrics["intelligibility"]["voice"].get("wer_ci95", (math.nan, math.nan))
    above = voice - recordings
    reason = f"{voice:.1f} % (95 % interval {low:.1f} - {high:.1f}), recordings {recordings:.1f} %: {above:+.1f} points"
    paired = metrics["intelligibility"]["voice"].get("above_recordings", {}).get("wer_ci95")
    if paired:
        reason += f" (paired 95 % interval {paired[0]:+.1f} to {paired[1]:+.1f})"
    limit = config.max_wer_above_recordings
    return Gate(name="wer", passed=above <= limit, reason=f"{reason}, at most {limit:+.1f}")


def _judge_speed(metrics: Mapping[str, Any], config: PromoteConfig) -> Gate:
    rtf = _get(metrics, "speed", "onnxruntime", "medium", "threads_1", "rtf")
    if rtf is None:
        return Gate(name="latency", passed=False, reason="not measured")
    return Gate(name="latency", passed=rtf <= config.max_rtf, reason=f"real-time factor {rtf:.4f}, at most {config.max_rtf}")


def _judge_parity(metrics: Mapping[str, Any], config: PromoteConfig) -> Gate:
    graphs = metrics.get("parity", {})
    differences = {name: _get(graphs, name, "max_abs_diff") for name in graphs}
    if not graphs or None in differences.values():
        return Gate(name="parity", passed=False, reason="not measured")
    worst = max(differences, key=lambda name: differences[name] or 0.0)
    value = differences[worst] or 0.0
    reason = f"{worst} differs from torch by {value:.2g}, at most {config.max_abs_diff:g}"
    return Gate(name="parity", passed=value <= config.max_abs_diff, reason=reason)


def _get(values: Any, *keys: str) -> float | None:
    for key in keys:
        values = values.get(key) if isinstance(values, Mapping) else None
    # NaN is no measurement: it would compare as neither above nor below a limit.
    return float(values) if isinstance(values, (int, float)) and math.isfinite(values) else None


def _use(store: Store) -> None:
    """Some of mlflow's functions take no client, only the process's setting."""
    import mlflow

    mlflow.set_tracking_uri(store.uri)
    mlflow.set_registry_uri(store.uri)


def _exported_from(voice: Bundle, kind: str, folder: Path) -> bool:
    if not (folder / "weights.pt").is_file():
        return False
    return bool(read_json(folder / "model.json").get("provenance") == voice.description.provenance.get(kind))


def _versions(store: Store, model: str) -> list[Any]:
    return list(store.client.search_model_versions(f"name='{model}'"))


def _ensure_model(store: Store, model: str) -> None:
    from mlflow.exceptions import MlflowException

    try:
        store.client.create_registered_model(model, description="A voice made by Sonorant: text in, speech out")
    except MlflowException as error:
        if error.error_code != "RESOURCE_ALREADY_EXISTS":
            raise


def _log_model(store: Store, run_id: str, bundle: Path) -> Any:
    import mlflow
    from mlflow.models import ModelSignature
    from mlflow.types import ColSpec, DataType, Schema

    text: list[Any] = [
        ColSpec(DataType.string, "text"),
        ColSpec(DataType.string, "speaker", False),
        ColSpec(DataType.double, "speed", False),
    ]
    audio: list[Any] = [
        ColSpec(DataType.string, "audio"),
        ColSpec(DataType.long, "sample_rate"),
        ColSpec(DataType.double, "seconds"),
    ]
    _use(store)
    with mlflow.start_run(run_id=run_id), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*input example", category=UserWarning)  # it would load the voice to try it
        return mlflow.pyfunc.log_model(
            name="voice",
            python_model=str(PACKAGE / "runtime" / "pyfunc.py"),
            artifacts={"bundle": str(bundle.resolve())},
            code_paths=[str(PACKAGE)],
            pip_requirements=[f"{name}=={importlib.metadata.version(name)}" for name in REQUIREMENTS],
            signature=ModelSignature(inputs=Schema(text), outputs=Schema(audio)),
        )


def _describe(store: Store, version: Any, metrics: Mapping[str, Any], report: Path, origin: Mapping[str, str]) -> None:
    from mlflow.entities import Metric

    client, now = store.client, round(time.time() * 1000)
    with tempfile.TemporaryDirectory() as folder:
        write_json(Path(folder) / METRICS, metrics)
        client.log_artifact(version.run_id, str(Path(folder) / METRICS))
    if report.is_dir():
        client.log_artifacts(version.run_id, str(report), "report")
    measured = {
        key: metrics[key] for key in ("intelligibility", "speed", "parity", "naturalness") if isinstance(metrics.get(key), dict)
    }
    numbers = {key: _number(value) for key, value in flat(measured).items()}
    points = [Metric(key, value, now, 0, model_id=version.model_id) for key, value in numbers.items() if value is not None]
    for start in range(0, len(points), 500):
        client.log_batch(version.run_id, metrics=points[start : start + 500])
    voice = metrics.get("intelligibility", {}).get("voice", {})
    tags = dict(origin) | {
        "wer": str(voice.get("wer")),
        "wer_ci95": json.dumps(voice.get("wer_ci95")),
        "wer_recordings": str(_get(metrics, "intelligibility", "recordings", "wer")),
        "rtf_onnxruntime_1_thread": str(_get(metrics, "speed", "onnxruntime", "medium", "threads_1", "rtf")),
        "p50_ms_onnxruntime_1_thread": str(_get(metrics, "speed", "onnxruntime", "medium", "threads_1", "p50_ms")),
    }
    for key, value in tags.items():
        client.set_model_version_tag(version.name, str(version.version), key, value)


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None
