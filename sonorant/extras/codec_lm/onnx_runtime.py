"""The family codec_lm under ONNX Runtime."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from sonorant.audio.arrays import Floats, Ints
from sonorant.extras.codec_lm.joined_steps import JoinedStepper, JoinedSteps
from sonorant.speech.decoding import DecodingDescription
from sonorant.speech.onnx_sessions import CPU, ON_CUDA, check_cuda, open_session


class OnnxTokenRuntime:
    """A `TokenRuntime` with one session per graph. Thread-safe. On a GPU, caches stay in host memory and are copied at
    each step, unlike with `torch-cuda-graphs`."""

    def __init__(
        self,
        graphs: Mapping[str, Path],
        decoding: DecodingDescription,
        *,
        threads: int | None = None,
        device: str = "cpu",
    ) -> None:
        """`threads`: number of threads per operator; None means one per physical core. Raises SonorantError if CUDA is
        unavailable."""
        self._on_cpu = device == "cpu"
        if not self._on_cpu:
            check_cuda()
        providers = (CPU,) if self._on_cpu else ON_CUDA
        self._encoder, self._prefill, self._step, self._vocoder = (
            open_session(graphs[name], threads, providers) for name in ("encoder", "prefill", "step", "vocoder")
        )
        self._decoder = open_session(graphs["decoder"], threads, providers) if "decoder" in graphs else None
        self._given = self._vocoder.get_inputs()[0].name
        self._decoding = decoding
        self._of_thread = threading.local()  # threads run in parallel; steppers of one thread share steps

    def encode(self, tokens: Ints, lengths: Ints, speaker: Ints) -> Floats:
        states: Floats = self._encoder.run(["states"], {"tokens": tokens, "lengths": lengths, "speaker": speaker})[0]
        return states

    def stepper(self) -> JoinedStepper:
        """Create a stepper. Steppers created by one thread share steps."""
        return JoinedStepper(self._joined_steps(), self._prefill, self._decoding)

    def _joined_steps(self) -> JoinedSteps:
        if not self._on_cpu:  # on a GPU, a row's result may depend on the others
            return JoinedSteps(self._step, self._decoding)
        if not hasattr(self._of_thread, "joined"):
            self._of_thread.joined = JoinedSteps(self._step, self._decoding)
        joined: JoinedSteps = self._of_thread.joined
        return joined

    def decode(self, codes: Ints, lengths: Ints) -> Floats:
        assert self._decoder is not None  # `decode` is for voices with a source
        frames: Floats = self._decoder.run(["frames"], {"codes": codes, "lengths": lengths})[0]
        return frames

    def vocode(self, frames: NDArray[Any], lengths: Ints) -> Floats:
        samples: Floats = self._vocoder.run(["samples"], {self._given: frames, "lengths": lengths})[0]
        return samples
