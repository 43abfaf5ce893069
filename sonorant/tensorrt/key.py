"""What an engine was built from and for, so that a stale one is known by name. Knows nothing of files."""

from __future__ import annotations

from dataclasses import dataclass, fields

from sonorant.tensorrt.installation import Machine
from sonorant.tensorrt.profiles import Profile

AMPERE = (8, 0)
"""The least generation that hardware-compatible engines run on."""


@dataclass(frozen=True, kw_only=True)
class EngineConfig:
    """How engines are built."""

    workspace_mib: int
    """Most device memory in MiB that a kernel may take as scratch while it is chosen and when it runs."""
    max_batch: int
    """Most rows at once."""
    tf32: bool
    """Whether float32 products may be computed in TF32: faster, and only 10 bits of mantissa."""
    version_compatible: bool
    """Whether later releases of the same major TensorRT may run the engine too: larger, and may be slower."""
    hardware_compatible: bool
    """Whether any GPU from Ampere on may run the engine, not only this one: may be slower."""

    def __post_init__(self) -> None:
        if min(self.workspace_mib, self.max_batch) < 1:
            raise ValueError("workspace_mib and max_batch must be at least 1")


@dataclass(frozen=True, kw_only=True)
class EngineKey:
    """Two engines of the same key are interchangeable."""

    onnx: str
    """SHA-256 of the graph's file, hexadecimal."""
    machine: Machine
    """Where it was built."""
    config: EngineConfig
    """How it was built."""
    profiles: tuple[Profile, ...]
    """The sizes it takes."""

    def stale(self, onnx: str, machine: Machine) -> list[str]:
        """Why this engine cannot stand for the graph of that hash on that machine, a reason each; empty: it can."""
        reasons = []
        if self.onnx != onnx:
            reasons.append(f"built from another graph ({self.onnx[:12]}, now {onnx[:12]})")
        if not self._runs_under(machine.tensorrt):
            reasons.append(f"built by TensorRT {self.machine.tensorrt}, here is {machine.tensorrt}")
        if not self._runs_on(machine):
            built = self.machine
            reasons.append(
                f"built on {built.gpu} {_dotted(built.compute_capability)}, here is {machine.gpu} {_dotted(machine.compute_capability)}"
            )
        return reasons

    def changed(self, config: EngineConfig, profiles: tuple[Profile, ...]) -> list[str]:
        """Which settings differ from those asked for, each with both values."""
        changed = [
            f"{field.name} was {getattr(self.config, field.name)}, is {getattr(config, field.name)}"
            for field in fields(config)
            if getattr(self.config, field.name) != getattr(config, field.name)
        ]
        return changed + (["other profiles"] if self.profiles != profiles else [])

    def _runs_under(self, version: str) -> bool:
        built, here = _numbers(self.machine.tensorrt), _numbers(version)
        return built == here or (self.config.version_compatible and built[0] == here[0] and built <= here)

    def _runs_on(self, machine: Machine) -> bool:
        same = (self.machine.gpu, self.machine.compute_capability) == (machine.gpu, machine.compute_capability)
        return same or (self.config.hardware_compatible and machine.compute_capability >= AMPERE)


def _numbers(version: str) -> list[int]:
    return [int(part) for part in version.split(".") if part.isdigit()]


def _dotted(compute_capability: tuple[int, int]) -> str:
    return f"({compute_capability[0]}.{compute_capability[1]})"
