"""Checks of a single utterance. `prepare` detects duplicates."""

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import numpy as np

from sonorant.audio.arrays import Floats
from sonorant.audio.channels import ChannelFinding, Channels, lag_of
from sonorant.audio.containers import cut_off
from sonorant.audio.decoding import UndecodableError, decode, header
from sonorant.audio.measures import FULL_SCALE, Measures
from sonorant.checked import Amount, Count, Fraction, Interval, Level, Positive, Text
from sonorant.corpus.manifest import Defect, Utterance, file_exists, may_be_read
from sonorant.corpus.sound import recording_of
from sonorant.corpus.splits import SplitBy


@dataclass(frozen=True, kw_only=True)
class PrepareConfig:
    """Section `prepare` of params.yaml; None disables a limit."""

    min_seconds: Amount = 0.5
    """Minimum seconds of an utterance."""
    max_seconds: Positive = 12.0
    """Maximum seconds of an utterance."""
    min_characters_per_second: Amount = 4.0
    """Minimum speaking rate in characters of the spoken text, including spaces, per second."""
    max_characters_per_second: Positive = 30.0
    """Maximum speaking rate in characters per second."""
    max_clipped: Fraction = 0.01
    """Maximum fraction of samples at full scale."""
    min_channel_correlation: Annotated[float, Interval(ge=-1, le=1)] | None = 0.5
    """Minimum correlation between two channels. The average of channels that differ more is not a recording of
    either."""
    min_snr_db: Level | None = 10.0
    """Minimum signal-to-noise ratio in dB. A measurement that is None passes every limit."""
    max_reverberation: Amount | None = None
    """Maximum reverberation in seconds, measured by `sonorant.audio.measures.reverberation`."""
    min_bandwidth_hz: Amount | None = None
    """Minimum bandwidth in Hz."""
    max_hum_db: Level | None = None
    """Maximum mains hum in dB above neighbouring frequencies."""
    max_soft_clipped: Fraction | None = 0.01
    """Maximum fraction of samples clipped below full scale."""
    rate_dnsmos: bool = False
    """Whether to rate recordings with DNSMOS (extra `mos`), which takes several times as long as other checks."""
    min_dnsmos: Annotated[float, Interval(ge=1, le=5)] | None = None
    """Minimum overall DNSMOS, 1 to 5."""
    max_rejected: Fraction = 0.05
    """Maximum fraction of rejected utterances; above it, preparation fails."""
    validation: Annotated[float, Interval(gt=0, lt=1)] = 0.02
    """Fraction held out to monitor training."""
    test: Annotated[float, Interval(gt=0, lt=1)] = 0.11
    """Fraction held out for evaluation."""
    most_held_out: Count | None = 2000
    """Maximum number of utterances in each of validation and test. Evaluation requires at most thousands. Texts and
    speakers are not split."""
    split_by: SplitBy = "text"
    """Unit that stays in one split: `text` (all takes of a sentence) or `speaker`."""
    min_speaker_seconds: Amount = 0.0
    """Minimum seconds of accepted utterances per speaker."""
    marks: Literal["reject", "remove"] = "reject"
    """Whether to reject an utterance whose text marks a sound, such as [laughter] or <unk>, or to remove the marks.
    HTML entities are decoded and tags such as <br> removed in any case."""
    decisions: Text | None = None
    """File of decisions about clips (`sonorant review`), if any."""

    def __post_init__(self) -> None:
        for low, high in (
            ("min_seconds", "max_seconds"),
            ("min_characters_per_second", "max_characters_per_second"),
        ):
            least, most = getattr(self, low), getattr(self, high)
            if least >= most:
                raise ValueError(f"{low} ({least}) must be less than {high} ({most})")
        if self.min_dnsmos is not None and not self.rate_dnsmos:
            raise ValueError("min_dnsmos requires ratings; set rate_dnsmos to true, or min_dnsmos to null")
        if self.validation + self.test >= 1:
            held_out = f"validation ({self.validation}) and test ({self.test})"
            raise ValueError(f"{held_out} leave nothing to train on; their sum must be below 1")


class Unsound(Exception):
    """A reason to reject an utterance, with details."""

    def __init__(self, defect: Defect, found: str) -> None:
        super().__init__(defect, found)
        self.defect, self.found = defect, found


LEVEL_SECONDS, SILENCE_DB = 0.05, -50.0
_APART = 0.8  # minimum correlation of a sound and its delayed copy


