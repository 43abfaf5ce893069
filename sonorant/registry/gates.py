"""Promotion gates that need no champion: statistical tests of non-inferiority.

A gate passes if the worse end of the two-sided 95 % interval is within the limit (one-sided 2.5 %). It fails if there
are fewer than `LEAST` sentences (`sonorant.training.intervals`) or a metric that is not optional is missing.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from sonorant.errors import SonorantError
from sonorant.plugins import load_family
from sonorant.registry.figures import entry, estimate, needed, number
from sonorant.registry.limits import NaturalnessLimits, PromoteConfig
from sonorant.speech.bundle import VoiceDescription
from sonorant.training.intervals import check_enough

RESAMPLES = 2000
OPTIONAL = ("dnsmos_below_recordings", "speaker_below_recordings")
"""Naturalness metrics of optional packages; ignored if those are not installed."""
TOO_FEW = "hold out more sentences of each speaker (prepare.test, recognizer.sentences)"


@dataclass(frozen=True, kw_only=True)
class Gate:
    name: str
    """Name of the setting with the limit, without `max_`."""
    passed: bool
    reason: str
    value: float | None = None
    interval: tuple[float, float] | None = None
    """95 % interval of `value`."""
    limit: float | None = None

    def says(self) -> str:
        return f"{'passed' if self.passed else 'failed'}: {self.reason}"


def check(name: str, judge: Callable[..., Gate], *given: Any, failure: str = "not measured") -> Gate:
    """Return `judge(*given)`, or a failed gate with the reason if it raises SonorantError."""
    try:
        return judge(*given)
    except SonorantError as error:
        return Gate(name=name, passed=False, reason=f"{failure}: {error}")


def judge_alone(metrics: Any, description: VoiceDescription, candidate: str, config: PromoteConfig) -> tuple[Gate, ...]:
    """Check the gates that need no champion for the candidate `<runtime>/<variant>`."""
    family, variant = description.family, candidate.split("/", 1)[1]
    naturalness = config.naturalness_below_recordings[family]
    short, sentences = config.max_faulty_short_texts[family], config.max_faulty_sentences[family]
    gates = [
        check("wer_above_recordings", _words, metrics, variant, config.max_wer_above_recordings[family]),
        check("naturalness_below_recordings", _naturalness, metrics, variant, naturalness),
        check("rtf", _rtf, metrics, candidate, config.max_rtf[family]),
        check("parity", _parity, metrics, candidate),
        check("faulty_short_texts", _faults, metrics, variant, "faulty_short_texts", "short", short),
        check("faulty_sentences", _faults, metrics, variant, "faulty_sentences", "sentences", sentences),
    ]
    if load_family(family).autoregressive:
        gates.append(check("runaways", _runaways, metrics, variant, config.max_runaways))
    if len(description.speakers) > 1:
        known = {row["speaker"]: row for row in metrics.get("speakers") or ()}
        rows = {name: known.get(name) for name in description.speakers}
        limit = config.max_wer_above_recordings_of_a_speaker[family]
        gates.append(_every_speaker("wer_above_recordings_of_a_speaker", rows, _words, variant, limit))
        gates.append(
            _every_speaker("naturalness_below_recordings_of_a_speaker", rows, _naturalness, variant, naturalness)
        )
    return tuple(gates)


def points(name: str, text: str, value: float, bounds: tuple[float, float], limit: float, digits: int = 1) -> Gate:
    """Pass a paired difference if the upper end of its interval `bounds` is at most `limit`."""
    low, high = bounds
    reason = (
        f"{text}: {value:+.{digits}f} points (paired 95 % interval {low:+.{digits}f} to {high:+.{digits}f}; "
        f"{finding(low, high, 0.0)}), upper end must be at most {limit:+.{digits}f}"
    )
    return Gate(name=name, passed=high <= limit, reason=reason, value=value, interval=bounds, limit=limit)


def finding(low: float, high: float, equal: float) -> str:
    if high < equal:
        return "better"
    return "worse" if low > equal else "no difference beyond noise"


def _words(metrics: Any, variant: str, limit: float) -> Gate:
    heard = entry(metrics, "intelligibility", variant)
    (wer, (low, high)), (above, paired) = estimate(heard, "wer"), estimate(heard, "above_recordings", "wer")
    recordings = needed(metrics, "intelligibility", "recordings", "wer")
    check_enough(needed(heard, "utterances"))
    text = f"{wer:.1f} % (95 % interval {low:.1f} - {high:.1f}), recordings {recordings:.1f} %"
    return points("wer_above_recordings", text, above, paired, limit)


def _naturalness(metrics: Any, variant: str, limits: NaturalnessLimits) -> Gate:
    figures = entry(metrics, "naturalness", variant)
    within: list[str] = []
    beyond: list[str] = []
    absent: list[str] = []
    for name, (low, high) in limits.ranges().items():
        if name in OPTIONAL and isinstance(instead := entry(figures, name), str):
            absent.append(f"{name} ({instead})")
        elif low is not None or high is not None:
            value, bounds = estimate(figures, name)
            inside = (low is None or bounds[0] >= low) and (high is None or bounds[1] <= high)
            words = f"{name} {value:.3g} ({bounds[0]:.3g} to {bounds[1]:.3g}, {_allowed(low, high)})"
            (within if inside else beyond).append(words)
    count = len(within) + len(beyond)
    if count:
        utterances = needed(figures, "utterances")
        check_enough(min(utterances, number(figures, "dnsmos", "utterances") or utterances))
    reason = f"{variant}: all {count} figures are within their limits"
    if beyond:
        reason = f"{variant}: {len(beyond)} of {count} figures are beyond their limits: {', '.join(beyond)}"
    reason += f"; decided without {', '.join(absent)}" if absent else ""
    return Gate(name="naturalness_below_recordings", passed=not beyond, reason=reason)


def _allowed(low: float | None, high: float | None) -> str:
    if low is None:
        return f"at most {high:g}"
    return f"at least {low:g}" if high is None else f"from {low:g} to {high:g}"


def _rtf(metrics: Any, candidate: str, limit: float) -> Gate:
    rtf = needed(metrics, "speed", candidate, "medium", "threads_1", "rtf")
    reason = f"{candidate}: real-time factor {rtf:.4f}, must be at most {limit}"
    return Gate(name="rtf", passed=rtf <= limit, reason=reason, value=rtf, limit=limit)


def _parity(metrics: Any, candidate: str) -> Gate:
    found = entry(metrics, "parity", candidate)
    if entry(found, "passed") is False:
        reason = f"{candidate} failed the stage verify: {entry(found, 'failed')}"
        return Gate(name="parity", passed=False, reason=reason)
    differences = {graph: needed(found, "max_abs_diff", graph) for graph in entry(found, "max_abs_diff") or {}}
    if not differences:
        needed(found, "max_abs_diff")
    reason = f"{candidate} differs from torch by " + ", ".join(f"{name} {d:.2g}" for name, d in differences.items())
    return Gate(name="parity", passed=True, reason=reason, value=max(differences.values()))


def _faults(metrics: Any, variant: str, name: str, kind: str, limit: float) -> Gate:
    figures = entry(metrics, "short_texts", variant)
    if isinstance(figures, str) and figures.startswith("not run: "):  # unsupported language
        return Gate(name=name, passed=True, reason=figures, limit=limit)
    faulty, texts = needed(figures, kind, "faulty"), needed(figures, kind, "texts")
    text = f"a word was skipped, repeated or babbled in {faulty:.0f} of {texts:.0f} texts"
    return _fraction(name, text, *estimate(figures, kind, "faulty_rate"), limit)


def _runaways(metrics: Any, variant: str, limit: float) -> Gate:
    found = entry(metrics, "decoding", variant)
    text = f"{needed(found, 'runaways'):.0f} of {needed(found, 'sentences'):.0f} sentences ran away"
    return _fraction("runaways", text, *estimate(found, "runaway_rate"), limit)


def _fraction(name: str, text: str, value: float, bounds: tuple[float, float], limit: float) -> Gate:
    low, high = (100 * bound for bound in bounds)
    reason = f"{text} (95 % interval {low:.1f} - {high:.1f} %), upper end must be at most {100 * limit:.1f} %"
    return Gate(name=name, passed=bounds[1] <= limit, reason=reason, value=value, interval=bounds, limit=limit)


def _every_speaker(name: str, rows: Mapping[str, Any], judge: Callable[..., Gate], variant: str, limit: Any) -> Gate:
    """Fail if any speaker fails; name the failed speakers, or the one closest to the limit. With few sentences per
    speaker, intervals are wide, so limits are too: they catch babbling, which the mean hides."""
    judged = {speaker: check(name, judge, row, variant, limit) for speaker, row in rows.items()}
    nearest, worst = max(
        judged.items(), key=lambda found: (not found[1].passed, found[1].interval[1] if found[1].interval else 0.0)
    )
    failed = [f"{speaker}: {gate.reason}" for speaker, gate in judged.items() if not gate.passed]
    reason = f"all {len(judged)} speakers passed, closest {nearest}: {worst.reason}"
    if failed:
        reason = f"{len(failed)} of {len(judged)} speakers failed: {'; '.join(failed)}"
        reason += f"; {TOO_FEW}" if "not measured: " in reason else ""
    return Gate(
        name=name, passed=not failed, reason=reason, value=worst.value, interval=worst.interval, limit=worst.limit
    )
