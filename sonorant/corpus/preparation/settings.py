"""What an utterance must be to be trained on, and how the splits are drawn."""

from dataclasses import dataclass

from sonorant.corpus.splits import SplitBy


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
    most_held_out: int | None = None
    """Utterances that validation and test have at most, each, by hash; None: what the fractions say. Judging a voice
    takes no more than some thousands, however large the corpus. A text or speaker that is held out stays whole."""
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
        if self.most_held_out is not None and self.most_held_out < 1:
            raise ValueError(f"most_held_out must be at least 1 or null, not {self.most_held_out}")
        if self.min_dnsmos is not None and not self.rate_dnsmos:
            raise ValueError("min_dnsmos needs ratings; set rate_dnsmos to true, or min_dnsmos to null")
        if self.validation + self.test >= 1:
            held_out = f"validation ({self.validation}) and test ({self.test})"
            raise ValueError(f"{held_out} leave nothing to train on; their sum must be below 1")