def decode_utterance(corpus: Path, utterance: Utterance, max_seconds: float) -> tuple[Floats, int]:
    """Return samples (S, C) and sample rate of an utterance. Raises Unsound if unusable, and SonorantError like
    `recording_of`."""
    if not utterance.text.strip():
        raise Unsound(Defect.EMPTY_TEXT, "no text")
    if not utterance.audio or not file_exists(path := recording_of(corpus, utterance)):
        raise Unsound(Defect.MISSING_AUDIO, "no such file")
    if not may_be_read(corpus, utterance):
        raise Unsound(Defect.LEAVES_FOLDER, "the file is outside the corpus folder")
    if not path.stat().st_size:
        raise Unsound(Defect.EMPTY_FILE, "0 bytes")
    with suppress(OSError):  # not permitted: `header` reports it
        if cut := cut_off(path):
            raise Unsound(Defect.TRUNCATED, cut)
    try:
        named = header(path)
    except UndecodableError as error:
        raise Unsound(Defect.UNREADABLE, error.reason) from None
    start, end = min(utterance.start or 0.0, named.seconds), min(utterance.end or named.seconds, named.seconds)
    if end - start > max_seconds:  # a damaged header may imply hours, which do not fit in memory
        raise Unsound(Defect.TOO_LONG, f"{end - start:.2f} s, at most {max_seconds:g} s is allowed")
    try:
        channels_SC = decode(path, utterance.start or 0.0, utterance.end)[0]
    except UndecodableError as error:
        raise Unsound(Defect.TRUNCATED, error.reason) from None
    samples = min(round(end * named.sample_rate), named.least) - round(start * named.sample_rate)
    if len(channels_SC) < samples:
        raise Unsound(
            Defect.TRUNCATED, f"the header declares {samples} samples, but the file contains {len(channels_SC)}"
        )
    return channels_SC, named.sample_rate


def check_samples(samples: Floats, rate: int, config: PrepareConfig) -> None:
    """Raise Unsound for mono samples (S,) that are too short or not finite."""
    seconds = len(samples) / rate
    if seconds < config.min_seconds or seconds == 0:
        raise Unsound(Defect.TOO_SHORT, f"{seconds:.2f} s, at least {config.min_seconds:g} s is required")
    if count := int(np.count_nonzero(~np.isfinite(samples))):
        raise Unsound(Defect.NOT_FINITE, f"{count} of {len(samples)} samples are NaN or infinite")


def check_channels(channels_SC: Floats, rate: int, finding: ChannelFinding, least: float | None) -> None:
    """Raise Unsound for channels less correlated than `least`."""
    if least is None or finding.correlation is None or finding.correlation >= least:
        return
    found = f"correlation {finding.correlation:.2f}, at least {least:g}"
    lag, correlation = lag_of(channels_SC[:, finding.pair], rate)
    if finding.kind is Channels.INVERTED:
        said = f"phase-inverted, so that their average is silence ({found}); invert one, or keep one"
    elif abs(correlation) >= _APART:
        said = f"the same sound {abs(lag) * 1000:.1f} ms apart, as from two distant microphones ({found}); keep one"
    else:
        said = f"different sounds, as from two speakers or microphones ({found}); keep one, or split them"
    raise Unsound(Defect.CHANNELS_DIFFER, said)


def level_of(samples: Floats, rate: int) -> float:
    """Return the RMS of the loudest 50 ms in dBFS (full-scale sine: -3); -200 for digital silence."""
    window = max(min(round(LEVEL_SECONDS * rate), len(samples)), 1)
    blocks = samples[: len(samples) // window * window].astype(np.float64).reshape(-1, window)
    return float(10 * np.log10(max(np.square(blocks).mean(axis=1).max(initial=0.0), 1e-20)))


def check_level(level_db: float, samples: Floats, config: PrepareConfig) -> None:
    """Raise Unsound for silent or clipped samples."""
    if level_db < SILENCE_DB:
        raise Unsound(Defect.SILENT, f"loudest 50 ms at {level_db:.1f} dB, at least {SILENCE_DB:g}")
    clipped = float(np.mean(np.abs(samples) >= FULL_SCALE))
    if clipped > config.max_clipped:
        raise Unsound(Defect.CLIPPED, f"{clipped:.2%} of the samples at full scale, at most {config.max_clipped:.2%}")


LIMITS = {
    "min_snr_db": (Defect.NOISY, "speech {:.1f} dB above the noise"),
    "max_reverberation": (Defect.REVERBERANT, "reverberation of {:.2f} s"),
    "min_bandwidth_hz": (Defect.NARROW, "no speech above {:.0f} Hz"),
    "max_hum_db": (Defect.HUM, "mains hum {:.1f} dB above the neighbouring frequencies"),
    "max_soft_clipped": (Defect.CLIPPED, "{:.2%} of samples clipped below full scale"),
    "min_dnsmos": (Defect.RATED_BAD, "DNSMOS {:.2f}"),
}
"""Settings that each limit a field of `Measures`, with the defect and message for a violation."""


def check_limits(measures: Measures, config: PrepareConfig) -> None:
    """Raise Unsound for the first limit that a recording violates."""
    for setting, (defect, words) in LIMITS.items():
        limit, value, least = getattr(config, setting), getattr(measures, setting[4:]), setting.startswith("min_")
        if limit is not None and value is not None and (value < limit if least else value > limit):
            form = words[words.index("{") : words.index("}") + 1]
            side = "at least" if least else "at most"
            raise Unsound(defect, f"{words.format(value)}, {side} {form.format(limit)}")
