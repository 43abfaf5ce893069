"""Every check of a single utterance, in order: the first that finds something names the reason to reject it.

A check returns what it found, in words for the report, or None. Duplicates need the other utterances and are found in
`prepare`.
"""

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
from sonorant.audio.speech import locate_speech, speech_probability
from sonorant.data.manifest import Defect, Utterance, file_exists, path_inside
from sonorant.data.splits import SplitBy
from sonorant.text import Frontend, SpokenText

LEVEL_SECONDS = 0.05
_APART = 0.8  # correlation from which two channels that differ hold one sound at two times


@dataclass(frozen=True, kw_only=True)
class PrepareConfig:
    """Section `prepare` of params.yaml: what an utterance must be to be trained on, and the splits."""

    min_seconds: float
    """Shortest duration in seconds."""
    max_seconds: float
    """Longest duration in seconds."""
    min_characters_per_second: float
    """Slowest speech: characters of the spoken text, with blanks, a second."""
    max_characters_per_second: float
    """Fastest speech, in the same measure."""
    silence_db: float
    """A recording is silent if the RMS of its loudest 50 ms is below this, dB of full scale."""
    max_clipped: float
    """Fraction of samples at full scale above which a recording is clipped."""
    min_channel_correlation: float | None
    """Correlation of two channels below which they hold different things, and their average is no recording of either;
    null = average whatever they hold. At 0.5, averaging already takes 1.2 dB from the sound."""
    min_snr_db: float | None
    """Smallest signal-to-noise ratio in dB; null: any. A figure that a recording does not show is within any limit."""
    max_reverberation: float | None
    """Longest reverberation in seconds, as `Measures.reverberation` estimates it; null: any."""
    min_bandwidth_hz: float | None
    """Smallest bandwidth in Hz; null: any."""
    max_hum_db: float | None
    """Strongest mains hum, dB over what is beside it; null: any."""
    max_soft_clipped: float | None
    """Fraction of samples clipped below full scale above which a recording is clipped; null: any."""
    rate_dnsmos: bool
    """Whether recordings are rated by DNSMOS (extra `mos`), which takes several times as long as all else."""
    min_dnsmos: float | None
    """Smallest overall DNSMOS, 1 to 5; null: any."""
    max_rejected: float
    """Fraction of rejected utterances above which preparation fails."""
    validation: float
    """Fraction held out to watch training, by hash."""
    test: float
    """Fraction held out for evaluation, by hash."""
    split_by: SplitBy = "text"
    """What the hash is of. `text`: all takes of a sentence are in one split; `speaker`: all of a speaker; `id`: each
    utterance for itself, so that other takes of a held-out sentence may be learned."""
    min_speaker_seconds: float = 0.0
    """Seconds that a speaker must have of sound utterances, or all of them are rejected; 0: any."""
    decisions: str | None = None
    """File of what a person decided about clips (`sonorant review`); None = nothing was decided."""

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
        if self.min_dnsmos is not None and not self.rate_dnsmos:
            raise ValueError("min_dnsmos needs ratings; set rate_dnsmos to true, or min_dnsmos to null")
        if self.validation + self.test >= 1:
            held_out = f"validation ({self.validation}) and test ({self.test})"
            raise ValueError(f"{held_out} leave nothing to train on; their sum must be below 1")


