"""How close is equal, for each precision and family: section `verify` of the settings."""

from dataclasses import dataclass

from sonorant.errors import SonorantError
from sonorant.plugins import family_names

FROM_FLOAT = "int8_from_float"
"""Under this name the tolerances of int8 against the float models stand."""
FRAMES = (2.0, 0.02)
"""By how much a token's end may be off in precisions below fp32: frames, and a share of the time until then."""


@dataclass(frozen=True, kw_only=True)
class Tolerance:
    """How close is equal."""

    max_abs_diff: float
    """Of states, log-mel (natural logarithm) and samples (full scale 1)."""
    relative_error: float
    """Root mean square of the difference relative to that of the values; states and mel."""
    log_mel_db: float
    """Mean absolute difference of log-mel; mel and samples."""
    correlation: float
    """Of samples, at least: everything else is blind to a changed sign."""
    frames: tuple[float, float] = (0.0, 0.0)
    """By how much a token's end may be off: frames, and in addition a share of the time until then."""


@dataclass(frozen=True, kw_only=True)
class VerifyConfig:
    """What is checked, and how close is equal, by variant: int8 against the fake-quantised models, int8_from_float
    against the float ones."""

    max_abs_diff: dict[str, float]
    """Largest difference, on states, log-mel (natural logarithm) and samples (full scale 1)."""
    relative_error: dict[str, float | dict[str, float]]
    """Root mean square of the difference relative to the values, of states and log-mel; one figure, or one a family."""
    log_mel_db: dict[str, float]
    """Mean absolute difference of the log-mel, of mel and samples."""
    correlation: dict[str, float]
    """Of the samples with those expected, at least; -1 to 1."""
    tokens: dict[str, float]
    """Share of the greedy tokens, at least, that are those of the models; of voices that speak code by code."""
    int8_size: float
    """Bytes of int8 graphs over those of fp32, at most; only graphs with a layer that could be int8 count."""
    runtimes: list[str]
    """Runtimes to check, keys of `sonorant.speech.runtimes.RUNTIMES`. Compiling takes minutes on a CPU."""

    def __post_init__(self) -> None:
        for name in ("max_abs_diff", "relative_error", "log_mel_db", "correlation"):
            values = getattr(self, name)
            missing = {"fp32", "fp16", "bf16", "int8", FROM_FLOAT} - set(values)
            for variant, value in values.items():
                if isinstance(value, dict):
                    missing |= {f"{variant} of family {family}" for family in set(family_names()) - value.keys()}
            if missing:
                raise ValueError(f"{name} has no tolerance for {', '.join(sorted(missing))}")
            if min(_of(value, family) for value in values.values() for family in family_names()) <= 0:
                raise ValueError(f"{name} must be above 0")
        for variant in ("fp32", "int8"):
            if not 0 < self.tokens.get(variant, 0) <= 1:
                raise ValueError(f"tokens must be above 0 and at most 1 for {variant}, not {self.tokens.get(variant)}")

    def tolerance(self, variant: str, family: str) -> Tolerance:
        """Of one variant of a voice of a family. Raises SonorantError if there is none."""
        if variant not in self.max_abs_diff:
            raise SonorantError(
                f"no tolerance for variant '{variant}'; add it to section verify: {', '.join(self.max_abs_diff)}"
            )
        return Tolerance(
            max_abs_diff=self.max_abs_diff[variant],
            relative_error=_of(self.relative_error[variant], family),
            log_mel_db=self.log_mel_db[variant],
            correlation=self.correlation[variant],
            frames=(0.0, 0.0) if variant == "fp32" else FRAMES,
        )


def _of(value: float | dict[str, float], family: str) -> float:
    """The figure of a family."""
    return value[family] if isinstance(value, dict) else value


class Fault(Exception):
    """One candidate computes something else than it should; one line that names graph, output, length and figure."""
