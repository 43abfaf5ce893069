"""The trained models themselves as a runtime, to compare others with. Knows nothing of bundles."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from sonorant.models.saved import load_acoustic, load_vocoder


class TorchRuntime:
    """Two modules in eval mode on the CPU; see `sonorant.runtime.runtimes.Runtime`."""

    def __init__(self, acoustic: Path, vocoder: Path, *, threads: int | None = None) -> None:
        """Load the trained folders. `threads`, where given, is set for the whole process: torch has one pool."""
        if threads is not None:
            torch.set_num_threads(threads)
        self._acoustic, _ = load_acoustic(acoustic)
        self._vocoder, _ = load_vocoder(vocoder)

    @torch.inference_mode()
    def encode(
        self, tokens: NDArray[np.int64], lengths: NDArray[np.int64], speaker: NDArray[np.int64], speed: NDArray[np.float32]
    ) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        """Phonemes to states and ends, as `Runtime.encode`."""
        states, ends = self._acoustic.encode_speech(*(torch.from_numpy(x) for x in (tokens, lengths, speaker, speed)))
        return states.numpy(), ends.numpy()

    @torch.inference_mode()
    def decode(self, states: NDArray[np.float32], ends: NDArray[np.int64], time: NDArray[np.int64]) -> NDArray[np.float32]:
        """States to mel, as `Runtime.decode`."""
        return self._acoustic.decode(*(torch.from_numpy(x) for x in (states, ends, time))).contiguous().numpy()

    @torch.inference_mode()
    def vocode(self, mel: NDArray[np.float32], lengths: NDArray[np.int64]) -> NDArray[np.float32]:
        """Mel to samples, as `Runtime.vocode`."""
        return self._vocoder(torch.from_numpy(mel), torch.from_numpy(lengths)).numpy()
