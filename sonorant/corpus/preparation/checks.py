"""Checks of a single utterance: the settings, the examined recording, and the first reason to reject it. Duplicates
are found in `prepare`."""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from sonorant.audio.channels import ChannelFinding, Channels, channel_finding, lag_of, mix
from sonorant.audio.conditioning import ConditionConfig, Conditioning, plan
from sonorant.audio.containers import cut_off
from sonorant.audio.decoding import Header, UndecodableError, decode, header
from sonorant.audio.measures import FULL_SCALE, Measures, measure
from sonorant.audio.voice_activity import locate_speech, speech_probability
from sonorant.corpus.manifest import Defect, Utterance, file_exists, may_be_read
from sonorant.corpus.sound import recording_of
from sonorant.corpus.splits import SplitBy
from sonorant.text import Frontend, SpokenText


@dataclass(frozen=True, kw_only=True)
class PrepareConfig:
    """Section `prepare` of params.yaml; None turns a limit off."""

    min_seconds: float = 0.5
    """Shortest duration."""
    max_seconds: float = 12.0
    """Longest duration."""
    min_characters_per_second: float = 4.0
    """Slowest speech: characters of the spoken text, with blanks, per second."""
    max_characters_per_second: float = 30.0
    """Fastest speech."""
    silence_db: float = -50.0
    """A recording is silent if the RMS of its loudest 50 ms is below this, dB of full scale."""
    max_clipped: float = 0.01
    """Largest fraction of samples at full scale."""
    min_channel_correlation: float | None = 0.5
    """Below this correlation of two channels a recording is rejected, as their average is no recording of either. At
    0.5, averaging already costs 1.2 dB."""
    min_snr_db: float | None = 10.0
    """Smallest signal-to-noise ratio in dB. A measurement that is None passes every limit."""
    max_reverberation: float | None = None
    """Longest reverberation in seconds, by `sonorant.audio.measures.reverberation`."""
    min_bandwidth_hz: float | None = None
    """Smallest bandwidth in Hz."""
    max_hum_db: float | None = None
    """Strongest mains hum in dB over its neighbourhood."""
    max_soft_clipped: float | None = 0.01
    """Largest fraction of samples clipped below full scale."""
    rate_dnsmos: bool = False
    """Rate recordings with DNSMOS (extra `mos`), which takes several times as long as everything else."""
    min_dnsmos: float | None = None
    """Smallest overall DNSMOS, 1 to 5."""
    max_rejected: float = 0.05
    """Largest fraction of rejected utterances; above it, preparation fails."""
    validation: float = 0.02
    """Fraction held out to watch training."""
    test: float = 0.11
    """Fraction held out for evaluation."""
    most_held_out: int | None = 2000
    """Maximum utterances in each of validation and test, as evaluation needs some thousands at most. Texts and
    speakers stay whole."""
    split_by: SplitBy = "text"
    """Unit that stays in one split: `text` (all takes of a sentence), `speaker`, or `id` (each utterance)."""
    min_speaker_seconds: float = 0.0
    """Minimum seconds of sound utterances of a speaker; 0: any."""
    decisions: str | None = None
    """File of decisions about clips (`sonorant review`)."""

    def __post_init__(self) -> None:
        if not 0 <= self.min_seconds < self.max_seconds:
            raise ValueError(
                f"min_seconds ({self.min_seconds}) must be at least 0 and less than max_seconds ({self.max_seconds})"
            )
        slow, fast = self.min_characters_per_second, self.max_characters_per_second
        if not 0 <= slow < fast:
            raise ValueError(
                f"min_characters_per_second ({slow}) must be at least 0 and "
                f"less than max_characters_per_second ({fast})"
            )
        if self.min_speaker_seconds < 0:
            raise ValueError(f"min_speaker_seconds ({self.min_speaker_seconds}) must be at least 0")
        if self.silence_db >= 0:
            raise ValueError(f"silence_db ({self.silence_db}) is in dB of full scale, so less than 0")
        alike = self.min_channel_correlation
        if alike is not None and not -1 <= alike <= 1:
            raise ValueError(f"min_channel_correlation ({alike}) is a correlation, from -1 to 1, or null")
        for name in ("max_clipped", "max_rejected", "validation", "test"):
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"{name} ({getattr(self, name)}) is a fraction, from 0 to 1")
        if self.most_held_out is not None and self.most_held_out < 1:
            raise ValueError(f"most_held_out must be at least 1 or null, not {self.most_held_out}")
        if self.min_dnsmos is not None and not self.rate_dnsmos:
            raise ValueError("min_dnsmos needs ratings; set rate_dnsmos to true, or min_dnsmos to null")
        if self.validation + self.test >= 1:
            held_out = f"validation ({self.validation}) and test ({self.test})"
            raise ValueError(f"{held_out} leave nothing to train on; their sum must be below 1")


