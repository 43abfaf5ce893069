"""Promotion gates that need no champion: statistical tests of non-inferiority.

A gate passes if the far end of the two-sided 95 % interval is within the limit (one-sided 2.5 %). Too few sentences
(`LEAST` of `sonorant.training.intervals`) or missing figures fail it, except optional DNSMOS.
"""

from dataclasses import dataclass, field
from typing import Any

from sonorant.errors import SonorantError
from sonorant.plugins import family_names, load_family
from sonorant.registry.figures import entry, interval, number
from sonorant.registry.limits import NaturalnessLimits, judge_naturalness
from sonorant.registry.verdict_evidence import Evidence
from sonorant.training.intervals import check_enough

RESAMPLES = 2000


@dataclass(frozen=True, kw_only=True)
class PromoteConfig:
    """Section `promote` of params.yaml: conditions for `champion`. Gates are named after their limits."""

    max_wer_above_recordings: dict[str, float] = field(default_factory=lambda: {"parallel": 4.0, "codec_lm": 6.0})
    """By family: points of word error rate above the recordings'."""
    max_rtf: dict[str, float] = field(default_factory=lambda: {"parallel": 0.02, "codec_lm": 0.1})
    """By family: real-time factor, one thread, medium length."""
    naturalness_below_recordings: dict[str, NaturalnessLimits] = field(
        default_factory=lambda: {
            "parallel": NaturalnessLimits(),
            "codec_lm": NaturalnessLimits(pulses_db=(-13.0, 2.0)),
        }
    )
    """By family: ranges of the naturalness figures."""
    max_faulty_short_texts: dict[str, float] = field(default_factory=lambda: {"parallel": 0.12, "codec_lm": 0.12})
    """By family: fraction of short texts with a skipped, repeated or babbled word."""
    max_faulty_sentences: dict[str, float] = field(default_factory=lambda: {"parallel": 0.25, "codec_lm": 0.25})
    """By family: the same for sentences."""
    max_runaways: float = 0.05
    """Fraction of sentences in which an autoregressive voice may run away."""
    max_wer_above_recordings_of_a_speaker: dict[str, float] = field(
        default_factory=lambda: {"parallel": 14.0, "codec_lm": 16.0}
    )
    """By family, for multi-speaker voices: points of word error rate above each speaker's recordings."""
    max_wer_above_champion: float = 4.0
    """Points of word error rate above the champion's, same sentences."""
    max_latency_over_champion: float = 1.15
    """Latency relative to the champion's, timed alternately."""
    max_dnsmos_below_champion: float = 0.1
    """Points of overall DNSMOS below the champion's."""
    max_size_over_champion: float = 1.5
    """Size of the graphs relative to the champion's."""

    def __post_init__(self) -> None:
        for name in ("max_runaways", "max_latency_over_champion", "max_size_over_champion"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name} must be above 0, not {getattr(self, name)}")
        families = ", ".join(family_names())
        names = ("max_wer_above_recordings", "max_wer_above_recordings_of_a_speaker", "max_rtf")
        for name in (*names, "max_faulty_short_texts", "max_faulty_sentences"):
            limits = getattr(self, name)
            if set(limits) != set(family_names()) or not all(limit > 0 for limit in limits.values()):
                raise ValueError(f"{name} must have a limit above 0 for each of {families}, not {limits}")
        if set(self.naturalness_below_recordings) != set(family_names()):
            raise ValueError(f"naturalness_below_recordings must have limits for each of {families}")


@dataclass(frozen=True, kw_only=True)
class Gate:
    """Result of one condition."""

    name: str
    """The limit's setting without "max_"."""
    passed: bool
    reason: str
    """One line with the figures."""
    value: float | None = None
    interval: tuple[float, float] | None = None
    """95 %."""
    limit: float | None = None

    def says(self) -> str:
        return f"{'passed' if self.passed else 'failed'}: {self.reason}"


def judge_alone(voice: Evidence, config: PromoteConfig) -> tuple[Gate, ...]:
    return judge_candidate(voice.metrics, voice.bundle.description.family, voice.shipped.candidate, config)


def judge_candidate(metrics: Any, family: str, candidate: str, config: PromoteConfig) -> tuple[Gate, ...]:
    """These gates for any candidate `<runtime>/<variant>` in metrics.json."""
    variant = candidate.split("/", 1)[1]
    wer = wer_above_recordings(metrics, variant, config.max_wer_above_recordings[family])
    sound = naturalness_below_recordings(metrics, variant, config.naturalness_below_recordings[family])
    short = _faults(metrics, variant, "faulty_short_texts", "short", config.max_faulty_short_texts[family])
    sentences = _faults(metrics, variant, "faulty_sentences", "sentences", config.max_faulty_sentences[family])
    rtf, parity = _rtf(metrics, candidate, config.max_rtf[family]), _parity(metrics, candidate)
    gates = (wer, sound, rtf, parity, short, sentences)
    if not load_family(family).autoregressive:
        return gates
    return (*gates, _runaways(metrics, variant, config.max_runaways))


def not_compared(name: str, why: str) -> Gate:
    """A failed gate: not measurable."""
    return Gate(name=name, passed=False, reason=f"not compared: {why}")


