from collections.abc import Callable, Generator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from sonorant.layers.model_folder import load_model
from sonorant.speech.onnx_sessions import open_session
from sonorant.speech.request import Allowance, SpeechRequest
from sonorant.speech.speaking import FinishReason, Synthesized
from sonorant.speech.word_times import Timekeeper


@dataclass(frozen=True)
class ToyRuntime:
    hum: Callable[..., Any]
    """Tokens, lengths -> mel and frames."""
    buzz: Callable[..., Any]

    def vocode(self, mel: NDArray[np.float32], lengths: NDArray[np.int64]) -> Any:
        return self.buzz(mel)[0]


def load_onnxruntime(bundle: Any, options: Any) -> ToyRuntime:
    hum, buzz = (open_session(bundle.graph_file(name, options.variant), options.threads) for name in bundle.graphs)
    return ToyRuntime(
        lambda tokens, lengths: hum.run(["mel", "frames"], {"tokens": tokens, "lengths": lengths}),
        lambda mel: buzz.run(["samples"], {"mel": mel}),
    )


def load_torch(bundle: Any, options: Any) -> ToyRuntime:
    folders = zip(options.trained, ("toy_hummer", "toy_buzzer"), strict=True)
    hummer, buzzer = (load_model(folder, kind)[0] for folder, kind in folders)

    @torch.inference_mode()
    def run(model: torch.nn.Module, *arrays: Any) -> list[Any]:
        found = model(*(torch.from_numpy(np.ascontiguousarray(array)) for array in arrays))
        return [value.numpy() for value in (found if isinstance(found, tuple) else (found,))]

    return ToyRuntime(partial(run, hummer), partial(run, buzzer))


class ToySpeaking:
    """See `sonorant.speech.speaking.Speaking`."""

    def __init__(self, runtime: Any, description: Any) -> None:
        self.runtime, self.description = runtime, description

    def check(self, request: SpeechRequest) -> None:
        """Accepts any request."""

    def synthesize(self, tokens: Any, lengths: Any, speaker: Any, speed: Any) -> Synthesized:
        mel, frames = self.runtime.hum(tokens, lengths)
        ones = np.ones(len(lengths), np.int64)
        samples = self.runtime.vocode(mel, frames)
        hop = self.description.audio.hop
        # All tokens have the same length.
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
