"""Gates that compare a voice with the champion, paired by sentence where possible."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sonorant.audio.arrays import Ints
from sonorant.errors import SonorantError
from sonorant.evaluation.latency import take_turns
from sonorant.evaluation.measured_candidates import alone
from sonorant.files import read_json, read_jsonl
from sonorant.registry.download import download_bundle
from sonorant.registry.figures import Shipped, entry, needed, number, shipped
from sonorant.registry.gates import RESAMPLES, Gate, check, finding, points
from sonorant.registry.limits import PromoteConfig
from sonorant.registry.registration import METRICS, REPORT
from sonorant.registry.tracking.mlflow_store import Store
from sonorant.speech.bundle import Bundle, read_bundle
from sonorant.speech.voice import Voice
from sonorant.training.intervals import bootstrap, check_enough, rate

ROUNDING = 0.001
"""Tolerance in percentage points for rounded error rates."""
HINT = "evaluate it on these sentences and register its figures (docs/deploy.md), or promote with --without-champion"
TIMED = 40
"""Maximum number of timed sentences, spread evenly over their lengths."""
ROUNDS = 5
"""Maximum number of timed rounds per sentence."""
LONGEST, LEAST = 2.0, 2
"""Seconds per sentence after which no further round starts, and the minimum number of rounds."""
SENTENCES = f"{REPORT}/evaluation/sentences.jsonl"
JUDGE = ("recognizer", "revision", "normalizer")
"""Metrics that must be equal for word error rates to be comparable."""


@dataclass(frozen=True, kw_only=True)
class Evidence:
    version: int
    metrics: Mapping[str, Any]
    sentences: tuple[Mapping[str, Any], ...]
    """Rows of `sentences.jsonl`; empty if the file is missing."""
    bundle: Bundle

    @property
    def shipped(self) -> Shipped:
        return shipped(self.bundle)

    @property
    def judge(self) -> dict[str, Any]:
        return {key: entry(self.metrics, "intelligibility", self.shipped.variant, key) for key in JUDGE}

    def word_errors(self) -> Ints:
        """Return the shipped variant's word errors per sentence (S,). Raises SonorantError if they are missing."""
        try:
            return np.array([row["word_errors"][self.shipped.variant] for row in self.sentences], dtype=np.int64)
        except (KeyError, TypeError, ValueError):  # ValueError if it is "not run: ..."
            raise SonorantError(
                f"version {self.version} has no word errors of {self.shipped.variant}; evaluate it again"
            ) from None

    def opinions(self) -> dict[tuple[str, str], float]:
        found = {(row["id"], row["reference"]): number(row, "dnsmos", self.shipped.variant) for row in self.sentences}
        return {text: score for text, score in found.items() if score is not None}

    def words(self) -> Ints:
        return np.array([row["words"] for row in self.sentences], dtype=np.int64)

    def texts(self) -> tuple[tuple[str, str, int], ...]:
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
    return tuple(read_jsonl(Path(store.client.download_artifacts(version.run_id, SENTENCES, str(place)))))


def judge_beside(voice: Evidence, champion: Evidence, config: PromoteConfig) -> tuple[Gate, ...]:
    gates = {
        "wer_above_champion": (_wer_above_champion, config.max_wer_above_champion),
        "latency_over_champion": (_latency_over_champion, config.max_latency_over_champion),
        "dnsmos_below_champion": (_dnsmos_below_champion, config.max_dnsmos_below_champion),
        "size_over_champion": (_size_over_champion, config.max_size_over_champion),
    }
    return tuple(
        check(name, gate, voice, champion, limit, failure="not compared") for name, (gate, limit) in gates.items()
    )


def _wer_above_champion(voice: Evidence, champion: Evidence, limit: float) -> Gate:
    _check_same_judge(voice, champion)
    ours, theirs, words = voice.word_errors(), champion.word_errors(), voice.words()
    check_enough(len(words))
    our, their = rate(ours, words), rate(theirs, words)
    text = f"{our:.1f} %, version {champion.version} {their:.1f} % on the same {len(words)} sentences"
    above = our - their
    return points("wer_above_champion", text, above, bootstrap(rate, ours - theirs, words, resamples=RESAMPLES), limit)


def _check_same_judge(voice: Evidence, champion: Evidence) -> None:
    for each in (voice, champion):
        if not each.sentences:
            raise SonorantError(f"version {each.version} was registered without its evaluated sentences; {HINT}")
        _check_consistent(each)
    if voice.judge != champion.judge:
        theirs, ours = (" ".join(map(str, each.judge.values())) for each in (champion, voice))
        raise SonorantError(f"version {champion.version} was judged by {theirs}, this version by {ours}; {HINT}")
    if voice.texts() != champion.texts():
        raise SonorantError(f"version {champion.version} was judged on different sentences; {HINT}")