class ExaminedRecording:
    """Measurements of one utterance, each made once and when first asked for."""

    def __init__(self, utterance: Utterance, corpus: Path, frontend: Frontend, condition: ConditionConfig) -> None:
        self.utterance = utterance
        self.corpus = corpus
        self.frontend = frontend
        self.condition = condition

    @property
    def path(self) -> Path:
        """The audio file."""
        return self.corpus / (self.utterance.audio or "")

    @cached_property
    def header(self) -> Header:
        """The file's own description. Raises UndecodableError if it cannot be opened as audio."""
        return header(self.path)

    @property
    def part(self) -> tuple[float, float]:
        """Start and end of the utterance in its file, in seconds by the header."""
        whole = self.header.seconds
        return min(self.utterance.start or 0.0, whole), min(self.utterance.end or whole, whole)

    @cached_property
    def channels(self) -> np.ndarray:
        """All channels, float32 (S, C), at the recording's rate. Raises UndecodableError if decoding fails."""
        return decode(self.path, self.utterance.start or 0.0, self.utterance.end)[0]

    @cached_property
    def samples(self) -> np.ndarray:
        """Mono float32 (S,) at the recording's rate. Raises UndecodableError if decoding fails."""
        return mix(self.channels)

    @cached_property
    def channel_finding(self) -> ChannelFinding:
        """What the channels, if they are finite, are to each other."""
        return channel_finding(self.channels, self.header.sample_rate)

    @property
    def seconds(self) -> float:
        """Duration as decoded."""
        return len(self.samples) / self.header.sample_rate

    @cached_property
    def level_db(self) -> float:
        """RMS of the loudest 50 ms in dB of full scale (a sine at full scale: -3); -200 for digital silence."""
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
        """The text as the frontend speaks it."""
        return self.frontend.speak(self.utterance.text)

    @cached_property
    def probability(self) -> np.ndarray:
        """Probability of speech float32 (F,) of each 32 ms. The samples must be finite."""
        return speech_probability(self.samples, self.header.sample_rate)

    @cached_property
    def conditioning(self) -> Conditioning:
        """What is to be done to the recording before it is learned from."""
        rate = self.header.sample_rate
        return plan(self.samples, rate, locate_speech(self.samples, rate, self.probability), self.condition)

    @cached_property
    def measures(self) -> Measures:
        """What the recording sounds like, in figures."""
        return measure(self.samples, self.header.sample_rate, self.probability)

    @property
    def characters_per_second(self) -> float:
        """Speaking rate: characters of the spoken text, with blanks, a second of the conditioned recording."""
        return len(self.spoken.text) / self.conditioning.after.seconds

    @cached_property
    def sound(self) -> str:
        """Hex SHA-256 of the decoded samples: equal for copies, also in another lossless format."""
        return hashlib.sha256(self.samples.tobytes()).hexdigest()


Check = Callable[[ExaminedRecording, PrepareConfig], str | None]


def empty_text(recording: ExaminedRecording, config: PrepareConfig) -> str | None:
    return None if recording.utterance.text.strip() else "no text"


def leaves_folder(recording: ExaminedRecording, config: PrepareConfig) -> str | None:
    outside = path_inside(recording.corpus, recording.utterance.audio or "") is None
    return "only files inside the corpus folder are read" if outside else None


def missing_audio(recording: ExaminedRecording, config: PrepareConfig) -> str | None:
    return None if recording.utterance.audio and file_exists(recording.path) else "no such file"


def empty_file(recording: ExaminedRecording, config: PrepareConfig) -> str | None:
    return None if recording.path.stat().st_size else "0 bytes"


def ends_early(recording: ExaminedRecording, config: PrepareConfig) -> str | None:
    try:
        return cut_off(recording.path)
    except OSError:  # not permitted to read: the check `unreadable` comes next
        return None


def unreadable(recording: ExaminedRecording, config: PrepareConfig) -> str | None:
    try:
        _ = recording.header
    except UndecodableError as error:
        return error.reason
    return None


def too_long(recording: ExaminedRecording, config: PrepareConfig) -> str | None:
    # By the header, before decoding: a damaged one may name hours, which would not fit in memory.
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
    (Defect.LEAVES_FOLDER, leaves_folder),
    (Defect.MISSING_AUDIO, missing_audio),
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
    """The reason to reject the recording and what was found; None if it is sound."""
    for defect, check in CHECKS:
        found = check(recording, config)
        if found is not None:
            return defect, found
    return None
