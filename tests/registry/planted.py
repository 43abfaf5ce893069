"""Real bundles with figures computed from planted word errors."""

import dataclasses
import shutil
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from sonorant.evaluation.short_texts.faults import Faults, find_faults, summarize
from sonorant.evaluation.short_texts.listener import Said
from sonorant.evaluation.short_texts.texts import SENTENCES as PLAIN
from sonorant.evaluation.short_texts.texts import SHORT, SUITES
from sonorant.files import write_jsonl
from sonorant.registry import PromoteConfig, RegisterConfig
from sonorant.speech.bundle import BundledFile, read_bundle, write_bundle
from sonorant.text.written_words import plain_words
from sonorant.training.intervals import bootstrap, rate
from tasks.params import load
from tests.support.edited import edited
from tests.support.imports import ROOT

CONFIG = RegisterConfig(model="test-voice")
GATES = PromoteConfig(
    naturalness_below_recordings=load("promote", PromoteConfig, ROOT / "params.yaml").naturalness_below_recordings,
    max_rtf={"parallel": 0.05, "codec_lm": 0.5},
    max_latency_over_champion=8.0,  # equal voices may differ on a busy machine
)
FIGURES = tuple(GATES.naturalness_below_recordings["parallel"].ranges())
"""Naturalness figures that have a limit."""
SENTENCES, WORDS = 160, 8
SPEAKERS = ("anna", "ben")
"""They alternate in the bundle."""
RECORDINGS = np.random.default_rng(0).binomial(WORDS, 0.12, SENTENCES)
"""Number of word errors in each recording."""
PARITY = {"passed": True, "failed": None, "max_abs_diff": {"encoder": 1e-6, "decoder": 1e-5, "vocoder": 0.0}}
OPINIONS = 3.0 + np.random.default_rng(2).normal(0.0, 0.3, 64)
"""Overall DNSMOS scores of the first sentences."""
JUDGE = {"recognizer": "pocketsphinx", "revision": "pocketsphinx 5.1.1", "normalizer": "words-1"}


def more_errors(points: float, seed: int = 1, scatter: int = 0) -> np.ndarray:
    """Word errors `points` above the recordings'; `scatter` more are moved between sentences."""
    rng, errors = np.random.default_rng(seed), RECORDINGS.copy()
    errors[rng.choice(SENTENCES, round(points / 100 * SENTENCES * WORDS), replace=False)] += 1
    errors[rng.choice(np.flatnonzero(errors > 0), scatter, replace=False)] -= 1
    errors[rng.choice(np.flatnonzero(errors < WORDS - 1), scatter, replace=False)] += 1
    return errors


def naturalness(utterances: int = SENTENCES, **changed: float) -> dict[str, Any]:
    """Figures like the recordings' except `changed`, with intervals 0.02 wide."""
    level = {name: 1.0 if name.endswith(("_ratio", "_correlation")) else 0.0 for name in FIGURES}
    found: dict[str, Any] = {"utterances": utterances, "dnsmos": {"ovrl": 3.0, "utterances": utterances}}
    for name, value in (level | changed).items():
        found |= {name: value, f"{name}_ci95": [value - 0.01, value + 0.01]}
    return found


def figures(errors: np.ndarray = RECORDINGS, variant: str = "fp32", rtf: float = 0.01, **judge: str) -> dict[str, Any]:
    """metrics.json for these word errors."""
    heard = intelligibility(errors, slice(None), variant, **judge)
    speed = {"medium": {"threads_1": {"rtf": rtf, "p50_ms": 30.0, "p95_ms": 31.0, "p99_ms": 32.0}}}
    return {
        "short_texts": {"listener": "pocketsphinx", variant: words_lost(0.005)},
        "intelligibility": heard,
        "speakers": [speaker_row(name, errors, variant) for name in SPEAKERS],
        "naturalness": {variant: naturalness()},
        "speed": {f"onnxruntime/{variant}": speed, f"tensorrt/{variant}": "not run: TensorRT is not installed"},
        "parity": {f"onnxruntime/{variant}": dict(PARITY), f"tensorrt/{variant}": "not run: TensorRT is not installed"},
        "size": {variant: {"bytes": 1000}, "bundle_bytes": 2000},
        "environment": {"cores": 2},
    }


def intelligibility(errors: np.ndarray, own: slice, variant: str, **judge: str) -> dict[str, Any]:
    words, recordings, ours = np.full(SENTENCES, WORDS)[own], RECORDINGS[own], errors[own]

    def wer(wrong: np.ndarray) -> dict[str, Any]:
        return {"wer": rate(wrong, words), "wer_ci95": list(bootstrap(rate, wrong, words, resamples=500))}

    common = {"cer": 6.0, "words": int(words.sum()), "utterances": len(words), **JUDGE, **judge}
    recorded = wer(recordings) | common
    heard = wer(ours) | common | {"above_recordings": wer(ours - recordings)}
    return {"recordings": recorded, "vocoder": recorded, variant: heard}