LEVEL_SECONDS = 0.05


class ExaminedRecording:
    """Measurements of one utterance, computed when first used."""

    def __init__(self, utterance: Utterance, corpus: Path, frontend: Frontend, condition: ConditionConfig) -> None:
        self.utterance = utterance
        self.corpus = corpus
        self.frontend = frontend
        self.condition = condition

    @cached_property
    def path(self) -> Path:
        """Raises SonorantError as `recording_of`."""
        return recording_of(self.corpus, self.utterance)

    @cached_property
    def header(self) -> Header:
        """Raises UndecodableError if it is not audio."""
        return header(self.path)

    @property
    def part(self) -> tuple[float, float]:
        """Start and end of the utterance in its file, in seconds."""
        whole = self.header.seconds
        return min(self.utterance.start or 0.0, whole), min(self.utterance.end or whole, whole)

    @cached_property
    def channels(self) -> np.ndarray:
        """Float32 (S, C) at the recording's rate. Raises UndecodableError if decoding fails."""
        return decode(self.path, self.utterance.start or 0.0, self.utterance.end)[0]

    @cached_property
    def samples(self) -> np.ndarray:
        """Mono float32 (S,) at the recording's rate. Raises UndecodableError if decoding fails."""
        return mix(self.channels)

    @cached_property
    def channel_finding(self) -> ChannelFinding:
        return channel_finding(self.channels, self.header.sample_rate)

    @property
    def seconds(self) -> float:
        """Duration as decoded."""
        return len(self.samples) / self.header.sample_rate

    @cached_property
    def level_db(self) -> float:
        """RMS of the loudest 50 ms in dB of full scale (full-scale sine: -3); -200 for digital silence."""
        window = max(min(round(LEVEL_SECONDS * self.header.sample_rate), len(self.samples)), 1)
        blocks = self.samples[: len(self.samples) // window * window].astype(np.float64).reshape(-1, window)
        loudest = np.square(blocks).mean(axis=1).max(initial=0.0)
        return float(10 * np.log10(max(loudest, 1e-20)))

    @property
    def clipped(self) -> float:
        """Fraction of samples at or beyond full scale."""
        return float(np.mean(np.abs(self.samples) >= FULL_SCALE))

    @cached_property
    def spoken(self) -> SpokenText:
        return self.frontend.speak(self.utterance.text)

    @cached_property
    def probability(self) -> np.ndarray:
        """Probability of speech, float32 (F,), of each 32 ms. The samples must be finite."""
        return speech_probability(self.samples, self.header.sample_rate)

    @cached_property
    def conditioning(self) -> Conditioning:
        rate = self.header.sample_rate
        return plan(self.samples, rate, locate_speech(self.samples, rate, self.probability), self.condition)

    @cached_property
    def measures(self) -> Measures:
        return measure(self.samples, self.header.sample_rate, self.probability)

    @property
    def characters_per_second(self) -> float:
        """Characters of the spoken text, with blanks, per second of the conditioned recording."""
        return len(self.spoken.text) / self.conditioning.after.seconds

    @cached_property
    def sound(self) -> str:
        """Hex SHA-256 of the decoded samples: equal for copies, also in another lossless format."""
        return hashlib.sha256(self.samples.tobytes()).hexdigest()


_APART = 0.8  # least correlation of one sound with a delay

Check = Callable[[ExaminedRecording, PrepareConfig], str | None]


def empty_text(recording: ExaminedRecording, config: PrepareConfig) -> str | None:
    return None if recording.utterance.text.strip() else "no text"


def leaves_folder(recording: ExaminedRecording, config: PrepareConfig) -> str | None:
    inside = may_be_read(recording.corpus, recording.utterance)
    return None if inside else "only files inside the corpus folder are read"


def missing_audio(recording: ExaminedRecording, config: PrepareConfig) -> str | None:
    return None if recording.utterance.audio and file_exists(recording.path) else "no such file"


def empty_file(recording: ExaminedRecording, config: PrepareConfig) -> str | None:
    return None if recording.path.stat().st_size else "0 bytes"


def ends_early(recording: ExaminedRecording, config: PrepareConfig) -> str | None:
    try:
        return cut_off(recording.path)
    except OSError:  # not permitted: the check `unreadable` reports it
        return None


def unreadable(recording: ExaminedRecording, config: PrepareConfig) -> str | None:
    try:
        _ = recording.header
    except UndecodableError as error:
        return error.reason
    return None


def too_long(recording: ExaminedRecording, config: PrepareConfig) -> str | None:
    # By the header: a damaged one may claim hours, which do not fit in memory.
    seconds = recording.part[1] - recording.part[0]
    return f"{seconds:.2f} s, at most {config.max_seconds:g}" if seconds > config.max_seconds else None


def breaks_off(recording: ExaminedRecording, config: PrepareConfig) -> str | None:
    rate, least = recording.header.sample_rate, recording.header.least
    start, end = (round(at * rate) for at in recording.part)
    named = min(end, least) - start
    try:
        decoded = len(recording.samples)
    except UndecodableError as error:
        return error.reason
    return f"its header names {named} samples and it holds {decoded}" if decoded < named else None


def too_short(recording: ExaminedRecording, config: PrepareConfig) -> str | None:
    seconds = recording.seconds
    return f"{seconds:.2f} s, at least {config.min_seconds:g}" if seconds < config.min_seconds or seconds == 0 else None


def not_finite(recording: ExaminedRecording, config: PrepareConfig) -> str | None:
    count = int(np.count_nonzero(~np.isfinite(recording.samples)))
    return f"{count} of {len(recording.samples)} samples" if count else None


def channels_differ(recording: ExaminedRecording, config: PrepareConfig) -> str | None:
    finding, least = recording.channel_finding, config.min_channel_correlation
    if least is None or finding.correlation is None or finding.correlation >= least:
        return None
    found = f"correlation {finding.correlation:.2f}, at least {least:g}"
    if finding.kind is Channels.INVERTED:
        return f"phase-inverted, so that their average is silence ({found}); turn one over, or keep one"
    lag, correlation = lag_of(recording.channels[:, finding.pair], recording.header.sample_rate)
    if abs(correlation) >= _APART:
        return f"one sound {abs(lag) * 1000:.1f} ms apart, as of two microphones at a distance ({found}); keep one"
    return f"different sounds, as of two speakers or microphones ({found}); keep one, or split them"


def silent(recording: ExaminedRecording, config: PrepareConfig) -> str | None:
    level = recording.level_db
    return f"loudest 50 ms at {level:.1f} dB, at least {config.silence_db:g}" if level < config.silence_db else None


def clipped(recording: ExaminedRecording, config: PrepareConfig) -> str | None:
    share = recording.clipped
    found = f"{share:.2%} of the samples at full scale, at most {config.max_clipped:.2%}"
    return found if share > config.max_clipped else None


def unspeakable(recording: ExaminedRecording, config: PrepareConfig) -> str | None:
    return " ".join(f"{character!a} ({character})" for character in recording.spoken.unknown) or None


def nothing_spoken(recording: ExaminedRecording, config: PrepareConfig) -> str | None:
    return None if recording.spoken.phonemes else f"nothing in {recording.utterance.text!r} is spoken"


def speaking_rate(recording: ExaminedRecording, config: PrepareConfig) -> str | None:
    rate = recording.characters_per_second
    slowest, fastest = config.min_characters_per_second, config.max_characters_per_second
    found = f"{rate:.1f} characters a second, from {slowest:g} to {fastest:g} expected"
    return None if slowest <= rate <= fastest else found


CHECKS: tuple[tuple[Defect, Check], ...] = (
    (Defect.EMPTY_TEXT, empty_text),
    (Defect.MISSING_AUDIO, missing_audio),
    (Defect.LEAVES_FOLDER, leaves_folder),
    (Defect.EMPTY_FILE, empty_file),
    (Defect.TRUNCATED, ends_early),
    (Defect.UNREADABLE, unreadable),
    (Defect.TOO_LONG, too_long),
    (Defect.TRUNCATED, breaks_off),
    (Defect.TOO_SHORT, too_short),
    (Defect.NOT_FINITE, not_finite),
    (Defect.CHANNELS_DIFFER, channels_differ),
    (Defect.SILENT, silent),
    (Defect.CLIPPED, clipped),
    (Defect.UNSPEAKABLE, unspeakable),
    (Defect.EMPTY_TEXT, nothing_spoken),
    (Defect.SPEAKING_RATE, speaking_rate),
)


def first_defect(recording: ExaminedRecording, config: PrepareConfig) -> tuple[Defect, str] | None:
    """Reason to reject the recording and what was found; None if it is sound."""
    for defect, check in CHECKS:
        found = check(recording, config)
        if found is not None:
            return defect, found
    return None


@dataclass(frozen=True)
class _Limit:
    setting: str
    defect: Defect
    of: Callable[[Measures], float | None]
    words: str
    """The measurement in words."""

    def beyond(self, value: float, limit: float) -> bool:
        return value < limit if self.setting.startswith("min_") else value > limit


_LIMITS = (
    _Limit("min_snr_db", Defect.NOISY, lambda m: m.snr_db, "speech {:.1f} dB above the noise"),
    _Limit("max_reverberation", Defect.REVERBERANT, lambda m: m.reverberation, "reverberation of {:.2f} s"),
    _Limit("min_bandwidth_hz", Defect.NARROW, lambda m: m.bandwidth_hz, "nothing of the speech above {:.0f} Hz"),
    _Limit("max_hum_db", Defect.HUM, lambda m: m.hum_db, "mains hum {:.1f} dB above what is beside it"),
    _Limit("max_soft_clipped", Defect.CLIPPED, lambda m: m.soft_clipped, "{:.2%} of samples clipped below full scale"),
    _Limit("min_dnsmos", Defect.RATED_BAD, lambda m: m.dnsmos, "DNSMOS {:.2f}"),
)  # fmt: skip
LIMITS = tuple(limit.setting for limit in _LIMITS)
"""Settings that do not change any measurement."""


def beyond_limit(measures: Measures, config: PrepareConfig) -> tuple[Defect, str] | None:
    """The first limit that a recording breaks, and its value; None if there is none."""
    for limit in _LIMITS:
        allowed, value = getattr(config, limit.setting), limit.of(measures)
        if allowed is not None and value is not None and limit.beyond(value, allowed):
            side = "at least" if limit.setting.startswith("min_") else "at most"
            form = limit.words[limit.words.index("{") : limit.words.index("}") + 1]
            return limit.defect, f"{limit.words.format(value)}, {side} {form.format(allowed)}"
    return None
