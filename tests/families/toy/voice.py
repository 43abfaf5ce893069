"""The toy's graphs at work, and how they speak."""

from collections.abc import Generator
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from sonorant.layers.model_folder import load_model
from sonorant.speech.onnx_sessions import open_session
from sonorant.speech.request import Allowance, SpeechRequest
from sonorant.speech.speaking import FinishReason, Synthesized
from sonorant.speech.word_times import Timekeeper


class ToyOnnx:
    """Both graphs under ONNX Runtime."""

    def __init__(self, hum: Any, buzz: Any) -> None:
        self._hum, self._buzz = hum, buzz

    def hum(self, tokens: NDArray[np.int64], lengths: NDArray[np.int64]) -> Any:
        return self._hum.run(["mel", "frames"], {"tokens": tokens, "lengths": lengths})

    def vocode(self, mel: NDArray[np.float32], lengths: NDArray[np.int64]) -> Any:
        return self._buzz.run(["samples"], {"mel": mel})[0]


class ToyTorch:
    """Both models."""

    def __init__(self, hummer: Any, buzzer: Any) -> None:
        self._hummer, self._buzzer = hummer, buzzer

    def hum(self, tokens: NDArray[np.int64], lengths: NDArray[np.int64]) -> Any:
        with torch.inference_mode():
            return [value.numpy() for value in self._hummer(torch.from_numpy(tokens), torch.from_numpy(lengths))]

    def vocode(self, mel: NDArray[np.float32], lengths: NDArray[np.int64]) -> Any:
        with torch.inference_mode():
            return self._buzzer(torch.from_numpy(np.ascontiguousarray(mel))).numpy()


def load_onnxruntime(bundle: Any, options: Any) -> ToyOnnx:
    """From the bundle."""
    return ToyOnnx(*(open_session(bundle.graph_file(name, options.variant), options.threads) for name in bundle.graphs))


def load_torch(bundle: Any, options: Any) -> ToyTorch:
    """From the trained folders."""
    folders = zip(options.trained, ("toy_hummer", "toy_buzzer"), strict=True)
    return ToyTorch(*(load_model(folder, kind)[0] for folder, kind in folders))


class ToySpeaking:
    """See `sonorant.speech.speaking.Speaking`."""

    def __init__(self, runtime: Any, description: Any) -> None:
        self.runtime, self.description = runtime, description

    def check(self, request: SpeechRequest) -> None:
        """Anything will do."""

    def synthesize(self, tokens: Any, lengths: Any, speaker: Any, speed: Any) -> Synthesized:
        mel, frames = self.runtime.hum(tokens, lengths)
        ones = np.ones(len(lengths), np.int64)
        samples = self.runtime.vocode(mel, frames)
        hop = self.description.audio.hop
        # Each token lasts as long.
        ends = np.minimum(np.arange(1, tokens.shape[1] + 1), lengths[:, None]) * (frames // lengths)[:, None] * hop
        return Synthesized(samples, frames * hop, ones * FinishReason.WELL, ones, ends)

    def parts(
        self,
        tokens: NDArray[np.int64],
        request: SpeechRequest,
        taken: Allowance,
        *,
        speaker: int,
        first: bool,
        marking: Any = None,
        times: Timekeeper | None = None,
    ) -> Generator[NDArray[np.float32], None, FinishReason]:
        made = self.synthesize(tokens[None], np.array([len(tokens)]), None, None)
        if times:
            times.tell(made.ends[0])
        taken.take_audio(len(made.samples[0]) / self.description.audio.sample_rate)
        yield made.samples[0]
        return FinishReason.WELL
