"""Convert codes to samples in parts whose concatenation equals the full output. With a source, codes are first decoded
to frames; the phase of its pulses is summed over frames, so parts must be in order."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from sonorant.audio.arrays import Floats, Ints
from sonorant.audio.pitch import SourceRows
from sonorant.extras.codec_lm.decoding.session import TokenRuntime
from sonorant.speech.bundle import VoiceDescription
from sonorant.speech.chunks import compute_chunks
from sonorant.speech.decoding import DecodingDescription


def has_source(description: VoiceDescription) -> bool:
    """Whether the voice's codec decodes pitch and drives a pulse source with it."""
    return "decoder" in description.graphs


@dataclass(frozen=True)
class Sounding:
    """Converts codes to samples. Sizes are in code frames."""

    runtime: TokenRuntime
    description: VoiceDescription

    @property
    def lookahead(self) -> int:
        """Number of code frames after a part that affect its samples."""
        sees = self.description.receptive_field
        return sees.decoder + -(-sees.vocoder // self._stride) if has_source(self.description) else sees.vocoder

    @property
    def least_lookahead(self) -> int:
        """Minimum lookahead that keeps later parts correct, because a wrong pitch would shift their phase."""
        return self.description.receptive_field.decoder

    def parts(
        self, codes: Iterable[Ints], lengths: Ints | None, sizes: Sequence[int], first_after: int | None = None
    ) -> Iterator[Floats]:
        """Convert codes (B, any, G), in parts, to samples (B, any). `lengths`: code frames of each row (B,); None means
        all. `sizes`: sizes of the first parts; the last size repeats. `first_after`: as in `compute_chunks`, at least
        `least_lookahead`."""
        sees, runtime = self.description.receptive_field, self.runtime
        if not has_source(self.description):
            yield from compute_chunks(
                runtime.vocode, codes, lengths, sees.vocoder, sizes, axis=1, first_after=first_after
            )
            return
        audio, stride = self.description.audio, self._stride
        ahead = self.lookahead - sees.decoder  # code frames decoded but not yet vocoded
        first_ahead = ahead if first_after is None else first_after - sees.decoder
        blocks = [sizes[0] + first_ahead, *(sizes[1:] or sizes)]
        blocks[1] += ahead - first_ahead
        source = SourceRows(audio.sample_rate, audio.hop)
        decoded = compute_chunks(runtime.decode, codes, lengths, sees.decoder, blocks, axis=1)
        yield from compute_chunks(
            runtime.vocode,
            (source.append(part) for part in decoded),
            None if lengths is None else lengths * stride,
            sees.vocoder,
            [size * stride for size in sizes],
            first_after=min(sees.vocoder, first_ahead * stride),
        )

    def whole(self, codes: Ints, lengths: Ints, size: int) -> Floats:
        """Convert codes (B, F, G) to samples (B, F * samples per code frame), `size` code frames at a time."""
        return np.concatenate([np.zeros((len(codes), 0), np.float32), *self.parts([codes], lengths, [size])], axis=1)

    @property
    def _stride(self) -> int:
        return decoding_of(self.description).stride


def decoding_of(description: VoiceDescription) -> DecodingDescription:
    assert description.decoding is not None
    return description.decoding
