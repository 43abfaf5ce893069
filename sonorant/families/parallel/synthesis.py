"""Speech of the `parallel` family: encode a whole sentence, then decode and vocode it in parts."""

from abc import ABC, abstractmethod
from collections.abc import Generator, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sonorant.audio.arrays import Floats, Ints
from sonorant.audio.pitch import with_source
from sonorant.families.parallel.marking import marked_states, silenced
from sonorant.speech.bundle import VoiceDescription
from sonorant.speech.chunks import compute_chunks, decode_chunks
from sonorant.speech.request import Allowance, SpeechRequest
from sonorant.speech.runtimes import Runtime
from sonorant.speech.speaking import FinishReason, Marking, Synthesized, no_decoding
from sonorant.speech.word_times import Timekeeper

Arrays = Mapping[str, NDArray[Any]]
OUTPUTS = {"encoder": ["states", "ends"], "decoder": ["mel"], "vocoder": ["samples"]}
FIRST_FRAMES = (32, 96, 256)
"""Numbers of mel frames in the first parts; each part plays for longer than the next takes to compute."""
BATCH_FRAMES = 8192
"""Number of mel frames, over all rows, that `synthesize` computes at a time."""


@dataclass(frozen=True)
class ParallelSpeaking:
    runtime: Runtime
    description: VoiceDescription

    @property
    def marks(self) -> frozenset[str]:
        return frozenset(("pause", "rate", "pitch"))

    def check(self, request: SpeechRequest) -> None:
        """Reject decoding settings."""
        if request.decodes:
            raise no_decoding(self.description.family)

    def synthesize(self, tokens: Ints, lengths: Ints, speaker: Ints, speed: Floats) -> Synthesized:
        states, ends = self.runtime.encode(tokens, lengths, speaker, speed, 0 * speed, 0 * speed)
        samples = speak(self.runtime, states, ends, self.description, BATCH_FRAMES)
        rows, hop = len(lengths), self.description.audio.hop
        well, once = np.full(rows, FinishReason.WELL, np.int64), np.ones(rows, np.int64)
        return Synthesized(samples, ends[:, -1] * hop, well, once, ends * hop)

    def parts(
        self,
        tokens: Ints,
        request: SpeechRequest,
        taken: Allowance,
        *,
        speaker: int,
        first: bool,
        marking: Marking | None = None,
        times: Timekeeper | None = None,
    ) -> Generator[Floats, None, FinishReason]:
        how = (np.array([value], np.float32) for value in (request.speed, request.pitch, request.energy))
        states, ends = self.runtime.encode(tokens[None], np.array([len(tokens)]), np.array([speaker]), *how)
        hop, rate = self.description.audio.hop, self.description.audio.sample_rate
        taken.check_durations(int(ends[0, -1]) * hop / rate * request.speed, len(tokens))
        if marking is not None:
            states, ends = marked_states(states, ends, marking, rate / hop)
        frames = ends[:, -1]
        taken.take_audio(int(frames[0]) * hop / rate)
        if times:
            times.tell(ends[0] * hop)
        most, receptive_field = taken.limits.frames, self.description.receptive_field
        sizes = (*(min(size, most) for size in FIRST_FRAMES if first and not request.whole), most)
        mel = decode_chunks(
            self.runtime, states, ends, receptive_field.decoder, (sizes[0] + receptive_field.vocoder, *sizes[1:])
        )
        spoken = compute_chunks(
            self.runtime.vocode, vocoder_frames(mel, self.description), frames, receptive_field.vocoder, sizes
        )
        samples: Iterable[Floats] = (samples[0] for samples in spoken)
        yield from samples if marking is None else silenced(samples, ends, marking, hop, rate)
        return FinishReason.WELL


def speak(runtime: Runtime, states: Floats, ends: Ints, description: VoiceDescription, limit: int) -> Floats:
    """Output of `encode` -> samples (B, T * hop), computed in parts of about `limit` frames."""
    sees, sizes = description.receptive_field, [max(1, limit // len(ends))]
    frames = vocoder_frames(decode_chunks(runtime, states, ends, sees.decoder, sizes), description)
    return np.concatenate(list(compute_chunks(runtime.vocode, frames, ends[:, -1], sees.vocoder, sizes)), axis=1)


def vocoder_frames(parts: Iterable[Floats], description: VoiceDescription) -> Iterator[Floats]:
    """Convert the decoder's frames, in consecutive parts, to the vocoder's frames."""
    return with_source(parts, description.audio.sample_rate, description.audio.hop, vocoder_rows(description))


def vocoder_rows(description: VoiceDescription) -> int:
    rows = description.graphs["vocoder"].inputs[0].shape[1]
    assert isinstance(rows, int)
    return rows


class GraphRuntime(ABC):
    @abstractmethod
    def run(self, graph: str, inputs: Arrays) -> Arrays:
        """Run a graph and return its outputs by name. `inputs` are in the graph's order."""

    def encode(
        self, tokens: Ints, lengths: Ints, speaker: Ints, speed: Floats, pitch: Floats, energy: Floats
    ) -> tuple[Floats, Ints]:
        inputs: Arrays = {"tokens": tokens, "lengths": lengths, "speaker": speaker, "speed": speed}
        found = self.run("encoder", {**inputs, "pitch": pitch, "energy": energy})
        return found["states"], found["ends"]

    def decode(self, states: Floats, ends: Ints, time: Ints) -> Floats:
        return self.run("decoder", {"states": states, "ends": ends, "time": time})["mel"]

    def vocode(self, mel: Floats, lengths: Ints) -> Floats:
        return self.run("vocoder", {"mel": mel, "lengths": lengths})["samples"]