def _check_consistent(version: Evidence) -> None:
    """Raise SonorantError if metrics and sentences disagree, which happens after a crash."""
    try:
        figure = needed(version.metrics, "intelligibility", version.shipped.variant, "wer")
    except SonorantError as error:
        raise SonorantError(f"version {version.version}: {error}") from None
    heard = rate(version.word_errors(), version.words())
    if abs(heard - figure) > ROUNDING:
        raise SonorantError(
            f"version {version.version} is inconsistent: word error rate {heard:.3f} % in its sentences, {figure:.3f} "
            "% in metrics.json; evaluate it again and run python -m tasks.register (docs/deploy.md)"
        )


def _latency_over_champion(voice: Evidence, champion: Evidence, limit: float) -> Gate:
    if not voice.sentences:
        raise SonorantError(f"version {voice.version} was registered without reports/evaluation; register it again")
    ratios = latency_ratios(voice.bundle, champion.bundle, [reference for _, reference, _ in voice.texts()])
    check_enough(len(ratios))
    ratio, bounds = float(np.median(ratios)), bootstrap(np.median, ratios, resamples=RESAMPLES)
    low, high = bounds
    reason = (
        f"{voice.shipped.candidate} takes {ratio:.2f} times as long as version {champion.version}'s "
        f"{champion.shipped.candidate}, timed alternately on {len(ratios)} sentences (paired 95 % interval {low:.2f} "
        f"to {high:.2f}; {finding(low, high, 1.0)}), upper end must be at most {limit:.2f}"
    )
    name = "latency_over_champion"
    return Gate(name=name, passed=high <= limit, reason=reason, value=ratio, interval=bounds, limit=limit)


def _dnsmos_below_champion(voice: Evidence, champion: Evidence, limit: float) -> Gate:
    name, ours, theirs = "dnsmos_below_champion", voice.opinions(), champion.opinions()
    for each, opinions in ((voice, ours), (champion, theirs)):
        if not opinions:
            found = entry(each.metrics, "naturalness", each.shipped.variant, "dnsmos")
            why = found.removeprefix("not run: ") if isinstance(found, str) else "not measured"
            return Gate(name=name, passed=True, reason=f"not run: version {each.version}: {why}", limit=limit)
    same = [text for text in ours if text in theirs]
    if not same:
        raise SonorantError(f"version {champion.version} was judged on different sentences; {HINT}")
    our, their = (np.array([opinions[text] for text in same]) for opinions in (ours, theirs))
    check_enough(len(same))
    below, bounds = float(np.mean(their - our)), bootstrap(np.mean, their - our, resamples=RESAMPLES)
    text = f"overall {our.mean():.2f}, version {champion.version} {their.mean():.2f} on the same {len(same)} sentences"
    return points(name, text, below, bounds, limit, digits=2)


def _size_over_champion(voice: Evidence, champion: Evidence, limit: float) -> Gate:
    ours, theirs = voice.shipped, champion.shipped
    ratio = ours.bytes / theirs.bytes
    reason = (
        f"{ours.variant} has {ours.bytes / 1e6:.2f} MB, version {champion.version}'s {theirs.variant} "
        f"{theirs.bytes / 1e6:.2f} MB: {ratio:.2f} times, must be at most {limit:.2f}"
    )
    return Gate(name="size_over_champion", passed=ratio <= limit, reason=reason, value=ratio, limit=limit)


def latency_ratios(challenger: Bundle, champion: Bundle, texts: Sequence[str]) -> NDArray[np.float64]:
    """Return the latency of `challenger` relative to `champion`, from phoneme ids to samples, per sentence (S,).

    Each voice uses its default variant and runtime on one thread. The fastest round counts, because machine load only
    adds time. Raises SonorantError if a voice cannot run here.
    """
    by_length = sorted(dict.fromkeys(texts), key=len)
    places = np.unique(np.linspace(0, len(by_length) - 1, min(TIMED, len(by_length))).astype(int))
    first, second = (
        Voice.load(bundle.folder, shipped(bundle).runtime, 1, variant=shipped(bundle).variant)
        for bundle in (challenger, champion)
    )
    return np.array([_ratio(first, second, by_length[place]) for place in places])


def _ratio(first: Voice, second: Voice, text: str) -> float:
    runs = {}
    for name, voice in (("first", first), ("second", second)):
        tokens = voice.symbols.to_tokens(voice.frontend.speak(text).phonemes)
        runs[name] = partial(voice.synthesize, *alone(tokens))
    took = take_turns(runs, ROUNDS, LONGEST, LEAST)
    return float(took["first"].min() / took["second"].min())
