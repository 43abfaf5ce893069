"""Tolerances by precision and family: section `verify` of params.yaml."""

from dataclasses import dataclass, field

from sonorant.checked import Positive, Share
from sonorant.errors import SonorantError
from sonorant.plugins import family_names
from sonorant.speech.runtimes import all_runtimes

FROM_FLOAT = "int8_from_float"
"""Key of the tolerances of int8 relative to the float models."""
FRAMES = (2.0, 0.02)
"""`Tolerance.frames` for variants other than fp32."""


@dataclass(frozen=True, kw_only=True)
class Tolerance:
    max_abs_diff: float
    relative_error: float
    log_mel_db: float
    correlation: float
    frames: tuple[float, float] = (0.0, 0.0)
    """Tolerance of token ends: frames plus a fraction of the time before the end."""


@dataclass(frozen=True, kw_only=True)
class VerifyConfig:
    """Runtimes to verify, and tolerances by variant: `int8` against the fake-quantised models, `int8_from_float`
    against the float models."""

    max_abs_diff: dict[str, Positive] = field(
        default_factory=lambda: {"fp32": 0.001, "fp16": 0.1, "bf16": 0.5, "int8": 0.5, "int8_from_float": 2.0}
    )
    """Maximum absolute difference of states, log-mel (natural logarithm) and samples (full scale 1)."""
    relative_error: dict[str, Positive | dict[str, Positive]] = field(
        default_factory=lambda: {
            "fp32": 0.0001,
            "fp16": 0.002,
            "bf16": 0.03,
            "int8": {"parallel": 0.01, "codec_lm": 0.03},
            "int8_from_float": {"parallel": 0.05, "codec_lm": 0.2},
        }
    )
    """Maximum relative RMS difference of states and log-mel, optionally per family."""
    log_mel_db: dict[str, Positive] = field(
        default_factory=lambda: {"fp32": 0.02, "fp16": 0.3, "bf16": 1.5, "int8": 0.5, "int8_from_float": 2.0}
    )
    """Maximum mean absolute difference of the log-mel of mel and samples, in dB."""
    correlation: dict[str, Share] = field(
        default_factory=lambda: {"fp32": 0.99, "fp16": 0.99, "bf16": 0.95, "int8": 0.9, "int8_from_float": 0.5}
    )
    """Minimum correlation of the samples with those expected, -1 to 1."""
    tokens: dict[str, Share] = field(default_factory=lambda: {"fp32": 1.0, "int8": 0.96})
    """Minimum fraction of greedy tokens that equal the trained models' tokens, for autoregressive voices."""
    int8_size: Positive = 0.3334
    """Maximum size of int8 graphs relative to fp32, for graphs with a quantisable layer."""
    runtimes: list[str] = field(
        default_factory=lambda: [
            "onnxruntime",
            "onnxruntime-cuda",
            "torch",
            "torch-static",
            "torch-cuda",
            "torch-cuda-graphs",
            "tensorrt",
        ]
    )
    """Runtimes to verify, from `sonorant.speech.runtimes.all_runtimes`. Compiling takes minutes on a CPU."""

    def __post_init__(self) -> None:
        for runtime in self.runtimes:
            if runtime not in all_runtimes():
                raise ValueError(f"runtimes: unknown runtime '{runtime}'; use one of: {', '.join(all_runtimes())}")
        for name in ("max_abs_diff", "relative_error", "log_mel_db", "correlation"):
            values = getattr(self, name)
            missing = {"fp32", "fp16", "bf16", "int8", FROM_FLOAT} - set(values)
            for variant, value in values.items():
                if isinstance(value, dict):
                    missing |= {f"{variant} of family {family}" for family in set(family_names()) - value.keys()}
            if missing:
                raise ValueError(f"{name} has no tolerance for {', '.join(sorted(missing))}; add one")
        for variant in ("fp32", "int8"):
            if variant not in self.tokens:
                raise ValueError(f"tokens has no fraction for {variant}; add one")

    def tolerance(self, variant: str, family: str) -> Tolerance:
        """Return the tolerance of a variant for a family. Raises SonorantError if there is none."""
        if variant not in self.max_abs_diff:
            raise SonorantError(
                f"no tolerance for variant '{variant}'; add one to each mapping of the section verify, next to "
                f"{', '.join(self.max_abs_diff)}"
            )
        return Tolerance(
            max_abs_diff=self.max_abs_diff[variant],
            relative_error=_of(self.relative_error[variant], family),
            log_mel_db=self.log_mel_db[variant],
            correlation=self.correlation[variant],
            frames=(0.0, 0.0) if variant == "fp32" else FRAMES,
        )


def _of(value: float | dict[str, float], family: str) -> float:
    return value[family] if isinstance(value, dict) else value


class Fault(Exception):
    """A failed check of a candidate; its message is one line with graph, output, length and measurement."""
