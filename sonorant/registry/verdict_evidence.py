"""Read a version's registered figures, sentences and bundle."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sonorant.audio.arrays import Ints
from sonorant.errors import SonorantError
from sonorant.files import read_json
from sonorant.registry.download import download_bundle
from sonorant.registry.figures import Shipped, entry, number, shipped
from sonorant.registry.registration import METRICS, REPORT
from sonorant.registry.tracking.mlflow_store import Store
from sonorant.speech.bundle import Bundle, read_bundle

SENTENCES = f"{REPORT}/evaluation/sentences.jsonl"
JUDGE = ("recognizer", "revision", "normalizer")
"""Keys that must agree for comparable word error rates."""


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """Input of the gates for one version."""

    version: int
    metrics: Mapping[str, Any]
    """Content of metrics.json."""
    sentences: tuple[Mapping[str, Any], ...]
    """Rows of sentences.jsonl; may be empty."""
    bundle: Bundle

    @property
    def shipped(self) -> Shipped:
        return shipped(self.bundle)

    @property
    def judge(self) -> dict[str, Any]:
        """Recogniser, revision and normaliser of the shipped variant's word error rate."""
        return {key: entry(self.metrics, "intelligibility", self.shipped.variant, key) for key in JUDGE}

    def word_errors(self) -> Ints:
        """Word errors of the shipped variant (S,). Raises SonorantError if there are none."""
        try:
            return np.array([row["word_errors"][self.shipped.variant] for row in self.sentences], dtype=np.int64)
        except (KeyError, TypeError, ValueError):  # ValueError: "not run: ..."
            raise SonorantError(f"version {self.version} has no word errors of {self.shipped.variant}") from None

    def opinions(self) -> dict[tuple[str, str], float]:
        """Overall DNSMOS of the shipped variant by id and reference."""
        found = {(row["id"], row["reference"]): number(row, "dnsmos", self.shipped.variant) for row in self.sentences}
        return {text: score for text, score in found.items() if score is not None}

    def words(self) -> Ints:
        """Reference words (S,)."""
        return np.array([row["words"] for row in self.sentences], dtype=np.int64)

    def texts(self) -> tuple[tuple[str, str, int], ...]:
        """Id, reference and word count of each sentence."""
        return tuple((str(row["id"]), str(row["reference"]), int(row["words"])) for row in self.sentences)


def read_evidence(store: Store, version: Any, folder: Path) -> Evidence:
    """Download a version's evidence to `folder`. Raises SonorantError if its bundle cannot be read."""
    place = folder / str(version.version)
    place.mkdir()
    metrics = read_json(Path(store.client.download_artifacts(version.run_id, METRICS, str(place))))
    bundle = read_bundle(download_bundle(f"models:/{version.name}/{version.version}", place / "model"))
    sentences = _sentences(store, version, place)
    return Evidence(version=int(version.version), metrics=metrics, sentences=sentences, bundle=bundle)


def _sentences(store: Store, version: Any, place: Path) -> tuple[Mapping[str, Any], ...]:
    parent = str(Path(SENTENCES).parent)
    if SENTENCES not in {file.path for file in store.client.list_artifacts(version.run_id, parent)}:
        return ()
    text = Path(store.client.download_artifacts(version.run_id, SENTENCES, str(place))).read_text(encoding="utf-8")
    return tuple(json.loads(line) for line in text.splitlines())
