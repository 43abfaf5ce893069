"""How far a build has come, as bars in the terminal. Knows nothing of what is built; importing it needs TensorRT."""

from __future__ import annotations

import sys

import tensorrt as trt
from tqdm import tqdm


class ProgressBars(trt.IProgressMonitor):
    """A bar a phase, phases within phases below each other. TensorRT calls it from several threads."""

    def __init__(self, label: str) -> None:
        """`label` stands before the name of the outermost phase."""
        trt.IProgressMonitor.__init__(self)  # bound classes take no `super().__init__`
        self._label = label
        self._bars: dict[str, tqdm] = {}

    def phase_start(self, phase_name: str, parent_phase: str | None, num_steps: int) -> None:
        """TensorRT begins a phase."""
        name = phase_name if parent_phase else f"{self._label}: {phase_name}"
        self._bars[phase_name] = tqdm(total=num_steps, desc=name, unit="step", leave=not parent_phase, file=sys.stderr)

    def step_complete(self, phase_name: str, step: int) -> bool:
        """A step of a phase is done; True: go on."""
        if phase_name in self._bars:
            self._bars[phase_name].update(step + 1 - self._bars[phase_name].n)
        return True

    def phase_finish(self, phase_name: str) -> None:
        """A phase is done."""
        bar = self._bars.pop(phase_name, None)
        if bar is not None:
            bar.update((bar.total or 0) - bar.n)
            bar.close()