def speaker_row(name: str, errors: np.ndarray = RECORDINGS, variant: str = "fp32", **changed: float) -> dict[str, Any]:
    """Figures of a speaker with every second sentence; `changed` is as in `naturalness`."""
    own, sentences = slice(SPEAKERS.index(name), None, len(SPEAKERS)), SENTENCES // len(SPEAKERS)
    heard, sound = intelligibility(errors, own, variant), {variant: naturalness(sentences, **changed)}
    return {"speaker": name, "sentences": sentences, "intelligibility": heard, "naturalness": sound}


def words_lost(share: float, seed: int = 0) -> dict[str, Any]:
    """Scores of short texts and 50 sentences with this fraction of words skipped."""
    random_numbers, found = np.random.default_rng(seed), dict[str, list[Faults]]()
    for text in [*SUITES["en"].short_texts(), *SUITES["en"].sentences(50)]:
        words = plain_words(text.text)
        kept = [word for word in words if random_numbers.random() >= share]
        kind = PLAIN if text.kind == PLAIN else SHORT
        found.setdefault(kind, []).append(find_faults(words, [Said(word, 0.0, 0.0) for word in kept]))
    return {kind: summarize(faults) for kind, faults in found.items()}


def of_bundle(bundle: Path, metrics: dict[str, Any], variant: str = "fp32") -> dict[str, Any]:
    """Figures with this bundle's graph hashes."""
    graphs = read_bundle(bundle).description.graphs
    metrics["size"][variant]["sha256"] = {name: graph.variants[variant].sha256 for name, graph in graphs.items()}
    return metrics


def sentences(
    errors: np.ndarray = RECORDINGS, variant: str = "fp32", opinions: np.ndarray = OPINIONS
) -> tuple[dict[str, Any], ...]:
    return tuple(
        {
            "id": f"s{index}",
            "reference": "This is sentence " + " and ".join(["one"] * (index % 5 + 1)) + f" {'so' * (index % 7)}.",
            "words": WORDS,
            "word_errors": {variant: int(wrong)},
            "dnsmos": {variant: float(opinions[index])} if index < len(opinions) else {},
        }
        for index, wrong in enumerate(errors)
    )


def write_report(folder: Path, *planted: Any, **more: Any) -> Path:
    """Write a report with `sentences`."""
    (folder / "evaluation").mkdir(parents=True)
    (folder / "index.html").write_text("<html></html>")
    write_jsonl(folder / "evaluation" / "sentences.jsonl", sentences(*planted, **more))
    return folder


def renamed(bundle: Path, to: Path, variant: str = "fp32") -> Path:
    """A bundle with different provenance and, optionally, variant name."""
    description = read_bundle(bundle).description
    graphs = {
        name: dataclasses.replace(graph, variants={variant: graph.variants["fp32"]}, default_variant=variant)
        for name, graph in description.graphs.items()
    }
    files = [bundle / graph.variants["fp32"].file for graph in description.graphs.values()]
    provenance = description.provenance | {"note": to.name}
    write_bundle(to, dataclasses.replace(description, graphs=graphs, provenance=provenance), files)
    return to


def padded(bundle: Path, to: Path, megabytes: float) -> Path:
    """The same voice with a larger vocoder file."""
    nothing = onnx.numpy_helper.from_array(np.zeros(int(megabytes * 1e6), np.int8), "nothing")
    return _with_vocoder(bundle, to, lambda graph: graph.initializer.append(nothing))


def slowed(bundle: Path, to: Path, operations: int) -> Path:
    """The same voice with extra vocoder operations."""

    def add(graph: onnx.GraphProto) -> None:
        [output] = graph.output
        for node in graph.node:
            node.output[:] = ["slow0" if name == output.name else name for name in node.output]
        names = [f"slow{index}" for index in range(operations)] + [output.name]
        graph.node.extend(onnx.helper.make_node("Sin", [a], [b]) for a, b in pairwise(names))

    return _with_vocoder(bundle, to, add)


def _with_vocoder(bundle: Path, to: Path, change: Callable[[onnx.GraphProto], object]) -> Path:
    shutil.copytree(bundle, to)
    path = to / read_bundle(to).description.graphs["vocoder"].variants["fp32"].file
    model = onnx.load(path)
    change(model.graph)
    onnx.save(model, path)
    with edited(to / "voice.json") as description:
        description["graphs"]["vocoder"]["variants"] = {"fp32": dataclasses.asdict(BundledFile.of(path))}
    read_bundle(to).check_files()
    return to
