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
from sonorant.speech.onnx_sessions import CPU, ON_CUDA, Providers, check_cuda, open_session


class OnnxTokenRuntime:
    """One session a graph; implements `TokenRuntime`. Thread-safe."""

    providers: Providers = (CPU,)

    def __init__(
        self, graphs: Mapping[str, Path], decoding: DecodingDescription, *, threads: int | None = None
    ) -> None:
        """`threads`: inside an operator, None = one a physical core."""
        self._encoder, self._prefill, self._step, self._vocoder = (
            open_session(graphs[name], threads, self.providers) for name in ("encoder", "prefill", "step", "vocoder")
        )
        self._decoder = open_session(graphs["decoder"], threads, self.providers) if "decoder" in graphs else None
        self._given = self._vocoder.get_inputs()[0].name
        self._decoding = decoding
        self._of_thread = threading.local()  # threads run in parallel; steppers of one thread share steps

    def encode(self, tokens: Ints, lengths: Ints, speaker: Ints) -> Floats:
        states: Floats = self._encoder.run(["states"], {"tokens": tokens, "lengths": lengths, "speaker": speaker})[0]
        return states

    def stepper(self) -> JoinedStepper:
        """As `TokenRuntime.stepper`; steppers made by one thread share steps."""
        return JoinedStepper(self._joined_steps(), self._prefill, self._decoding)

    def _joined_steps(self) -> JoinedSteps:
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


class OnnxTokenCudaRuntime(OnnxTokenRuntime):
    """On an NVIDIA GPU. Caches stay in host memory and are copied with each step, unlike with `torch-cuda-graphs`."""

    providers = ON_CUDA

    def __init__(
        self, graphs: Mapping[str, Path], decoding: DecodingDescription, *, threads: int | None = None
    ) -> None:
        """Raises SonorantError if the installed package has no CUDA, or CUDA does not start."""
        check_cuda()
        super().__init__(graphs, decoding, threads=threads)

    def _joined_steps(self) -> JoinedSteps:
        return JoinedSteps(self._step, self._decoding)  # on a GPU a row's result may depend on the others