def wer_above_recordings(metrics: Any, variant: str, limit: float) -> Gate:
    """Word error rate above the recordings'. `metrics`: of the voice or of one speaker."""
    name, heard = "wer_above_recordings", entry(metrics, "intelligibility", variant)
    wer, own = number(heard, "wer"), interval(heard, "wer_ci95")
    above, paired = number(heard, "above_recordings", "wer"), interval(heard, "above_recordings", "wer_ci95")
    recordings, sentences = number(metrics, "intelligibility", "recordings", "wer"), number(heard, "utterances")
    if wer is None or own is None or above is None or paired is None or recordings is None or sentences is None:
        why = f": {heard}" if isinstance(heard, str) else ""
        return Gate(name=name, passed=False, reason=f"not measured for {variant}{why}", limit=limit)
    try:
        check_enough(sentences)
    except SonorantError as error:
        return not_compared(name, str(error))
    text = f"{wer:.1f} % (95 % interval {own[0]:.1f} - {own[1]:.1f}), recordings {recordings:.1f} %"
    return points(name, text, above, paired, limit)


def naturalness_below_recordings(metrics: Any, variant: str, limits: NaturalnessLimits) -> Gate:
    """Naturalness relative to the recordings; `metrics` as in `wer_above_recordings`."""
    passed, reason = judge_naturalness(entry(metrics, "naturalness", variant), limits)
    return Gate(name="naturalness_below_recordings", passed=passed, reason=f"{variant}: {reason}")


def _rtf(metrics: Any, candidate: str, limit: float) -> Gate:
    found = entry(metrics, "speed", candidate)
    rtf = number(found, "medium", "threads_1", "rtf")
    if rtf is None:
        why = f": {found}" if isinstance(found, str) else ""
        return Gate(name="rtf", passed=False, reason=f"not measured for {candidate}{why}", limit=limit)
    reason = f"{candidate}: real-time factor {rtf:.4f}, at most {limit}"
    return Gate(name="rtf", passed=rtf <= limit, reason=reason, value=rtf, limit=limit)


def _faults(metrics: Any, variant: str, name: str, kind: str, limit: float) -> Gate:
    """Fraction of texts of a kind with a word fault."""
    figures = entry(metrics, "short_texts", variant)
    if isinstance(figures, str) and figures.startswith("not run: "):  # unsupported language
        return Gate(name=name, passed=True, reason=figures, limit=limit)
    found = entry(figures, kind)
    rate, bounds = number(found, "faulty_rate"), interval(found, "faulty_rate_ci95")
    faulty, texts = number(found, "faulty"), number(found, "texts")
    if rate is None or bounds is None or faulty is None or texts is None:
        why = f": {figures}" if isinstance(figures, str) else "; run evaluate again"
        return Gate(name=name, passed=False, reason=f"not measured for {variant}{why}", limit=limit)
    low, high = (100 * bound for bound in bounds)
    reason = (
        f"a word was skipped, repeated or babbled in {faulty:.0f} of {texts:.0f} texts (95 % interval {low:.1f} - "
        f"{high:.1f} %), its upper end at most {100 * limit:.1f} %"
    )
    return Gate(name=name, passed=bounds[1] <= limit, reason=reason, value=rate, interval=bounds, limit=limit)


def _runaways(metrics: Any, variant: str, limit: float) -> Gate:
    """Fraction of first attempts stopped by a guard."""
    name, found = "runaways", entry(metrics, "decoding", variant)
    rate, bounds = number(found, "runaway_rate"), interval(found, "runaway_rate_ci95")
    runaways, sentences = number(found, "runaways"), number(found, "sentences")
    if rate is None or bounds is None or runaways is None or sentences is None:
        return Gate(name=name, passed=False, reason=f"not measured for {variant}", limit=limit)
    low, high = (100 * bound for bound in bounds)
    reason = (
        f"{runaways:.0f} of {sentences:.0f} sentences ran away (95 % interval {low:.1f} - {high:.1f} %), "
        f"its upper end at most {100 * limit:.1f} %"
    )
    return Gate(name=name, passed=bounds[1] <= limit, reason=reason, value=rate, interval=bounds, limit=limit)


def _parity(metrics: Any, candidate: str) -> Gate:
    """Result of `verify`."""
    found = entry(metrics, "parity", candidate)
    passed = entry(found, "passed")
    if not isinstance(passed, bool):
        why = f": {found}" if isinstance(found, str) else ""
        return Gate(name="parity", passed=False, reason=f"not measured for {candidate}{why}")
    if not passed:
        reason = f"{candidate} failed the stage verify: {entry(found, 'failed')}"
        return Gate(name="parity", passed=False, reason=reason)
    differences = {graph: number(found, "max_abs_diff", graph) for graph in entry(found, "max_abs_diff") or {}}
    measured = {graph: value for graph, value in differences.items() if value is not None}
    if not measured or len(measured) < len(differences):
        return Gate(name="parity", passed=False, reason=f"{candidate}: a difference from torch was not measured")
    reason = f"{candidate} differs from torch by " + ", ".join(f"{graph} {v:.2g}" for graph, v in measured.items())
    return Gate(name="parity", passed=True, reason=reason, value=max(measured.values()))


def points(name: str, text: str, value: float, bounds: tuple[float, float], limit: float, digits: int = 1) -> Gate:
    """Gate on a difference; lower is better."""
    low, high = bounds
    reason = (
        f"{text}: {value:+.{digits}f} points (paired 95 % interval {low:+.{digits}f} to {high:+.{digits}f}; "
        f"{finding(low, high, 0.0)}), its upper end at most {limit:+.{digits}f}"
    )
    return Gate(name=name, passed=high <= limit, reason=reason, value=value, interval=bounds, limit=limit)


def finding(low: float, high: float, equal: float) -> str:
    """Interpretation of an interval; lower is better."""
    if high < equal:
        return "better"
    return "worse" if low > equal else "no difference beyond noise"
