"""Limits on what a recording sounds like. A setting that is null allows any; a figure that is None is within any."""

from collections.abc import Callable
from dataclasses import dataclass

from sonorant.audio.measures import Measures
from sonorant.corpus.manifest import Defect
from sonorant.corpus.preparation.settings import PrepareConfig


@dataclass(frozen=True)
class _Limit:
    setting: str
    defect: Defect
    of: Callable[[Measures], float | None]
    words: str
    """The figure as it is said."""

    def beyond(self, value: float, limit: float) -> bool:
        """Whether a value is on the wrong side, which the setting's name tells."""
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
"""The settings; they change nothing of what is measured."""


def beyond_limit(measures: Measures, config: PrepareConfig) -> tuple[Defect, str] | None:
    """The first limit that a recording breaks: the reason to reject it and what was found; None if it keeps to all."""
    for limit in _LIMITS:
        allowed, value = getattr(config, limit.setting), limit.of(measures)
        if allowed is not None and value is not None and limit.beyond(value, allowed):
            side = "at least" if limit.setting.startswith("min_") else "at most"
            form = limit.words[limit.words.index("{") : limit.words.index("}") + 1]
            return limit.defect, f"{limit.words.format(value)}, {side} {form.format(allowed)}"
    return None
